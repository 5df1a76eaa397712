"""What settings of methods may be: one check for each rule, whose message names setting, rule and value."""

from __future__ import annotations

import math
from collections.abc import Callable
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
    rule = f"a whole number from {least} on"
    _check(settings, rule, lambda value: isinstance(value, Integral) and int(value) >= least)


def check_below_one(**settings: float) -> None:
    """Shares that leave something: numbers from 0 on that are less than 1."""
    _check(settings, "a share in [0, 1)", lambda value: 0 <= value < 1)
