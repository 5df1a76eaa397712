"""Several fits at once: a checkpoint folder that two share, a model that two save, processes of torchrun that die."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from kills_commands import COMMANDS, begun, hidden, run_well
from kills_processes import run_command

from diffor.training.checkpoint import load_folder
from diffor.training.loop import STATE

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes as Linux lists them")
BUSY = "run must belong to one fit at a time, but another one is at it; wait for its end, or choose another"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def run_together(runs):
    """Exit codes of commands in folders that run at the same time, each started after its delay."""
    codes = {}

    def one(number, words, folder, delay):
        time.sleep(delay)
        codes[number] = run_command(words, folder)

    threads = [threading.Thread(target=one, args=(number, *run)) for number, run in enumerate(runs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [codes[number] for number in range(len(runs))]


def test_fits_that_share_a_checkpoint_folder_are_right_or_refused(hostile_home, whole_run, tmp_path, hostile_scale):
    expected, seconds = whole_run("fit")
    for delay in np.random.default_rng(7).uniform(0, 1, hostile_scale):
        folder = begun(hostile_home, tmp_path / f"{delay:.4f}", "fit")
        words = list(COMMANDS["fit"].words)
        others = [*words[:-1], "fitted-too"]
        codes = run_together([(words, folder, 0.0), (others, folder, delay * seconds)])
        said = (folder / "said").read_text()
        assert set(codes) <= {0, 2}, said
        assert 0 in codes, said
        assert codes == [0, 0] or BUSY in said, said
        for code, name in zip(codes, ("fitted", "fitted-too"), strict=True):
            assert (folder / name).exists() == (code == 0)
            if code == 0:
                assert load_folder(folder / name)[0]["weights_sha256"] == expected["fitted"][0]
        run_well(words, folder)
        assert COMMANDS["fit"].results(folder) == expected


def test_models_saved_to_one_place_at_a_time_are_one_or_the_other(hostile_home, tmp_path, hostile_scale):
    words = [[*COMMANDS["refit"].words, "--seed", str(seed)] for seed in (1, 2)]
    alone = [begun(hostile_home, tmp_path / f"alone-{number}", "refit") for number in range(2)]
    for each, folder in zip(words, alone, strict=True):
        run_well(each, folder)
    expected = [COMMANDS["refit"].results(folder) for folder in alone]
    assert expected[0] != expected[1]
    for number in range(hostile_scale):
        folder = begun(hostile_home, tmp_path / str(number), "refit")
        assert run_together([(each, folder, 0.0) for each in words]) == [0, 0], (folder / "said").read_text()
        assert COMMANDS["refit"].results(folder) in expected
        assert hidden(folder) == []


def workers_of(launcher):
    listed = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return [int(pid) for pid in listed if b"RANK=" in Path(f"/proc/{pid}/environ").read_bytes()]


def test_torchrun_whose_processes_are_killed_can_be_started_again(hostile_home, tmp_path, hostile_scale):
    fit = ["-m", "diffor", "fit", "in", "--target", "price", "--preset", "fast", "--batch-size", "16", "--quiet"]
    words = [*TORCHRUN, *fit, "--epochs", "8", "--checkpoint", "run", "--force", "--out", "streamed"]
    whole = begun(hostile_home, tmp_path / "whole", "fit")
    started = time.monotonic()
    subprocess.run(words, cwd=whole, check=True, capture_output=True)
    seconds, expected = time.monotonic() - started, load_folder(whole / "streamed")[0]["weights_sha256"]
    random = np.random.default_rng(11)
    for number in range(hostile_scale):
        folder = begun(hostile_home, tmp_path / str(number), "fit")
        with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as launcher:
            # The first moments are those of training, the others any.
            deadline = (
                time.monotonic() + 10 * seconds if number % 2 == 0 else time.monotonic() + seconds * random.random()
            )
            while time.monotonic() < deadline and not (number % 2 == 0 and (folder / "run" / STATE).exists()):
                time.sleep(0.01)
            victims = [*workers_of(launcher.pid), launcher.pid]
            os.kill(victims[int(random.integers(len(victims)))], signal.SIGKILL)
            launcher.communicate(timeout=600)  # until the orphans have closed the pipe, too
        assert not (folder / "streamed").exists() or load_folder(folder / "streamed")[0]["weights_sha256"] == expected
        again = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        assert again.returncode == 0, again.stderr[-3000:]
        assert load_folder(folder / "streamed")[0]["weights_sha256"] == expected
        assert hidden(folder) == []
