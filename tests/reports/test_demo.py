import re
import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from diffor import metrics
from diffor.core.prediction import Prediction
from diffor.reports import demo
from diffor.reports.demo import Contender, Split


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    lines = []
    out = tmp_path_factory.mktemp("demo") / "new"
    page = demo.run_demo(out, seed=0, quick=True, log=lines.append)
    return out, page, "\n".join(lines).splitlines()


@pytest.fixture
def split():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 2)), rng.uniform(25, 346, 120)
    return Split(X[:100], X[100:], y[:100], y[100:])


def contender(samples, name="A"):
    prediction = Prediction(samples)
    return Contender(name, prediction, prediction.median, prediction.mean)


def test_the_page_is_written_and_its_path_is_the_last_line(run):
    out, page, lines = run
    assert page == out / demo.PAGE
    assert [file.name for file in out.iterdir()] == [demo.PAGE]
    assert lines[-1] == str(page)


def test_the_page_shows_the_printed_table_and_all_figures_with_labels(run):
    _, page, lines = run
    first = next(place for place, line in enumerate(lines) if line.startswith("Model"))
    table = lines[first : first + 4]
    assert len({len(line) for line in table}) == 1
    assert [re.split(r"\s{2,}", line)[0] for line in table[1:]] == ["DiffoR", "Gradient boosting", "Constant"]
    html = page.read_text(encoding="utf-8")
    cells = re.findall(r"<td>([^<]*)", html)
    assert cells[:18] == [cell for line in table[1:] for cell in re.split(r"\s{2,}", line)[1:]]
    assert len(re.findall(r'<svg role="img" aria-label="[^"]+"', html)) == 5
    assert not re.search(r"(src|href)=\"(?!#)|https?://", html)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_a_missing_matplotlib_is_told_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'diffor\[plots\]'"):
        demo.run_demo(tmp_path / "out", quick=True, log=pytest.fail)
    assert not (tmp_path / "out").exists()


def test_a_file_in_place_of_the_folder_is_refused_before_training(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(NotADirectoryError, match="must be a folder"):
        demo.run_demo(tmp_path / "taken", quick=True, log=pytest.fail)
    assert (tmp_path / "taken").read_text() == "mine"


def test_the_constant_is_the_distribution_of_the_training_targets(split):
    answer = demo.constant(split)
    assert answer.median.tolist() == [np.median(split.y_train)] * 20
    assert answer.mean.tolist() == [split.y_train.mean()] * 20
    np.testing.assert_array_equal(answer.prediction.samples, np.tile(split.y_train, (20, 1)))


def test_boosting_answers_with_quantiles_that_score_as_such(split):
    answer = demo.boosting(split, seed=0, n_quantiles=10)
    quantiles, levels = answer.prediction.samples, np.arange(0.05, 1, 0.1)
    assert quantiles.shape == (20, 10)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    losses = [metrics.pinball(split.y_test, column, level) for column, level in zip(quantiles.T, levels, strict=True)]
    assert metrics.crps_samples(split.y_test, quantiles) == pytest.approx(2 * np.mean(losses))
    np.testing.assert_allclose(answer.prediction.interval(0.9), quantiles[:, [0, -1]])


def test_scores_and_differences():
    y = np.array([1.0, 2.0, 3.0])
    table = demo.comparison(y, [contender(y[:, None] + np.zeros(3), "exact"), contender(np.full((3, 2), 2.0), "same")])
    assert table.header[:5] == ("Model", "MAE", "RMSE", "SRCC", "CRPS")
    assert table.rows == (
        ("exact", "0", "0", "1.00", "0", "-", "1.00"),
        ("same", "0.667", "0.816", "-", "0.667", "+0.67 ± 0.33", "0.333"),
    )
