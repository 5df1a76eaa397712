"""Benchmarks in real processes: some end well, some do not, and all leave a line."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from diffor.bench.plan import plan_from
from diffor.bench.run import append_line, cell_facts, cells_to_do, line_key, read_lines, run_grid

PEERS = """
import os, signal, subprocess, sys, time
from diffor.bench.peers import Peer
from diffor.bench.peers.constants import fit_constant

def raises(problem):
    raise ValueError("numbers must be even, but got 3 in /home/somebody/rows.csv")

def leaves(problem):
    print("I have had enough", file=sys.stderr, flush=True)
    os._exit(3)

def is_killed(problem):
    os.kill(os.getpid(), signal.SIGKILL)

def sleeps(problem, started=None):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    if started:
        with open(started, "a") as file:
            file.write(f"{os.getpid()} {child.pid}\\n")
    time.sleep(600)

def says_threads(problem):
    fitted = fit_constant(problem)
    object.__setattr__(fitted, "facts", {"threads": os.environ["OMP_NUM_THREADS"], "path": os.environ["TMPDIR"]})
    return fitted

def make(name, fit):
    return Peer(name, name, ("value", "grades"), fit)

RAISES, LEAVES, KILLED = make("raises", raises), make("leaves", leaves), make("killed", is_killed)
SLEEPS, THREADS = make("sleeps", sleeps), make("threads", says_threads)
"""


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A module of peers, importable as hostile_peers, in the current folder."""
    (tmp_path / "hostile_peers.py").write_text(PEERS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("hostile_peers", None)


def a_plan(methods, **changes):
    return plan_from({"datasets": ["diabetes"], "methods": methods, "max_train_rows": 50, "n_samples": 10, **changes})


def run(plan, **options):
    lines = []
    run_grid(plan, plan.cells(), on_finish=lines.append, **options)
    return {(line["dataset"], line["method"], line["seed"]): line for line in lines}


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    # What has ended but was not yet asked about is not alive.
    with open(f"/proc/{process}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"


def wait_until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


# Cells and their ends.


def test_every_end_of_a_cell_is_a_line_and_the_rest_goes_on(hostile):
    started = str(hostile / "started")
    methods = {
        "hostile_peers:RAISES": {},
        "hostile_peers:LEAVES": {},
        "hostile_peers:KILLED": {},
        "sleepy": {"peer": "hostile_peers:SLEEPS", "started": started},
        "hostile_peers:THREADS": {},
    }
    lines = run(a_plan(methods, timeout_seconds=4), jobs=2, command="diffor bench x")
    by_method = {method: line for (_, method, _), line in lines.items()}
    assert {method: line["status"] for method, line in by_method.items()} == {
        "constant": "ok",
        "hostile_peers:RAISES": "failed",
        "hostile_peers:LEAVES": "failed",
        "hostile_peers:KILLED": "failed",
        "sleepy": "failed",
        "hostile_peers:THREADS": "ok",
    }
    raised = by_method["hostile_peers:RAISES"]
    assert raised["error"] == "ValueError: numbers must be even, but got 3 in rows.csv"
    assert "hostile_peers.py" in raised["where"]
    assert "/home" not in json.dumps(raised)
    left = by_method["hostile_peers:LEAVES"]
    assert left["error"] == "the process ended with code 3 and no answer"
    assert left["log"] == "I have had enough"
    assert by_method["hostile_peers:KILLED"]["error"] == "killed by signal SIGKILL"
    assert by_method["sleepy"]["error"] == "timeout: not finished after 4 seconds"
    processes = [int(word) for word in (hostile / "started").read_text().split()]
    assert len(processes) == 2
    wait_until(lambda: not any(is_alive(process) for process in processes))
    facts = by_method["hostile_peers:THREADS"]["facts"]
    assert facts["threads"] == "1"
    assert not os.path.exists(facts["path"])


def test_a_line_says_everything_and_the_environment_is_left_as_it_was(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    plan = a_plan([])
    ((place, line),) = run(plan, command="diffor bench x").items()
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert place == ("diabetes", "constant", 0)
    assert json.loads(json.dumps(line, allow_nan=False)) == line
    wanted = (
        "dataset suite task method seed status error settings tuning n_train n_valid n_test n_columns n_samples "
        "max_train_rows max_test_rows valid_share metrics calibration fit_seconds predict_seconds peak_mib start_mib "
        "versions commit machine date command wall_seconds timeout_seconds is_ours"
    )
    assert set(wanted.split()) <= line.keys()
    assert (line["suite"], line["task"], line["command"]) == ("open", "value", "diffor bench x")
    assert {"mae", "rmse", "crps", "coverage_90", "width_90", "interval_score_90", "srcc"} <= line["metrics"].keys()
    assert 20 < line["start_mib"] <= line["peak_mib"] < 4000
    assert not line["is_ours"]
    assert line_key(line) == line_key(json.loads(json.dumps(cell_facts(plan.cells()[0]))))


def test_an_error_of_the_caller_ends_the_cells(hostile):
    started = hostile / "started"
    plan = a_plan({"sleepy": {"peer": "hostile_peers:SLEEPS", "started": str(started)}})

    def stop(line):
        wait_until(started.exists)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_grid(plan, plan.cells(), jobs=2, on_finish=stop)
    processes = [int(word) for word in started.read_text().split()]
    wait_until(lambda: not any(is_alive(process) for process in processes))


# Lines and resuming.


def test_finished_cells_are_skipped_and_failed_ones_on_demand():
    plan = a_plan(["diffor-fast"], seeds=2)
    cells = plan.cells()
    facts = [json.loads(json.dumps(cell_facts(cell))) for cell in cells]
    lines = [facts[0] | {"status": "ok"}, facts[1] | {"status": "failed"}]
    assert cells_to_do(cells, lines) == cells[2:]
    assert cells_to_do(cells, lines, retry_failed=True) == cells[1:]
    assert cells_to_do(cells, [*lines, facts[1] | {"status": "ok"}], retry_failed=True) == cells[2:]


@pytest.mark.parametrize(
    "changes",
    [
        {"n_samples": 11},
        {"max_train_rows": 51},
        {"max_test_rows": 10},
        {"valid_share": 0.2},
        {"methods": {"diffor": {"width": 9}}},
        {"methods": {"diffor": {"width": 8, "search": {"dropout": [0.0, 0.1]}}}, "tuning": {"trials": 2}},
    ],
)
def test_another_question_is_another_cell(changes):
    settings = {"diffor": {"width": 8}}
    plan = a_plan(settings)
    done = [{**json.loads(json.dumps(cell_facts(cell))), "status": "ok"} for cell in plan.cells()]
    assert cells_to_do(plan.cells(), done) == []
    other = a_plan(changes.pop("methods", settings), **changes)
    assert [cell.method for cell in cells_to_do(other.cells(), done)][-1] == "diffor"


LINE = {"dataset": "a", "method": "b", "seed": 0, "status": "ok"}


def test_a_line_cut_by_a_kill_does_no_harm(tmp_path):
    path = tmp_path / "new" / "lines.jsonl"
    append_line(path, LINE)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    assert read_lines(path) == ([LINE], 1)
    append_line(path, LINE | {"seed": 1})
    lines, damaged = read_lines(path)
    assert [line["seed"] for line in lines] == [0, 1]
    assert damaged == 1


def test_what_is_no_line_is_counted(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\n".join([b"[1, 2]", b'{"dataset": "a"}', b"\0\0", b'{"a": NaN', "ä".encode("latin-1")]))
    append_line(path, LINE)
    assert read_lines(path) == ([LINE], 5)


def test_lines_that_are_no_json_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        append_line(tmp_path / "lines.jsonl", LINE | {"metrics": {"mae": float("nan")}})
    assert not (tmp_path / "lines.jsonl").exists()


def test_many_writers_do_not_mix_their_lines(tmp_path):
    path = tmp_path / "lines.jsonl"

    def write(name):
        for seed in range(15):
            append_line(path, {"dataset": "x" * 5000, "method": name, "seed": seed, "status": "ok"})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, "ab"))
    lines, damaged = read_lines(path)
    assert damaged == 0
    assert sorted((line["method"], line["seed"]) for line in lines) == [(m, i) for m in "ab" for i in range(15)]


# A run that is stopped from outside.


def test_an_interrupt_ends_a_run_and_all_its_processes(hostile):
    (hostile / "run.toml").write_text(
        'datasets = ["diabetes"]\n[methods.sleepy]\npeer = "hostile_peers:SLEEPS"\nstarted = "started"\n'
    )
    command = [sys.executable, "-m", "diffor", "bench", "run.toml", "--out", "lines.jsonl", "--jobs", "2"]
    path = os.pathsep.join([str(hostile), *sys.path])
    run = subprocess.Popen(command, cwd=hostile, env={**os.environ, "PYTHONPATH": path}, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
    wait_until(lambda: (hostile / "started").exists() and (hostile / "started").read_text().endswith("\n"))
    processes = [int(word) for word in (hostile / "started").read_text().split()]
    assert all(is_alive(process) for process in processes)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=120)
    assert run.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    wait_until(lambda: not any(is_alive(process) for process in processes))
