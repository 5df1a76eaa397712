"""``diffor demo``: train on a table that comes with scikit-learn and write a page about it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from diffor.cli.options import add_command, as_seed
from diffor.cli.usage import UsageError
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
    command.add_argument("--out", default=".", metavar="FOLDER", help="where the page is written (default: here)")
    command.add_argument("--seed", type=as_seed, default=0, metavar="N", help="random seed (default: %(default)s)")
    command.add_argument("--quick", action="store_true", help="train for a moment only: the figures mean nothing")
    command.add_argument("--force", action="store_true", help="replace the page if it exists")


def run(arguments: argparse.Namespace) -> None:
    """Write the page."""
    folder = Path(arguments.out)
    if not folder.is_dir():
        raise UsageError(f"--out must be an existing folder, but {folder} is none; create it first")
    from diffor.reports.demo import PAGE, run_demo

    tables.check_output(folder / PAGE, arguments.force)
    try:
        run_demo(folder, arguments.seed, arguments.quick)
    except ImportError as error:
        if "diffor[" not in str(error):
            raise
        raise UsageError(str(error)) from error
