"""The paper's twelve benchmarks from files to result lines and to the report: real processes on miniatures."""

import json

import pytest

pytest.importorskip("PIL")
pytest.importorskip("pyarrow")

import miniatures_images
import miniatures_tables

from diffor.bench.published import read_published
from diffor.cli.main import main
from diffor.datasets import DATASETS, SUITES

TRAINED = ("utkface", "criteo")
"""Sets that a model of ours learns, too: one of pictures, one of tables."""
TITLES = tuple("fgnet (1 of 6 left out)" if name == "fgnet" else name for name in SUITES["paper"])
"""One seed leaves out one of the six people of the miniature, which the title says."""
# Few steps and no priors: what is tested is the way from the files to the figures.
SMALL = """
suites = ["paper"]
n_samples = 10
max_train_rows = 60
max_test_rows = 30
out = "lines.jsonl"
methods = ["constant"]

[images]
encoder = "small"
side = 16
"""
OURS = '\n[small]\nsuites = []\ndatasets = ["utkface", "criteo"]\n' \
       "methods.diffor-fast = { max_steps = 5, n_folds = 2, prior = [] }\n"  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("paper")
    root = miniatures_images.write_image_sets(here / "miniatures")
    miniatures_tables.write_table_sets(root)
    (here / "small.toml").write_text(SMALL + OURS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        for more in ([], ["--size", "small"]):
            assert main(["bench", "small.toml", "--root", "miniatures", "--jobs", "2", *more]) == 0
    return here


@pytest.fixture(scope="module")
def lines(folder):
    return [json.loads(line) for line in (folder / "lines.jsonl").read_text().splitlines()]


def test_every_set_has_a_line_with_the_metrics_of_its_table(lines):
    found = sorted((line["method"], line["dataset"], line["status"]) for line in lines)
    wanted = [*(("constant", name) for name in SUITES["paper"]), *(("diffor-fast", name) for name in TRAINED)]
    assert found == sorted((method, name, "ok") for method, name in wanted)
    for line in lines:
        assert {column.metric for column in read_published().columns(line["dataset"])} <= line["metrics"].keys()
        assert 0 <= line["metrics"].get("cs", 0) <= 1


def test_features_of_pictures_are_told_and_kept_for_the_cells(folder, lines):
    for line in lines:
        expected = {"encoder": "small", "side": 16, "pooling": "mean+max", "weights": None, "columns": True}
        assert line["images"] == (expected if DATASETS[line["dataset"]].image_column else None)
    utkface = next(line for line in lines if line["dataset"] == "utkface")
    assert utkface["n_columns"] == 2 + 2 * 256  # gender and race; mean and maximum of 256 maps
    kept = (folder / "miniatures" / ".diffor-cache" / "features").iterdir()
    assert sorted(path.name.split("-")[0] for path in kept) == sorted(
        name for name in SUITES["paper"] if DATASETS[name].image_column
    )


def test_the_report_shows_published_figures_beside_ours(folder, lines, capsys):
    pytest.importorskip("matplotlib")
    assert main(["report", str(folder / "lines.jsonl"), "--out", str(folder / "page.html"), "--json"]) == 0
    beside, html = json.loads(capsys.readouterr().out)["beside_the_paper"], (folder / "page.html").read_text()
    assert "<h2>Beside the paper</h2>" in html
    for name in TITLES:
        assert f"<h3>{name}: ours and published</h3>" in html
    utkface = html.split("<h3>utkface: ours and published</h3>")[1].split("<h3>")[0]
    assert '<tr><th scope="row">OR-CNN</th><td>published</td><td>4.40 [a]</td><td>63.67</td></tr>' in utkface
    assert '<th scope="row">diffor-fast</th><td>ours</td>' in utkface
    assert "<p>[a] Equal to the last digit to the table of a public age benchmark" in utkface
    assert "Features: small at 16 pixels." in utkface
    assert sorted(beside) == sorted(TITLES)
    orcnn = beside["utkface"]["published"]["OR-CNN"]
    assert (orcnn["cs"]["value"], orcnn["cs"]["printed"]) == (0.6367, "63.67")
    assert "quoted from there" in orcnn["mae"]["caveats"][0]
    (line,) = [line for line in lines if (line["dataset"], line["method"]) == ("criteo", "diffor-fast")]
    ours = beside["criteo"]["ours"]["diffor-fast"]
    assert ours["mae"] == {"mean": line["metrics"]["mae"], "spread": 0.0, "n_seeds": 1}
    assert beside["criteo"]["published"]["DiffoR"]["mae"]["value"] == 12.533
