"""Order: pairs of rows, correlation and shares."""

from __future__ import annotations

import math
import warnings
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from diffor.errors import UserError
from diffor.metrics.checks import (
    FloatArray,
    IndexArray,
    checked_array,
    checked_rows,
    refuse,
    require_counts,
    weighted_mean,
)
from diffor.metrics.pairs import discordant_pairs, pair_codes, sum_by, unequal_pairs

Ties = Literal["skip", "strict", "correct"]


def xauc(y_true: ArrayLike, y_pred: ArrayLike, ties: Ties = "skip", *, sample_weight: ArrayLike | None = None) -> float:
    """Share of pairs of rows whose predictions stand in the same order as their labels.

    Three rules for pairs with tied labels are in use, and their numbers must not be compared with each other:

    - ``"skip"``: such pairs are left out, so that 1 is reachable and 0.5 is chance;
    - ``"strict"``: they stay in the denominator and count as wrong, so the best is ``1 - label_tie_share(y_true)``;
    - ``"correct"``: they stay and count as right.

    Under all three, a pair with different labels and tied predictions counts one half.
    A pair weighs the product of its two weights. Under ``"strict"`` and ``"correct"`` the copies that a weight stands
    for are pairs too (tied ones), hence weights must be whole numbers there.

    Exact in O(n log n). Shape: `y_true` (n,), `y_pred` (n,).

    >>> xauc([1, 2, 2, 3], [0.1, 0.2, 0.3, 0.25])
    0.8
    >>> xauc([1, 2, 2, 3], [0.1, 0.2, 0.3, 0.25], ties="strict")
    0.6666666666666666
    >>> xauc([1, 2, 2, 3], [0.1, 0.2, 0.3, 0.25], ties="correct")
    0.8333333333333334
    """
    weights, (true, predicted) = checked_rows(sample_weight, y_true=y_true, y_pred=y_pred)
    scores, pairs = _concordance(true, predicted, weights, np.zeros(len(true), np.intp), ties)
    if pairs[0] <= 0:
        need = "two rows with different y_true" if ties == "skip" else "two rows"
        raise UserError(f"xauc needs {need}, but got y_true={true[0]} in all of {len(true)} row(s); give more rows")
    return float(scores[0])


def xgauc(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    groups: ArrayLike,
    ties: Ties = "skip",
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Mean of `xauc` inside each group, such as a user, weighted by the group's number (total weight) of rows.

    Groups without a pair to compare, in particular those of a single row, are left out.

    Shape: `y_true` (n,), `y_pred` (n,), `groups` (n,) of numbers or strings.

    >>> xgauc([1, 2, 1, 2, 3, 9], [1, 2, 3, 2, 1, 9], ["a", "a", "b", "b", "b", "c"])
    0.4
    """
    codes = _group_codes(groups)
    weights, (true, predicted, kept) = checked_rows(sample_weight, y_true=y_true, y_pred=y_pred, groups=codes)
    group = kept.astype(np.intp)
    scores, pairs = _concordance(true, predicted, weights, group, ties)
    comparable = pairs > 0
    if not comparable.any():
        raise UserError(
            f"xgauc needs a group with a pair to compare, but got {len(np.unique(group))} group(s) and "
            f"{len(true)} row(s), none with one; check that groups repeat and y_true varies inside them"
        )
    sizes = sum_by(group, weights)
    return weighted_mean(scores[comparable], sizes[comparable])


def label_tie_share(y_true: ArrayLike) -> float:
    """Share of pairs of rows whose labels are equal: what separates the three tie rules of `xauc`.

    Shape: `y_true` (n,).

    >>> label_tie_share([1, 2, 2, 3])
    0.16666666666666666
    """
    _, (true,) = checked_rows(None, y_true=y_true)
    n_rows = len(true)
    if n_rows < 2:
        raise UserError(f"y_true must hold at least two rows to make a pair, but len(y_true)={n_rows}; add rows")
    counts = np.unique(true, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum() / (n_rows * (n_rows - 1.0)))


def _group_codes(groups: ArrayLike) -> IndexArray:
    """Number the groups 0, 1, ... whatever their type."""
    array = np.asarray(groups)
    if array.ndim != 1:
        raise UserError(f"groups must have the shape (n,), but got groups.shape={array.shape}; reshape it")
    if array.dtype.kind == "f":
        checked_array(array, "groups")
    try:
        return np.unique(array, return_inverse=True)[1]
    except TypeError:
        raise UserError("groups must be of one type, but a mixture that has no order; use strings") from None


def _concordance(
    true: FloatArray, predicted: FloatArray, weights: FloatArray, groups: IndexArray, ties: Ties
) -> tuple[FloatArray, FloatArray]:
    """Per group: the share of pairs in right order, and the weight of the pairs it is a share of."""
    if ties not in ("skip", "strict", "correct"):
        raise UserError(f"ties must be 'skip', 'strict' or 'correct', but got ties={ties!r}; 'skip' is the default")
    comparable = sum_by(groups, unequal_pairs(groups, true, weights))
    prediction_ties = sum_by(groups, unequal_pairs(pair_codes(groups, predicted), true, weights))
    wrong = discordant_pairs(true, predicted, weights, groups) + prediction_ties / 2
    if ties == "skip":
        pairs, right = comparable, comparable - wrong
    else:
        require_counts(weights, f"ties={ties!r}")
        sizes = sum_by(groups, weights)
        pairs = sizes * (sizes - 1) / 2
        right = comparable - wrong if ties == "strict" else pairs - wrong
    return np.clip(right / np.where(pairs > 0, pairs, 1), 0, 1), pairs


def lcc(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Linear (Pearson) correlation; 0 with a RuntimeWarning where one side is constant.

    Shape: `y_true` (n,), `y_pred` (n,).

    >>> round(lcc([1, 2, 3], [1, 2, 4]), 6)
    0.981981
    """
    weights, (true, predicted) = checked_rows(sample_weight, y_true=y_true, y_pred=y_pred)
    return _correlation(true, predicted, weights, "lcc")


def srcc(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Rank (Spearman) correlation, ties at their average rank; 0 with a RuntimeWarning where one side is constant.

    Shape: `y_true` (n,), `y_pred` (n,).

    >>> round(srcc([1, 2, 3], [1, 2, 400]), 6)
    1.0
    """
    weights, (true, predicted) = checked_rows(sample_weight, y_true=y_true, y_pred=y_pred)
    return _correlation(_ranks(true, weights), _ranks(predicted, weights), weights, "srcc")


def _ranks(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Average ranks less one half, which no correlation sees and which needs no unit of weight."""
    inverse = np.unique(values, return_inverse=True)[1]
    sizes = sum_by(inverse, weights)
    middles: FloatArray = np.cumsum(sizes) - sizes / 2
    return middles[inverse]


def _correlation(true: FloatArray, predicted: FloatArray, weights: FloatArray, metric: str) -> float:
    for values, name in ((true, "y_true"), (predicted, "y_pred")):
        if np.ptp(values) == 0:
            warnings.warn(f"{metric} is undefined and given as 0: {name} is constant", RuntimeWarning, stacklevel=3)
            return 0.0
    a, b = _centred(true, weights), _centred(predicted, weights)
    scale = math.sqrt(weighted_mean(a * a, weights)) * math.sqrt(weighted_mean(b * b, weights))
    return float(np.clip(weighted_mean(a * b, weights) / scale, -1, 1))


def _centred(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Deviations from the mean, the largest being one: their squares cannot vanish or overflow."""
    deviations: FloatArray = values - weighted_mean(values, weights)
    deviations /= np.abs(deviations).max()
    return deviations


def normalized_gini(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Gini coefficient of the labels in the order of the predictions, divided by that in their own order.

    The Gini coefficient of an order, largest prediction first, is twice the mean over ranks of the share of the total
    collected up to and including that rank, less one. Tied predictions count as the average over all their orders.
    Only the order matters: badly scaled predictions can reach 1. Weights count copies and must be whole numbers,
    since the number of ranks enters the definition.

    Shape: `y_true` (n,) not negative, `y_pred` (n,).

    >>> round(normalized_gini([0, 0, 5, 1, 10], [0.1, 0.3, 2, 0.2, 1]), 6)
    0.818182
    """
    weights, (true, predicted) = checked_rows(sample_weight, y_true=y_true, y_pred=y_pred)
    require_counts(weights, "normalized_gini")
    refuse(true < 0, true, "y_true", "must not be negative to be shared out", "shift it or choose xauc")
    if not true.any():
        raise UserError("y_true must have a positive sum to be shared out, but got sum=0.0; choose another metric")
    return _gini(true, predicted, weights) / _gini(true, true, weights)


def _gini(true: FloatArray, score: FloatArray, weights: FloatArray) -> float:
    """Within a tie the expected share grows evenly from rank to rank, so its sum has a closed form."""
    inverse = np.unique(-score, return_inverse=True)[1]
    sizes = sum_by(inverse, weights)
    amounts = sum_by(inverse, weights * true)
    before = np.cumsum(amounts) - amounts
    collected = sizes * before + amounts * (sizes + 1) / 2
    return float(2 * collected.sum() / (sizes.sum() * amounts.sum()) - 1)
