"""Scoring by real processes, some of which are killed."""

import os
import time
from contextlib import closing

import pytest
from shard_examples import EndsAfterOne, Failing, Halving, Killed, is_complete, plan, prepare, unfinished

from diffor.serving.scoring.local_engine import score_on_processes
from diffor.serving.scoring.output_folder import remove_unfinished
from diffor.serving.scoring.shards import MAX_DEATHS, Job

pytest.importorskip("pyarrow")


@pytest.fixture
def folder(tmp_path):
    return prepare(tmp_path)


def test_any_number_of_processes_writes_the_same_files(folder):
    shards, written = plan(folder / "in"), []
    for n_workers in (1, 3, 20):
        out = folder / f"out-{n_workers}"
        job = Job(Halving(), out, "run")
        assert is_complete(job, shards, list(score_on_processes(job, shards, n_workers)))
        written.append([(out / shard.output).read_bytes() for shard in shards])
    assert written[0] == written[1] == written[2]


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_killed_worker_loses_no_row_and_doubles_none(folder, n_workers):
    shards = plan(folder / "in")
    job = Job(Killed(shards[3].output, folder / "marks", MAX_DEATHS - 1), folder / "out", "run")
    assert is_complete(job, shards, list(score_on_processes(job, shards, n_workers)))
    assert len(list((folder / "marks").iterdir())) == MAX_DEATHS - 1
    assert len(unfinished(folder / "out")) == MAX_DEATHS - 1  # a killed process cannot clear up
    remove_unfinished(folder / "out", [shard.output for shard in shards])
    assert not unfinished(folder / "out")


def test_a_shard_that_kills_every_worker_is_given_up_and_the_others_are_done(folder):
    shards = plan(folder / "in")
    victim = shards[3].output
    job = Job(Killed(victim, folder / "marks", 100), folder / "out", "run")
    outcomes = list(score_on_processes(job, shards, 2))
    (failed,) = [outcome for outcome in outcomes if outcome.error is not None]
    assert failed.output == victim
    assert failed.error == (
        f"{shards[3].source} must be scored by a process that lives to its end, but {MAX_DEATHS} died over "
        f"{victim}, the last one killed by signal SIGKILL; if memory ran out, use fewer --workers"
    )
    assert len(list((folder / "marks").iterdir())) == MAX_DEATHS
    assert {path.name for path in (folder / "out").glob("part-*")} == {shard.output for shard in shards} - {victim}


def test_a_shard_that_fails_is_named_and_the_others_are_done(folder):
    shards = plan(folder / "in")
    job = Job(Failing(shards[0].output, "broken"), folder / "out", "run")
    outcomes = list(score_on_processes(job, shards, 1))
    assert [outcome.error for outcome in outcomes if outcome.error is not None] == [
        f"{shards[0].source} cannot be scored (RuntimeError: broken)"
    ]
    assert not (folder / "out" / shards[0].output).exists()
    assert not unfinished(folder / "out")
    job = Job(Halving(), folder / "out", "run")
    (outcome,) = score_on_processes(job, shards[:1], 1)
    assert outcome.error is None


def test_workers_end_with_the_iterator(folder):
    shards = plan(folder / "in")
    outcomes = score_on_processes(Job(EndsAfterOne(), folder / "out", "run"), shards, 2)
    with closing(outcomes):
        assert next(outcomes).error is None
        while not list((folder / "marks").iterdir()):
            time.sleep(0.01)
    pids = [int(path.name) for path in (folder / "marks").iterdir()]
    assert pids
    assert not any(is_alive(pid) for pid in pids)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
