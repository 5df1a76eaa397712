"""What settings of methods may be: messages for numbers that no method can work with."""

from __future__ import annotations

import math
from numbers import Integral

from diffor.errors import UserError


def check_positive(**settings: float | None) -> None:
    """Refuse a setting that is not a finite number above 0; None is left to the method.

    >>> check_positive(delta=1.0, range_seconds=None)
    >>> check_positive(delta=0.0)
    Traceback (most recent call last):
    ValueError: delta must be a positive number, but got delta=0.0
    """
    for name, value in settings.items():
        if value is not None and not 0 < value < math.inf:
            raise UserError(f"{name} must be a positive number, but got {name}={value}")


def check_not_negative(**settings: float) -> None:
    """Refuse a setting that is not a finite number from 0 on.

    >>> check_not_negative(margin=-1.0)
    Traceback (most recent call last):
    ValueError: margin must be a number from 0 on, but got margin=-1.0
    """
    for name, value in settings.items():
        if not 0 <= value < math.inf:
            raise UserError(f"{name} must be a number from 0 on, but got {name}={value}")


def check_counts(least: int = 1, **settings: int) -> None:
    """Refuse a setting that is not a whole number of at least ``least``.

    >>> check_counts(window=0)
    Traceback (most recent call last):
    ValueError: window must be a whole number from 1 on, but got window=0
    """
    for name, value in settings.items():
        if not isinstance(value, Integral) or value < least:
            raise UserError(f"{name} must be a whole number from {least} on, but got {name}={value}")


def check_share(**settings: float) -> None:
    """Refuse a setting that is not a number from 0 to 1.

    >>> check_share(first_teacher_share=1.5)
    Traceback (most recent call last):
    ValueError: first_teacher_share must lie in [0, 1], but got first_teacher_share=1.5
    """
    for name, value in settings.items():
        if not 0 <= value <= 1:
            raise UserError(f"{name} must lie in [0, 1], but got {name}={value}")


def check_dropout(dropout: float) -> None:
    """Refuse a share of dropped values that leaves none, or is none.

    >>> check_dropout(1.0)
    Traceback (most recent call last):
    ValueError: dropout must lie in [0, 1), but got dropout=1.0
    """
    if not 0 <= dropout < 1:
        raise UserError(f"dropout must lie in [0, 1), but got dropout={dropout}")
