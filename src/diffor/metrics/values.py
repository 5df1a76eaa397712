"""Errors of one number per row."""

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
