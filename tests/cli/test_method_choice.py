"""Methods on the command line: ``fit --method``, the columns that some need beside the features, native answers."""

import io
import json
import shutil
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import diffor
from diffor.cli.main import main
from diffor.files import tables

FAST = ["--preset", "fast", "--max-steps", "20"]
FEATURES = ["topic", "length", "kind"]
N_ROWS = 200
FITS = {
    # folder: what fit is told
    "d2q": "--target watched --drop grade --method d2q --method-setting n_groups=3 clip=true --duration length",
    "bare": "--target watched --drop grade length --method cwm --duration length",
    "swat": "--target watched --drop grade --method swat-geometric --duration length --transform log",
    "swat_alone": "--target watched --drop grade length --method swat-geometric",
    "cread": "--target watched --drop grade --method cread --method-setting n_thresholds=10",
    "corn": "--target grade --drop watched --classify --method corn",
    "value": "--target grade --drop watched --classify --method value-squared",
}


def make_rows(n=N_ROWS, seed=0):
    """Views of videos that end with the video at the latest."""
    random = np.random.default_rng(seed)
    rows = pd.DataFrame({"topic": random.normal(size=n), "length": random.uniform(10, 100, n).round(2)})
    rows["kind"] = random.choice(["news", "music"], n)
    rows["watched"] = np.minimum(rows["length"], random.exponential(40 * np.exp(0.5 * rows["topic"]))).round(3)
    rows["grade"] = np.digitize(rows["watched"] / rows["length"], [0.3, 0.9])
    return rows


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with data and a model of each kind, which tests read and do not change."""
    folder = tmp_path_factory.mktemp("home")
    for name, seed in (("train", 0), ("new", 1), ("more", 2)):
        make_rows(seed=seed).to_csv(folder / f"{name}.csv", index=False)
    make_rows(seed=1).to_parquet(folder / "new.parquet")
    for name, words in FITS.items():
        with redirect_stdout(io.StringIO()) as shown:
            assert main(["fit", str(folder / "train.csv"), *words.split(), *FAST, "--out", str(folder / name)]) == 0
        (folder / f"{name}.txt").write_text(shown.getvalue())
    return folder


def predict(home, model, *options, data="new.csv"):
    source = home / data if (home / data).exists() else Path(data)
    assert main(["predict", str(home / model), str(source), "--out", "out.csv", "--force", *options]) == 0
    return pd.read_csv("out.csv")


# --- fit ---


def test_fit_says_the_method_and_remembers_its_columns(home):
    shown = (home / "d2q.txt").read_text()
    assert "model            OrdinalRegressor, method d2q, preset fast\n" in shown
    assert "columns          2 numeric (topic, length), 1 categorical (kind)\n" in shown
    notes = json.loads((home / "d2q" / "cli.json").read_text())
    assert notes == {"target": "watched", "weight": None, "dropped": ["grade"], "side": {"duration": "length"}}


def test_the_duration_is_a_feature_unless_it_is_dropped(home):
    assert [column.name for column in diffor.load(home / "d2q").inputs_.columns] == FEATURES
    assert [column.name for column in diffor.load(home / "bare").inputs_.columns] == ["topic", "kind"]
    assert json.loads((home / "bare" / "cli.json").read_text())["side"] == {"duration": "length"}
    assert "side" not in json.loads((home / "cread" / "cli.json").read_text())


def test_validation_and_calibration_rows_bring_their_durations(home, here):
    words = ["fit", str(home / "train.csv"), *FITS["d2q"].split(), "--valid", str(home / "new.csv"), *FAST]
    assert main([*words, "--bounds", "0", "100", "--calibration", str(home / "more.csv"), "--out", "model"]) == 0
    rows, valid, more = make_rows(), make_rows(seed=1), make_rows(seed=2)
    model = diffor.OrdinalRegressor("d2q", method_settings={"n_groups": 3, "clip": True}, preset="fast", max_steps=20,
                                    bounds=(0, 100), random_state=0, verbose=0)  # fmt: skip
    model.fit(rows[FEATURES], rows["watched"], X_val=valid[FEATURES], y_val=valid["watched"],
              duration=rows["length"], duration_val=valid["length"])  # fmt: skip
    model.conformalize(more[FEATURES], more["watched"], duration=more["length"])
    assert diffor.load("model").method_settings == model.method_settings
    result = predict(here, "model", "--coverage", "0.8", data=str(home / "new.csv"))
    expected = model.predict_interval(valid[FEATURES], 0.8, duration=valid["length"])
    np.testing.assert_allclose(result[["low", "high"]], expected, rtol=1e-6)
    assert (result["low"] < result["high"]).mean() > 0.9  # calibrated, a point has an interval


# --- predict ---


@pytest.mark.parametrize(("name", "data"), [("d2q", "new.csv"), ("bare", "new.parquet"), ("swat", "new.csv")])
def test_predictions_are_those_of_the_python_interface(home, here, name, data):
    result, rows = predict(home, name, data=data), make_rows(seed=1)
    model = diffor.load(home / name)
    X = rows[[column.name for column in model.inputs_.columns]]
    np.testing.assert_allclose(result["prediction"], model.predict(X, duration=rows["length"]), rtol=1e-6)
    native = predict(home, name, "--statistic", "native", data=data)["prediction"]
    np.testing.assert_allclose(native, result["prediction"], rtol=1e-12)


def test_chunks_change_nothing(home, here, monkeypatch):
    whole = predict(home, "bare", "--coverage", "0.9")
    monkeypatch.setattr(tables, "CHUNK_ROWS", 16)
    pd.testing.assert_frame_equal(predict(home, "bare", "--coverage", "0.9"), whole, rtol=1e-5, atol=1e-3)


def test_the_duration_matters_and_may_have_another_name(home, here):
    rows = make_rows(seed=1)
    rows.rename(columns={"length": "seconds"}).to_csv("renamed.csv", index=False)
    rows.assign(length=1.0).to_csv("short.csv", index=False)
    expected = predict(home, "bare")
    pd.testing.assert_frame_equal(predict(home, "bare", "--duration", "seconds", data="renamed.csv"), expected)
    assert (predict(home, "bare", data="short.csv")["prediction"] <= 1.001).all()
    assert (expected["prediction"] > 1).any()


def test_native_is_the_default_of_other_methods_and_can_be_changed(home, here):
    model, X = diffor.load(home / "cread"), make_rows(seed=1)[FEATURES]
    prediction = model.predict_distribution(X)
    for statistic in ("native", "median", "mean"):
        found = predict(home, "cread", "--statistic", statistic)["prediction"]
        np.testing.assert_allclose(found, prediction.statistic(statistic), rtol=1e-6)
    pd.testing.assert_frame_equal(predict(home, "cread"), predict(home, "cread", "--statistic", "native"))
    assert not np.allclose(prediction.statistic("native"), prediction.median)


def test_native_grades(home, here):
    model, X = diffor.load(home / "corn"), make_rows(seed=1)[FEATURES]
    for options, decision in (([], "native"), (["--statistic", "native"], "native"), (["--statistic", "qwk"], "qwk")):
        result = predict(home, "corn", *options)
        assert result["prediction"].tolist() == model.predict(X, decision).tolist()
        np.testing.assert_array_equal(result.filter(like="p_"), model.predict_proba(X))


def test_a_model_of_the_python_interface_finds_the_column_by_the_methods_name(home, here, capsys):
    rows = make_rows(seed=1).rename(columns={"length": "duration"})
    rows.to_csv("rows.csv", index=False)
    for name in ("bare", "swat_alone"):
        shutil.copytree(home / name, name)
        Path(name, "cli.json").unlink()
        result = predict(here, name, data="rows.csv")
        model = diffor.load(name)
        expected = model.predict(rows[["topic", "kind"]], duration=rows["duration"])
        np.testing.assert_allclose(result["prediction"], expected, rtol=1e-6)
    assert main(["predict", "bare", str(home / "new.csv"), "--out", "x.csv"]) == 2
    assert "must have the column 'duration', the duration that method 'cwm' needs" in capsys.readouterr().err


# --- evaluate ---


def test_evaluate_measures_what_is_answered(home, here, capsys):
    rows = make_rows(seed=1)
    for name in ("bare", "d2q"):
        assert main(["evaluate", str(home / name), str(home / "new.csv"), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        model = diffor.load(home / name)
        X = rows[[column.name for column in model.inputs_.columns]]
        answers = model.predict(X, duration=rows["length"])
        assert (facts["model"], facts["method"], facts["statistic"]) == ("OrdinalRegressor", model.method, "native")
        assert facts["metrics"]["mae"]["model"] == pytest.approx(np.abs(answers - rows["watched"]).mean(), rel=1e-6)
        assert model.has_distribution == (name == "bare")
        if model.has_distribution:
            low, high = model.predict_interval(X, 0.9, duration=rows["length"]).T
            inside = ((low <= rows["watched"]) & (rows["watched"] <= high)).mean()
            assert facts["metrics"]["coverage"]["model"] == pytest.approx(inside)
        else:
            assert facts["metrics"]["coverage"]["model"] is None
    assert main(["evaluate", str(home / "d2q"), str(home / "new.csv"), "--duration", "length"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("200 rows, target watched, answered with native\n")
    assert [line.split()[1] for line in shown.splitlines() if line.startswith(("coverage", "interval"))] == ["-", "-"]


def test_evaluate_native_grades(home, here, capsys):
    rows = make_rows(seed=1)
    for name in ("corn", "value"):
        assert main(["evaluate", str(home / name), str(home / "new.csv"), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        chosen = diffor.load(home / name).predict(rows[FEATURES])
        assert facts["statistic"] == "native"
        assert facts["metrics"]["accuracy"]["model"] == pytest.approx((chosen == rows["grade"]).mean())


# --- wrong use: what is typed, and what is said ---

NOT_FITTED = {
    "--method d2k": "but got method='d2k' (did you mean 'd2q'?)",
    "--method d2q": "method 'd2q' needs the column of the duration, but --duration is not given; add --duration COL",
    "--method dex --duration length": "--duration is for methods that use it, but 'dex' does not; leave it out",
    "--duration length": "but 'diffor' does not; leave it out",
    "--method-setting n_bins=9": "--method-setting is for other methods, but --method is diffor; choose a --preset",
    "--method dex --diagnose": "--diagnose is for the paper's chain, whose theory is measured, but --method is dex and",
    "--method dex --no-prior": "--no-prior is for diffor's own presets, but --method is dex and --preset balanced",
    "--method dex --method-setting bins=9": "must be among n_grades, n_bins, policy, but got 'bins' (did you mean 'n_b",
    "--method dex --method-setting n_bins": "must be KEY=VALUE, as n_bins=20",
    "--method dex --method-setting n_bins=nan": "--method-setting n_bins of 'dex' must be a whole number, but got 'na",
    "--method dex --method-setting n_bins=true": "must be a whole number, but got True",
    "--method dldl --method-setting sigma=wide": "must be a number or none, but got 'wide'",
    "--method dex --method-setting n_bins=1": "--method-setting of 'dex': there must be at least 2 bins or grades, but",
    "--method card --method-setting width=-1": "width must be a whole number from 1 on, but got width=-1",
    "--method dex --method-setting n_bins=5 n_bins=6": "must name each setting once, but 'n_bins' stands twice",
    "--method d2q --duration lenght": "must have the column 'lenght' (did you mean 'length'?)",
    "--method d2q --duration watched": "--duration must be another column than --target and --weight, but 'watched'",
    "--method d2q --duration kind": "column 'kind' of HOME/new.csv must hold numbers, but got",
    "--method d2q --duration length --valid less.csv --drop length": "must have the column 'length', but its columns",
}
NOT_PREDICTED = {
    "HOME/bare less.csv": "less.csv must have the column 'length', the duration that method 'cwm' needs, but its "
    "columns are topic, kind, watched, grade; add it, or name another with --duration COL",
    "HOME/bare HOME/new.csv --duration lngth": "must have the column 'lngth' (did you mean 'leng",
    "HOME/bare gaps.csv": "duration 'length' must be a finite number from 0 on in every row of gaps.csv, but row 4 has",
    "HOME/bare short.csv": "duration 'length' must be a finite number from 0 on in every row of short.csv, but row 3 "
    "has -5.0; correct or remove such rows",
    "HOME/cread HOME/new.csv --duration length": "HOME/cread was fitted with 'cread', which does not; leave it out",
    "damaged HOME/new.csv": "damaged/cli.json must hold what diffor fit noted of the columns, but it is damaged",
    "HOME/d2q HOME/new.csv --coverage 0.9": "--coverage needs a distribution, but method 'd2q' predicts a point; leave "
    "--coverage out, or fit with --calibration",
    "HOME/d2q HOME/new.csv --quantiles 0.1,0.9": "'d2q' predicts a point; leave --quantiles out",
    "HOME/corn HOME/new.csv --statistic mean": "--statistic of grades must be median, mode or qwk, or native, but got",
}
WRONG = {
    **{f"fit HOME/new.csv --target watched {typed} --out m": said for typed, said in NOT_FITTED.items()},
    **{f"predict {typed} --out o.csv": said for typed, said in NOT_PREDICTED.items()},
    "fit gaps.csv --target watched --method d2q --duration length --out m": "duration 'length' must be a finite number "
    "from 0 on in every row of gaps.csv, but row 4 has nan; correct or remove such rows",
    "fit HOME/new.csv --target grade --classify --method d2q --duration length --out m": "method 'd2q' predicts value, "
    "but the targets are ordered grades; use one of",
    "evaluate HOME/bare less.csv": "less.csv must have the column 'length', the duration that method 'cwm' needs",
    "evaluate HOME/corn HOME/new.csv --duration length": "HOME/corn was fitted with 'corn', which does not; leave it",
}


@pytest.fixture
def mistakes(home, here):
    rows = make_rows(9)
    rows.drop(columns="length").to_csv("less.csv", index=False)
    rows.assign(length=rows["length"].where(rows.index != 3)).to_csv("gaps.csv", index=False)
    rows.assign(length=rows["length"].where(rows.index != 2, -5.0)).to_csv("short.csv", index=False)
    shutil.copytree(home / "bare", "damaged")
    (here / "damaged" / "cli.json").write_text("{")
    return here


@pytest.mark.parametrize("typed", WRONG)
def test_wrong_use_is_one_line_and_changes_nothing(home, mistakes, typed, refused):
    before = sorted(mistakes.rglob("*"))
    assert WRONG[typed].replace("HOME", str(home)) in refused(*typed.replace("HOME", str(home)).split())
    assert sorted(mistakes.rglob("*")) == before
