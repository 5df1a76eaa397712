"""Files to score and work to do on them that is over at once, or kills the process that does it."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from diffor.files import tables
from diffor.serving.scoring.output_folder import opened_folder, remove_unfinished
from diffor.serving.scoring.shards import (
    MAX_DEATHS,
    Answer,
    Job,
    Outcome,
    Shard,
    committed_rows,
    find_inputs,
    plan_shards,
)

N_FILES, FILE_ROWS, GROUP_ROWS = 4, 60, 20


def write_inputs(folder: Path) -> None:
    folder.mkdir()
    for number in range(N_FILES):
        rows = np.arange(number * FILE_ROWS, (number + 1) * FILE_ROWS)
        table = pd.DataFrame({"id": rows, "x": rows / 7})
        table.to_parquet(folder / f"part-{number}.parquet", row_group_size=GROUP_ROWS)


def prepare(folder: Path) -> Path:
    """Inputs, and empty folders for outputs and for marks."""
    write_inputs(folder / "in")
    for name in ("out", "marks"):
        (folder / name).mkdir()
    return folder


def plan(folder: Path) -> list[Shard]:
    """Two shards of each file: its first two row groups, and the third."""
    return plan_shards(find_inputs([f"{folder}/*.parquet"]), shard_rows=2 * GROUP_ROWS)


@dataclass(frozen=True)
class Halving:
    """Work that halves x, ten rows at a time."""

    def open(self) -> Answer:
        def answer(shard: Shard) -> Iterator[pd.DataFrame]:
            for chunk in tables.read_chunks(shard.source, ["x"], [], ["id"], 10, shard.groups):
                yield chunk.kept.reset_index(drop=True).assign(half=chunk.table["x"].to_numpy() / 2)
                self.after_piece(shard)

        return answer

    def after_piece(self, shard: Shard) -> None:
        """Nothing happens here."""


@dataclass(frozen=True)
class Killed(Halving):
    """The same, but in the middle of one shard its process is killed, as often as is wanted; each leaves a mark."""

    victim: str
    marks: Path
    n_kills: int

    def after_piece(self, shard: Shard) -> None:
        if shard.output == self.victim and len(list(self.marks.iterdir())) < self.n_kills:
            (self.marks / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Failing(Halving):
    """The same, but one shard cannot be done."""

    victim: str
    message: str

    def after_piece(self, shard: Shard) -> None:
        if shard.output == self.victim:
            raise RuntimeError(self.message)


@dataclass(frozen=True)
class EndsAfterOne(Halving):
    """Work that ends for the first shard only; the processes at the others leave their numbers."""

    def after_piece(self, shard: Shard) -> None:
        if not shard.output.startswith("part-0-00000"):
            (shard.source.parent.parent / "marks" / str(os.getpid())).touch()
            time.sleep(600)


def hold(folder: Path, plan_now: dict[str, Any], is_held: Event, may_end: Event) -> None:
    """Have an output folder open, as another process does, until it may end."""
    with opened_folder(folder, plan_now, force=False):
        is_held.set()
        may_end.wait(60)


def is_complete(job: Job, shards: Sequence[Shard], outcomes: Sequence[Outcome]) -> bool:
    """Whether each shard came to an end once, and every row of the inputs is there once, halved and in its order."""
    ends = Counter(outcome.output for outcome in outcomes)
    once: dict[str, Any] = {shard.output: 1 for shard in shards}
    tables = [pd.read_parquet(job.folder / shard.output) for shard in shards]
    answers = pd.concat(tables, ignore_index=True)
    rows = np.arange(N_FILES * FILE_ROWS)
    return (
        ends == once
        and all(outcome.error is None for outcome in outcomes)
        and sum(outcome.n_rows for outcome in outcomes) == len(rows)
        and np.array_equal(answers["id"], rows)
        and np.array_equal(answers["half"], rows / 7 / 2)
    )


def unfinished(folder: Path) -> list[str]:
    """Temporary files of outputs."""
    return [path.name for path in folder.rglob(".*.parquet")]


def check_killed(score: Callable[[Job, Sequence[Shard]], list[Outcome]], folder: Path, n_kills: int) -> None:
    """Workers are killed in the middle of a shard: no row is lost, and none is there twice."""
    shards = plan(folder / "in")
    job = Job(Killed(shards[3].output, folder / "marks", n_kills), folder / "out", "run")
    assert is_complete(job, shards, score(job, shards))
    marks = [int(path.name) for path in (folder / "marks").iterdir()]
    assert len(marks) == n_kills
    assert os.getpid() not in marks
    remove_unfinished(folder / "out", [shard.output for shard in shards])
    assert not unfinished(folder / "out")


def check_deadly(score: Callable[[Job, Sequence[Shard]], list[Outcome]], folder: Path, cause: str) -> None:
    """A shard that kills every worker, and one that fails, are given up; all others are done."""
    shards = plan(folder / "in")
    victim = shards[3].output
    (failed,) = _failures(score, Job(Killed(victim, folder / "marks", 100), folder / "out", "run"), shards, victim)
    assert failed == (
        f"{shards[3].source} must be scored by a process that lives to its end, but {MAX_DEATHS} died over {victim}, "
        f"the last one {cause}; if memory ran out, use fewer --workers"
    )
    assert len(list((folder / "marks").iterdir())) == MAX_DEATHS
    remove_unfinished(folder / "out", [shard.output for shard in shards])
    assert not list((folder / "out").glob(".*"))
    victim = shards[0].output
    (failed,) = _failures(score, Job(Failing(victim, "broken"), folder / "out", "another run"), shards, victim)
    assert failed == f"{shards[0].source} cannot be scored (RuntimeError: broken)"
    assert pd.read_parquet(folder / "out" / shards[1].output)["id"].tolist() == list(range(40, 60))


def _failures(
    score: Callable[[Job, Sequence[Shard]], list[Outcome]], job: Job, shards: Sequence[Shard], victim: str
) -> list[str]:
    outcomes = score(job, shards)
    assert {outcome.output for outcome in outcomes if outcome.error is None} == {one.output for one in shards} - {
        victim
    }
    assert committed_rows(job, next(one for one in shards if one.output == victim)) is None
    return [outcome.error for outcome in outcomes if outcome.error is not None]
