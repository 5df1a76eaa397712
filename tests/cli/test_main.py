"""The command line: real files and, where a process matters, real processes."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import types

import numpy as np
import pandas as pd
import pytest
from command_examples import FAST, FEATURES, GRADES, N_ROWS, command, make_rows, run_process

import diffor
from diffor.cli.main import main
from diffor.files import tables


def snapshot(*folders):
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


# --- the whole, in processes ---


def test_help_is_quick_because_it_imports_nothing_heavy():
    script = (
        "import sys; from diffor.cli.main import main; code = main(['--help']); "
        "print(code, [name for name in ('torch', 'numpy', 'pandas', 'sklearn', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"
    assert "examples:" in done.stdout
    assert done.stderr == ""


def test_a_process_fits_and_its_errors_are_one_line(home, here):
    words = ["fit", home / "rows.csv", "--target", "price", "--out", "model"]
    fitted = run_process(*words, "--preset", "fast", "--max-steps", "5", "--drop", "id", "quality", "stars",
                         "--weight", "weight")  # fmt: skip
    assert (fitted.returncode, fitted.stderr) == (0, "")
    assert "240" in fitted.stdout
    assert "2 numeric (size, rooms), 2 categorical (city, code)" in fitted.stdout
    scores = re.search(r"held-out rows    CRPS (\S+), MAE (\S+), 90 % intervals hold (\d+) %", fitted.stdout)
    assert float(scores[1]) < float(scores[2]), "the CRPS of a distribution is below the error of its median"
    assert 50 < int(scores[3]) <= 100
    notes = json.loads((here / "model" / "cli.json").read_text())
    assert notes == {"target": "price", "weight": "weight", "dropped": ["id", "quality", "stars"]}
    again = run_process(*words)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.splitlines() == [
        "diffor: error: model must not exist yet, but it does; choose another or pass --force to replace it"
    ]


def test_ctrl_c_in_fit_keeps_the_best_model(home, here):
    words = ["fit", home / "rows.csv", "--target", "price", "--preset", "fast", "--max-steps", "1000000", "--valid",
             home / "rows.csv", "--checkpoint", "state", "--out", "model"]  # fmt: skip
    process = subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 180
    while not list(here.rglob("training.safetensors")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert "interrupted" in output
    assert errors.startswith("diffor: warning: training was interrupted")
    assert len(errors.splitlines()) == 1
    model = diffor.load(here / "model")
    assert model.history_.stopped == "interrupted"
    assert len(model.predict(pd.read_csv(home / "rows.csv").drop(columns="price"))) == N_ROWS


def test_memory_does_not_grow_with_the_file_and_a_closed_pipe_is_no_error(here):
    model = diffor.DiffoRRegressor("fast", prior=None, n_increments=2, max_steps=1, verbose=0)
    model.fit(make_rows()[FEATURES], make_rows()["price"]).save("tiny")
    for name, n in (("short.csv", 20_000), ("long.csv", 100_000)):
        rows = make_rows(2000)[FEATURES].assign(note="word " * 60)
        pd.concat([rows] * (n // 2000)).to_csv(name, index=False)
    script = (
        "import resource, sys; from diffor.cli.main import main\n"
        "for name in ('short', 'long'):\n"
        "    files = [name + '.csv', '--out', name + '.out.csv']\n"
        "    code = main(['predict', 'tiny', *files, '--samples', '1', '--keep-all'])\n"
        "    print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    (code, short), (other_code, long) = (map(int, line.split()) for line in done.stdout.splitlines())
    assert (code, other_code) == (0, 0), done.stderr
    assert long - short < 20  # MB; the long file has 26 MB more
    assert sum(1 for _ in (here / "long.out.csv").open()) == 100_001

    words = command("predict", "tiny", "short.csv", "--out", "-", "--samples", "1", "--keep", "note")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "note,prediction\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 141


# --- fit ---


def test_fit_is_the_python_interface_with_all_its_options(home, here, capsys):
    make_rows(60, seed=1).to_csv("valid.csv", index=False)
    arguments = ["fit", str(home / "rows.parquet"), "--target", "price", "--bounds", "-10", "20",
                 "--drop", "id", "--drop", "quality", "stars", "--weight", "weight", "--valid", "valid.csv",
                 "--max-steps", "10", "--time-limit", "60", "--preset", "fast", "--seed", "7",
                 "--out", "model"]  # fmt: skip
    assert main(arguments) == 0
    assert "saved in         model" in capsys.readouterr().out
    model = diffor.load("model")
    assert isinstance(model, diffor.DiffoRRegressor)
    assert (model.scale_.low, model.scale_.high) == (-10, 20)
    assert (model.random_state, model.time_limit, model.settings_.max_steps) == (7, 60, 10)
    assert [column.name for column in model.inputs_.columns] == FEATURES
    rows, valid = make_rows(), make_rows(60, seed=1)
    same = diffor.DiffoRRegressor("fast", max_steps=10, bounds=(-10, 20), random_state=7, verbose=0)
    same.fit(rows[FEATURES], rows["price"], rows["weight"], valid[FEATURES], valid["price"])
    np.testing.assert_array_equal(model.predict(rows[FEATURES]), same.predict(rows[FEATURES]))


def test_fit_without_a_prior_replaces_a_model_only_if_forced(home, here):
    shutil.copytree(home / "quality", "model")
    arguments = ["fit", str(home / "rows.csv"), "--target", "price", *FAST, "--max-steps", "2", "--no-prior", "--out"]
    assert main([*arguments, "model"]) == 2
    assert isinstance(diffor.load("model"), diffor.DiffoRClassifier)
    assert main([*arguments, "model", "--force"]) == 0
    assert diffor.load("model").priors_ is None
    assert diffor.load(home / "price").priors_ is not None
    assert [path.name for path in here.iterdir()] == ["model"]
    (here / "precious").mkdir()
    (here / "precious" / "notes.txt").write_text("mine")
    assert main([*arguments, "precious", "--force"]) == 2
    assert (here / "precious" / "notes.txt").read_text() == "mine"


def test_fit_finds_grades(home, here):
    assert diffor.load(home / "quality").grades_.tolist() == GRADES
    assert diffor.load(home / "stars").classes_.tolist() == [1, 2, 3, 4, 5]
    rows = make_rows()[[*FEATURES, "quality", "stars"]]
    rows["quality"] = pd.Categorical(rows["quality"], GRADES, ordered=True)
    rows["happy"] = rows["stars"] > 2
    rows.to_parquet("ordered.parquet")
    for target, extra, expected in (
        ("quality", [], GRADES),
        ("stars", ["--grades", "0,1,2,3,4,5"], [0, 1, 2, 3, 4, 5]),
        ("happy", ["--classify"], ["False", "True"]),
    ):
        words = ["fit", "ordered.parquet", "--target", target, *extra, *FAST, "--max-steps", "3", "--no-prior"]
        assert main([*words, "--out", target]) == 0
        model = diffor.load(target)
        assert isinstance(model, diffor.DiffoRClassifier)
        assert model.grades_.tolist() == expected
        assert main(["evaluate", target, "ordered.parquet"]) == 0


def test_fit_continues_from_a_checkpoint(home, here):
    arguments = ["fit", str(home / "rows.csv"), "--target", "price", *FAST, "--checkpoint", "state"]
    assert main([*arguments, "--out", "one"]) == 0
    assert main([*arguments, "--out", "two"]) == 0
    assert diffor.load("one").history_.records == diffor.load("two").history_.records


# --- predict ---


@pytest.mark.parametrize(("source", "target"), [("rows.csv", "out.parquet"), ("rows.parquet", "out.csv")])
def test_predictions_are_those_of_the_python_interface(home, here, source, target):
    arguments = ["predict", str(home / "price"), str(home / source), "--out", target, "--quantiles", "0.05,.5,0.95",
                 "--coverage", "0.8", "--keep", "id", "city"]  # fmt: skip
    assert main(arguments) == 0
    result = tables.read_table(here / target, text=["id"])
    rows, model = make_rows(), diffor.load(home / "price")
    names = ["id", "city", "prediction", "q0.05", "q0.5", "q0.95", "low", "high"]
    assert result.columns.tolist() == names
    X = rows[FEATURES]
    np.testing.assert_array_equal(result["prediction"], model.predict(X))
    np.testing.assert_array_equal(result[names[3:6]], model.predict_quantiles(X, [0.05, 0.5, 0.95]))
    np.testing.assert_array_equal(result[["low", "high"]], model.predict_interval(X, 0.8))
    assert result["id"].tolist() == rows["id"].tolist()
    assert result["city"].tolist() == rows["city"].tolist()
    assert [path.name for path in here.iterdir()] == [target]


@pytest.mark.parametrize(("kind", "extra"), [("csv", []), ("parquet", ["--lower", "floor"])])
def test_answers_keep_to_the_limits_of_their_rows(home, here, kind, extra):
    rows = make_rows()
    rows["top"] = np.where(rows.index % 3 == 0, np.nan, rows["size"].fillna(0).round(2))  # some negative, some missing
    rows["floor"] = rows["top"] - 1.5
    rows.to_csv("new.csv", index=False)
    rows.to_parquet("new.parquet")
    arguments = ["predict", str(home / "price"), f"new.{kind}", "--out", "out.csv", "--quantiles", "0.05,0.95",
                 "--coverage", "0.8", "--upper", "top", *extra, "--keep", "top"]  # fmt: skip
    assert main(arguments) == 0
    result, model = tables.read_table(here / "out.csv"), diffor.load(home / "price")
    assert result.columns.tolist() == ["top", "prediction", "q0.05", "q0.95", "low", "high"]
    X, limits = rows[FEATURES], {"upper": rows["top"], **({"lower": rows["floor"]} if extra else {})}
    np.testing.assert_array_equal(result["prediction"], model.predict(X, **limits))
    np.testing.assert_array_equal(result[["q0.05", "q0.95"]], model.predict_quantiles(X, [0.05, 0.95], **limits))
    np.testing.assert_array_equal(result[["low", "high"]], model.predict_interval(X, 0.8, **limits))
    known = rows["top"].notna()
    assert (result.loc[known, result.columns[1:]].max(axis=1) <= rows["top"][known]).all()
    assert (model.predict(X)[known] > rows["top"][known]).any()
    np.testing.assert_array_equal(result["prediction"][~known], model.predict(X)[~known])


def test_a_limit_may_be_a_column_of_the_model(home, here):
    path = str(home / "rows.csv")
    assert main(["predict", str(home / "price"), path, "--out", "out.csv", "--upper", "rooms"]) == 0
    expected = diffor.load(home / "price").predict(make_rows()[FEATURES], upper=make_rows()["rooms"])
    np.testing.assert_array_equal(tables.read_table(here / "out.csv")["prediction"], expected)


def test_a_share_of_a_limit_is_learned_and_its_column_remembered(here, capsys):
    rows = make_rows().assign(top=lambda rows: rows["rooms"] + 9.0, price=lambda rows: rows["price"].clip(0, 9))
    rows[[*FEATURES, "top", "price"]].to_csv("rows.csv", index=False)
    arguments = ["fit", "rows.csv", "--target", "price", "--upper", "top", "--limit", "share", "--drop", "top"]
    loud = ["--preset", "fast", "--max-steps", "30"]
    assert main([*arguments, *loud, "--calibration", "rows2.csv", "--out", "model"]) == 2  # no such file
    rows[:60].to_csv("spare.csv", index=False)
    assert main([*arguments, *loud, "--calibration", "spare.csv", "--out", "model"]) == 0
    said = capsys.readouterr().out
    assert "range of answers 0 to the limit of each row" in said
    assert "in shares of the limit" in said
    model = diffor.load(here / "model")
    assert isinstance(model, diffor.DiffoRRegressor)
    assert main(["predict", "model", "rows.csv", "--out", "out.csv", "--coverage", "0.8"]) == 0
    result = tables.read_table(here / "out.csv")
    np.testing.assert_array_equal(result["prediction"], model.predict(rows[FEATURES], upper=rows["top"]))
    np.testing.assert_array_equal(result["high"], model.predict_interval(rows[FEATURES], 0.8, upper=rows["top"])[:, 1])
    assert main(["evaluate", "model", "rows.csv", "--json", "--report", "page.html"]) == 0
    found = json.loads(capsys.readouterr().out)["metrics"]["crps"]["model"]
    prediction = model.predict_distribution(rows[FEATURES], upper=rows["top"])
    assert found == pytest.approx(prediction.crps(rows["price"]).mean())
    rows.rename(columns={"top": "far"}).to_csv("other.csv", index=False)
    assert main(["predict", "model", "other.csv", "--out", "out.csv", "--force"]) == 2
    assert "the upper that the model needs" in capsys.readouterr().err
    assert main(["predict", "model", "other.csv", "--out", "out.csv", "--force", "--upper", "far"]) == 0
    np.testing.assert_array_equal(tables.read_table(here / "out.csv")["prediction"], result["prediction"])


@pytest.mark.parametrize("decision", ["median", "mode", "qwk"])
def test_grades_are_those_of_the_python_interface(home, here, decision):
    for name in ("quality", "stars"):
        model, X = diffor.load(home / name), make_rows()[FEATURES]
        extra = ["--samples", "3"] if decision == "median" else ["--statistic", decision]  # answers need no samples
        assert main(["predict", str(home / name), str(home / "rows.csv"), "--out", f"{name}.csv", *extra]) == 0
        result = tables.read_table(here / f"{name}.csv")
        assert result.columns.tolist() == ["prediction", *(f"p_{grade}" for grade in model.grades_)]
        assert result["prediction"].tolist() == model.predict(X, decision).tolist()
        np.testing.assert_array_equal(result[[f"p_{grade}" for grade in model.classes_]], model.predict_proba(X))


@pytest.mark.parametrize(("statistic", "meant"), [("mean", "mean"), ("0.25", 0.25), ("native", "median")])
def test_samples_and_statistic_are_as_asked(home, here, statistic, meant):
    data, model = str(home / "rows.csv"), diffor.load(home / "price")
    arguments = ["predict", str(home / "price"), data, "--out", "out.csv", "--samples", "5", "--statistic", statistic]
    assert main(arguments) == 0
    wanted = model.predict_distribution(make_rows()[FEATURES], 5).statistic(meant)
    np.testing.assert_array_equal(tables.read_table(here / "out.csv")["prediction"], wanted)


@pytest.mark.parametrize(("source", "suffix"), [("rows.csv", ".parquet"), ("rows.parquet", ".csv")])
def test_chunks_change_nothing(home, here, monkeypatch, source, suffix):
    arguments = ["predict", str(home / "price"), str(home / source), "--coverage", "0.9", "--keep-all", "--out"]
    assert main([*arguments, f"whole{suffix}"]) == 0
    monkeypatch.setattr(tables, "CHUNK_ROWS", 32)
    assert main([*arguments, f"pieces{suffix}"]) == 0
    whole, pieces = (tables.read_table(here / f"{name}{suffix}") for name in ("whole", "pieces"))
    pd.testing.assert_frame_equal(whole, pieces, rtol=1e-5, atol=1e-3)  # other batches, other rounding
    assert len(pieces) == N_ROWS


def test_a_category_that_looks_like_numbers_in_one_chunk(home, here, monkeypatch):
    rows = make_rows().sort_values("code", ignore_index=True)  # the first chunks hold 03, 1 and 2 only
    rows.to_csv("sorted.csv", index=False)
    monkeypatch.setattr(tables, "CHUNK_ROWS", 16)
    assert main(["predict", str(home / "price"), "sorted.csv", "--out", "out.csv"]) == 0
    expected = diffor.load(home / "price").predict(rows[FEATURES])
    np.testing.assert_allclose(pd.read_csv("out.csv")["prediction"], expected, rtol=1e-5, atol=1e-3)


def test_screen_and_file_are_told_the_same_and_kept_text_is_no_formula(home, here, capsys):
    make_rows(3).assign(id=["007", "-5", "=cmd()"]).to_csv("rows.csv.gz", index=False)
    for out in ("out.csv", "-"):
        assert main(["predict", str(home / "price"), "rows.csv.gz", "--out", out, "--keep", "id"]) == 0
    lines = (here / "out.csv").read_text()
    assert capsys.readouterr().out == lines
    assert lines.startswith("id,prediction\n")
    assert [line.split(",")[0] for line in lines.splitlines()[1:]] == ["007", "-5", "'=cmd()"]


def test_force_replaces_the_output(home, here):
    (here / "out.csv").write_text("old")
    arguments = ["predict", str(home / "price"), str(home / "rows.csv"), "--out", "out.csv"]
    assert main(arguments) == 2
    assert (here / "out.csv").read_text() == "old"
    assert main([*arguments, "--force"]) == 0
    assert (here / "out.csv").read_text().startswith("prediction\n")


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_a_bad_last_row_leaves_no_output(home, here, refused, out, monkeypatch):
    monkeypatch.setattr(tables, "CHUNK_ROWS", 16)
    for value, message in (("oops", "'oops' in row 41 after the header"), ("inf", "rows 33 to 41 of bad.csv: X must")):
        text = make_rows(40)[FEATURES].to_csv(index=False) + f"{value},1,Oslo,x\n"
        (here / "bad.csv").write_text(text)
        assert message in refused("predict", home / "price", "bad.csv", "--out", out)
        assert [path.name for path in here.iterdir()] == ["bad.csv"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), ValueError("a bug")])
def test_interrupts_and_bugs_leave_no_output(home, here, failure, monkeypatch, capsys):
    def fail(*arguments):
        raise failure

    monkeypatch.setattr(diffor.DiffoRRegressor, "_unit_predictions", fail)
    arguments = ["predict", str(home / "price"), str(home / "rows.csv"), "--out", "out.csv"]
    if isinstance(failure, KeyboardInterrupt):
        assert main(arguments) == 130
        assert capsys.readouterr().err == "diffor: interrupted\n"
    else:
        with pytest.raises(type(failure), match="a bug"):  # the traceback is kept
            main(arguments)
    assert list(here.iterdir()) == []


# --- evaluate ---


def test_evaluate_amounts(home, here, capsys):
    arguments = ["evaluate", str(home / "price"), str(home / "rows.csv"), "--coverage", "0.8"]
    assert main([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    rows, model = make_rows(), diffor.load(home / "price")
    y, prediction = rows["price"].to_numpy(), model.predict_distribution(rows[FEATURES])
    scores = facts["metrics"]
    assert (facts["rows"], facts["target"], facts["nominal_coverage"]) == (N_ROWS, "price", 0.8)
    assert list(scores) == ["mae", "rmse", "srcc", "xauc", "crps", "coverage", "interval_width"]
    low, high = prediction.interval(0.8).T
    everyone = diffor.Prediction(np.tile(y, (N_ROWS, 1)))
    for name, ours, constant in (
        ("mae", np.abs(prediction.median - y).mean(), np.abs(np.median(y) - y).mean()),
        ("crps", prediction.crps(y).mean(), everyone.crps(y).mean()),
        ("coverage", ((low <= y) & (y <= high)).mean(), None),
        ("interval_width", (high - low).mean(), None),
        ("rmse", None, y.std()),
        ("xauc", None, 0.5),
    ):
        assert ours is None or scores[name]["model"] == pytest.approx(ours)
        assert constant is None or scores[name]["constant"] == pytest.approx(constant)
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("constant", *scores))


def test_evaluate_grades(home, here, capsys):
    for name, source in (("quality", "rows.csv"), ("stars", "rows.parquet")):
        assert main(["evaluate", str(home / name), str(home / source), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        rows, model = make_rows(), diffor.load(home / name)
        places = {grade: place for place, grade in enumerate(model.grades_.tolist())}
        truth = rows[name].map(places).to_numpy()
        chosen = pd.Series(model.predict(rows[FEATURES])).map(places).to_numpy()
        scores = facts["metrics"]
        assert list(scores) == ["accuracy", "mae", "qwk", "rps"]
        assert scores["accuracy"]["model"] == pytest.approx((truth == chosen).mean())
        assert scores["mae"]["model"] == pytest.approx(np.abs(truth - chosen).mean())
        assert scores["qwk"]["model"] == pytest.approx(diffor.metrics.qwk(truth, chosen))
        assert scores["accuracy"]["constant"] == pytest.approx(np.bincount(truth).max() / N_ROWS)
        assert scores["mae"]["constant"] == min(np.abs(truth - place).mean() for place in places.values())


def test_evaluate_of_one_target_value(home, here, capsys):
    make_rows(4).assign(price=3.0).to_csv("same.csv", index=False)
    assert main(["evaluate", str(home / "price"), "same.csv", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["metrics"]
    assert scores["srcc"] == scores["xauc"] == {"model": None, "constant": None}
    assert scores["crps"]["constant"] == 0


def test_evaluate_without_notes_needs_the_target(home, here, refused):
    shutil.copytree(home / "price", "model")
    (here / "model" / "cli.json").unlink()
    words = ["evaluate", "model", str(home / "rows.csv")]
    assert "--target must be given, but model does not remember one" in refused(*words)
    (here / "model" / "cli.json").write_text("{")
    assert "is damaged; fit again, or delete it and pass --target COL" in refused(*words)
    assert main([*words, "--target", "price"]) == 0


# --- demo, help, version ---


def test_demo_writes_where_it_may(here, monkeypatch, refused):
    calls = []

    def run_demo(out, seed=0, quick=False):
        calls.append((out, seed, quick))
        (out / "page.html").write_text("page")

    def no_matplotlib(*arguments):
        raise ImportError("figures need matplotlib: install it with pip install 'diffor[plots]'")

    module = types.SimpleNamespace(PAGE="page.html", run_demo=run_demo)
    monkeypatch.setitem(sys.modules, "diffor.reports.demo", module)
    assert main(["demo", "--quick", "--seed", "3"]) == 0
    assert calls[0][1:] == (3, True)
    assert "pass --force" in refused("demo")
    assert main(["demo", "--force"]) == 0
    assert "absent is none; create it first" in refused("demo", "--out", "absent")
    module.run_demo = no_matplotlib
    assert "diffor[plots]" in refused("demo", "--force")


def test_help_and_version(capsys):
    from diffor.estimators.settings import PRESETS

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"diffor {diffor.__version__}\n"
    for name in ("fit", "predict", "evaluate", "demo"):
        assert main([name, "--help"]) == 0
        shown = capsys.readouterr().out
        assert f"examples:\n  diffor {name}" in shown
        assert name != "fit" or all(preset in shown for preset in PRESETS)


# --- wrong use: what is typed, and what is said ---

FIT = "fit HOME/rows.csv --out m --target "
PREDICT = "predict HOME/price HOME/rows.csv --out "
NOT_FITTED = {
    "price --drop cty": "'cty' (did you mean 'city'?)",
    "price --weight wait": "must have the column 'wait'",
    "price --drop price": "must name different columns",
    "price --weight price": "must name different columns",
    "price --weight city": "column 'city' of",
    "price --weight size": "weight 'size' must be a finite number from 0 on in",
    "prise": "must have the column 'prise' (did you mean 'price'?), but its",
    "quality": "pass --grades with all of them, lowest first",
    "quality --classify": "pass --grades with all of them, lowest first",
    "quality --grades low,mid": "y must hold grades only",
    "quality --grades low,low": "must list two or more different grades",
    "stars --grades 1,two": "--grades must be numbers as target 'stars'",
    "price --classify": "--classify needs whole numbers in target 'price'",
    "stars --classify --grades 1,2": "not allowed with argument",
    "stars --classify --bounds 0 9": "--bounds is for amounts",
    "stars --classify --transform log": "--transform is for other methods",
    "price --preset paper --no-prior": "--no-prior is for diffor's own presets, but --method is diffor and --preset p",
    "price --bounds 9 0": "bounds must be two finite numbers (low, high)",
    "price --bounds 0 1": "y must lie inside bounds",
    "price --bounds a b": "argument --bounds: invalid float value: 'a'",
    "price --transform exp": "argument --transform: invalid choice: 'exp'",
    "price --preset balance": "did you mean 'balanced'?",
    "price --max-steps 0": "must be a whole number from 1 on, but got '0'",
    "price --time-limit -3": "must be a positive number of seconds",
    "price --seed x": "must be a whole number from 0 to 4294967295",
    "size": "target 'size' must be known in every row of HOME/rows.csv, but 1 of 240 rows have none, the fir",
    "price --valid no.csv": "no.csv must be an existing file",
    "price --valid one.csv": "one.csv must have the column 'id'",
    "price --out no/m": "no/m must lie in an existing folder, but no is none",
    "price --out HOME/price": "must not exist yet, but it does; choose another or pass",
    "price --out empty.csv --force": "it is no model, so choose another",
    "price --checkpoint m/state": "--checkpoint must lie outside the model folder m",
    "price --checkpoint empty.csv": "--checkpoint must be a folder",
}
NOT_PREDICTED = {
    "o.txt": "o.txt must end in .csv or .parquet",
    "no/o.csv": "but no is none; create it first",
    "empty.csv": "empty.csv must not exist yet",
    "HOME/rows.csv --force": "--out must be another file than DATA",
    "o.csv --quantiles 0.5,1.5": "must be different levels from 0 to 1",
    "o.csv --quantiles 0.5,0.50": "must be different levels from 0 to 1",
    "o.csv --quantiles half": "must be different levels from 0 to 1",
    "o.csv --coverage 90": "must lie between 0 and 1, as 0.9 does",
    "o.csv --samples 0": "must be a whole number from 1 on",
    "o.csv --statistic best": "must be median, mean, mode, qwk, native or",
    "o.csv --statistic qwk": "--statistic qwk is for grades",
    "o.csv --keep idd": "'idd' (did you mean 'id'?)",
    "o.csv --keep id --keep-all": "not allowed with argument",
    "o.csv --upper lenght": "must have the column 'lenght'",
    "o.csv --upper id --lower city": "column 'city' of",
}
WRONG = {
    "fit HOME/rows.csv --target price --upper size --out m": "only --upper is given; add --limit share, or give",
    "fit HOME/rows.csv --target price --limit share --out m": "only --limit share is given; add --upper COL",
    "fit HOME/rows.csv --target price --upper rooms --limit share --bounds 0 9 --out m": "--bounds is for one range of",
    "fit HOME/rows.csv --target price --upper price --limit share --out m": "--upper must be another column than --",
    "fit HOME/rows.csv --target stars --classify --upper size --limit share --out m": "--upper is for amounts, but",
    "fit HOME/rows.csv --target price --upper rooms --limit share --out m": "y must lie from 0 to its row's limit, but",
    "evaluate HOME/quality HOME/rows.csv --upper rooms": "--upper is for amounts, but MODEL predicts grades",
    **{FIT + typed: said for typed, said in NOT_FITTED.items()},
    **{PREDICT + typed: said for typed, said in NOT_PREDICTED.items()},
    "": "the following arguments are required: COMMAND; see diffor --help",
    "fitt": "invalid choice: 'fitt'",
    "fit": "the following arguments are required: DATA, --target, --out; see diffor fit --help",
    "fit HOME/rows.csv --targt price --out m": "fit has no option --targt (did you mean '--target'?)",
    "fit HOME/rows.csv HOME/rows.csv --target price --out m": "unrecognized arguments",
    "fit no.csv --target price --out m": "no.csv must be an existing file, but there is none",
    "fit HOME/price --target price --out m": "HOME/price must match at least one file, but none; pass a folder or",
    "fit empty.csv --target price --out m": "empty.csv must hold a table, but the file is empty",
    "fit header.csv --target price --out m": "header.csv must hold at least one row",
    "fit ragged.csv --target price --out m": "ragged.csv must be a readable CSV file, but Error tokenizing",
    "fit broken.parquet --target price --out m": "broken.parquet must be a readable Parquet file",
    "fit one.csv --target price --out m": "must have columns to predict from",
    "fit infinite.csv --target price --out m": "X must not contain infinity",
    "predict no HOME/rows.csv --out o.csv": "no is not a folder",
    "predict damaged HOME/rows.csv --out o.csv": "damaged/model.safetensors is not the file that",
    "predict half HOME/rows.csv --out o.csv": "half/config.json cannot be read",
    "predict nameless HOME/rows.csv --out o.csv": "nameless must know its columns by name",
    "predict HOME/price header.csv --out o.csv": "header.csv must hold at least one row",
    "predict HOME/price one.csv --out o.csv": "one.csv must have the column 'size', 'rooms', 'city', 'code', but its c",
    "predict HOME/quality HOME/rows.csv --out o.csv --statistic mean": "--statistic of grades must be median, mode or",
    "predict HOME/quality HOME/rows.csv --out o.csv --quantiles 0.5": "--quantiles is for amounts",
    "predict HOME/quality HOME/rows.csv --out o.csv --upper size": "--upper is for amounts, but MODEL predicts grades",
    "predict HOME/price clash.csv --out o.csv --keep-all": "must not be called like the answer's, but got 'pred",
    "predict HOME/price limits.csv --out o.csv --lower floor --upper top": "but row 2 has lower=3.0 and upper=1.0",
    "predict HOME/price limits.csv --out o.csv --upper far": "but row 1 has upper=-900.0; correct the row, or fit with",
    "evaluate HOME/price HOME/rows.csv --target prize": "'prize' (did you mean 'price'?)",
    "evaluate HOME/price gaps.csv": "target 'price' must be known in every row of gaps.csv, but 2 of 9 rows have none",
    "evaluate HOME/quality HOME/rows.csv --target city": "must hold the model's grades low, mid, high, but 240 of",
    "evaluate HOME/price HOME/rows.csv --coverage 1": "must lie between 0 and 1",
    "demo --fast": "demo has no option --fast",
}


@pytest.fixture(scope="module")
def mistakes(home, tmp_path_factory):
    """A folder with everything that can be wrong with a file."""
    folder = tmp_path_factory.mktemp("mistakes")
    rows = make_rows(9)
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("size,rooms,city,code,price\n")
    (folder / "ragged.csv").write_text("size,price\n1,2\n1,2\n1,2,3\n")
    (folder / "broken.parquet").write_bytes(b"PAR1")
    rows[["price"]].to_csv(folder / "one.csv", index=False)
    rows.assign(size=np.inf).to_csv(folder / "infinite.csv", index=False)
    rows.assign(prediction=1).to_csv(folder / "clash.csv", index=False)
    limits = {"floor": [0, 0, 3.0] * 3, "top": 1.0, "far": [5.0, -900, 5] * 3}
    rows.assign(**limits).to_csv(folder / "limits.csv", index=False)
    rows["price"] = rows["price"].where(~rows.index.isin([2, 4]))
    rows.to_csv(folder / "gaps.csv", index=False)
    shutil.copytree(home / "price", folder / "damaged")
    weights = folder / "damaged" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    shutil.copytree(home / "price", folder / "half")
    (folder / "half" / "config.json").unlink()
    model = diffor.DiffoRRegressor("fast", prior=None, max_steps=1, verbose=0)
    model.fit(make_rows(60)[["rooms", "stars"]].to_numpy(), make_rows(60)["price"])
    model.save(folder / "nameless")
    return folder


@pytest.mark.parametrize("typed", WRONG)
def test_wrong_use_is_one_line_and_changes_nothing(home, mistakes, typed, monkeypatch, refused):
    monkeypatch.chdir(mistakes)
    before = snapshot(home, mistakes)
    assert WRONG[typed].replace("HOME", str(home)) in refused(*typed.replace("HOME", str(home)).split())
    assert snapshot(home, mistakes) == before
