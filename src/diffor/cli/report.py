"""``diffor report``: the lines of a benchmark as one page, or its leaderboards as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.options import add_command
from diffor.cli.usage import UsageError
from diffor.errors import did_you_mean
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
    command.add_argument("results", nargs="+", metavar="RESULTS.jsonl", help="files that diffor bench wrote")
    command.add_argument("--out", metavar="PAGE.html", help="page to write")
    command.add_argument("--json", action="store_true", help="print the numbers of the leaderboards as one JSON object")
    command.add_argument("--methods", type=_as_list, metavar="A,B", help="methods to compare (default: all)")
    command.add_argument("--without", type=_as_list, default=[], metavar="A,B", help="methods to leave out")
    command.add_argument("--title", default=TITLE, help="title of the page (default: %(default)s)")
    command.add_argument("--force", action="store_true", help="replace the page if it exists")


def run(arguments: argparse.Namespace) -> None:
    """Write the page, print the numbers, or both."""
    if arguments.out is None and not arguments.json:
        raise UsageError("a report must go somewhere, but neither --out nor --json is given; add --out page.html")
    if arguments.out is not None:
        tables.check_output(Path(arguments.out), arguments.force)
    cells, n_damaged = _read([Path(name) for name in arguments.results])
    methods = _chosen(cells, arguments.methods, arguments.without)
    if arguments.out is not None:
        _write(arguments, cells, n_damaged, methods)
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
            raise UsageError(f"results must be files that diffor bench wrote, but {path} is none; check the path")
        found, damaged = read_lines(path)
        lines += found
        n_damaged += damaged
    if not lines:
        raise UsageError(f"results must hold at least one finished cell, but "
                         f"{', '.join(map(str, paths))} hold none; run diffor bench first")  # fmt: skip
    return pool_left_out(latest_cells(lines)), n_damaged


def _chosen(cells: Cells, wanted: list[str] | None, without: list[str]) -> list[str] | None:
    known = {method for _, method, _ in cells}
    for name in (*(wanted or ()), *without):
        if name not in known:
            raise UsageError(f"a method must be among the results, but {name!r} is not"
                             f"{did_you_mean(name, known)}")  # fmt: skip
    if wanted is not None:
        return [name for name in wanted if name not in without]
    if not without:
        return None
    from diffor.bench.leaderboard import TASKS, of_task, ranked_methods

    enough = {name for task in TASKS for name in ranked_methods(of_task(cells, task))}
    return sorted(enough - set(without))


def _write(arguments: argparse.Namespace, cells: Cells, n_damaged: int, methods: list[str] | None) -> None:
    from diffor.bench.page import benchmark_sections
    from diffor.reports.html import html_page, write_page

    try:
        page = html_page(arguments.title, benchmark_sections(cells, n_damaged, methods))
    except ImportError as error:
        if "diffor[" not in str(error):
            raise
        raise UsageError(str(error)) from error
    write_page(arguments.out, page)
    print(f"{len(cells)} cells; the page is {arguments.out}", file=sys.stderr)


def _as_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
