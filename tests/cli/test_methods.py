"""``diffor methods``: the table for people and the list for programs say what the classes say."""

import json

import pytest

from diffor.cli.main import main
from diffor.core.distribution import PointMethod
from diffor.methods import METHODS

RECONSTRUCTIONS = {"ptpm", "swat-binomial", "swat-geometric", "gor", "two-stage", "mtl-mse", "optdist", "hiltv", "mdme",
                   "mdan", "mt-a", "mpada"}  # fmt: skip


def listed(capsys, *options):
    assert main(["methods", "--json", *options]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return {fact["name"]: fact for fact in json.loads(shown.out)}


def test_json_says_what_the_classes_say(capsys):
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


def test_a_point_is_what_has_no_distribution(capsys):
    points = {name for name, fact in listed(capsys).items() if fact["predicts"] == "point"}
    assert points == {name for name, method in METHODS.items() if issubclass(method, PointMethod)}
    assert {"value-squared", "d2q", "mdan"} < points
    assert not {"diffor", "value-gaussian", "card", "gr", "cread"} & points


@pytest.mark.parametrize("task", ["value", "grades"])
def test_the_task_chooses(task, capsys):
    chosen = listed(capsys, "--task", task)
    assert list(chosen) == [name for name, method in METHODS.items() if task in method.tasks]
    assert ("d2q" in chosen) == (task == "value")


def test_the_table_fits_a_terminal_and_says_it_all(capsys):
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
def test_wrong_use_is_one_line(typed, refused):
    assert WRONG[typed] in refused(*typed.split())
