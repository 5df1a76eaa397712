"""How well predictions order the rows: XAUC, correlations, Gini."""

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
    checked_rows,
    refuse,
    require_counts,
    weighted_mean,
)

Ties = Literal["skip", "strict", "correct"]


def xauc(y_true: ArrayLike, y_pred: ArrayLike, ties: Ties = "skip", *, sample_weight: ArrayLike | None = None) -> float:
    """Share of pairs of rows whose predictions stand in the same order as their labels.

    Three rules for pairs with tied labels are in use, and their numbers must not be compared with each other:

    - ``"skip"``: such pairs are left out, so that 1 is reachable and 0.5 is chance;
    - ``"strict"``: they stay in the denominator and count as wrong, so the best is 1 less the share of such pairs;
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
    if ties not in ("skip", "strict", "correct"):
        raise UserError(f"ties must be 'skip', 'strict' or 'correct', but got ties={ties!r}; 'skip' is the default")
    weights, (true, predicted) = checked_rows(sample_weight, y_true=y_true, y_pred=y_pred)
    if ties != "skip":
        require_counts(weights, f"ties={ties!r}")
    labels, answers = (np.unique(values, return_inverse=True)[1] for values in (true, predicted))
    comparable = _tied_weight(np.zeros_like(labels), weights) - _tied_weight(labels, weights)
    total = weights.sum()
    pairs = comparable if ties == "skip" else total * (total - 1) / 2
    if pairs <= 0 or (ties == "skip" and not labels.any()):
        need = "two rows with different y_true" if ties == "skip" else "two rows"
        raise UserError(f"xauc needs {need}, but got y_true={true[0]} in all of {len(true)} row(s); give more rows")
    both = np.unique(labels * (answers.max() + 1) + answers, return_inverse=True)[1]
    tied = _tied_weight(answers, weights) - _tied_weight(both, weights)
    wrong = _discordant_weight(labels, answers, weights) + tied / 2
    right = (pairs if ties == "correct" else comparable) - wrong
    return float(np.clip(right / pairs, 0, 1))


def _tied_weight(codes: IndexArray, weights: FloatArray) -> float:
    """Weight of the pairs of rows that share a code 0, 1, ..."""
    return float((np.bincount(codes, weights) ** 2 - np.bincount(codes, weights**2)).sum() / 2)


def _discordant_weight(true: IndexArray, predicted: IndexArray, weights: FloatArray) -> float:
    """Weight of the pairs whose labels and predictions stand in strictly opposite order, in O(n log n).

    Rows get a position by label and are visited by prediction; a discordant pair is an inversion of the positions, and
    each tie is broken by the other key, so that no tie is one. One pass per bit of the position, highest first, counts
    the inversions between the two halves of each block of positions and then separates the halves, keeping their order.
    """
    position = np.empty(len(true), np.intp)
    position[np.lexsort((predicted, true))] = np.arange(len(true))
    order = np.lexsort((position, predicted))
    positions, carried, discordant = position[order], weights[order], 0.0
    for bit in reversed(range((len(true) - 1).bit_length())):
        upper = (positions >> bit) & 1 == 1
        lower_weight = np.cumsum(np.where(upper, 0.0, carried))
        last = np.flatnonzero(np.append(np.diff(positions >> (bit + 1)) != 0, True))  # of each block
        lower_total = np.repeat(lower_weight[last], np.diff(last, prepend=-1))
        # Lower positions that are visited after an upper one.
        discordant += float(carried[upper] @ (lower_total - lower_weight)[upper])
        halves = np.concatenate([np.flatnonzero(~upper), np.flatnonzero(upper)])
        positions, carried = positions[halves], carried[halves]
    return discordant


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
    sizes = np.bincount(inverse, weights)
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
    sizes = np.bincount(inverse, weights)
    amounts = np.bincount(inverse, weights * true)
    before = np.cumsum(amounts) - amounts
    collected = sizes * before + amounts * (sizes + 1) / 2
    return float(2 * collected.sum() / (sizes.sum() * amounts.sum()) - 1)
