"""Errors of one number per row, and intervals: how often they hold the truth, and how wide they are."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from diffor.errors import UserError
from diffor.metrics.checks import FloatArray, checked_rows, require_fraction, weighted_mean


def mae(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean absolute error, in the units of y.

    Shape: `y_true` (n,), `y_pred` (n,).

    >>> mae([1, 2, 3], [1, 3, 5])
    1.0
    """
    weights, (true, predicted) = checked_rows(sample_weight, y_true=y_true, y_pred=y_pred)
    return weighted_mean(np.abs(predicted - true), weights)


def rmse(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Root of the mean squared error, in the units of y.

    Shape: `y_true` (n,), `y_pred` (n,).

    >>> rmse([0, 0], [3, 5])
    4.123105625617661
    """
    weights, (true, predicted) = checked_rows(sample_weight, y_true=y_true, y_pred=y_pred)
    return math.sqrt(weighted_mean((predicted - true) ** 2, weights))


def cs(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    limit: float = 5,
    round: bool = False,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Cumulative score: the share of rows, 0 to 1, whose absolute error is at most `limit`.

    With `round`, predictions are first rounded to whole numbers (halves to the even one), as for ages in years.

    Shape: `y_true` (n,), `y_pred` (n,).

    >>> cs([20, 30, 40], [25, 35.4, 41])
    0.6666666666666666
    >>> cs([20, 30, 40], [25, 35.4, 41], round=True)
    1.0
    """
    weights, (true, predicted) = checked_rows(sample_weight, y_true=y_true, y_pred=y_pred)
    if not limit >= 0:
        raise UserError(f"limit must not be negative, but got limit={limit}; give the largest accepted error")
    predicted = np.rint(predicted) if round else predicted
    return weighted_mean((np.abs(predicted - true) <= limit).astype(np.float64), weights)


def pinball(
    y_true: ArrayLike, y_pred: ArrayLike, level: float = 0.5, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean pinball loss of a predicted quantile: at level 0.5 half the absolute error.

    Shape: `y_true` (n,), `y_pred` (n,).

    >>> pinball([10, 10], [8, 12], level=0.75)
    1.0
    """
    require_fraction(level, "level")
    weights, (true, predicted) = checked_rows(sample_weight, y_true=y_true, y_pred=y_pred)
    return weighted_mean(pinball_loss(true - predicted, level), weights)


def pinball_loss(error: FloatArray, level: float | FloatArray) -> FloatArray:
    """Pinball loss of each error, that is truth less prediction."""
    return np.maximum(level * error, (level - 1) * error)


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
