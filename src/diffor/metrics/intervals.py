"""Intervals: how often they hold the truth, and how wide they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from diffor.errors import UserError
from diffor.metrics.checks import FloatArray, checked_rows, weighted_mean


def coverage(y_true: ArrayLike, low: ArrayLike, high: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Share of rows, 0 to 1, inside their interval, ends included; good where it equals the interval's nominal level.

    Shape: `y_true` (n,), `low` (n,), `high` (n,).

    >>> coverage([1, 2, 3, 4], [0, 2, 4, 0], [1, 3, 5, 9])
    0.75
    """
    weights, (true, lower, upper) = checked_rows(sample_weight, y_true=y_true, low=low, high=high)
    _require_order(lower, upper)
    return weighted_mean(((lower <= true) & (true <= upper)).astype(np.float64), weights)


def interval_width(low: ArrayLike, high: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean width of the intervals, in the units of y; compare it only at equal coverage.

    Shape: `low` (n,), `high` (n,).

    >>> interval_width([0, 2], [1, 5])
    2.0
    """
    weights, (lower, upper) = checked_rows(sample_weight, low=low, high=high)
    _require_order(lower, upper)
    return weighted_mean(upper - lower, weights)


def _require_order(low: FloatArray, high: FloatArray) -> None:
    wrong = np.flatnonzero(low > high)
    if len(wrong):
        row = wrong[0]
        given = f"low={float(low[row])!r} and high={float(high[row])!r} in row {row}"
        raise UserError(f"low must not exceed high, but got {given}; swap them")
