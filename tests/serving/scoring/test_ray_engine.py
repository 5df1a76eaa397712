"""Scoring on a real Ray of one machine, one of whose workers is killed; all tests share it, as it starts slowly."""

import socket
import sys

import numpy as np
import pandas as pd
import pytest
import shard_examples
from shard_examples import check_deadly, check_killed, prepare

from diffor import DiffoRRegressor
from diffor.cli.main import main
from diffor.files.tables import DataError
from diffor.serving.scoring import ray_engine
from diffor.serving.scoring.ray_engine import score_on_ray


@pytest.fixture(scope="module")
def ray():
    pytest.importorskip("pyarrow")
    pytest.importorskip("ray")
    engine = ray_engine._import_ray()
    # Workers of Ray cannot import what lies beside this file.
    engine.cloudpickle.register_pickle_by_value(shard_examples)
    with ray_engine._connected(engine, 2, None):
        yield engine


@pytest.fixture
def folder(tmp_path):
    return prepare(tmp_path)


def test_a_killed_worker_of_ray_loses_no_row_and_doubles_none(ray, folder):
    check_killed(lambda job, shards: list(score_on_ray(job, shards, 2, None)), folder, 1)


def test_a_shard_that_kills_every_worker_of_ray_or_fails_is_given_up_and_the_others_are_done(ray, folder):
    check_deadly(lambda job, shards: list(score_on_ray(job, shards, 2, None)), folder, "without a word")


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
