"""Scoring by real processes, some of which are killed."""

import os
import time
from contextlib import closing

import pytest
from shard_examples import EndsAfterOne, Halving, check_deadly, check_killed, is_complete, plan, prepare

from diffor.serving.scoring.local_engine import score_on_processes
from diffor.serving.scoring.shards import MAX_DEATHS, Job

pytest.importorskip("pyarrow")


@pytest.fixture
def folder(tmp_path):
    return prepare(tmp_path)


def test_any_number_of_processes_writes_the_same_files(folder):
    shards, written = plan(folder / "in"), []
    for n_workers in (1, 3):
        out = folder / f"out-{n_workers}"
        job = Job(Halving(), out, "run")
        assert is_complete(job, shards, list(score_on_processes(job, shards, n_workers)))
        written.append([(out / shard.output).read_bytes() for shard in shards])
    assert written[0] == written[1]


def test_a_killed_worker_loses_no_row_and_doubles_none(folder):
    check_killed(lambda job, shards: list(score_on_processes(job, shards, 2)), folder, MAX_DEATHS - 1)


def test_a_shard_that_kills_every_worker_or_fails_is_given_up_and_the_others_are_done(folder):
    check_deadly(lambda job, shards: list(score_on_processes(job, shards, 2)), folder, "killed by signal SIGKILL")


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
