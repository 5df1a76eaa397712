"""Errors that users can mend, and what a mistyped name was probably meant to be.

A message says what is wrong, the value given, and what to do about it.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

DISTANT = 0.5
"""Words less alike than this are not suggested for each other."""


class UserError(ValueError):
    """A value, a table or a file that cannot be used as it is; programs that face users show its message alone."""


class UserTypeError(UserError, TypeError):
    """A value of a type that cannot be used."""


class RowsWarning(UserWarning):
    """What should be known of some rows: ``counts`` says of how many, by what is to be said of them.

    >>> str(RowsWarning({"column 'size' is far from all training rows": 2}))
    "column 'size' is far from all training rows in 2 rows"
    """

    advice: ClassVar[str] = ""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        super().__init__(self.counts)  # what other processes make it from again

    def __str__(self) -> str:
        parts = (f"{text} in {count} row{'s' * (count != 1)}" for text, count in self.counts.items())
        return "; ".join(parts) + self.advice

    @classmethod
    def joined(cls, parts: Iterable[RowsWarning]) -> RowsWarning:
        """One warning of what was said of several parts of a table."""
        counts: Counter[str] = Counter()
        for part in parts:
            counts.update(part.counts)
        return cls(counts)


class NoveltyWarning(RowsWarning):
    """Rows are unlike those that a model has learned from."""

    advice = ": answers to such rows are guesses; diffor.novelty(model, X), or predict --novelty, says which they are"


class CeilingWarning(RowsWarning):
    """Answers pile up at an end of what training rows had, which they cannot leave."""

    advice = ": no answer goes further than the training targets; learn from rows that do"


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
