"""Errors that users can mend, and what a mistyped name was probably meant to be.

A message says what is wrong, the value given, and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

DISTANT = 0.5
"""Words less alike than this are not suggested for each other."""


class UserError(ValueError):
    """A value, a table or a file that cannot be used as it is; programs that face users show its message alone."""


class UserTypeError(UserError, TypeError):
    """A value of a type that cannot be used."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The known word most like an unknown one, as a question to append to a message; empty where none is.

    >>> did_you_mean("Prise", ["size", "price"]), did_you_mean("x", ["size"])
    (" (did you mean 'price'?)", '')
    """
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=DISTANT)
    return f" (did you mean {by_lower[close[0]]!r}?)" if close else ""


def check_choice(name: str, value: object, known: Collection[str]) -> None:
    """Refuse a value that is none of the known ones."""
    if value not in known:
        raise UserError(
            f"{name} must be one of {', '.join(known)}, but got {name}={value!r}{did_you_mean(str(value), known)}"
        )


def check_least(name: str, value: float, least: float = 1) -> None:
    """Refuse a number below the least that makes sense."""
    if not value >= least:
        raise UserError(f"{name} must be at least {least}, but got {name}={value}")


def check_share(name: str, value: float) -> None:
    """Refuse a number outside [0, 1]."""
    if not 0 <= value <= 1:
        raise UserError(f"{name} must lie in [0, 1], but got {name}={value}")
