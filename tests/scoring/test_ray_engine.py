"""Scoring on a real Ray of one machine, one of whose workers is killed; all tests share it, as it starts slowly."""

import os
import sys

import pandas as pd
import pytest
import shard_examples
from shard_examples import Failing, Killed, is_complete, plan, write_inputs

from diffor.files import DataError
from diffor.scoring import ray_engine
from diffor.scoring.ray_engine import score_on_ray
from diffor.scoring.shards import Job


@pytest.fixture(scope="module")
def ray():
    pytest.importorskip("pyarrow")
    pytest.importorskip("ray.data")
    engine = ray_engine._import_ray()
    # Workers of Ray cannot import what lies beside this file.
    engine.cloudpickle.register_pickle_by_value(shard_examples)
    with ray_engine._connected(engine, 2, None):
        yield engine


@pytest.fixture
def folder(tmp_path):
    write_inputs(tmp_path / "in")
    for name in ("out", "marks"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_a_killed_worker_of_ray_loses_no_row_and_doubles_none(ray, folder):
    shards = plan(folder / "in")
    job = Job(Killed(shards[3].output, folder / "marks", 1), folder / "out", "run")
    assert is_complete(job, shards, list(score_on_ray(job, shards, 2, None)))
    (mark,) = (folder / "marks").iterdir()
    assert int(mark.name) != os.getpid()
    # Started again there is nothing to compute, and rows are counted as before.
    written = {path: path.stat().st_mtime_ns for path in (folder / "out").glob("part-*")}
    assert is_complete(job, shards, list(score_on_ray(job, shards, 1, None)))
    assert {path: path.stat().st_mtime_ns for path in (folder / "out").glob("part-*")} == written


def test_a_shard_that_fails_on_ray_is_named_and_the_others_are_done(ray, folder):
    shards = plan(folder / "in")
    job = Job(Failing(shards[0].output, "broken"), folder / "out", "run")
    outcomes = list(score_on_ray(job, shards, 2, None))
    assert [outcome.error for outcome in outcomes if outcome.error is not None] == [
        f"{shards[0].source} cannot be scored (RuntimeError: broken)"
    ]
    names = {path.name for path in (folder / "out").glob("part-*")}
    assert names == {shard.output for shard in shards[1:]}
    assert pd.read_parquet(folder / "out" / shards[1].output)["id"].tolist() == list(range(40, 60))


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DataError, match=r"needs Ray, however: it is not installed; pip install 'diffor\[ray\]', or"):
        next(score_on_ray(None, [], 1, None))
