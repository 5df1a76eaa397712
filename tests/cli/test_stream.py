"""``diffor fit`` on many files: real processes, one of which is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from stream_examples import SIZES, write_files

from diffor.cli.main import main
from diffor.training.checkpoint import unpack
from diffor.training.loop import STATE

FEW = ["--preset", "fast", "--batch-size", "16", "--quiet"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
N_LEARNED = sum(SIZES) - 46


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_files(folder)
    return folder


def words(data, out, *further):
    drop = ["--drop", "row", "stars", "weight"]
    return ["fit", f"{data}/*.parquet", "--target", "y", "--ids", "user", *drop, "--out", str(out), *FEW, *further]


def weights_of(model):
    return load_file(model / "model.safetensors")


def workers(launcher: int) -> dict[int, int]:
    """Process numbers of a launcher's workers by their ranks, as the kernel knows them."""
    found = {}
    for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        ranks = [int(each[5:]) for each in variables if each.startswith(b"RANK=")]
        found |= dict.fromkeys(ranks, int(pid))
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes as Linux lists them")
def test_a_killed_process_is_restarted_and_the_run_continues_from_its_checkpoint(data, tmp_path):
    run, model, unbroken = tmp_path / "run", tmp_path / "model", tmp_path / "unbroken"
    command = [*TORCHRUN, "--max-restarts", "1", "--monitor-interval", "0.1", "-m", "diffor"]
    command += words(data, model, "--epochs", "12", "--checkpoint", str(run))
    with subprocess.Popen(command, env={**os.environ}, stderr=subprocess.PIPE, text=True) as launcher:
        deadline = time.monotonic() + 240
        while not (run / STATE).exists() and launcher.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        os.kill(workers(launcher.pid)[1], signal.SIGKILL)
        begun = unpack(run / STATE)[1]["history"]
        _, errors = launcher.communicate(timeout=300)
    assert launcher.returncode == 0, errors[-12000:]
    assert "Signal 9 (SIGKILL)" in errors or "exitcode: -9" in errors
    history = json.loads((model / "config.json").read_text())["history"]
    assert 50 <= begun["steps"] < history["steps"] == 12 * -(-(N_LEARNED // 2) // 16)
    assert history["records"][: len(begun["records"])] == begun["records"]  # with the seconds before the restart
    assert history["rows"] == 12 * N_LEARNED
    assert main(words(data, unbroken, "--epochs", "12", "--shards", "2")) == 0
    expected = weights_of(unbroken)
    for name, tensor in weights_of(model).items():
        assert torch.allclose(tensor, expected[name], rtol=1e-4, atol=1e-6), name


def test_one_process_streams_and_says_what_it_did(data, tmp_path, capsys):
    arguments = words(data, tmp_path / "model", "--max-steps", "3")
    assert main([word for word in arguments if word != "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "rows             47 learned from, by 1 process\n" in said
    assert "steps            3 (finished)" in said
    files = [tmp_path / "model", data / "part-0.parquet", "--out", tmp_path / "p.csv"]
    assert main(["predict", *map(str, files)]) == 0
    assert len((tmp_path / "p.csv").read_text().splitlines()) == SIZES[0] + 1


@pytest.mark.parametrize("further", [["--grades", "0,1,2,3"], ["--classify"]])
def test_numbers_can_be_grades(data, tmp_path, further):
    arguments = ["fit", str(data), "--target", "stars", "--drop", "city", "row", "--out", str(tmp_path / "m"), *FEW]
    assert main([*arguments, "--max-steps", "2", *further]) == 0
    assert json.loads((tmp_path / "m" / "config.json").read_text())["classes"] == [0, 1, 2, 3]


@pytest.mark.parametrize(("arguments", "message"), [
    (["nowhere/*.parquet"], "nowhere/*.parquet must match at least one file, but none"),
    (["DATA", "--valid", "x.csv"], "--valid is for files that are read as a whole, but "),
    (["DATA", "--calibration", "x.csv"], "--calibration is for files that are read as a whole, but "),
    (["DATA", "--upper", "x", "--limit", "share"], "write the share of the limit into a column and make it the target"),
    (["DATA", "--drop", "nothing"], "must have the column 'nothing'"),
    (["DATA/part-0.parquet", "--ids", "user"], "--ids is for Parquet files that are streamed, but "),
    (["DATA", "--classify", "--bounds", "0", "1"], "--bounds is for amounts, but the target is a grade"),
    (["DATA", "--grades", "a,b"], "--grades must be numbers as target 'y' holds them, but got a,b"),
])  # fmt: skip
def test_wrong_use_ends_with_one_line_and_no_model(data, here, refused, arguments, message):
    given = [word.replace("DATA", str(data)) for word in arguments]
    assert message in refused("fit", *given, "--target", "y", "--out", "model", *FEW)
    assert not (here / "model").exists()


def test_several_processes_must_stream(data, here, refused, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    told = refused("fit", data / "part-0.parquet", "--target", "y", "--out", "model", *FEW)
    assert "several processes must stream Parquet files, but " in told


def test_one_file_is_streamed_where_epochs_are_named(data, tmp_path):
    one = str(data / "part-0.parquet")
    assert main(["fit", one, "--target", "y", "--epochs", "1", "--out", str(tmp_path / "model"), *FEW]) == 0
    assert json.loads((tmp_path / "model" / "config.json").read_text())["history"]["rows"] == 153
