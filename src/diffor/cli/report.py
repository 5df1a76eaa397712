"""``diffor report``: the lines of a benchmark as one page, or its leaderboards as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.options import add_command, as_list
from diffor.errors import UserError, did_you_mean
from diffor.files import tables

if TYPE_CHECKING:
    from diffor.bench.leaderboard import Cells

TITLE = "DiffoR benchmark"


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "report",
        run,
        "turn the lines of a benchmark into one page, or its leaderboards into JSON",
        "diffor report results.jsonl --out page.html",
        "diffor report first.jsonl second.jsonl --without card --out page.html --force",
        "diffor report results.jsonl --json",
    )
    argument = command.add_argument
    argument("results", nargs="+", metavar="RESULTS.jsonl", help="files that diffor bench wrote")
    argument("--out", metavar="PAGE.html", help="page to write")
    argument("--json", action="store_true", help="print the numbers of the leaderboards as one JSON object")
    argument("--methods", type=as_list, metavar="A,B", help="methods to compare (default: all)")
    argument("--without", type=as_list, default=[], metavar="A,B", help="methods to leave out")
    argument("--title", default=TITLE, help="title of the page (default: %(default)s)")
    argument("--force", action="store_true", help="replace the page if it exists")


def run(arguments: argparse.Namespace) -> None:
    """Write the page, print the numbers, or both."""
    if arguments.out is None and not arguments.json:
        raise UserError("a report must go somewhere, but neither --out nor --json is given; add --out page.html")
    if arguments.out is not None:
        tables.check_output(Path(arguments.out), arguments.force)
    cells, n_damaged = _read([Path(name) for name in arguments.results])
    methods = _chosen(cells, arguments.methods, arguments.without)
    if arguments.out is not None:
        from diffor.bench.page import benchmark_sections
        from diffor.reports.html import html_page, write_page

        write_page(arguments.out, html_page(arguments.title, benchmark_sections(cells, n_damaged, methods)))
        print(f"{len(cells)} cells; the page is {arguments.out}", file=sys.stderr)
    if arguments.json:
        from diffor.bench.foundation_tables import foundation_numbers
        from diffor.bench.leaderboard import leaderboard_numbers
        from diffor.bench.paper_tables import paper_numbers, paper_tables

        numbers, beside = leaderboard_numbers(cells, methods), paper_tables(cells, methods)
        if beside:
            numbers["beside_the_paper"] = paper_numbers(beside)
        models = foundation_numbers(cells, methods)
        if models:
            numbers["beside_foundation_models"] = models
        print(json.dumps(numbers, allow_nan=False))


def _read(paths: list[Path]) -> tuple[Cells, int]:
    from diffor.bench.leaderboard import latest_cells
    from diffor.bench.left_out import pool_left_out
    from diffor.bench.run import read_lines

    lines, n_damaged = [], 0
    for path in paths:
        if not path.is_file():
            raise UserError(f"results must be files that diffor bench wrote, but {path} is none; check the path")
        found, damaged = read_lines(path)
        lines += found
        n_damaged += damaged
    if not lines:
        named = ", ".join(map(str, paths))
        raise UserError(f"results must hold at least one finished cell, but {named} hold none; run diffor bench first")
    return pool_left_out(latest_cells(lines)), n_damaged


def _chosen(cells: Cells, wanted: list[str] | None, without: list[str]) -> list[str] | None:
    known = {method for _, method, _ in cells}
    for name in (*(wanted or ()), *without):
        if name not in known:
            raise UserError(f"a method must be among the results, but {name!r} is not{did_you_mean(name, known)}")
    if wanted is not None:
        return [name for name in wanted if name not in without]
    if not without:
        return None
    from diffor.bench.leaderboard import TASKS, of_task, ranked_methods

    enough = {name for task in TASKS for name in ranked_methods(of_task(cells, task))}
    return sorted(enough - set(without))
