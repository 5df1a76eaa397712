"""The command line: real files and, where a process matters, real processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import diffor
from diffor.cli.main import main
from diffor.files import tables

FAST = ["--preset", "fast", "--max-steps", "30", "--quiet"]
GRADES = ["low", "mid", "high"]
N_ROWS = 240


def make_rows(n: int = N_ROWS, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "id": [f"{i:04d}" for i in range(n)],
            "size": rng.normal(size=n),
            "rooms": rng.integers(1, 6, size=n),
            "city": rng.choice(["Oslo", "Rome", "Bern"], size=n),
            "code": rng.choice(["1", "2", "03", "x"], size=n),
        }
    )
    table["price"] = np.clip(2 * table["size"] + table["rooms"] + rng.normal(size=n), -5, 12)
    table["quality"] = np.array(GRADES)[np.digitize(table["price"], [1.5, 4])]
    table["stars"] = table["rooms"]
    table["weight"] = rng.random(n) + 0.1
    table["size"] = table["size"].where(table.index != 5)
    return table


FEATURES = ["size", "rooms", "city", "code"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and three models, which tests read and do not change."""
    folder = tmp_path_factory.mktemp("home")
    make_rows().to_csv(folder / "rows.csv", index=False)
    make_rows().to_parquet(folder / "rows.parquet")
    data = str(folder / "rows.csv")
    for target, extra in (("price", []), ("quality", ["--grades", "low,mid,high"]), ("stars", ["--classify"])):
        others = [name for name in ("id", "price", "quality", "stars", "weight") if name != target]
        arguments = ["fit", data, "--target", target, "--drop", *others, *extra, *FAST]
        assert main([*arguments, "--out", str(folder / target)]) == 0
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def snapshot(*folders: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns)
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


def run_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "diffor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, **options)


# --- the whole, in processes ---


def test_help_is_quick_because_it_imports_nothing_heavy() -> None:
    script = (
        "import sys; from diffor.cli.main import main; code = main(['--help']); "
        "print(code, [name for name in ('torch', 'numpy', 'pandas', 'sklearn', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"
    assert "examples:" in done.stdout
    assert done.stderr == ""


def test_a_process_fits_and_its_errors_are_one_line(home: Path, here: Path) -> None:
    fitted = run_process("fit", str(home / "rows.csv"), "--target", "price", "--preset", "fast", "--max-steps", "5",
                         "--drop", "id", "quality", "stars", "--weight", "weight", "--out", "model")  # fmt: skip
    assert fitted.returncode == 0, fitted.stderr
    assert fitted.stderr == ""
    assert "240" in fitted.stdout
    assert "2 numeric (size, rooms), 2 categorical (city, code)" in fitted.stdout
    scores = re.search(r"held-out rows    CRPS (\S+), MAE (\S+), 90 % intervals hold (\d+) %", fitted.stdout)
    assert float(scores[1]) < float(scores[2]), "the CRPS of a distribution is below the error of its median"
    assert 50 < int(scores[3]) <= 100
    notes = json.loads((here / "model" / "cli.json").read_text())
    assert notes == {"target": "price", "weight": "weight", "dropped": ["id", "quality", "stars"]}
    again = run_process("fit", str(home / "rows.csv"), "--target", "price", "--out", "model")
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.splitlines() == [
        "diffor: error: model must not exist yet, but it does; choose another or pass --force to replace it"
    ]


def test_ctrl_c_in_fit_keeps_the_best_model(home: Path, here: Path) -> None:
    command = [sys.executable, "-m", "diffor", "fit", str(home / "rows.csv"), "--target", "price", "--preset", "fast",
               "--max-steps", "1000000", "--valid", str(home / "rows.csv"), "--checkpoint", "state",
               "--out", "model"]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 180
    while not (here / "state").exists() and process.poll() is None and time.monotonic() < deadline:
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


def test_memory_does_not_grow_with_the_file_and_a_closed_pipe_is_no_error(here: Path) -> None:
    model = diffor.DiffoRRegressor("fast", prior=None, n_increments=2, max_steps=1, verbose=0)
    model.fit(make_rows()[FEATURES], make_rows()["price"]).save("tiny")
    for name, n in (("short.csv", 40_000), ("long.csv", 160_000)):
        rows = make_rows(2000)[FEATURES].assign(note="word " * 60)
        pd.concat([rows] * (n // 2000)).to_csv(name, index=False)
    script = (
        "import resource, sys; from diffor.cli.main import main\n"
        "for name in ('short', 'long'):\n"
        "    files = [name + '.csv', '--out', name + '.out.csv']\n"
        "    code = main(['predict', 'tiny', *files, '--samples', '1', '--keep-all'])\n"
        "    print(code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    (code, short), (other_code, long) = (map(int, line.split()) for line in done.stdout.splitlines())
    assert (code, other_code) == (0, 0), done.stderr
    assert long - short < 20  # MB; the long file has 40 MB more
    assert sum(1 for _ in (here / "long.out.csv").open()) == 160_001

    command = [sys.executable, "-m", "diffor", "predict", "tiny", "short.csv", "--out", "-",
               "--samples", "1", "--keep", "note"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "note,prediction\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 141


# --- fit ---


def test_fit_is_the_python_interface(home: Path) -> None:
    rows = pd.read_csv(home / "rows.csv", float_precision="round_trip")
    model = diffor.DiffoRRegressor("fast", max_steps=30, random_state=0, verbose=0)
    model.fit(rows[FEATURES], rows["price"])
    saved = diffor.load(home / "price")
    np.testing.assert_array_equal(saved.predict(rows[FEATURES]), model.predict(rows[FEATURES]))


def test_fit_options_reach_the_estimator(home: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_fit_without_a_prior(home: Path, here: Path) -> None:
    arguments = ["fit", str(home / "rows.csv"), "--target", "price", *FAST, "--no-prior", "--out", "model"]
    assert main(arguments) == 0
    assert diffor.load("model").priors_ is None
    assert diffor.load(home / "price").priors_ is not None


def test_fit_replaces_a_model_only_if_forced(home: Path, here: Path) -> None:
    shutil.copytree(home / "quality", "model")
    arguments = ["fit", str(home / "rows.csv"), "--target", "price", *FAST, "--out", "model"]
    assert main(arguments) == 2
    assert isinstance(diffor.load("model"), diffor.DiffoRClassifier)
    assert main([*arguments, "--force"]) == 0
    assert isinstance(diffor.load("model"), diffor.DiffoRRegressor)
    assert [path.name for path in here.iterdir()] == ["model"]
    (here / "precious").mkdir()
    (here / "precious" / "notes.txt").write_text("mine")
    assert main([*arguments[:-1], "precious", "--force"]) == 2
    assert (here / "precious" / "notes.txt").read_text() == "mine"


def test_fit_finds_grades(home: Path, here: Path) -> None:
    text = diffor.load(home / "quality")
    stars = diffor.load(home / "stars")
    assert isinstance(text, diffor.DiffoRClassifier)
    assert isinstance(stars, diffor.DiffoRClassifier)
    assert text.grades_.tolist() == GRADES
    assert stars.classes_.tolist() == [1, 2, 3, 4, 5]
    rows = make_rows()[[*FEATURES, "quality", "stars"]]
    rows["quality"] = pd.Categorical(rows["quality"], GRADES, ordered=True)
    rows["happy"] = rows["stars"] > 2
    rows.to_parquet("ordered.parquet")
    for target, extra, expected in (
        ("quality", [], GRADES),
        ("stars", ["--grades", "0,1,2,3,4,5"], [0, 1, 2, 3, 4, 5]),
        ("happy", ["--classify"], ["False", "True"]),
    ):
        assert main(["fit", "ordered.parquet", "--target", target, *extra, *FAST, "--out", target]) == 0
        model = diffor.load(target)
        assert isinstance(model, diffor.DiffoRClassifier)
        assert model.grades_.tolist() == expected
        assert main(["evaluate", target, "ordered.parquet"]) == 0


def test_fit_continues_from_a_checkpoint(home: Path, here: Path) -> None:
    arguments = ["fit", str(home / "rows.csv"), "--target", "price", *FAST, "--checkpoint", "state"]
    assert main([*arguments, "--out", "one"]) == 0
    assert main([*arguments, "--out", "two"]) == 0
    assert diffor.load("one").history_.records == diffor.load("two").history_.records


# --- predict ---


@pytest.mark.parametrize("source", ["rows.csv", "rows.parquet"])
@pytest.mark.parametrize("target", ["out.csv", "out.parquet"])
def test_predictions_are_those_of_the_python_interface(home: Path, here: Path, source: str, target: str) -> None:
    arguments = ["predict", str(home / "price"), str(home / source), "--out", target, "--quantiles", "0.05,.5,0.95",
                 "--coverage", "0.8", "--keep", "id", "city"]  # fmt: skip
    assert main(arguments) == 0
    result = tables.read_table(here / target, text=["id"])
    rows, model = make_rows(), diffor.load(home / "price")
    assert isinstance(model, diffor.DiffoRRegressor)
    names = ["id", "city", "prediction", "q0.05", "q0.5", "q0.95", "low", "high"]
    assert result.columns.tolist() == names
    X = rows[FEATURES]
    np.testing.assert_array_equal(result["prediction"], model.predict(X))
    np.testing.assert_array_equal(result[names[3:6]], model.predict_quantiles(X, [0.05, 0.5, 0.95]))
    np.testing.assert_array_equal(result[["low", "high"]], model.predict_interval(X, 0.8))
    assert result["id"].tolist() == rows["id"].tolist()
    assert result["city"].tolist() == rows["city"].tolist()
    assert [path.name for path in here.iterdir()] == [target]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("extra", [[], ["--lower", "floor"]])
def test_answers_keep_to_the_limits_of_their_rows(home: Path, here: Path, kind: str, extra: list[str]) -> None:
    rows = make_rows()
    rows["top"] = np.where(rows.index % 3 == 0, np.nan, rows["size"].fillna(0).round(2))  # some negative, some missing
    rows["floor"] = rows["top"] - 1.5
    rows.to_csv("new.csv", index=False)
    rows.to_parquet("new.parquet")
    arguments = ["predict", str(home / "price"), f"new.{kind}", "--out", "out.csv", "--quantiles", "0.05,0.95",
                 "--coverage", "0.8", "--upper", "top", *extra, "--keep", "top"]  # fmt: skip
    assert main(arguments) == 0
    result, model = tables.read_table(here / "out.csv"), diffor.load(home / "price")
    assert isinstance(model, diffor.DiffoRRegressor)
    assert result.columns.tolist() == ["top", "prediction", "q0.05", "q0.95", "low", "high"]
    X, limits = rows[FEATURES], {"upper": rows["top"], **({"lower": rows["floor"]} if extra else {})}
    np.testing.assert_array_equal(result["prediction"], model.predict(X, **limits))
    np.testing.assert_array_equal(result[["q0.05", "q0.95"]], model.predict_quantiles(X, [0.05, 0.95], **limits))
    np.testing.assert_array_equal(result[["low", "high"]], model.predict_interval(X, 0.8, **limits))
    known = rows["top"].notna()
    assert (result.loc[known, result.columns[1:]].max(axis=1) <= rows["top"][known]).all()
    assert (model.predict(X)[known] > rows["top"][known]).any()
    np.testing.assert_array_equal(result["prediction"][~known], model.predict(X)[~known])


def test_a_limit_may_be_a_column_of_the_model(home: Path, here: Path) -> None:
    path = str(home / "rows.csv")
    assert main(["predict", str(home / "price"), path, "--out", "out.csv", "--upper", "rooms"]) == 0
    rows, model = make_rows(), diffor.load(home / "price")
    assert isinstance(model, diffor.DiffoRRegressor)
    expected = model.predict(rows[FEATURES], upper=rows["rooms"])
    np.testing.assert_array_equal(tables.read_table(here / "out.csv")["prediction"], expected)


def test_a_share_of_a_limit_is_learned_and_its_column_remembered(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = make_rows().assign(top=lambda rows: rows["rooms"] + 9.0, price=lambda rows: rows["price"].clip(0, 9))
    rows[[*FEATURES, "top", "price"]].to_csv("rows.csv", index=False)
    arguments = ["fit", "rows.csv", "--target", "price", "--upper", "top", "--limit", "share", "--drop", "top"]
    loud = [word for word in FAST if word != "--quiet"]
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
def test_grades_are_those_of_the_python_interface(home: Path, here: Path, decision: str) -> None:
    for name in ("quality", "stars"):
        model, X = diffor.load(home / name), make_rows()[FEATURES]
        assert isinstance(model, diffor.DiffoRClassifier)
        extra = [] if decision == "median" else ["--statistic", decision]
        assert main(["predict", str(home / name), str(home / "rows.csv"), "--out", f"{name}.csv", *extra]) == 0
        result = pd.read_csv(f"{name}.csv", float_precision="round_trip")
        assert result.columns.tolist() == ["prediction", *(f"p_{grade}" for grade in model.grades_)]
        assert result["prediction"].tolist() == model.predict(X, decision).tolist()
        np.testing.assert_array_equal(result[[f"p_{grade}" for grade in model.classes_]], model.predict_proba(X))


@pytest.mark.parametrize("statistic", ["mean", "mode", "0.25"])
def test_samples_and_statistic_are_as_asked(home: Path, here: Path, statistic: str) -> None:
    data, model = str(home / "rows.csv"), diffor.load(home / "price")
    arguments = ["predict", str(home / "price"), data, "--out", "out.csv", "--samples", "5", "--statistic", statistic]
    assert main(arguments) == 0
    prediction = model.predict_distribution(make_rows()[FEATURES], 5)
    wanted = prediction.statistic(float(statistic) if statistic[0] == "0" else statistic)
    np.testing.assert_array_equal(pd.read_csv("out.csv", float_precision="round_trip")["prediction"], wanted)
    assert main(["predict", str(home / "quality"), data, "--out", "grades.csv", "--samples", "3"]) == 0
    shares = pd.read_csv("grades.csv", float_precision="round_trip").filter(like="p_").to_numpy()
    quality = diffor.load(home / "quality")  # whatever the number of samples
    exact = quality.predict_proba(make_rows()[FEATURES])[:, np.searchsorted(quality.classes_, quality.grades_)]
    np.testing.assert_allclose(shares, exact, atol=1e-12)


@pytest.mark.parametrize("source", ["rows.csv", "rows.parquet"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_chunks_change_nothing(
    home: Path, here: Path, monkeypatch: pytest.MonkeyPatch, source: str, suffix: str
) -> None:
    arguments = ["predict", str(home / "price"), str(home / source), "--coverage", "0.9", "--keep-all", "--out"]
    assert main([*arguments, f"whole{suffix}"]) == 0
    monkeypatch.setattr(tables, "CHUNK_ROWS", 32)
    assert main([*arguments, f"pieces{suffix}"]) == 0
    whole, pieces = (tables.read_table(here / f"{name}{suffix}") for name in ("whole", "pieces"))
    pd.testing.assert_frame_equal(whole, pieces, rtol=1e-5, atol=1e-3)  # other batches, other rounding
    assert len(pieces) == N_ROWS


def test_a_category_that_looks_like_numbers_in_one_chunk(
    home: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = make_rows().sort_values("code", ignore_index=True)  # the first chunks hold 03, 1 and 2 only
    rows.to_csv("sorted.csv", index=False)
    monkeypatch.setattr(tables, "CHUNK_ROWS", 16)
    assert main(["predict", str(home / "price"), "sorted.csv", "--out", "out.csv"]) == 0
    expected = diffor.load(home / "price").predict(rows[FEATURES])
    np.testing.assert_allclose(pd.read_csv("out.csv")["prediction"], expected, rtol=1e-5, atol=1e-3)


def test_predictions_go_to_the_screen(home: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_rows(3).to_csv("rows.csv.gz", index=False)
    assert main(["predict", str(home / "price"), "rows.csv.gz", "--out", "-", "--keep", "id"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "id,prediction"
    assert [line[:5] for line in lines[1:]] == ["0000,", "0001,", "0002,"]


def test_force_replaces_the_output(home: Path, here: Path) -> None:
    (here / "out.csv").write_text("old")
    arguments = ["predict", str(home / "price"), str(home / "rows.csv"), "--out", "out.csv"]
    assert main(arguments) == 2
    assert (here / "out.csv").read_text() == "old"
    assert main([*arguments, "--force"]) == 0
    assert (here / "out.csv").read_text().startswith("prediction\n")


@pytest.mark.parametrize("out", ["out.csv", "out.parquet"])
def test_a_bad_last_row_leaves_no_output(
    home: Path, here: Path, out: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "CHUNK_ROWS", 16)
    for value, message in (("oops", "'oops' in row 41 after the header"), ("inf", "rows 33 to 41 of bad.csv: X must")):
        text = make_rows(40)[FEATURES].to_csv(index=False) + f"{value},1,Oslo,x\n"
        (here / "bad.csv").write_text(text)
        assert main(["predict", str(home / "price"), "bad.csv", "--out", out]) == 2
        assert message in capsys.readouterr().err
        assert [path.name for path in here.iterdir()] == ["bad.csv"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), ValueError("a bug"), RuntimeError("a bug")])
def test_interrupts_and_bugs_leave_no_output(
    home: Path,
    here: Path,
    failure: BaseException,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*arguments: object) -> None:
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


def test_evaluate_amounts(home: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["evaluate", str(home / "price"), str(home / "rows.csv"), "--coverage", "0.8"]
    assert main([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    rows, model = make_rows(), diffor.load(home / "price")
    y, prediction = rows["price"].to_numpy(), model.predict_distribution(rows[FEATURES])
    scores = facts["metrics"]
    assert (facts["rows"], facts["target"], facts["nominal_coverage"]) == (N_ROWS, "price", 0.8)
    assert list(scores) == ["mae", "rmse", "srcc", "xauc", "crps", "coverage", "interval_width"]
    low, high = prediction.interval(0.8).T
    assert scores["mae"]["model"] == pytest.approx(np.abs(prediction.median - y).mean())
    assert scores["crps"]["model"] == pytest.approx(prediction.crps(y).mean())
    assert scores["coverage"]["model"] == pytest.approx(((low <= y) & (y <= high)).mean())
    assert scores["interval_width"]["model"] == pytest.approx((high - low).mean())
    assert scores["mae"]["constant"] == pytest.approx(np.abs(np.median(y) - y).mean())
    assert scores["rmse"]["constant"] == pytest.approx(y.std())
    everyone = np.tile(y, (N_ROWS, 1))
    assert scores["crps"]["constant"] == pytest.approx(diffor.Prediction(everyone).crps(y).mean())
    assert scores["xauc"]["constant"] == 0.5
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "constant" in shown
    assert all(name in shown for name in scores)


def test_evaluate_grades(home: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, source in (("quality", "rows.csv"), ("stars", "rows.parquet")):
        assert main(["evaluate", str(home / name), str(home / source), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        rows, model = make_rows(), diffor.load(home / name)
        assert isinstance(model, diffor.DiffoRClassifier)
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


def test_evaluate_of_one_target_value(home: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_rows(4).assign(price=3.0).to_csv("same.csv", index=False)
    assert main(["evaluate", str(home / "price"), "same.csv", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)["metrics"]
    assert scores["srcc"] == scores["xauc"] == {"model": None, "constant": None}
    assert scores["crps"]["constant"] == 0


def test_evaluate_without_notes_needs_the_target(home: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(home / "price", "model")
    (here / "model" / "cli.json").unlink()
    assert main(["evaluate", "model", str(home / "rows.csv")]) == 2
    assert "--target must be given, but model does not remember one" in capsys.readouterr().err
    (here / "model" / "cli.json").write_text("{")
    assert main(["evaluate", "model", str(home / "rows.csv")]) == 2
    assert "it is damaged; pass --target COL" in capsys.readouterr().err
    assert main(["evaluate", "model", str(home / "rows.csv"), "--target", "price"]) == 0


# --- demo, help, version ---


def test_demo_writes_where_it_may(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[object, ...]] = []

    def run_demo(out: Path, seed: int = 0, quick: bool = False) -> Path:
        calls.append((out, seed, quick))
        (out / "page.html").write_text("page")
        return out / "page.html"

    monkeypatch.setitem(sys.modules, "diffor.reports.demo", types.SimpleNamespace(PAGE="page.html", run_demo=run_demo))
    assert main(["demo", "--quick", "--seed", "3"]) == 0
    assert calls == [(Path(), 3, True)]
    assert main(["demo"]) == 2
    assert "pass --force" in capsys.readouterr().err
    assert main(["demo", "--force"]) == 0
    assert main(["demo", "--out", "absent"]) == 2
    assert "absent is none; create it first" in capsys.readouterr().err

    def no_matplotlib(*arguments: object) -> Path:
        raise ImportError("figures need matplotlib: install it with pip install 'diffor[plots]'")

    monkeypatch.setattr(sys.modules["diffor.reports.demo"], "run_demo", no_matplotlib)
    assert main(["demo", "--force"]) == 2
    assert "diffor[plots]" in capsys.readouterr().err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    from diffor.estimators.settings import PRESETS

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"diffor {diffor.__version__}\n"
    for command in ("fit", "predict", "evaluate", "demo"):
        assert main([command, "--help"]) == 0
        shown = capsys.readouterr().out
        assert f"examples:\n  diffor {command}" in shown
        if command == "fit":
            assert all(preset in shown for preset in PRESETS)


# --- wrong use ---

WRONG = {
    # what is typed (HOME is the folder with data and models): what is said
    "": "the following arguments are required: COMMAND; see diffor --help",
    "fitt": "invalid choice: 'fitt'",
    "fit": "the following arguments are required: DATA, --target, --out; see diffor fit --help",
    "fit HOME/rows.csv --targt price --out m": "fit has no option --targt (did you mean '--target'?)",
    "fit HOME/rows.csv --target price": "the following arguments are required: --out",
    "fit HOME/rows.csv HOME/rows.csv --target price --out m": "unrecognized arguments",
    "fit no.csv --target price --out m": "no.csv must be an existing file, but there is none",
    "fit HOME/price --target price --out m": "HOME/price must match at least one file, but none; pass a folder or",
    "fit empty.csv --target price --out m": "empty.csv must hold a table, but the file is empty",
    "fit header.csv --target price --out m": "header.csv must hold at least one row",
    "fit ragged.csv --target price --out m": "ragged.csv must be a readable CSV file, but Error tokenizing",
    "fit broken.parquet --target price --out m": "broken.parquet must be a readable Parquet file",
    "fit HOME/rows.csv --target prise --out m": "must have the column 'prise' (did you mean 'price'?), but its",
    "fit HOME/rows.csv --target price --drop cty --out m": "'cty' (did you mean 'city'?)",
    "fit HOME/rows.csv --target price --weight wait --out m": "must have the column 'wait'",
    "fit HOME/rows.csv --target price --drop price --out m": "must name different columns",
    "fit HOME/rows.csv --target price --weight price --out m": "must name different columns",
    "fit HOME/rows.csv --target price --weight city --out m": "column 'city' of",
    "fit HOME/rows.csv --target price --weight size --out m": "weight 'size' must be a number from 0 on in every row",
    "fit one.csv --target price --out m": "must have columns to predict from",
    "fit HOME/rows.csv --target quality --out m": "pass --grades with all of them, lowest first",
    "fit HOME/rows.csv --target quality --classify --out m": "pass --grades with all of them, lowest first",
    "fit HOME/rows.csv --target quality --grades low,mid --out m": "y must hold grades only",
    "fit HOME/rows.csv --target quality --grades low,low --out m": "must list two or more different grades",
    "fit HOME/rows.csv --target stars --grades 1,two --out m": "--grades must be numbers as target 'stars'",
    "fit HOME/rows.csv --target price --classify --out m": "--classify needs whole numbers in target 'price'",
    "fit HOME/rows.csv --target stars --classify --grades 1,2 --out m": "not allowed with argument",
    "fit HOME/rows.csv --target stars --classify --bounds 0 9 --out m": "--bounds is for amounts",
    "fit HOME/rows.csv --target stars --classify --transform log --out m": "--transform is for other methods",
    "fit HOME/rows.csv --target price --bounds 9 0 --out m": "bounds must be two finite numbers (low, high)",
    "fit HOME/rows.csv --target price --bounds 0 1 --out m": "y must lie inside bounds",
    "fit HOME/rows.csv --target price --upper size --out m": "only --upper is given; add --limit share, or give",
    "fit HOME/rows.csv --target price --limit share --out m": "only --limit share is given; add --upper COL",
    "fit HOME/rows.csv --target price --upper rooms --limit share --bounds 0 9 --out m": "--bounds is for one range of",
    "fit HOME/rows.csv --target price --upper price --limit share --out m": "--upper must be another column than --",
    "fit HOME/rows.csv --target stars --classify --upper size --limit share --out m": "--upper is for amounts, but",
    "fit HOME/rows.csv --target price --upper rooms --limit share --out m": "y must lie from 0 to its row's limit, but",
    "evaluate HOME/quality HOME/rows.csv --upper rooms": "--upper is for amounts, but MODEL predicts grades",
    "fit HOME/rows.csv --target price --bounds a b --out m": "argument --bounds: invalid float value: 'a'",
    "fit HOME/rows.csv --target price --transform exp --out m": "argument --transform: invalid choice: 'exp'",
    "fit HOME/rows.csv --target price --preset balance --out m": "did you mean 'balanced'?",
    "fit HOME/rows.csv --target price --max-steps 0 --out m": "must be a whole number from 1 on, but got '0'",
    "fit HOME/rows.csv --target price --time-limit -3 --out m": "must be a positive number of seconds",
    "fit HOME/rows.csv --target price --seed x --out m": "must be a whole number from 0 to 4294967295",
    "fit HOME/rows.csv --target size --out m": "target 'size' must be known in every row of HOME/rows.csv, but "
    "1 of 240 rows have none, the first is row 6",
    "fit HOME/rows.csv --target price --valid no.csv --out m": "no.csv must be an existing file",
    "fit HOME/rows.csv --target price --valid one.csv --out m": "one.csv must have the column 'id'",
    "fit HOME/rows.csv --target price --out no/m": "no/m must lie in an existing folder, but no is none",
    "fit HOME/rows.csv --target price --out HOME/price": "must not exist yet, but it does; choose another or pass",
    "fit HOME/rows.csv --target price --out empty.csv --force": "it is no model, so choose another",
    "fit HOME/rows.csv --target price --out m --checkpoint m/state": "--checkpoint must lie outside the model folder m",
    "fit HOME/rows.csv --target price --out m --checkpoint empty.csv": "--checkpoint must be a folder",
    "fit infinite.csv --target price --out m": "X must not contain infinity",
    "predict HOME/price HOME/rows.csv": "the following arguments are required: --out",
    "predict no HOME/rows.csv --out o.csv": "no is not a folder",
    "predict damaged HOME/rows.csv --out o.csv": "damaged/model.safetensors is not the file that",
    "predict half HOME/rows.csv --out o.csv": "half/config.json cannot be read",
    "predict HOME HOME/rows.csv --out o.csv": "config.json cannot be read",
    "predict nameless HOME/rows.csv --out o.csv": "nameless must know its columns by name",
    "predict HOME/price no.csv --out o.csv": "no.csv must be an existing file",
    "predict HOME/price empty.csv --out o.csv": "empty.csv must hold a table",
    "predict HOME/price header.csv --out o.csv": "header.csv must hold at least one row",
    "predict HOME/price one.csv --out o.csv": "one.csv must have the column 'size', 'rooms', 'city', 'code', but "
    "its columns are price",
    "predict HOME/price HOME/rows.csv --out o.txt": "o.txt must end in .csv or .parquet",
    "predict HOME/price HOME/rows.csv --out no/o.csv": "but no is none; create it first",
    "predict HOME/price HOME/rows.csv --out empty.csv": "empty.csv must not exist yet",
    "predict HOME/price HOME/rows.csv --out HOME/rows.csv --force": "--out must be another file than DATA",
    "predict HOME/price HOME/rows.csv --out o.csv --quantiles 0.5,1.5": "must be different levels from 0 to 1",
    "predict HOME/price HOME/rows.csv --out o.csv --quantiles 0.5,0.50": "must be different levels from 0 to 1",
    "predict HOME/price HOME/rows.csv --out o.csv --quantiles half": "must be different levels from 0 to 1",
    "predict HOME/price HOME/rows.csv --out o.csv --coverage 90": "must lie between 0 and 1, as 0.9 does",
    "predict HOME/price HOME/rows.csv --out o.csv --samples 0": "must be a whole number from 1 on",
    "predict HOME/price HOME/rows.csv --out o.csv --statistic best": "must be median, mean, mode, qwk, native or",
    "predict HOME/price HOME/rows.csv --out o.csv --statistic qwk": "--statistic qwk is for grades",
    "predict HOME/quality HOME/rows.csv --out o.csv --statistic mean": "--statistic of grades must be median, mode or",
    "predict HOME/quality HOME/rows.csv --out o.csv --quantiles 0.5": "--quantiles is for amounts",
    "predict HOME/price HOME/rows.csv --out o.csv --keep idd": "'idd' (did you mean 'id'?)",
    "predict HOME/price HOME/rows.csv --out o.csv --keep id --keep-all": "not allowed with argument",
    "predict HOME/price clash.csv --out o.csv --keep-all": "must not be called like the answer's, but got 'pred",
    "predict HOME/price HOME/rows.csv --out o.csv --upper lenght": "must have the column 'lenght'",
    "predict HOME/price HOME/rows.csv --out o.csv --upper id --lower city": "column 'city' of",
    "predict HOME/quality HOME/rows.csv --out o.csv --upper size": "--upper is for amounts, but MODEL predicts grades",
    "predict HOME/price limits.csv --out o.csv --lower floor --upper top": "but row 2 has lower=3.0 and upper=1.0",
    "predict HOME/price limits.csv --out o.csv --upper far": "but row 1 has upper=-900.0; correct the row, or fit with",
    "evaluate HOME/price HOME/rows.csv --target prize": "'prize' (did you mean 'price'?)",
    "evaluate HOME/price gaps.csv": "target 'price' must be known in every row of gaps.csv, but 2 of 9 rows have "
    "none, the first is row 3; remove these rows",
    "evaluate HOME/price HOME/rows.csv --target city": "column 'city' of",
    "evaluate HOME/quality HOME/rows.csv --target city": "must hold the model's grades low, mid, high, but 240 of",
    "evaluate HOME/price HOME/rows.csv --coverage 1": "must lie between 0 and 1",
    "evaluate HOME/price one.csv": "one.csv must have the column 'size'",
    "demo --fast": "demo has no option --fast",
}


@pytest.fixture(scope="module")
def mistakes(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    model = diffor.DiffoRRegressor("fast", max_steps=1, random_state=0, verbose=0)
    model.fit(make_rows(60)[["rooms", "stars"]].to_numpy(), make_rows(60)["price"])
    model.save(folder / "nameless")
    return folder


@pytest.mark.parametrize("typed", WRONG)
def test_wrong_use_is_one_line_and_changes_nothing(
    home: Path, mistakes: Path, typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(mistakes)
    before = snapshot(home, mistakes)
    code = main([word.replace("HOME", str(home)) for word in typed.split()])
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert shown.err.startswith("diffor: error: ")
    assert WRONG[typed].replace("HOME", str(home)) in shown.err
    assert (code, shown.out) == (2, "")
    assert snapshot(home, mistakes) == before
