"""``diffor bench``: options before the run file, lines in a file, wrong use in one line."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios

import pytest

from diffor.bench.run import read_lines
from diffor.cli.bench import describe, stopping_at_sigterm
from diffor.cli.main import main

SMALL = ["--datasets", "diabetes", "--max-train-rows", "50", "--out", "lines.jsonl"]


def test_a_run_from_options_and_its_continuation(here, capsys):
    assert main(["bench", *SMALL, "--seeds", "2", "--jobs", "2", "--n-samples", "20"]) == 0
    shown = capsys.readouterr()
    assert "2 cells: 0 are in lines.jsonl already, 2 to do" in shown.out
    assert "2 cells finished, 0 of them failed" in shown.out
    assert shown.err.count("diabetes constant seed") == 2
    lines, _ = read_lines(here / "lines.jsonl")
    assert sorted(line["seed"] for line in lines) == [0, 1]
    assert {line["n_samples_given"] for line in lines} == {20}
    assert main(["bench", *SMALL, "--seeds", "2", "--n-samples", "20"]) == 0
    assert "2 are in lines.jsonl already, 0 to do" in capsys.readouterr().out


def test_options_go_before_the_file(here, capsys):
    (here / "run.toml").write_text(
        'suites = ["synthetic"]\nseeds = 3\nout = "elsewhere.jsonl"\n[methods.diffor]\nwidth = 8\n'
    )
    assert main(["bench", "run.toml", "--list", "--datasets", "diabetes", "--seeds", "4,7", "--out", "x"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["diabetes constant 4", "diabetes diffor 4", "diabetes constant 7", "diabetes diffor 7"]
    assert main(["bench", "run.toml", "--list", "--methods", "mdn", "--suite", "synthetic", "--seeds", "1"]) == 0
    listed = capsys.readouterr().out
    assert "synthetic-bimodal mdn 0" in listed
    assert "diffor" not in listed
    assert not (here / "elsewhere.jsonl").exists()


def test_failed_cells_are_run_again_on_demand(here, capsys, monkeypatch):
    (here / "flaky_peers.py").write_text(
        "import os\nfrom diffor.bench.peers import Peer\nfrom diffor.bench.peers.constants import fit_constant\n"
        "def fit(problem):\n    if not os.path.exists('mended'):\n        raise OSError('broken')\n"
        "    return fit_constant(problem)\nPEER = Peer('flaky', '', ('value',), fit)\n"
    )
    monkeypatch.syspath_prepend(here)

    def run(*more):
        assert main(["bench", *SMALL, "--methods", "flaky_peers:PEER", *more]) == 0
        return capsys.readouterr()

    first = run()
    assert "2 cells finished, 1 of them failed" in first.out
    assert "flaky_peers:PEER seed 0: failed, OSError: broken" in first.err
    (here / "mended").write_text("")
    assert "0 to do" in run().out
    assert "1 cells finished, 0 of them failed" in run("--retry-failed").out
    assert "0 to do" in run("--retry-failed").out


def test_a_terminal_is_shown_a_bar(here):
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    command = [sys.executable, "-m", "diffor", "bench", *SMALL]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, text=True)
    os.close(follower)
    shown = os.read(leader, 100_000).decode()
    os.close(leader)
    assert done.returncode == 0
    assert "1/1" in shown
    assert "diabetes constant 0" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "x"], "a run must have data sets, but"),
        (["--datasets", "diabetes"], "a run must have a file for its lines, but neither --out"),
        (["--datasets", "diabetes", "--out", "."], "--out must be a file, but . is a folder"),
        (["--datasets", "diabets", "--out", "x"], "but got 'diabets' (did you mean 'diabetes'?)"),
        (["--suite", "opn", "--out", "x"], "but got 'opn' (did you mean 'open'?)"),
        (["--datasets", "diabetes", "--methods", "lightgbm", "--out", "x"], "(did you mean 'lightgbm-quantile'?)"),
        (["--datasets", "diabetes", "--seeds", "none", "--out", "x"], "must be a number of seeds"),
        (["--datasets", "a,,b", "--out", "x"], "must be names with commas between, but got 'a,,b'"),
        (
            ["--datasets", "diabetes", "--size", "quick", "--out", "x"],
            "--size quick comes without a run file; name",
        ),
        (["--suite", "open", "--root", "nowhere"], "--root must be an existing folder, but nowhere is none"),
        (["none.toml"], "a run file must be readable, but got none.toml"),
        (["--sweet", "open"], "bench has no option --sweet"),
    ],
)
def test_wrong_use_is_one_line(here, refused, arguments, message):
    assert message in refused("bench", *arguments)
    assert list(here.iterdir()) == []


def test_cells_are_described_in_one_line():
    failed = {"dataset": "a", "method": "b", "seed": 1, "status": "failed", "error": "no luck"}
    assert describe(failed) == "a b seed 1: failed, no luck"
    good = failed | {"status": "ok", "metrics": {"crps": 1.23456, "mae": 2, "coverage_90": 0.9}, "fit_seconds": 3.21,
                     "predict_seconds": 0.5}  # fmt: skip
    assert describe(good) == "a b seed 1: crps 1.235, mae 2, coverage 0.900, fit 3.2 s, predict 0.50 s"


def test_a_request_to_end_is_an_exit():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught, stopping_at_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
