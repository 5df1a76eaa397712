"""Scoring on a real Ray of one machine, one of whose workers is killed; all tests share it, as it starts slowly."""

import os
import socket
import sys

import numpy as np
import pandas as pd
import pytest
import shard_examples
from shard_examples import Failing, Killed, is_complete, plan, prepare

from diffor import DiffoRRegressor
from diffor.cli.main import main
from diffor.files.tables import DataError
from diffor.serving.scoring import ray_engine
from diffor.serving.scoring.output_folder import remove_unfinished
from diffor.serving.scoring.ray_engine import score_on_ray
from diffor.serving.scoring.shards import MAX_DEATHS, Job


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
    return prepare(tmp_path)


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


def test_a_shard_that_kills_every_worker_of_ray_is_given_up_and_the_others_are_done(ray, folder):
    shards = plan(folder / "in")
    victim = shards[3].output
    job = Job(Killed(victim, folder / "marks", 100), folder / "out", "run")
    outcomes = list(score_on_ray(job, shards, 2, None))
    (failed,) = [outcome for outcome in outcomes if outcome.error is not None]
    assert failed.output == victim
    assert f"but {MAX_DEATHS} died over {victim}, the last one without a word; if memory" in failed.error
    assert len(list((folder / "marks").iterdir())) == MAX_DEATHS
    assert len(list((folder / "out").glob(".*.attempt"))) == MAX_DEATHS
    remove_unfinished(folder / "out", [shard.output for shard in shards])
    assert not list((folder / "out").glob(".*"))
    assert {path.name for path in (folder / "out").glob("part-*")} == {shard.output for shard in shards} - {victim}


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


def test_the_command_answers_on_ray_as_predict_does(ray, folder, monkeypatch):
    monkeypatch.chdir(folder)
    rows = pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("in/*"))], ignore_index=True)
    model = DiffoRRegressor("fast", prior=None, max_steps=3, n_samples=8, random_state=0, verbose=0)
    model.fit(rows[["x"]], np.sin(rows["x"])).save("model")
    assert (
        main(["score", "model", "in/*.parquet", "--out", "answers", "--engine", "ray", "--keep", "id", "--quiet"]) == 0
    )
    rows.to_parquet("rows.parquet")
    assert main(["predict", "model", "rows.parquet", "--out", "expected.parquet", "--keep", "id"]) == 0
    found = pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("answers/part-*"))], ignore_index=True)
    pd.testing.assert_frame_equal(found, pd.read_parquet("expected.parquet"), check_exact=True)
    assert (folder / "answers" / "_SUCCESS").is_file()


def test_an_address_at_which_nothing_answers_is_refused_at_once(ray):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # nobody listens there
        address = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(DataError, match=f"must be that of a running Ray, but {address} cannot be used"):
            next(score_on_ray(None, [], 1, address))


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DataError, match=r"needs Ray, but it is not installed; pip install 'diffor\[ray\]', or"):
        next(score_on_ray(None, [], 1, None))
