"""What the commands' arguments have in common: how a command is registered, and the types its options may have."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diffor.cli.usage import UsageError


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
    command.add_argument(
        "--steps", type=as_count, metavar="N", help="denoiser calls of DiffoR's chain: fewer are quicker, less exact"
    )


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


def as_count(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, but got {text!r}")
    return int(text)


def require_folder(origin: str, path: str | None) -> None:
    """Refuse a folder that was named but does not exist."""
    if path and not Path(path).is_dir():
        raise UsageError(f"{origin} must be an existing folder, but {path} is none; check the path")


def as_seed(text: str) -> int:
    """A whole number that all random generators accept."""
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 4294967295, but got {text!r}")
    return int(text)


def as_seconds(text: str) -> float:
    """A positive and finite number."""
    value = as_float(text)
    if value is None or not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number of seconds, but got {text!r}")
    return value


def as_share(text: str) -> float:
    """A number between 0 and 1, both excluded."""
    value = as_float(text)
    if value is None or not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1, as 0.9 does, but got {text!r}")
    return value


def as_levels(text: str) -> list[float]:
    """Different numbers from 0 to 1.

    >>> as_levels("0.05,.5,0.95")
    [0.05, 0.5, 0.95]
    """
    levels = [as_float(part) for part in text.split(",")]
    known = [level for level in levels if level is not None and 0 <= level <= 1]
    if len(set(known)) < len(levels):
        raise argparse.ArgumentTypeError(
            f"must be different levels from 0 to 1 with commas between, as 0.05,0.5,0.95 are, but got {text!r}"
        )
    return known


def as_statistic(text: str) -> str | float:
    """The name of a statistic, or the level of a quantile.

    >>> as_statistic("native"), as_statistic("0.9")
    ('native', 0.9)
    """
    level = as_float(text)
    if text in ("median", "mean", "mode", "qwk", "native") or (level is not None and 0 <= level <= 1):
        return text if level is None else level
    known = "median, mean, mode, qwk, native or a level from 0 to 1"
    raise argparse.ArgumentTypeError(f"must be {known}, but got {text!r}")


def as_names(text: str) -> list[str]:
    """Two or more different names.

    >>> as_names("low, mid, high")
    ['low', 'mid', 'high']
    """
    names = [part.strip() for part in text.split(",")]
    if len(names) < 2 or "" in names or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(
            f"must list two or more different grades, lowest first, as low,mid,high, but got {text!r}"
        )
    return names


def as_float(text: str) -> float | None:
    """The number that a text spells, or None."""
    try:
        return float(text)
    except ValueError:
        return None
