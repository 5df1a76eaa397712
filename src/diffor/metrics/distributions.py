"""Predicted distributions: CRPS and calibration."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from diffor.errors import UserError
from diffor.metrics.checks import (
    FloatArray,
    checked_array,
    checked_rows,
    refuse,
    require_fraction,
    weighted_mean,
)

# Numbers per block when a table of samples is sorted: the temporary copies stay near 32 MB each.
_BLOCK_SIZE = 2**22
_PIT_STREAM = 20220611


def crps_samples(
    y_true: ArrayLike, samples: ArrayLike, fair: bool = False, *, sample_weight: ArrayLike | None = None
) -> float:
    """Continuous ranked probability score of samples: E|X - y| - E|X - X'| / 2, in the units of y.

    With one sample per row this is the mean absolute error, so point predictions can stand in the same table.
    With `fair`, the second mean leaves out the pairs of a sample with itself: the score then estimates that of the
    distribution behind the samples, whatever their number.

    Shape: `y_true` (n,), `samples` (n, m).

    >>> round(crps_samples([3], [[1, 2, 4]]), 6)
    0.666667
    >>> round(crps_samples([3], [[1, 2, 4]], fair=True), 6)
    0.333333
    """
    weights, (true, table) = checked_rows(sample_weight, y_true=y_true, samples=samples)
    return weighted_mean(crps_each(true, table, fair), weights)


def crps_each(y_true: ArrayLike, samples: ArrayLike, fair: bool = False) -> FloatArray:
    """Score of :func:`crps_samples` row by row.

    Shape: `y_true` (n,), `samples` (n, m) -> (n,).

    >>> crps_each([3, 1], [[3, 3], [0, 2]]).tolist()
    [0.0, 0.5]
    """
    _, (true, table) = checked_rows(None, y_true=y_true, samples=samples)
    n_samples = table.shape[1]
    if fair and n_samples < 2:
        raise UserError(f"samples must have two columns for fair=True, but got {n_samples}; draw more samples")
    # Sorted, the j-th of m samples is the larger one in j - 1 pairs and the smaller one in m - j.
    ranks = 2 * np.arange(1, n_samples + 1) - n_samples - 1
    spread = ranks / (n_samples * (n_samples - 1 if fair else n_samples))
    scores = np.empty(len(true))
    for block in _row_blocks(table):
        errors = np.sort(table[block].astype(np.float64) - true[block, None], axis=1)
        scores[block] = np.abs(errors).mean(axis=1) - errors @ spread
    return scores


def _row_blocks(table: FloatArray) -> Iterator[slice]:
    """Slices of rows, so that working copies of a large table stay small."""
    n_rows = max(1, _BLOCK_SIZE // table.shape[1])
    for start in range(0, len(table), n_rows):
        yield slice(start, start + n_rows)


def crps_grid(y_true: ArrayLike, cdf: ArrayLike, grid: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """CRPS as a public benchmark of distributions counts it: by trapezoids on a grid, and nothing outside of it.

    Each row's probability inside the grid is normalised to 1, as of the densities there; a distribution that lies
    outside altogether keeps its 0 or 1. `training_grid` is the benchmark's grid.

    Shape: `y_true` (n,), `cdf` (n, g) the probability at or below each point of `grid` (g,), which increases.

    >>> crps_grid([1.0], [[0.25, 0.5, 0.75]], [0, 1, 2])
    0.25
    """
    weights, (true, table) = checked_rows(sample_weight, y_true=y_true, cdf=cdf)
    points = checked_array(grid, "grid")
    if len(points) != table.shape[1] or len(points) < 2 or np.any(np.diff(points) <= 0):
        raise UserError(
            f"grid must increase and have a point for each of the {table.shape[1]} columns of cdf, two or more, "
            f"but got {len(points)} points from {points[0]:g} to {points[-1]:g}; give the points that cdf was asked at"
        )
    refuse((table < 0) | (table > 1), table, "cdf", "must lie in [0, 1]", "give probabilities")
    low, inside = table[:, :1], table[:, -1:] - table[:, :1]
    whole = np.where(inside > 0, (table - low) / np.where(inside > 0, inside, 1), table)
    squares = (whole - (points >= true[:, None])) ** 2
    return weighted_mean((squares[:, 1:] + squares[:, :-1]) @ np.diff(points) / 2, weights)


def training_grid(y_train: ArrayLike, n_points: int = 200, margin: float = 0.05) -> FloatArray:
    """Even points over the range of the training targets and a margin on either side. **Shape:** ``(n_points,)``.

    >>> training_grid([0.0, 10.0], n_points=4).tolist()
    [-0.5, 3.1666666666666665, 6.833333333333333, 10.5]
    """
    values = checked_array(y_train, "y_train")
    spare = margin * (values.max() - values.min())
    return np.linspace(values.min() - spare, values.max() + spare, n_points)


def qice(
    y_true: ArrayLike, samples: ArrayLike, n_bins: int = 10, random_state: int | np.random.Generator | None = 0
) -> float:
    """Quantile interval calibration error: how unevenly y falls into intervals that should be equally likely.

    The mean absolute difference between 1 / n_bins and the share of rows in each interval; 0 is perfect.
    A row's interval is read from the place of y in its distribution (:func:`pit_values`), which is fair for any number
    of samples and any point masses. That place being random, there are no weights.

    Shape: `y_true` (n,), `samples` (n, m).

    >>> rng = np.random.default_rng(0)
    >>> y, samples = rng.normal(size=2000), rng.normal(size=(2000, 100))
    >>> qice(y, samples) < 0.01 < qice(y + 1, samples)
    True
    """
    if n_bins < 2:
        raise UserError(f"n_bins must be at least 2, but got n_bins={n_bins}; 10 is customary")
    probability = pit_values(y_true, samples, random_state)
    bins = np.minimum((probability * n_bins).astype(np.intp), n_bins - 1)
    shares = np.bincount(bins, minlength=n_bins) / len(probability)
    return float(np.abs(shares - 1 / n_bins).mean())


def pit_values(y_true: ArrayLike, samples: ArrayLike, random_state: int | np.random.Generator | None = 0) -> FloatArray:
    """Where each truth stands in its row's distribution, from 0 (below all) to 1: the probability integral transform.

    The rank of y among its samples stands for a stretch of probability, longer where samples equal y, as at a point
    mass or with grades. A random place in it is taken, so the values are exactly uniform if y is distributed as the
    samples.

    Shape: `y_true` (n,), `samples` (n, m) -> (n,).

    >>> low, high = pit_values([-5.0, 5.0], [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    >>> low < 1 / 4, high > 3 / 4
    (np.True_, np.True_)
    """
    _, (true, table) = checked_rows(None, y_true=y_true, samples=samples)
    below, equal = np.empty((2, len(true)))
    for block in _row_blocks(table):
        place = true[block, None].astype(table.dtype)  # else float32 samples never equal a y such as 0.1
        below[block] = (table[block] < place).sum(axis=1)
        equal[block] = (table[block] == place).sum(axis=1)
    # A stream of its own: with a bare seed, y drawn from the same seed would be correlated with the random places.
    seed = [_PIT_STREAM, random_state] if isinstance(random_state, (int, np.integer)) else random_state
    random = np.random.default_rng(seed).random(len(true))
    return np.asarray((below + random * (equal + 1)) / (table.shape[1] + 1))


def picp(
    y_true: ArrayLike, samples: ArrayLike, coverage: float = 0.95, *, sample_weight: ArrayLike | None = None
) -> float:
    """Share of rows, 0 to 1, inside the central interval of their samples, ends included; ideal is `coverage`.

    Few samples give too short an interval, and a point mass at one of its ends too high a share: see `qice`.

    Shape: `y_true` (n,), `samples` (n, m).

    >>> picp([0.5, 9.9], [np.arange(11), np.arange(11)], coverage=0.9)
    0.5
    """
    require_fraction(coverage, "coverage")
    weights, (true, table) = checked_rows(sample_weight, y_true=y_true, samples=samples)
    inside = np.empty(len(true))
    for block in _row_blocks(table):
        low, high = np.quantile(table[block], [(1 - coverage) / 2, (1 + coverage) / 2], axis=1)
        place = true[block].astype(table.dtype)  # else float32 samples never equal a y such as 0.1
        inside[block] = (low <= place) & (place <= high)
    return weighted_mean(inside, weights)
