"""What a mistyped name was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

DISTANT = 0.5
"""Words less alike than this are not suggested for each other."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The known word most like an unknown one, as a question to append to a message; empty where none is.

    >>> did_you_mean("Prise", ["size", "price"]), did_you_mean("x", ["size"])
    (" (did you mean 'price'?)", '')
    """
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=DISTANT)
    return f" (did you mean {by_lower[close[0]]!r}?)" if close else ""
