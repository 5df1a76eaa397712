"""``diffor evaluate --against``, and what the terminal says of coverage."""

import json

import numpy as np
import pandas as pd
import pytest

from diffor.cli.main import main


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    random = np.random.default_rng(0)
    rows = pd.DataFrame({"size": random.normal(size=260), "city": random.choice(["Oslo", "Rome"], 260)})
    rows["price"] = 3 * rows["size"] + random.normal(size=260)
    rows["quality"] = np.array(["low", "mid", "high"])[np.digitize(rows["price"], [-1, 1])]
    rows[:160].to_csv(folder / "train.csv", index=False)
    rows[160:].to_csv(folder / "test.csv", index=False)
    for target, extra in (
        ("price", ["--drop", "quality", "--bounds", "-20", "20"]),
        ("quality", ["--drop", "price", "--grades", "low,mid,high"]),
    ):
        assert main(["fit", str(folder / "train.csv"), "--target", target, *extra, "--preset", "fast", "--max-steps",
                     "100", "--quiet", "--out", str(folder / target)]) == 0  # fmt: skip
    return folder


def command(home, target, *options):
    return ["evaluate", str(home / target), str(home / "test.csv"), *options]


@pytest.mark.parametrize("target", ["price", "quality"])
def test_baselines_are_trained_and_compared(home, tmp_path, capsys, target):
    pytest.importorskip("lightgbm")
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.html"
    options = ["--against", "lightgbm, linear", "--train", str(home / "train.csv")]
    assert main(command(home, target, *options, "--json", "--report", str(page))) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in told["against"]] == ["lightgbm", "linear"]
    linear = told["against"][1]
    assert linear["crps"]["interval"][0] < linear["crps"]["more"] < linear["crps"]["interval"][1]
    assert linear["mae"]["value"] - linear["mae"]["more"] == pytest.approx(told["metrics"]["mae"]["model"])
    assert "Beside other methods" in page.read_text()
    assert main(command(home, target, *options)) == 0
    lines = capsys.readouterr().out.splitlines()
    (row,) = [line for line in lines if line.startswith("linear")]
    assert f"{linear['crps']['value']:.4g}" in row
    assert lines[-1].startswith("in brackets, 95 % of 1,000 resamples")


def test_the_terminal_says_whether_coverage_is_as_promised(home, capsys):
    assert main(command(home, "price", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows_held"] == round(100 * told["metrics"]["coverage"]["model"])
    assert told["rows_held_if_calibrated"] == [84, 95]
    assert main(command(home, "price")) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("coverage: ")]
    assert line.startswith(f"coverage: 90 % intervals hold {told['rows_held']} of 100 rows, ")
    assert " the 84 to 95 of a calibrated model: " in line
    assert main(command(home, "quality")) == 0
    assert "coverage: " not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--against", "linear"], "--against and --train belong together, but only --against was given; add --train"),
        (["--train", "train.csv"], "but only --train was given; add --against NAME,..."),
        (["--against", "linear", "--train", "test.csv"], "--train must be other rows than DATA, but both are "),
        (["--against", "linaer", "--train", "train.csv"], "but got 'linaer' (did you mean 'linear'?)"),
        (["--against", "mord", "--train", "train.csv"], "--against: baseline 'mord' predicts no values"),
    ],
)
def test_wrong_use_is_one_line(home, monkeypatch, capsys, options, words):
    monkeypatch.chdir(home)
    assert main(command(home, "price", *options)) == 2
    assert words in capsys.readouterr().err
