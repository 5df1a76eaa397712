"""Why a request is refused: its status and, for each thing that is wrong, where it is and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Place = str | int

MAX_PROBLEMS = 20
"""Problems that an answer lists; of more it says how many."""
MAX_SHOWN = 60
"""Characters of a wrong value that a message repeats."""


class RefusedError(Exception):
    """A request that is not answered as asked; ``problems`` are the ones that its client gets to read."""

    def __init__(self, status: int, problems: Sequence[dict[str, Any]], headers: dict[str, str] | None = None) -> None:
        super().__init__(problems[0]["msg"])
        self.status, self.problems, self.headers = status, list(problems), headers


def problem(kind: str, message: str, *place: Place) -> dict[str, Any]:
    """One thing that is wrong, in the form that FastAPI gives its own.

    >>> problem("missing_column", "row 0 must have 'age'", "rows", 0, "age")["loc"]
    ['rows', 0, 'age']
    """
    return {"type": kind, "loc": [_readable(part) for part in place], "msg": message}


def refusal(status: int, kind: str, message: str, *place: Place, **headers: str) -> RefusedError:
    """A refusal for one reason; ``headers`` have ``_`` for ``-`` in their names."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return RefusedError(status, [problem(kind, message, *place)], named or None)


def shortened(problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many problems as an answer lists, and how many there are beside them."""
    more = len(problems) - MAX_PROBLEMS
    if more <= 0:
        return problems
    return [*problems[:MAX_PROBLEMS], problem("more", f"{more} more problems are not listed")]


def show(value: object) -> str:
    """A wrong value as messages repeat it, not at length.

    >>> show("a" * 100)[-8:]
    "aaaa...'"
    """
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 4] + "..." + text[-1]


def _readable(part: Place) -> Place:
    """A place without half characters, which no answer could be written with."""
    return part.encode("utf-8", "backslashreplace").decode() if isinstance(part, str) else part
