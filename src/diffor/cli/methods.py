"""``diffor methods``: which methods there are, what each predicts and how it is known."""

from __future__ import annotations

import argparse
import inspect
import json
import textwrap
from typing import TYPE_CHECKING, Any

from diffor.cli.options import WIDTH, add_command, table_row

if TYPE_CHECKING:
    from diffor.core.method import Method

WORDS = {"value": "values", "grades": "grades"}
COLUMNS = ("name", "predicts", "decides", "evidence")
LEGEND = (
    "predicts: the whole distribution of the target, or one point; decides: what is answered with unless another "
    "statistic is asked for, own being a rule of the method itself; evidence: whether the formulas are those of the "
    "authors' code, a reimplementation, the paper, notes about it, or standard; *: a reconstruction, rebuilt from "
    "summaries."
)


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "methods",
        run,
        "list the methods: what each predicts, which columns it needs, where it comes from",
        "diffor methods",
        "diffor methods --task grades",
        "diffor methods --json | python -m json.tool",
    )
    command.add_argument("--task", choices=("value", "grades"), help="only methods that can predict this")
    command.add_argument("--json", action="store_true", help="print a JSON list, with the settings of each method")


def run(arguments: argparse.Namespace) -> None:
    """Print the table of methods."""
    from diffor.methods import METHODS

    facts = [describe_method(name, method) for name, method in METHODS.items()]
    chosen = [fact for fact in facts if arguments.task is None or arguments.task in fact["tasks"]]
    print(json.dumps(chosen, default=str) if arguments.json else _table(chosen))


def describe_method(name: str, method: type[Method]) -> dict[str, Any]:
    """What a method says about itself, as JSON values."""
    arguments = [one for one in inspect.signature(method).parameters.values() if one.name != "n_features"]
    return {
        "name": name,
        "family": method.family,
        "title": method.title,
        "predicts": "distribution" if method.has_distribution else "point",
        "native_statistic": method.native_statistic,
        "paper": method.paper,
        "evidence": method.evidence,
        "is_reconstruction": method.is_reconstruction,
        "requires": list(method.requires),
        "accepts": list(method.accepts),
        "learns_from": list(method.learns_from),
        "tasks": list(method.tasks),
        "settings": {one.name: one.default for one in arguments},
    }


def _table(facts: list[dict[str, Any]]) -> str:
    """One block for each family, in the order in which families first appear."""
    widths = [max(len(cells[place]) for cells in (COLUMNS, *map(_cells, facts))) for place in range(len(COLUMNS))]
    lines = [table_row(COLUMNS, widths, "title; paper; needs")]
    for family in dict.fromkeys(fact["family"] for fact in facts):
        lines += ["", family]
        lines += [table_row(_cells(fact), widths, _text(fact)) for fact in facts if fact["family"] == family]
    return "\n".join([*lines, "", textwrap.fill(LEGEND, WIDTH)])


def _cells(fact: dict[str, Any]) -> tuple[str, str, str, str]:
    evidence = fact["evidence"] + ("*" if fact["is_reconstruction"] else "")
    return fact["name"], fact["predicts"], fact["native_statistic"], evidence


def _text(fact: dict[str, Any]) -> str:
    parts = [fact["title"], fact["paper"]]
    parts += [f"needs {column}" for column in fact["requires"]]
    parts += [f"can use {column}" for column in fact["accepts"]]
    parts += [f"can learn from {column}" for column in fact["learns_from"]]
    if len(fact["tasks"]) == 1:
        parts.append(f"{WORDS[fact['tasks'][0]]} only")
    return "; ".join(parts)
