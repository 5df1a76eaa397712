"""Calibration on the command line: ``fit --calibration`` and what ``predict --coverage`` makes of it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_examples import run_process

import diffor
from diffor.cli.main import main
from diffor.files import tables

GRADES = ["poor", "fair", "good", "best"]
FEATURES = ["size", "city"]
KINDS = {"price": ["--bounds", "0", "100"], "quality": ["--grades", ",".join(GRADES)], "stars": ["--classify"]}


def make_rows(n, seed):
    random = np.random.default_rng(seed)
    table = pd.DataFrame({"size": random.uniform(0, 1, n), "city": random.choice(["Oslo", "Rome"], n)})
    shift = 0.1 * (table["city"] == "Rome")
    table["price"] = 100 * np.clip(0.8 * table["size"] + shift + 0.1 * random.standard_normal(n), 0, 1)
    table["stars"] = np.minimum(table["price"] // 25, 3).astype(int)
    table["quality"] = np.array(GRADES)[table["stars"]]
    return table


def fit_words(home, target, *extra):
    others = [name for name in KINDS if name != target]
    return ["fit", str(home / "train.csv"), "--target", target, "--drop", *others, *KINDS[target], "--preset", "fast",
            "--max-steps", "20", "--no-prior", *extra]  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with data, a calibrated model of amounts and of grades, the same without, and one with few rows."""
    folder = tmp_path_factory.mktemp("home")
    for name, n, seed in (("train", 240, 0), ("calibration", 800, 1), ("new", 400, 2), ("few", 5, 3)):
        make_rows(n, seed).to_csv(folder / f"{name}.csv", index=False)
    for target in ("price", "quality"):
        words = fit_words(folder, target, "--quiet", "--out")
        assert main([*words, str(folder / target), "--calibration", str(folder / "calibration.csv")]) == 0
        assert main([*words, str(folder / f"{target}_alone")]) == 0
    few = make_rows(5, 3)
    diffor.load(folder / "price_alone").conformalize(few[FEATURES], few["price"]).save(folder / "price_few")
    return folder


def predict(home, model, *options, out="out.csv"):
    assert main(["predict", str(home / model), str(home / "new.csv"), "--out", out, *options]) == 0
    return tables.read_table(Path(out))


# --- fit ---


def test_a_process_fits_calibrates_and_says_so(home, here):
    words = fit_words(home, "price", "--max-steps", "1", "--out", "model")
    done = run_process(*words, "--calibration", home / "calibration.csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert "rows             240\n" in done.stdout
    assert "coverage         calibrated on 800 rows\n" in done.stdout
    assert diffor.load(here / "model").conformal_ is not None
    assert diffor.load(home / "price_alone").conformal_ is None


@pytest.mark.parametrize("target", ["price", "quality"])
def test_calibration_is_that_of_the_python_interface_and_changes_no_prediction(home, here, target):
    rows = make_rows(800, seed=1)
    model = diffor.load(home / f"{target}_alone").conformalize(rows[FEATURES], rows[target])
    saved = diffor.load(home / target).conformal_
    np.testing.assert_allclose(saved.scores, model.conformal_.scores, atol=1e-6)
    assert saved.n_rows == 800
    alone = predict(home, f"{target}_alone", out="alone.csv")
    pd.testing.assert_frame_equal(predict(home, target), alone)


def test_calibration_file_may_have_other_columns_and_another_format(home, here):
    make_rows(50, seed=1)[["price", "city", "size"]].assign(note="x").to_parquet("other.parquet")
    words = fit_words(home, "price", "--max-steps", "1", "--quiet", "--calibration", "other.parquet")
    assert main([*words, "--out", "model"]) == 0
    assert diffor.load("model").conformal_.n_rows == 50


# --- predict ---


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_intervals_are_those_of_predict_interval_and_cover_new_rows(home, here, suffix):
    result = predict(home, "price", "--coverage", "0.8", "--quantiles", "0.1", out=f"out{suffix}")
    assert result.columns.tolist() == ["prediction", "q0.1", "low", "high"]
    rows, model = make_rows(400, seed=2), diffor.load(home / "price")
    np.testing.assert_allclose(result[["low", "high"]], model.predict_interval(rows[FEATURES], 0.8), atol=1e-3)
    np.testing.assert_allclose(result["prediction"], model.predict(rows[FEATURES]), rtol=1e-5, atol=1e-3)
    central = predict(home, "price_alone", "--coverage", "0.8", out="alone.csv")
    assert np.abs(result["low"] - central["low"]).mean() > 0.1  # the calibration is what made the difference
    assert rows["price"].between(result["low"], result["high"]).mean() == pytest.approx(0.8, abs=0.07)


@pytest.mark.parametrize("name", ["quality", "quality_alone"])
def test_grades_get_the_ends_of_their_sets(home, here, name):
    model, rows = diffor.load(home / name), make_rows(400, seed=2)
    for coverage in (0.5, 0.9):
        result = predict(home, name, "--coverage", str(coverage), out=f"{coverage}.csv")
        assert result.columns.tolist() == ["prediction", *(f"p_{grade}" for grade in model.grades_), "low", "high"]
        places = [np.flatnonzero(row) for row in model.predict_set(rows[FEATURES], coverage)]
        assert result["low"].tolist() == [model.grades_[place[0]] for place in places]
        assert result["high"].tolist() == [model.grades_[place[-1]] for place in places]
    low, high = (result[name].map(GRADES.index) for name in ("low", "high"))
    assert rows["stars"].between(low, high).mean() >= 0.84


def test_chunks_and_the_known_number_of_samples_change_nothing(home, here, monkeypatch):
    for name in ("price", "quality"):
        whole = predict(home, name, "--coverage", "0.9", out=f"{name}.csv")
        count = diffor.load(home / name).settings_.n_samples
        with monkeypatch.context() as patch:
            patch.setattr(tables, "CHUNK_ROWS", 64)
            pieces = predict(home, name, "--coverage", "0.9", "--samples", str(count), out=f"{name}-pieces.csv")
        pd.testing.assert_frame_equal(whole, pieces, rtol=1e-5, atol=1e-3)  # other batches, other rounding
        assert len(predict(home, name, "--samples", "5", out=f"{name}-fewer.csv")) == 400  # nothing is promised


def test_too_few_calibration_rows_give_the_whole_range_and_one_warning(home, here, monkeypatch, capsys):
    monkeypatch.setattr(tables, "CHUNK_ROWS", 64)
    result = predict(home, "price_few", "--coverage", "0.9")
    shown = capsys.readouterr().err
    assert shown.startswith("diffor: warning: coverage=0.9 needs at least 9 calibration rows, but there are 5; ")
    assert shown.count("\n") == 1
    assert result[["low", "high"]].drop_duplicates().to_numpy().tolist() == [[0, 100]]


# --- wrong use ---

WRONG_FIT = {
    "price HOME/train.csv": "--calibration must be rows that training does not see, but HOME/train.csv is DATA too",
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


@pytest.fixture
def mistakes(here):
    """A folder with everything that can be wrong with a calibration file."""
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
        table.to_csv(f"{name}.csv", index=False)
    return here


@pytest.mark.parametrize("typed", WRONG_FIT)
def test_wrong_calibration_rows_are_refused_before_training(home, mistakes, typed, refused):
    before = sorted(mistakes.iterdir())
    target, *options, path = typed.replace("HOME", str(home)).split()
    # Training would outlast the test, and leave its checkpoint behind.
    endless = ["--max-steps", "1000000000", "--checkpoint", "state", "--out", "model"]
    told = refused(*fit_words(home, target, *options, *endless, "--calibration", path))
    assert WRONG_FIT[typed].replace("HOME", str(home)) in told
    assert sorted(mistakes.iterdir()) == before


def test_options_that_break_the_guarantee_are_refused(home, mistakes, refused):
    before = sorted(mistakes.iterdir())
    for name in ("price", "quality"):
        told = refused(
            "predict", home / name, home / "new.csv", "--coverage", "0.9", "--samples", "5", "--out", "o.csv"
        )
        assert "per row that it was calibrated with, but got --samples 5; leave --samples or --coverage out" in told
    told = refused("predict", home / "quality", "clash.csv", "--coverage", "0.9", "--keep", "low", "--out", "o.csv")
    assert "must not be called like the answer's, but got 'low'" in told
    assert sorted(mistakes.iterdir()) == before


# --- evaluate ---


def test_evaluate_measures_the_intervals_that_predict_writes(home, here, capsys):
    table, truth = predict(home, "price", "--coverage", "0.8"), tables.read_table(home / "new.csv")["price"]
    capsys.readouterr()
    measured = []
    for name in ("price", "price_alone"):
        assert main(["evaluate", str(home / name), str(home / "new.csv"), "--coverage", "0.8", "--json"]) == 0
        measured.append(json.loads(capsys.readouterr().out)["metrics"]["coverage"]["model"])
    assert measured[0] == pytest.approx(truth.between(table["low"], table["high"]).mean())
    assert measured[1] != pytest.approx(measured[0])
