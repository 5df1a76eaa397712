"""What the commands' arguments have in common: how a command is registered, and the types its options may have."""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from diffor.errors import UserError, did_you_mean
from diffor.files import tables

T = TypeVar("T")


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], None], text: str, *examples: str
) -> argparse.ArgumentParser:
    """Register a command; what is returned takes its arguments."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=list_examples(*examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    return command


def add_effort(command: argparse.ArgumentParser) -> None:
    """Add the options that say how much work an answer is worth."""
    command.add_argument("--samples", type=as_count, metavar="N", help="samples per row (default: the model's)")
    steps = "denoiser calls of DiffoR's chain: fewer are quicker, less exact"
    command.add_argument("--steps", type=as_count, metavar="N", help=steps)


def add_side_columns(command: argparse.ArgumentParser) -> None:
    """Add the options that name columns beside the features."""
    command.add_argument("--duration", metavar="COL", help="column of the duration, where needed (default: as in fit)")
    for name, word in (("lower", "less"), ("upper", "more")):
        command.add_argument(
            f"--{name}",
            metavar="COL",
            help=f"column of a limit of each row, than which no answer is {word}; where it is empty, there is none"
            + (" (default: as in fit --limit share)" if name == "upper" else ""),
        )


def list_examples(*lines: str) -> str:
    """The examples at the end of a help text."""
    return "\n".join(["examples:", *(f"  {line}" for line in lines)])


def reader(rule: str, spelled: Callable[[str], T], allows: Callable[[T], bool]) -> Callable[[str], T]:
    """What reads a word of the command line as argparse's types do, and refuses what breaks the rule.

    >>> reader("be a digit", int, lambda number: 0 <= number <= 9)("7")
    7
    """

    def read(text: str) -> T:
        with suppress(ValueError):
            value = spelled(text)
            if allows(value):
                return value
        raise argparse.ArgumentTypeError(f"must {rule}, but got {text!r}")

    return read


def as_words(text: str) -> list[str]:
    """The words between commas.

    >>> as_words("low, mid, high")
    ['low', 'mid', 'high']
    """
    return [part.strip() for part in text.split(",")]


STATISTICS = ("median", "mean", "mode", "qwk", "native")

as_count = reader("be a whole number from 1 on", int, lambda count: count >= 1)
as_seed = reader("be a whole number from 0 to 4294967295", int, lambda seed: 0 <= seed < 2**32)
as_seconds = reader("be a positive number of seconds", float, lambda seconds: 0 < seconds < math.inf)
as_share = reader("lie between 0 and 1, as 0.9 does", float, lambda share: 0 < share < 1)
as_list = reader("be names with commas between", as_words, lambda names: "" not in names)
as_names = reader(
    "list two or more different grades, lowest first, as low,mid,high",
    as_words,
    lambda names: len(names) >= 2 and "" not in names and len(set(names)) == len(names),
)
as_levels = reader(
    "be different levels from 0 to 1 with commas between, as 0.05,0.5,0.95 are",
    lambda text: [float(part) for part in text.split(",")],
    lambda levels: len(set(levels)) == len(levels) and all(0 <= level <= 1 for level in levels),
)
as_statistic = reader(
    "be median, mean, mode, qwk, native or a level from 0 to 1",
    lambda text: text if text in STATISTICS else float(text),
    lambda statistic: isinstance(statistic, str) or 0 <= statistic <= 1,
)


def require_folder(origin: str, path: str | None) -> None:
    """Refuse a folder that was named but does not exist."""
    if path and not Path(path).is_dir():
        raise UserError(f"{origin} must be an existing folder, but {path} is none; check the path")


def check_page(arguments: argparse.Namespace) -> Path | None:
    """Where the page goes, if there is to be one that can be drawn and written."""
    from diffor.reports.plots import require_matplotlib

    if arguments.report is None:
        if arguments.force:
            raise UserError("--force is for --report, but no page is asked for; add --report PAGE.html")
        return None
    page = Path(arguments.report)
    if page.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"--report must be a page whose name ends in .html, but got {page}; rename it")
    tables.check_output(page, arguments.force)
    require_matplotlib()
    return page


def require_columns(wanted: Sequence[str], known: Sequence[str], data: Path) -> None:
    """Refuse a file that lacks wanted columns, naming those that may be meant."""
    missing = [name for name in wanted if name not in known]
    if missing:
        shown = ", ".join(f"{name!r}{did_you_mean(name, known)}" for name in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise UserError(
            f"{data} must have the column {shown}{more}, but its columns are {first_names(known)}; check the names"
        )


WIDTH = 100
"""Columns of a terminal that tables fit into."""


def table_row(cells: Sequence[str], widths: Sequence[int], text: str) -> str:
    """Cells in columns, and a text that is wrapped in what is left of the line."""
    start = "  " + "".join(f"{cell:<{width}}  " for cell, width in zip(cells, widths, strict=True))
    return textwrap.fill(text, WIDTH, initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False)


@contextmanager
def about(where: str) -> Iterator[None]:
    """Say of what the library refuses where it stands."""
    try:
        yield
    except UserError as error:
        raise UserError(where + str(error)) from error


def first_names(names: Sequence[str], most: int = 8) -> str:
    """The first of some names, for messages."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
