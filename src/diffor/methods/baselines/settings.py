"""What settings of methods may be: one check for each rule, whose message names setting, rule and value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

from diffor.errors import UserError


def _check(settings: dict[str, Any], rule: str, is_right: Callable[[Any], bool]) -> None:
    for name, value in settings.items():
        if not is_right(value):
            raise UserError(f"{name} must be {rule}, but got {name}={value!r}")


def check_positive(**settings: float | None) -> None:
    """Finite numbers above 0; None is left to the method."""
    _check(settings, "a positive number", lambda value: value is None or 0 < value < math.inf)


def check_not_negative(**settings: float) -> None:
    """Finite numbers from 0 on."""
    _check(settings, "a number from 0 on", lambda value: 0 <= value < math.inf)


def check_counts(least: int = 1, **settings: int) -> None:
    """Whole numbers of at least ``least``."""

    def is_right(value: Any) -> bool:
        return isinstance(value, Integral) and int(value) >= least

    _check(settings, f"a whole number from {least} on", is_right)


def check_share(**settings: float) -> None:
    """Numbers in [0, 1]."""
    _check(settings, "a share in [0, 1]", lambda value: 0 <= value <= 1)


def check_below_one(**settings: float) -> None:
    """Shares that leave something: numbers from 0 on that are less than 1."""
    _check(settings, "a share in [0, 1)", lambda value: 0 <= value < 1)


def check_choice(known: Iterable[str], **settings: str) -> None:
    """One of the words that are known."""
    _check(settings, f"one of {', '.join(known)}", lambda value: value in known)
