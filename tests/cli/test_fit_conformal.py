"""Calibration on the command line: ``fit --calibration`` and what ``predict --coverage`` makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import diffor
from diffor.cli.main import main
from diffor.files import tables

GRADES = ["poor", "fair", "good", "best"]
FEATURES = ["size", "city"]
KINDS = {"price": ["--bounds", "0", "100"], "quality": ["--grades", ",".join(GRADES)], "stars": ["--classify"]}


def make_rows(n: int, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    table = pd.DataFrame({"size": random.uniform(0, 1, n), "city": random.choice(["Oslo", "Rome"], n)})
    shift = 0.1 * (table["city"] == "Rome")
    table["price"] = 100 * np.clip(0.8 * table["size"] + shift + 0.1 * random.standard_normal(n), 0, 1)
    table["stars"] = np.minimum(table["price"] // 25, 3).astype(int)
    table["quality"] = np.array(GRADES)[table["stars"]]
    return table


def fit_words(home: Path, target: str, *extra: str) -> list[str]:
    others = [name for name in KINDS if name != target]
    return ["fit", str(home / "train.csv"), "--target", target, "--drop", *others, *KINDS[target], "--preset", "fast",
            "--max-steps", "30", *extra]  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a calibrated model of each kind, and two that are not calibrated."""
    folder = tmp_path_factory.mktemp("home")
    for name, n, seed in (("train", 240, 0), ("calibration", 800, 1), ("new", 400, 2), ("few", 5, 3)):
        make_rows(n, seed).to_csv(folder / f"{name}.csv", index=False)
    for target in KINDS:
        words = fit_words(folder, target, "--quiet", "--out", str(folder / target))
        assert main([*words, "--calibration", str(folder / "calibration.csv")]) == 0
    for target in ("price", "quality"):
        assert main(fit_words(folder, target, "--quiet", "--out", str(folder / f"{target}_alone"))) == 0
    words = fit_words(folder, "price", "--quiet", "--out", str(folder / "price_few"))
    assert main([*words, "--calibration", str(folder / "few.csv")]) == 0
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def predict(home: Path, model: str, *options: str, out: str = "out.csv") -> pd.DataFrame:
    assert main(["predict", str(home / model), str(home / "new.csv"), "--out", out, *options]) == 0
    return tables.read_table(Path(out))


# --- fit ---


def test_a_process_fits_calibrates_and_says_so(home: Path, here: Path) -> None:
    words = fit_words(home, "price", "--calibration", str(home / "calibration.csv"), "--out", "model")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "diffor", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "rows             240\n" in done.stdout
    assert "coverage         calibrated on 800 rows\n" in done.stdout
    assert diffor.load(here / "model").conformal_ is not None


def test_without_calibration_nothing_is_said_of_it(home: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*fit_words(home, "price"), "--max-steps", "1", "--out", "model"]) == 0
    assert "calibrated" not in capsys.readouterr().out
    assert diffor.load("model").conformal_ is None


@pytest.mark.parametrize("target", KINDS)
def test_calibration_is_that_of_the_python_interface(home: Path, target: str) -> None:
    train, rows = make_rows(240, seed=0), make_rows(800, seed=1)
    shared = {"max_steps": 30, "random_state": 0, "verbose": 0}
    model: diffor.DiffoRRegressor | diffor.DiffoRClassifier
    if target == "price":
        model = diffor.DiffoRRegressor("fast", bounds=(0, 100), **shared)
    else:
        model = diffor.DiffoRClassifier("fast", grades=GRADES if target == "quality" else [0, 1, 2, 3], **shared)
    model.fit(train[FEATURES], train[target]).conformalize(rows[FEATURES], rows[target])
    saved = diffor.load(home / target).conformal_
    assert saved is not None
    assert model.conformal_ is not None
    np.testing.assert_allclose(saved.scores, model.conformal_.scores, atol=1e-6)
    assert saved.n_rows == 800


def test_calibration_rows_change_neither_training_nor_predictions(home: Path, here: Path) -> None:
    for target in ("price", "quality"):
        calibrated, alone = predict(home, target, out="a.csv"), predict(home, f"{target}_alone", out="b.csv")
        pd.testing.assert_frame_equal(calibrated, alone)
        Path("a.csv").unlink()
        Path("b.csv").unlink()


def test_calibration_file_may_have_other_columns_and_another_format(home: Path, here: Path) -> None:
    rows = make_rows(50, seed=1)
    rows[["price", "city", "size"]].assign(note="x").to_parquet("other.parquet")
    words = fit_words(home, "price", "--max-steps", "1", "--quiet", "--calibration", "other.parquet")
    assert main([*words, "--out", "model"]) == 0
    saved = diffor.load("model").conformal_
    assert saved is not None
    assert saved.n_rows == 50


# --- predict ---


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_intervals_are_those_of_predict_interval(home: Path, here: Path, suffix: str) -> None:
    result = predict(home, "price", "--coverage", "0.8", "--quantiles", "0.1", out=f"out{suffix}")
    assert result.columns.tolist() == ["prediction", "q0.1", "low", "high"]
    model, X = diffor.load(home / "price"), make_rows(400, seed=2)[FEATURES]
    assert isinstance(model, diffor.DiffoRRegressor)
    np.testing.assert_allclose(result[["low", "high"]], model.predict_interval(X, 0.8), rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(result["prediction"], model.predict(X), rtol=1e-5, atol=1e-3)
    central = predict(home, "price_alone", "--coverage", "0.8", out="alone.csv")
    assert np.abs(result["low"] - central["low"]).mean() > 0.1  # the calibration is what made the difference


def test_guaranteed_intervals_and_sets_cover_new_rows(home: Path, here: Path) -> None:
    rows = make_rows(400, seed=2)
    amounts = predict(home, "price", "--coverage", "0.9", out="amounts.csv")
    assert amounts["low"].le(rows["price"]).mul(amounts["high"].ge(rows["price"])).mean() == pytest.approx(
        0.9, abs=0.06
    )
    stars = predict(home, "stars", "--coverage", "0.9", out="stars.csv")
    assert stars["low"].le(rows["stars"]).mul(stars["high"].ge(rows["stars"])).mean() >= 0.84


@pytest.mark.parametrize("name", ["quality", "quality_alone", "stars"])
def test_grades_get_the_ends_of_their_sets(home: Path, here: Path, name: str) -> None:
    model = diffor.load(home / name)
    assert isinstance(model, diffor.DiffoRClassifier)
    for coverage in (0.5, 0.9):
        result = predict(home, name, "--coverage", str(coverage), out=f"{coverage}.csv")
        assert result.columns.tolist() == ["prediction", *(f"p_{grade}" for grade in model.grades_), "low", "high"]
        held = model.predict_set(make_rows(400, seed=2)[FEATURES], coverage)
        places = [np.flatnonzero(row) for row in held]
        assert result["low"].tolist() == [model.grades_[place[0]] for place in places]
        assert result["high"].tolist() == [model.grades_[place[-1]] for place in places]


@pytest.mark.parametrize("name", ["price", "quality"])
def test_chunks_change_nothing(home: Path, here: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    whole = predict(home, name, "--coverage", "0.9", out="whole.csv")
    monkeypatch.setattr(tables, "CHUNK_ROWS", 64)
    pieces = predict(home, name, "--coverage", "0.9", out="pieces.csv")
    pd.testing.assert_frame_equal(whole, pieces, rtol=1e-5, atol=1e-3)  # other batches, other rounding


def test_too_few_calibration_rows_give_the_whole_range_and_one_warning(
    home: Path, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "CHUNK_ROWS", 64)
    result = predict(home, "price_few", "--coverage", "0.9")
    shown = capsys.readouterr().err
    assert shown.startswith("diffor: warning: coverage=0.9 needs at least 9 calibration rows, but there are 5; ")
    assert shown.count("\n") == 1
    assert result[["low", "high"]].drop_duplicates().to_numpy().tolist() == [[0, 100]]


@pytest.mark.parametrize("name", ["price", "quality"])
def test_the_number_of_samples_may_change_where_it_breaks_no_guarantee(home: Path, here: Path, name: str) -> None:
    count = diffor.load(home / name).settings_.n_samples
    same = predict(home, name, "--coverage", "0.9", "--samples", str(count), out="same.csv")
    pd.testing.assert_frame_equal(same, predict(home, name, "--coverage", "0.9", out="default.csv"))
    assert len(predict(home, name, "--samples", "5", out="fewer.csv")) == 400
    alone = predict(home, f"{name}_alone", "--coverage", "0.9", "--samples", "5", out="alone.csv")
    assert alone.columns[-2:].tolist() == ["low", "high"]


# --- wrong use ---

SAMPLES = " samples per row that it was calibrated with, but got --samples 5; leave --samples or --coverage out"
WRONG_FIT = {
    "price HOME/train.csv": "--calibration must be rows that training does not see, but HOME/train.csv is DATA "
    "too; keep some rows out for it",
    "price --valid HOME/few.csv HOME/few.csv": "but HOME/few.csv is --valid too; keep some rows out for it",
    "price no.csv": "no.csv must be an existing file",
    "price header.csv": "header.csv must hold at least one row",
    "price columns.csv": "columns.csv must have the column 'city', but its columns are size, price",
    "price gaps.csv": "target 'price' must be known in every row of gaps.csv, but 1 of 9 rows have none",
    "price outside.csv": "outside.csv: y_cal must lie inside bounds=(0.0, 100.0), but 1 of 9 values lie outside",
    "price infinite.csv": "infinite.csv: X must not contain infinity",
    "price text.csv": "text.csv: column 'size' must hold numbers or times, as in training",
    "quality grades.csv": "grades.csv: y_cal must hold grades only, no NaN or inf, but 1 of 9",
    "stars grades.csv": "grades.csv: y_cal must hold grades only, no NaN or inf, but 1 of 9",
}
WRONG_PREDICT = {
    "HOME/price HOME/new.csv --coverage 0.9 --samples 5": SAMPLES,
    "HOME/quality HOME/new.csv --coverage 0.9 --samples 5": SAMPLES,
    "HOME/quality HOME/new.csv --quantiles 0.5": "--quantiles is for amounts",
    "HOME/quality clash.csv --coverage 0.9 --keep low": "must not be called like the answer's, but got 'low'",
    "HOME/quality HOME/new.csv --coverage 1": "must lie between 0 and 1, as 0.9 does, but got '1'",
}


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that can be wrong with a calibration file."""
    folder = tmp_path_factory.mktemp("mistakes")
    rows = make_rows(9, seed=4)
    last = rows.index == 8
    for name, table in {
        "header": rows[:0],
        "columns": rows[["size", "price"]],
        "gaps": rows.assign(price=rows["price"].where(~last)),
        "outside": rows.assign(price=rows["price"].where(~last, 101)),
        "infinite": rows.assign(size=np.inf),
        "text": rows.assign(size="large"),
        "grades": rows.assign(quality=rows["quality"].where(~last, "great"), stars=rows["stars"].where(~last, 7)),
        "clash": rows.assign(low=1),
    }.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder


def check_refusal(words: list[str], folder: Path, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(folder.iterdir())
    code = main(words)
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert shown.err.startswith("diffor: error: ")
    assert shown.err.count("\n") == 1
    assert message in shown.err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("typed", WRONG_FIT)
def test_wrong_calibration_rows_are_refused_before_training(
    home: Path, mistakes: Path, typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(mistakes)
    target, *options, path = typed.replace("HOME", str(home)).split()
    # Training would outlast the test, and leave its checkpoint behind.
    endless = ["--max-steps", "1000000000", "--checkpoint", "state", "--out", "model"]
    words = fit_words(home, target, *options, *endless, "--calibration", path)
    check_refusal(words, mistakes, WRONG_FIT[typed].replace("HOME", str(home)), capsys)


@pytest.mark.parametrize("typed", WRONG_PREDICT)
def test_options_that_break_the_guarantee_are_refused(
    home: Path, mistakes: Path, typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(mistakes)
    words = ["predict", *typed.replace("HOME", str(home)).split(), "--out", "out.csv"]
    check_refusal(words, mistakes, WRONG_PREDICT[typed], capsys)


# --- evaluate ---


def test_evaluate_measures_the_intervals_that_predict_writes(
    home: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = predict(home, "price", "--coverage", "0.8")
    truth = tables.read_table(home / "new.csv")["price"]
    expected = ((table["low"] <= truth) & (truth <= table["high"])).mean()
    capsys.readouterr()
    assert main(["evaluate", str(home / "price"), str(home / "new.csv"), "--coverage", "0.8", "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)["metrics"]["coverage"]["model"]
    assert measured == pytest.approx(expected)
    assert main(["evaluate", str(home / "price_alone"), str(home / "new.csv"), "--coverage", "0.8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["coverage"]["model"] != pytest.approx(measured)
