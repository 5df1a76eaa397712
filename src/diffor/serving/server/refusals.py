"""Why a request is refused: its status and, for each thing that is wrong, where it is and what to do about it."""

from __future__ import annotations

import reprlib
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

Place = str | int
REFUSAL = "diffor.refusal"
"""Where a refused request's scope has the kind of its first problem."""

MAX_PROBLEMS = 20
"""Problems that an answer lists; of more it says how many."""
MAX_COUNTED = 10_000
"""Problems after which no more are looked for."""
MAX_SHOWN = 60
"""Characters of a wrong value that a message repeats."""


class RefusedError(Exception):
    """A request that is not answered as asked; ``problems`` are the ones that its client gets to read."""

    def __init__(self, status: int, problems: list[dict[str, Any]], headers: dict[str, str] | None = None) -> None:
        super().__init__(problems[0]["msg"])
        self.status, self.problems, self.headers = status, problems, headers


def problem(kind: str, message: str, *place: Place) -> dict[str, Any]:
    """One thing that is wrong, in the form that FastAPI gives its own.

    >>> problem("missing_column", "row 0 must have 'age'", "rows", 0, "age")["loc"]
    ['rows', 0, 'age']
    """
    # Half characters are spelled: no answer could be written with them.
    spelled = [part.encode("utf-8", "backslashreplace").decode() if isinstance(part, str) else part for part in place]
    return {"type": kind, "loc": spelled, "msg": message}


def refusal(status: int, kind: str, message: str, *place: Place, **headers: str) -> RefusedError:
    """A refusal for one reason; ``headers`` have ``_`` for ``-`` in their names."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return RefusedError(status, [problem(kind, message, *place)], named or None)


class Refused(JSONResponse):
    """A refusal as a response, which leaves its kind in the scope for those who count."""

    def __init__(self, error: RefusedError) -> None:
        super().__init__({"detail": error.problems}, error.status, error.headers)
        self.kind = error.problems[0]["type"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with it."""
        scope[REFUSAL] = self.kind
        await super().__call__(scope, receive, send)


class Problems:
    """Problems of one request: the first ones in full, of the others how many there are.

    Describing a problem costs more than finding it, and a request may have as many as it has letters; so ask
    ``count`` before a problem is described, and stop where there ``are_enough``.
    """

    def __init__(self) -> None:
        self.n = 0
        self.told: list[dict[str, Any]] = []

    @property
    def are_enough(self) -> bool:
        """Whether there are so many that nobody needs to know of more."""
        return self.n >= MAX_COUNTED

    def count(self) -> bool:
        """Count a problem; whether it is to be described."""
        self.n += 1
        return self.n <= MAX_PROBLEMS

    def add(self, kind: str, message: str, *place: Place) -> None:
        """Describe a problem that was counted."""
        self.told.append(problem(kind, message, *place))

    def refuse(self) -> None:
        """Raise what was found, ordered by rows, if anything was."""
        if not self.told:
            return
        told = sorted(self.told, key=lambda one: one["loc"][1])
        if self.n > len(told):
            said = "very many" if self.are_enough else str(self.n - len(told))
            told.append(problem("more", f"{said} more problems are not listed"))
        raise RefusedError(422, told)


_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxdict = _SHORT.maxlevel = 4
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 2 * MAX_SHOWN


def show(value: object) -> str:
    """A wrong value as messages repeat it, not at length.

    >>> show("a" * 100)[-8:]
    "aaaa...'"
    """
    # What is cut off is not spelled out before: a value can be as large as a request.
    text = repr(value[: 2 * MAX_SHOWN]) if isinstance(value, str) else _SHORT.repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 4] + "..." + text[-1]
