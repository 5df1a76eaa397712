"""Wrong use: the error that ends a command with one line, and the rules for what that line says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from diffor.errors import UserError, did_you_mean


class UsageError(Exception):
    """Wrong use of a command; the message is one line that names rule, value and cure."""


@contextmanager
def library_messages(where: str = "") -> Iterator[None]:
    """Pass on what the library says about wrong values; whatever else goes wrong keeps its traceback."""
    try:
        yield
    except (UserError, FloatingPointError) as error:
        raise UsageError(where + str(error)) from error


def require_figures() -> None:
    """Refuse a page whose figures cannot be drawn, before anything else is done for it."""
    from diffor.reports.plots import require_matplotlib

    try:
        require_matplotlib()
    except ImportError as error:
        raise UsageError(str(error)) from error


def require_columns(wanted: Sequence[str], known: Sequence[str], data: Path) -> None:
    """Refuse a file that lacks wanted columns, naming those that may be meant."""
    missing = [name for name in wanted if name not in known]
    if missing:
        shown = ", ".join(f"{name!r}{did_you_mean(name, known)}" for name in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        has = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
        raise UsageError(f"{data} must have the column {shown}{more}, but its columns are {has}; "
                         "check the names")  # fmt: skip
