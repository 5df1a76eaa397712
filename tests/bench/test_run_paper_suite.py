"""The paper's twelve benchmarks from files to result lines and to the report: real processes on miniatures."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("PIL")
pytest.importorskip("pyarrow")

import miniatures_images
import miniatures_tables

from diffor.bench.published import read_published
from diffor.datasets import DATASETS, SUITES

METHODS = ("constant", "diffor-fast")
TITLES = tuple("fgnet (1 of 6 left out)" if name == "fgnet" else name for name in SUITES["paper"])
"""One seed leaves out one of the six people of the miniature, which the title says."""
# Few steps and no priors: what is tested is the way from the files to the figures.
SMALL = """
suites = ["paper"]
n_samples = 10
max_train_rows = 60
max_test_rows = 30
out = "lines.jsonl"

[images]
encoder = "small"
side = 16

[methods.diffor-fast]
max_steps = 5
n_folds = 2
prior = []
"""


def run_diffor(*words, folder):
    command = [sys.executable, "-m", "diffor", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("paper")
    root = miniatures_images.write_image_sets(here / "miniatures")
    for write in (miniatures_tables.write_kuairec, miniatures_tables.write_kuairand, miniatures_tables.write_criteo):
        write(root)
    miniatures_tables.write_shoppers(root / "shoppers")
    (here / "small.toml").write_text(SMALL)
    done = run_diffor(
        "bench", "small.toml", "--suite", "paper", "--root", "miniatures", "--methods", ",".join(METHODS), "--seeds",
        "1", "--jobs", "2", folder=here,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "24 cells finished, 0 of them failed" in done.stdout, done.stderr
    assert "with random weights, which are weak" in done.stderr
    return here


@pytest.fixture(scope="module")
def lines(folder):
    return [json.loads(line) for line in (folder / "lines.jsonl").read_text().splitlines()]


def test_every_set_has_a_line_for_every_method(lines):
    found = sorted((line["dataset"], line["method"], line["status"]) for line in lines)
    assert found == sorted((name, method, "ok") for name in SUITES["paper"] for method in METHODS)


@pytest.mark.parametrize(
    ("domain", "metrics"),
    [
        (("utkface", "fgnet", "morph", "cacd"), {"mae", "cs"}),
        (("ava", "tad66k", "icaa17k", "spaq"), {"mae", "xauc", "lcc", "srcc"}),
        (("kuairec", "kuairand"), {"mae", "xauc"}),
        (("criteo", "shoppers"), {"mae", "srcc"}),
    ],
)
def test_lines_hold_the_metrics_of_the_papers_tables(lines, domain, metrics):
    printed = {column.metric for table in read_published().tables for column in table.columns
               if column.dataset in domain}  # fmt: skip
    assert printed == metrics
    own = [line for line in lines if line["dataset"] in domain]
    assert len(own) == len(domain) * len(METHODS)
    for line in own:
        assert metrics <= line["metrics"].keys()
        assert 0 <= line["metrics"].get("cs", 0) <= 1


def test_lines_say_what_the_features_of_pictures_are(lines):
    for line in lines:
        expected = {"encoder": "small", "side": 16, "pooling": "mean+max", "weights": None, "columns": True}
        assert line["images"] == (expected if DATASETS[line["dataset"]].image_column else None)
    (utkface,) = [line for line in lines if line["dataset"] == "utkface" and line["method"] == "constant"]
    assert utkface["n_columns"] == 2 + 2 * 256  # gender and race; mean and maximum of 256 maps


def test_features_are_kept_for_the_cells(folder):
    kept = (folder / "miniatures" / ".diffor-cache" / "features").iterdir()
    assert sorted(path.name.split("-")[0] for path in kept) == sorted(
        name for name in SUITES["paper"] if DATASETS[name].image_column
    )


# The report.


@pytest.fixture(scope="module")
def report(folder):
    pytest.importorskip("matplotlib")
    done = run_diffor("report", "lines.jsonl", "--out", "page.html", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return (folder / "page.html").read_text(), json.loads(done.stdout)


def test_the_page_shows_published_figures_beside_ours(report):
    html, _ = report
    assert "<h2>Beside the paper</h2>" in html
    for name in TITLES:
        assert f"<h3>{name}: ours and published</h3>" in html
    utkface = html.split("<h3>utkface: ours and published</h3>")[1].split("<h3>")[0]
    assert '<tr><th scope="row">OR-CNN</th><td>published</td><td>4.40 [a]</td><td>63.67</td></tr>' in utkface
    assert '<th scope="row">diffor-fast</th><td>ours</td>' in utkface
    assert "<p>[a] Equal to the last digit to the table of a public age benchmark" in utkface
    assert "Features: small at 16 pixels." in utkface


def test_the_numbers_hold_published_figures_beside_ours(report, lines):
    _, numbers = report
    beside = numbers["beside_the_paper"]
    assert sorted(beside) == sorted(TITLES)
    orcnn = beside["utkface"]["published"]["OR-CNN"]
    assert (orcnn["cs"]["value"], orcnn["cs"]["printed"]) == (0.6367, "63.67")
    assert "quoted from there" in orcnn["mae"]["caveats"][0]
    (line,) = [line for line in lines if (line["dataset"], line["method"]) == ("criteo", "diffor-fast")]
    ours = beside["criteo"]["ours"]["diffor-fast"]
    assert ours["mae"] == {"mean": line["metrics"]["mae"], "spread": 0.0, "n_seeds": 1}
    assert beside["criteo"]["published"]["DiffoR"]["mae"]["value"] == 12.533
