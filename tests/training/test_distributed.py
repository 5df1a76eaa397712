"""Two real processes under torchrun, and what one process must agree with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import two_processes
from stream_examples import SIZES, write_files

from diffor.training.distributed import World
from diffor.training.loop import train
from diffor.training.streaming.stream_batches import StreamBatches

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
N_LEARNED = sum(SIZES) - round(0.1 * sum(SIZES))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files, and the checkpoint of one process that had two shards and died after its second evaluation."""
    folder = tmp_path_factory.mktemp("together")
    write_files(folder / "data")
    write_files(folder / "data0")
    write_files(folder / "data1", sizes=(100, 50))
    (folder / "run").mkdir()
    (folder / "run" / "stream.json").write_text('{"shards": 2}')
    pieces = StreamBatches.pieces

    def die_later(self, step, shard):
        if step == 12:
            raise RuntimeError("killed")
        return pieces(self, step, shard)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamBatches, "pieces", die_later)
        with pytest.raises(RuntimeError, match="killed"):
            two_processes.fit_streamed(folder, World())
    return folder


@pytest.fixture(scope="module")
def found(folder):
    """What both processes wrote."""
    script = Path(two_processes.__file__)
    done = subprocess.run(
        [*TORCHRUN, str(script), str(folder)], capture_output=True, text=True, timeout=300, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"found-{rank}.json").read_text()) for rank in range(2)]


def test_processes_tell_each_other_what_they_have(found):
    for rank, each in enumerate(found):
        assert each["rank"] == rank
        assert each["added"] == [3.0, 6.0]
        assert each["same"] == "from 0"
        assert each["gathered"] == [0, 1]
        assert each["gathered_rows"] == [[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]
        assert each["first_error"] == "only the first process knows"


def test_both_processes_end_with_the_same_weights(found):
    assert found[0]["trained"] == found[1]["trained"]
    assert found[0]["streamed"] == found[1]["streamed"]
    assert found[0]["columns"] == found[1]["columns"]
    assert found[0]["scores"] == found[1]["scores"] == [1.0, 1.0, 1.0]  # the first one's


def test_two_processes_equal_one_with_the_doubled_batch(found):
    model, rows = two_processes.make_model(), two_processes.make_rows()
    before = two_processes.flat(model)
    history = train(model, rows, lambda model: 1.0, two_processes.CONFIG)
    alone = two_processes.flat(model)
    np.testing.assert_allclose(found[0]["trained"], alone, rtol=1e-4, atol=1e-6)
    assert np.abs(np.subtract(before, alone)).max() > 0.01
    assert found[0]["rows"] == history.rows == 12 * two_processes.BATCH
    assert found[0]["loss"] == pytest.approx([record["value"] for record in history.records], rel=1e-5)


def test_two_processes_continue_what_one_began_and_no_row_counts_twice(found, folder, tmp_path):
    write_files(tmp_path / "data")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "stream.json").write_text('{"shards": 2}')
    unbroken = two_processes.fit_streamed(tmp_path, World())
    np.testing.assert_allclose(found[0]["streamed"], two_processes.flat(unbroken.model_), rtol=1e-4, atol=1e-6)
    assert found[0]["streamed_rows"] == unbroken.history_.rows == 2 * N_LEARNED
    assert found[0]["columns"] == json.loads(json.dumps(unbroken.inputs_.to_json()))


def test_processes_that_see_other_files_are_refused(found):
    for each in found:
        assert "all processes must see the same files, but " in each["other_files"]
        assert "is 3 files with 460 rows for process 0 and 2 files with 150 rows for process 1" in each["other_files"]


def test_without_torchrun_a_process_is_alone():
    assert World.from_environment({}) == World.from_environment({"WORLD_SIZE": "1", "RANK": "0"}) == World()


def test_variables_that_are_not_torchruns_are_refused():
    with pytest.raises(ValueError, match="WORLD_SIZE must be a whole number, as torchrun sets it, but"):
        World.from_environment({"WORLD_SIZE": "two"})
    for variables in ({"RANK": "0"}, {"MASTER_ADDR": "a"}, {"RANK": "2", "MASTER_ADDR": "a"}):
        with pytest.raises(ValueError, match=r"must be started by torchrun, which sets RANK, .* but got WORLD_SIZE=2"):
            World.from_environment({"WORLD_SIZE": "2", **variables})
