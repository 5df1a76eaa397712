"""Ordered grades: whole numbers, or the probability of each."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from diffor.errors import UserError
from diffor.metrics.checks import (
    checked_rows,
    require_probabilities,
    require_range,
    require_whole,
    weighted_mean,
)


def qwk(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    n_grades: int | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Quadratic weighted kappa: 1 less the squared grade distance over that expected from independent grades.

    Grades are whole numbers, with `n_grades` checked to lie in ``0..n_grades - 1``; grades that no row has change
    nothing. Where all rows have one and the same grade on both sides, the result is 0 with a RuntimeWarning.

    Shape: `y_true` (n,), `y_pred` (n,).

    >>> qwk([0, 1, 2, 2], [0, 1, 1, 2])
    0.8
    """
    weights, (true, predicted) = checked_rows(sample_weight, y_true=y_true, y_pred=y_pred)
    for values, name in ((true, "y_true"), (predicted, "y_pred")):
        grades = require_whole(values, name)
        if n_grades is not None:
            require_range(grades, name, n_grades)
    # Chance disagreement needs only the first two moments: no table of grades by grades is built.
    true_mean, predicted_mean = weighted_mean(true, weights), weighted_mean(predicted, weights)
    spread = weighted_mean((true - true_mean) ** 2 + (predicted - predicted_mean) ** 2, weights)
    if np.ptp(np.concatenate([true, predicted])) == 0:
        warnings.warn("qwk is undefined and given as 0: there is only one grade", RuntimeWarning, stacklevel=2)
        return 0.0
    return 1 - weighted_mean((true - predicted) ** 2, weights) / (spread + (true_mean - predicted_mean) ** 2)


def accuracy_off_by(
    y_true: ArrayLike, y_pred: ArrayLike, distance: int = 1, *, sample_weight: ArrayLike | None = None
) -> float:
    """Share of rows, 0 to 1, whose grade is at most `distance` grades off; with 0, plain accuracy.

    Shape: `y_true` (n,) whole numbers, `y_pred` (n,) whole numbers.

    >>> accuracy_off_by([0, 1, 2, 3], [0, 2, 0, 3])
    0.75
    """
    weights, (true, predicted) = checked_rows(sample_weight, y_true=y_true, y_pred=y_pred)
    if distance < 0:
        raise UserError(f"distance must not be negative, but got distance={distance}; 0 gives plain accuracy")
    off = np.abs(require_whole(true, "y_true") - require_whole(predicted, "y_pred"))
    return weighted_mean((off <= distance).astype(np.float64), weights)


def rps(y_true: ArrayLike, probabilities: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Ranked probability score: the sum over grades of the squared error of the cumulative probability.

    Not divided by K - 1, so a certain prediction scores the number of grades it is off.

    Shape: `y_true` (n,) grades in 0..K-1, `probabilities` (n, K).

    >>> rps([2], [[1, 0, 0]])
    2.0
    >>> rps([1], [[0.25, 0.5, 0.25]])
    0.125
    """
    weights, (true, table) = checked_rows(sample_weight, y_true=y_true, probabilities=probabilities)
    grades = require_whole(true, "y_true")
    require_range(grades, "y_true", table.shape[1])
    require_probabilities(table)
    cumulative = np.cumsum(table, axis=1, dtype=np.float64)[:, :-1]  # (n, K - 1): the last one is always 1
    reached = grades[:, None] <= np.arange(table.shape[1] - 1)
    return weighted_mean(((cumulative - reached) ** 2).sum(axis=1), weights)
