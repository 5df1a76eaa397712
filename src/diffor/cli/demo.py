"""``diffor demo``: train on a table that comes with scikit-learn and write a page about it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from diffor.cli.options import add_command, as_seed
from diffor.errors import UserError
from diffor.files import tables


def add(commands: Any) -> None:
    """Register the command and its arguments."""
    command = add_command(
        commands,
        "demo",
        run,
        "train on a table that comes with scikit-learn and write a page about it",
        "diffor demo",
        "diffor demo --quick --out pages --force",
    )
    argument = command.add_argument
    argument("--out", default=".", metavar="FOLDER", help="where the page is written (default: here)")
    argument("--seed", type=as_seed, default=0, metavar="N", help="random seed (default: %(default)s)")
    argument("--quick", action="store_true", help="train for a moment only: the figures mean nothing")
    argument("--force", action="store_true", help="replace the page if it exists")


def run(arguments: argparse.Namespace) -> None:
    """Write the page."""
    folder = Path(arguments.out)
    if not folder.is_dir():
        raise UserError(f"--out must be an existing folder, but {folder} is none; create it first")
    from diffor.reports.demo import PAGE, run_demo

    tables.check_output(folder / PAGE, arguments.force)
    run_demo(folder, arguments.seed, arguments.quick)
