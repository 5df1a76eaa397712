import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from diffor import metrics
from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.prediction import Prediction
from diffor.reports import demo
from diffor.reports.demo import SCORES, Contender, Split


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


# The whole demonstration.


def test_the_page_is_written_and_its_path_is_the_last_line(run):
    out, page, lines = run
    assert page == out / demo.PAGE
    assert [file.name for file in out.iterdir()] == [demo.PAGE]
    assert lines[-1] == str(page)


def test_the_printed_table_is_aligned_and_the_page_shows_the_same(run):
    _, page, lines = run
    first = next(place for place, line in enumerate(lines) if line.startswith("Model"))
    table = lines[first : first + 4]
    assert len({len(line) for line in table}) == 1
    assert table[0].split() == ["Model", "MAE", "RMSE", "SRCC", "CRPS", "90%", "coverage"]
    assert [re.split(r"\s{2,}", line)[0] for line in table[1:]] == ["DiffoR", "Gradient boosting", "Constant"]
    html = page.read_text(encoding="utf-8")
    cells = re.findall(r"<td>(?:<strong>)?([^<]*)", html)
    assert cells == [cell for line in table[1:] for cell in re.split(r"\s{2,}", line)[1:]]


def test_the_page_has_all_figures_with_labels_and_all_findings(run):
    _, page, lines = run
    html = page.read_text(encoding="utf-8")
    assert len(re.findall(r'<svg role="img" aria-label="[^"]+"', html)) == 5
    findings = [line for line in lines if line.startswith(("Best figures", "The CRPS", "The 90% intervals"))]
    assert len(findings) == 4
    for sentence in findings:
        assert f"<p>{sentence}</p>" in html
    assert not re.search(r"(src|href)=\"(?!#)|https?://", html)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_a_missing_matplotlib_is_told_before_anything_is_trained(tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from diffor.reports.demo import run_demo\n"
        f"run_demo({str(tmp_path / 'out')!r}, quick=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip().endswith("pip install 'diffor[plots]'")
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


def test_a_file_in_place_of_the_folder_is_refused_before_training(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(NotADirectoryError, match="must be a folder"):
        demo.run_demo(tmp_path / "taken", quick=True, log=pytest.fail)
    assert (tmp_path / "taken").read_text() == "mine"


def test_the_split_is_four_to_one_and_the_seed_decides_it():
    first, again, other = (demo.load_split(seed) for seed in (0, 0, 1))
    assert (len(first.y_train), len(first.y_test)) == (354, 88)
    assert first.X_test.index.equals(again.X_test.index)
    assert not first.X_test.index.equals(other.X_test.index)
    assert not set(first.X_test.index) & set(first.X_train.index)
    everything = np.concatenate([first.y_train, first.y_test])
    assert (everything.min(), everything.max()) == demo.BOUNDS


# Contenders.


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


def test_the_interval_of_all_quantiles_is_the_learned_one():
    levels = (np.arange(demo.N_QUANTILES) + 0.5) / demo.N_QUANTILES
    low, high = Prediction(levels[None, :]).interval(demo.COVERAGE)[0]
    assert (low, high) == pytest.approx((0.05, 0.95))
    assert np.isclose(levels, 0.05).any()


# Tables and sentences follow the figures.


def test_scores_and_bold_cells():
    y = np.array([1.0, 2.0, 3.0])
    exact = contender(y[:, None] + np.zeros(3), "exact")
    same = contender(np.full((3, 2), 2.0), "same")
    values = demo.score_table(y, [exact, same])
    np.testing.assert_allclose(values[0], [0, 0, 1, 0, 1])
    np.testing.assert_allclose(values[1], [2 / 3, np.sqrt(2 / 3), np.nan, 2 / 3, 1 / 3])
    table = demo.comparison([exact, same], values)
    assert table.rows == (("exact", "0.0", "0.0", "1.000", "0.0", "1.000"), ("same", "0.7", "0.8", "-", "0.7", "0.333"))
    assert table.strong == {(0, column) for column in range(1, 6)}


def test_equal_figures_are_all_bold_and_coverage_is_best_near_its_level():
    a, b = (contender(np.zeros((2, 2)), name) for name in "AB")
    values = np.array([[1.01, 5, 0.5, 3, 1.0], [1.02, 4, 0.6, 2, 0.85]])
    table = demo.comparison([a, b], values)
    assert table.strong == {(0, 1), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5)}
    assert demo.name_the_best(table).startswith("Best figures: MAE by A and B, RMSE by B, SRCC by B")


@pytest.mark.parametrize(("shift", "word"), [(5.0, "lower (better)"), (-5.0, "higher (worse)")])
def test_the_better_one_is_named_whichever_it_is(shift, word):
    rng = np.random.default_rng(0)
    y = rng.normal(size=50)
    near, far = contender(rng.normal(size=(50, 20)), "A"), contender(rng.normal(size=(50, 20)) + 5, "B")
    first, second = (near, far) if shift > 0 else (far, near)
    sentence = demo.compare_crps(y, first, second)
    assert f"{word} than that of {second.name}" in sentence
    assert "chance" not in sentence


def test_a_difference_within_the_noise_is_called_so():
    rng = np.random.default_rng(0)
    y, a, b = rng.normal(size=50), rng.normal(size=(50, 20)), rng.normal(size=(50, 20))
    assert demo.compare_crps(y, contender(a), contender(b, "B")).endswith("so this may be chance.")


@pytest.mark.parametrize(("spread", "verdict"), [(0.3, "too narrow"), (1.0, "agrees"), (4.0, "too wide")])
def test_intervals_are_judged_by_what_chance_allows(spread, verdict):
    rng = np.random.default_rng(0)
    y = rng.normal(size=200)
    sentence = demo.judge_intervals(y, contender(rng.normal(scale=spread, size=(200, 400))))
    assert verdict in sentence
    assert "of 200 rows" in sentence


def test_contenders_in_closed_form_have_all_scores():
    exact = CdfPrediction([0, 5, 10], [[0, share, 1] for share in (0.8, 0.6, 0.5, 0.1)])
    y = np.array([1.0, 4.0, 6.0, 9.0])
    contender = Contender("closed form", exact, exact.median, exact.mean)
    values = {score.heading: score.of(y, contender) for score in SCORES}
    assert values["CRPS"] == pytest.approx(exact.crps(y).mean())
    assert all(np.isfinite(value) for value in values.values())
