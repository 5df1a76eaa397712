"""``diffor explain``: what moves a model's answers, what makes it unsure, and how single rows came to theirs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from diffor.cli.model_folder import columns_by_kind, is_classifier, load_model, read_notes, side_columns, side_values
from diffor.cli.options import add_command, add_side_columns, as_count, as_seed, as_share, check_page, require_columns
from diffor.cli.target_column import true_targets
from diffor.errors import UserError
from diffor.files import tables


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "explain",
        run,
        "say what moves a model's answers, what makes it unsure, and how single rows came to theirs",
        "diffor explain model test.csv",
        "diffor explain model test.csv --report why.html --rows 1 17",
        "diffor explain model new.csv --json",
    )
    command.add_argument("model", metavar="MODEL", help="folder that diffor fit wrote")
    command.add_argument("data", metavar="DATA", help="rows to look at, best ones that were kept out of training")
    command.add_argument(
        "--target", metavar="COL", help="column of the true values (default: as in fit, if it is there)"
    )
    add_side_columns(command)
    command.add_argument("--columns", nargs="+", metavar="COL", help="columns to measure (default: all)")
    command.add_argument("--rows", nargs="+", type=as_count, metavar="N", help="rows to explain (default: the first 3)")
    command.add_argument(
        "--coverage", type=as_share, default=0.9, metavar="C", help="of intervals (default: %(default)s)"
    )
    command.add_argument("--repeats", type=as_count, default=5, metavar="N", help="shuffles (default: %(default)s)")
    command.add_argument("--seed", type=as_seed, default=0, metavar="N", help="random seed (default: %(default)s)")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.add_argument("--report", metavar="PAGE.html", help="page with figures to write")
    command.add_argument("--force", action="store_true", help="replace the page if it exists")


def run(arguments: argparse.Namespace) -> None:
    """Print what was found, and write the page that was asked for."""
    page = check_page(arguments)
    data, folder = Path(arguments.data), Path(arguments.model)
    names = tables.column_names(data)
    model: Any = load_model(folder)
    numbers, text = columns_by_kind(model, names, data)
    target = _target(arguments.target, folder, names, data)
    sides = side_columns(model, folder, arguments, names, data)
    from diffor.reports.explanation import explain, explanation_page
    from diffor.reports.html import write_page

    with tables.unchanged(data):
        table = tables.read_table(data, list(dict.fromkeys([*numbers, *text, *sides.values()])), text)
        truth = None if target is None else true_targets(model, target, data)
    side: Any = {name: side_values(table[column], name, data) for name, column in sides.items()}
    rows: Any = 3 if arguments.rows is None else [row - 1 for row in arguments.rows]
    wrong = [row for row in arguments.rows or () if row > len(table)]
    if wrong:
        raise UserError(f"--rows must be from 1 to {len(table)}, the rows of {data}, but got {wrong[0]}; correct it")
    y = model.grades_[truth] if truth is not None and is_classifier(model) else truth
    found = explain(model, table[[*numbers, *text]], y, columns=arguments.columns, rows=rows,
                    n_repeats=arguments.repeats, coverage=arguments.coverage, random_state=arguments.seed,
                    **side)  # fmt: skip
    if page is not None:
        write_page(page, explanation_page(found, folder.resolve().name))
        print(f"the page is {page}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"model": type(model).__name__, "target": target, **found.to_json()}, allow_nan=False))
    else:
        print(found)


def _target(given: str | None, folder: Path, names: list[str], data: Path) -> str | None:
    """The column of the true values: the one that was named, else that of fit where the file has it."""
    if given is not None:
        require_columns([given], names, data)
        return given
    remembered = (read_notes(folder) or {}).get("target")
    return str(remembered) if remembered in names else None
