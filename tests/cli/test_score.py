"""``diffor score``: real files and real processes, killed in the middle and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import diffor
from diffor.cli.main import main

pytest.importorskip("pyarrow")

N_FILES, FILE_ROWS = 5, 90
OPTIONS = ["--keep", "id", "--quantiles", "0.1,0.9", "--coverage", "0.8"]
GRADES = ["low", "mid", "high"]


def make_rows(n: int = N_FILES * FILE_ROWS) -> pd.DataFrame:
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {"id": np.arange(n) + 10**17, "size": random.normal(size=n), "city": random.choice(["Oslo", "Rome"], size=n)}
    )
    table["length"] = random.integers(1, 60, size=n).astype(float)
    table.loc[::7, "size"] = np.nan
    return table


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, in which the inputs and the models are seen."""
    monkeypatch.chdir(tmp_path)
    for name in ("in", "all.parquet", "model", "grades", "watched"):
        (tmp_path / name).symlink_to(home / name)
    return tmp_path


def score(*words: str, model: str = "model", inputs: str = "in/*.parquet", out: str = "out") -> int:
    return main(["score", model, inputs, "--out", out, "--quiet", *words])


def answers(out: Path) -> pd.DataFrame:
    """All outputs, in the order of their names."""
    return pd.concat([pd.read_parquet(path) for path in sorted(out.rglob("[!._]*.parquet"))], ignore_index=True)


def times(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in out.glob("day-*.parquet")}


# --- what is written ---


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("model", OPTIONS),
        ("model", ["--upper", "length", "--coverage", "0.8"]),
        ("grades", ["--keep-all", "--coverage", "0.8"]),
        ("watched", ["--duration", "length"]),
    ],
)
def test_rows_are_answered_as_predict_answers_them(here: Path, model: str, options: list[str]) -> None:
    assert score("--workers", "2", *options, model=model) == 0
    assert main(["predict", model, "all.parquet", "--out", "all-answers.parquet", *options]) == 0
    # Blocks have other sizes here and there, for which some processors' matrix kernels differ in the last digit.
    pd.testing.assert_frame_equal(answers(here / "out"), pd.read_parquet("all-answers.parquet"), rtol=1e-6, atol=0)
    summary = {"inputs": N_FILES, "shards": N_FILES, "rows_in": N_FILES * FILE_ROWS, "rows_out": N_FILES * FILE_ROWS}
    assert json.loads((here / "out" / "_SUCCESS").read_text()) == summary


def test_csv_files_are_scored_too(here: Path) -> None:
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


def test_the_summary_is_printed_and_a_second_call_does_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "model", "in/*.parquet", "--out", "out", "--workers", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "inputs           5",
        "shards           5 (5 now, 0 before)",
        "rows             450 in, 450 out",
        "written to       out",
    ]
    before = times(here / "out")
    assert main(["score", "model", "in/*.parquet", "--out", "out", "--workers", "3"]) == 0
    assert "shards           5 (0 now, 5 before)" in capsys.readouterr().out
    assert times(here / "out") == before


def test_an_output_that_went_lost_is_made_again_and_the_others_stay(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert score("--workers", "1") == 0
    lost, before = here / "out" / "day-2-00000.parquet", times(here / "out")
    content = lost.read_bytes()
    lost.unlink()
    assert main(["score", "model", "in/*.parquet", "--out", "out", "--workers", "1"]) == 0
    assert "shards           5 (1 now, 4 before)" in capsys.readouterr().out
    assert lost.read_bytes() == content
    after = times(here / "out")
    assert [name for name in before if after[name] != before[name]] == [lost.name]


# --- kills ---


def descendants(pid: int) -> list[int]:
    """Processes that a process started, and those that these started."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended while we looked
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition: Callable[[], Any], seconds: float = 120) -> Any:
    """What the condition says when it holds for the first time."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.005)
    return found


def temporaries(out: Path) -> list[Path]:
    return list(out.glob(".day-*.parquet"))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_killed_command_is_started_again_and_does_the_rest_only(here: Path) -> None:
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


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_killed_worker_is_replaced_while_the_command_goes_on(here: Path) -> None:
    out = here / "out"
    command = [sys.executable, "-m", "diffor", "score", "model", "in/*.parquet", "--out", "out", "--keep", "id",
               "--samples", "400", "--workers", "2"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    busy = wait_until(lambda: busy_workers(process.pid))
    os.kill(busy[0], signal.SIGKILL)
    printed, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")
    assert "rows             450 in, 450 out" in printed
    assert answers(out)["id"].tolist() == make_rows()["id"].tolist()
    assert not temporaries(out)


def busy_workers(pid: int) -> list[int]:
    """Processes below one that hold an unfinished output open."""
    return [child for child in descendants(pid) if any(path.name.startswith(".day-") for path in open_files(child))]


def open_files(pid: int) -> list[Path]:
    with suppress(FileNotFoundError, ProcessLookupError):  # it ended, or closed one, while we looked
        return [Path(os.readlink(link)) for link in Path(f"/proc/{pid}/fd").iterdir()]
    return []


# --- wrong use ---


def refused(capsys: pytest.CaptureFixture[str], *words: str, **where: str) -> str:
    assert score(*words, **where) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_wrong_use_is_refused_before_anything_is_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "'none/*' must match at least one file" in refused(capsys, inputs="none/*")
    assert "must be a whole number from 1 on, but got '0'" in refused(capsys, "--workers", "0")
    assert "--address is for --engine ray, but got --engine local" in refused(capsys, "--address", "auto")
    assert "invalid choice: 'spark'" in refused(capsys, "--engine", "spark")
    assert "nowhere is not a folder" in refused(capsys, model="nowhere")
    assert "--out must hold no inputs" in refused(capsys, out="in")
    assert "must have the column 'idd' (did you mean 'id'?)" in refused(capsys, "--keep", "idd")
    assert not (here / "out").exists()


def test_files_that_lack_columns_or_cannot_be_read_are_named_before_anything_is_predicted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_rows(20).drop(columns="city").to_parquet("without.parquet")
    line = refused(capsys, inputs="*.parquet")
    assert "without.parquet must have the column 'city', but its columns are id, size, length" in line
    Path("without.parquet").write_bytes(Path("all.parquet").read_bytes()[:-100])
    line = refused(capsys, inputs="*.parquet")
    assert "without.parquet must be a readable Parquet file, but " in line
    assert not (here / "out").exists()


def test_a_folder_of_other_options_is_refused_unless_forced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert score("--workers", "1") == 0
    before = times(here / "out")
    line = refused(capsys, "--workers", "2", "--coverage", "0.8")
    assert "must belong to this run, but --coverage changed since it was begun" in line
    line = refused(capsys, model="grades")
    assert "must belong to this run, but MODEL is another since" in line
    assert times(here / "out") == before
    assert score("--workers", "1", "--coverage", "0.8", "--force") == 0
    assert answers(here / "out").columns.tolist() == ["prediction", "low", "high"]


def test_a_file_that_turns_out_wrong_is_named_and_the_others_are_done(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_rows(20).assign(size="large").to_csv("wrong.csv", index=False)
    make_rows(20).to_csv("right.csv", index=False)
    line = refused(capsys, "--workers", "1", inputs="*.csv")
    assert "1 of 2 shards failed, the others are done; start again to do the rest. column 'size' of " in line
    assert "wrong.csv must hold numbers, but got 'large' in row 1" in line
    assert [path.name for path in (here / "out").glob("*.parquet")] == ["right.csv-00000.parquet"]
    assert not (here / "out" / "_SUCCESS").exists()
    assert not list((here / "out").glob(".*.parquet"))


def test_after_many_failures_the_rest_is_not_tried(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffor.cli.score.MAX_FAILURES", 4)
    for number in range(6):
        make_rows(5).assign(size="large").to_csv(f"wrong-{number}.csv", index=False)
    line = refused(capsys, "--workers", "1", inputs="*.csv")
    assert "4 of 6 shards failed, stopped after 4; start again" in line
    assert line.endswith("; and 1 more")
