"""``diffor score``: real files and real processes, killed in the middle and started again."""

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import diffor
from diffor.cli.main import main

pytest.importorskip("pyarrow")

N_FILES, FILE_ROWS = 5, 90
GRADES = ["low", "mid", "high"]


def make_rows(n=N_FILES * FILE_ROWS):
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {"id": np.arange(n) + 10**17, "size": random.normal(size=n), "city": random.choice(["Oslo", "Rome"], size=n)}
    )
    table["length"] = random.integers(1, 60, size=n).astype(float)
    table.loc[::7, "size"] = np.nan
    return table


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Inputs and models, which tests read and do not change."""
    folder = tmp_path_factory.mktemp("home")
    rows = make_rows()
    (folder / "in").mkdir()
    for number in range(N_FILES):
        part = rows[number * FILE_ROWS : (number + 1) * FILE_ROWS]
        part.to_parquet(folder / "in" / f"day-{number}.parquet", index=False)
    rows.to_parquet(folder / "all.parquet", index=False)
    X, y = rows[["size", "city"]], rows["length"].to_numpy() / 2
    tiny = {"max_steps": 3, "random_state": 0, "verbose": 0}
    diffor.DiffoRRegressor("fast", prior=None, n_samples=8, **tiny).fit(X, y).save(folder / "model")
    grades = np.array(GRADES)[np.digitize(y, [10, 20])]
    graded = diffor.DiffoRClassifier("fast", grades=GRADES, prior=None, n_samples=8, **tiny).fit(X, grades)
    graded.save(folder / "grades")
    watched = diffor.OrdinalRegressor("d2q", **tiny).fit(X, y, duration=rows["length"])
    watched.save(folder / "watched")
    return folder


@pytest.fixture
def here(home, here):
    """A folder of its own, in which the inputs and the models are seen."""
    for name in ("in", "all.parquet", "model", "grades", "watched"):
        (here / name).symlink_to(home / name)
    return here


def words_of(*options, model="model", inputs="in/*.parquet", out="out"):
    return ["score", model, inputs, "--out", out, "--quiet", *options]


def score(*options, **others):
    return main(words_of(*options, **others))


def answers(out):
    """All outputs, in the order of their names."""
    return pd.concat([pd.read_parquet(path) for path in sorted(out.rglob("[!._]*.parquet"))], ignore_index=True)


def times(out):
    return {path.name: path.stat().st_mtime_ns for path in out.glob("day-*.parquet")}


# --- what is written ---


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("model", ["--keep", "id", "--quantiles", "0.1,0.9", "--coverage", "0.8", "--upper", "length"]),
        ("grades", ["--keep-all", "--coverage", "0.8"]),
        ("watched", ["--duration", "length"]),
    ],
)
def test_rows_are_answered_as_predict_answers_them(here, model, options):
    assert score("--workers", "2", *options, model=model) == 0
    assert main(["predict", model, "all.parquet", "--out", "all-answers.parquet", *options]) == 0
    # Blocks have other sizes here and there, for which some processors' matrix kernels differ in the last digit.
    pd.testing.assert_frame_equal(answers(here / "out"), pd.read_parquet("all-answers.parquet"), rtol=1e-6, atol=0)
    summary = {"inputs": N_FILES, "shards": N_FILES, "rows_in": N_FILES * FILE_ROWS, "rows_out": N_FILES * FILE_ROWS}
    assert json.loads((here / "out" / "_SUCCESS").read_text()) == summary


def test_csv_files_are_scored_too(here):
    make_rows()[:30].to_csv("a.csv", index=False)
    make_rows()[30:60].to_csv("b.csv", index=False)
    assert score("--workers", "1", "--keep", "id", inputs="[ab].csv") == 0
    for name in ("a", "b"):
        assert main(["predict", "model", f"{name}.csv", "--out", f"{name}.parquet", "--keep", "id"]) == 0
    expected = pd.concat([pd.read_parquet(f"{name}.parquet") for name in ("a", "b")], ignore_index=True)
    pd.testing.assert_frame_equal(answers(here / "out"), expected, check_exact=True)
    assert sorted(path.name for path in (here / "out").glob("*.parquet")) == [
        "a.csv-00000.parquet",
        "b.csv-00000.parquet",
    ]


def test_a_second_call_makes_what_went_lost_and_nothing_else(here, capsys):
    words = ["score", "model", "in/*.parquet", "--out", "out", "--workers"]
    assert main([*words, "1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "inputs           5",
        "shards           5 (5 now, 0 before)",
        "rows             450 in, 450 out",
        "written to       out",
    ]
    lost, before = here / "out" / "day-2-00000.parquet", times(here / "out")
    assert main([*words, "3"]) == 0
    assert "shards           5 (0 now, 5 before)" in capsys.readouterr().out
    assert times(here / "out") == before
    content = lost.read_bytes()
    lost.unlink()
    assert main([*words, "1"]) == 0
    assert "shards           5 (1 now, 4 before)" in capsys.readouterr().out
    assert lost.read_bytes() == content
    after = times(here / "out")
    assert [name for name in before if after[name] != before[name]] == [lost.name]


# --- kills ---


def descendants(pid):
    """Processes that a process started, and those that these started."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended while we looked
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition, seconds=120):
    """What the condition says when it holds for the first time."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.005)
    return found


def temporaries(out):
    return list(out.glob(".day-*.parquet"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_killed_command_is_started_again_and_does_the_rest_only(here):
    out, slow = here / "out", ["--keep", "id", "--samples", "400", "--workers", "2"]
    command = [sys.executable, "-m", "diffor", "score", "model", "in/*.parquet", "--out", "out", "--quiet", *slow]
    process = subprocess.Popen(command)
    # In the middle: something is committed, something else is under way.
    wait_until(lambda: times(out) and temporaries(out))
    workers = descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert workers
    wait_until(lambda: not any(map(is_running, workers)), 30)  # none goes on without it
    before = times(out)
    assert 0 < len(before) < N_FILES
    assert not (out / "_SUCCESS").exists()
    assert score(*slow) == 0
    after = times(out)
    assert len(after) == N_FILES
    assert {name: after[name] for name in before} == before
    assert not temporaries(out)
    assert main(["predict", "model", "all.parquet", "--out", "all.parquet.pq", "--keep", "id", "--samples", "400"]) == 0
    pd.testing.assert_frame_equal(answers(out), pd.read_parquet("all.parquet.pq"), check_exact=True)


# --- wrong use ---


def test_wrong_use_is_refused_before_anything_is_written(here, refused):
    make_rows(20).drop(columns="city").to_parquet("without.parquet")
    Path("cut.parquet").write_bytes(Path("all.parquet").read_bytes()[:-100])
    for words, message in (
        (words_of(inputs="none/*"), "'none/*' must match at least one file"),
        (words_of("--workers", "0"), "must be a whole number from 1 on, but got '0'"),
        (words_of("--address", "auto"), "--address is for --engine ray, but got --engine local"),
        (words_of("--engine", "spark"), "invalid choice: 'spark'"),
        (words_of(model="nowhere"), "nowhere is not a folder"),
        (words_of(out="in"), "--out must hold no inputs"),
        (words_of("--keep", "idd"), "must have the column 'idd' (did you mean 'id'?)"),
        (
            words_of(inputs="without.parquet"),
            "without.parquet must have the column 'city', but its columns are id, size,",
        ),
        (words_of(inputs="cut.parquet"), "cut.parquet must be a readable Parquet file, but "),
    ):
        assert message in refused(*words)
    assert not (here / "out").exists()


def test_a_folder_of_other_options_is_refused_unless_forced(here, refused):
    assert score("--workers", "1") == 0
    before = times(here / "out")
    told = refused(*words_of("--workers", "2", "--coverage", "0.8"))
    assert "must belong to this run, but --coverage changed since it was begun" in told
    assert "must belong to this run, but MODEL is another since" in refused(*words_of(model="grades"))
    assert times(here / "out") == before
    assert score("--workers", "1", "--coverage", "0.8", "--force") == 0
    assert answers(here / "out").columns.tolist() == ["prediction", "low", "high"]


def test_a_file_that_turns_out_wrong_is_named_and_the_others_are_done(here, refused, monkeypatch):
    make_rows(20).assign(size="large").to_csv("wrong.csv", index=False)
    make_rows(20).to_csv("right.csv", index=False)
    line = refused(*words_of("--workers", "1", inputs="*.csv"))
    assert "1 of 2 shards failed, the others are done; start again to do the rest. column 'size' of " in line
    assert "wrong.csv must hold numbers, but got 'large' in row 1" in line
    assert [path.name for path in (here / "out").glob("*.parquet")] == ["right.csv-00000.parquet"]
    assert not (here / "out" / "_SUCCESS").exists()
    assert not list((here / "out").glob(".*.parquet"))
    monkeypatch.setattr("diffor.cli.score.MAX_FAILURES", 4)
    for number in range(6):
        make_rows(5).assign(size="large").to_csv(f"wrong-{number}.csv", index=False)
    line = refused(*words_of("--workers", "1", inputs="wrong-*.csv", out="other"))
    assert "4 of 6 shards failed, stopped after 4; start again" in line
    assert line.endswith("; and 1 more\n")
