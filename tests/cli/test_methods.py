"""``diffor methods``: the table for people and the list for programs say what the classes say."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from diffor.cli.main import main
from diffor.core.distribution import PointMethod
from diffor.methods import METHODS

RECONSTRUCTIONS = {"ptpm", "swat-binomial", "swat-geometric", "gor", "two-stage", "mtl-mse", "optdist", "hiltv", "mdme",
                   "mdan", "mt-a", "mpada"}  # fmt: skip


def listed(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, dict[str, object]]:
    assert main(["methods", "--json", *options]) == 0
    return {fact["name"]: fact for fact in json.loads(capsys.readouterr().out)}


def test_a_process_prints_json_and_nothing_else() -> None:
    command = [sys.executable, "-m", "diffor", "methods", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert [fact["name"] for fact in json.loads(done.stdout)] == list(METHODS)


def test_json_says_what_the_classes_say(capsys: pytest.CaptureFixture[str]) -> None:
    facts = listed(capsys)
    assert list(facts) == list(METHODS)
    for name, method in METHODS.items():
        fact = facts[name]
        for attribute in ("family", "title", "paper", "evidence", "native_statistic", "is_reconstruction"):
            assert fact[attribute] == getattr(method, attribute) != "", (name, attribute)
        assert fact["requires"] == list(method.requires)
        assert fact["accepts"] == list(method.accepts)
        assert fact["tasks"] == list(method.tasks)
    assert {name for name, fact in facts.items() if fact["is_reconstruction"]} == RECONSTRUCTIONS
    assert facts["d2q"]["requires"] == ["duration"]
    assert facts["swat-binomial"]["accepts"] == ["duration"]
    assert facts["d2q"]["settings"] == {"n_groups": 30, "n_levels": 100, "clip": False}


def test_a_point_is_what_has_no_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    points = {name for name, fact in listed(capsys).items() if fact["predicts"] == "point"}
    assert points == {name for name, method in METHODS.items() if issubclass(method, PointMethod)}
    assert {"value-squared", "d2q", "mdan"} < points
    assert not {"diffor", "value-gaussian", "card", "gr", "cread"} & points


@pytest.mark.parametrize("task", ["value", "grades"])
def test_the_task_chooses(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = listed(capsys, "--task", task)
    assert list(chosen) == [name for name, method in METHODS.items() if task in method.tasks]
    assert ("d2q" in chosen) == (task == "value")


def test_the_table_fits_a_terminal_and_says_it_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 100
    assert set(lines) >= {method.family for method in METHODS.values()}
    rows = {line.split()[0]: line.split() for line in lines if line.startswith("  ") and line[2:3].strip()}
    assert set(rows) == {"name", *METHODS}
    for name, method in METHODS.items():
        star = "*" if method.is_reconstruction else ""
        predicts = "point" if issubclass(method, PointMethod) else "distribution"
        assert rows[name][1:4] == [predicts, method.native_statistic, method.evidence + star]
    whole = " ".join(shown.split())
    assert "D2Q; Zhan et al., KDD 2022; needs duration; values only" in whole
    assert "SWaT (binomial); Yang et al., KDD 2025; can use duration; values only" in whole
    assert "*: a reconstruction" in whole
    assert all(f"{method.title}; {method.paper}" in whole for method in METHODS.values())


WRONG = {
    "methods --tasks value": "methods has no option --tasks (did you mean '--task'?)",
    "methods --task rank": "argument --task: invalid choice: 'rank'",
    "methods d2q": "unrecognized arguments: d2q",
}


@pytest.mark.parametrize("typed", WRONG)
def test_wrong_use_is_one_line(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(typed.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert WRONG[typed] in shown.err
