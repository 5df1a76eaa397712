"""How good are predictions: points, grades, intervals and samples.

Every metric takes the truth first and returns a float. Where a metric takes ``sample_weight``, a whole-number weight
is the same as repeating the row that often, and weight 0 the same as leaving it out.

| predicted thing | metrics |
|---|---|
| a number | `mae`, `rmse`, `cs`, `pinball`, `xauc`, `xgauc`, `lcc`, `srcc`, `normalized_gini` |
| a grade | `qwk`, `accuracy_off_by`, `rps` (grade probabilities) |
| an interval | `coverage`, `interval_width` |
| a distribution | `crps_samples`, `crps_quantiles`, `crps_bins`, `crps_gaussian`, `qice`, `picp` |

`METRICS` lists those that need only the truth and one prediction; `scorer` makes scikit-learn scorers of them.
"""

from __future__ import annotations

import difflib
import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.floating[Any]]
IndexArray = NDArray[np.intp]
Ties = Literal["skip", "strict", "correct"]
Kind = Literal["point", "samples", "interval", "grade"]

# Arguments with several numbers per row; all others have one.
_TABLES = frozenset({"samples", "quantiles", "probabilities"})
# Numbers per block when a table of samples is sorted: the temporary copies stay near 32 MB each.
_BLOCK_SIZE = 2**22
_QICE_STREAM = 20220611


# Checks: each message says the rule, then the value, then the cure.


def _array(values: ArrayLike, name: str) -> FloatArray:
    """Finite numbers, (n,) in float64, or (n, m) in their own precision for the names in `_TABLES`."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fbiuO":
            raise TypeError
        if name not in _TABLES or array.dtype.kind != "f":
            array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        given = getattr(values, "dtype", type(values).__name__)
        raise ValueError(f"{name} must be an array of numbers, however: {given}; convert it first") from None
    shape = "(n, m)" if name in _TABLES else "(n,)"
    if array.ndim != (2 if name in _TABLES else 1):
        raise ValueError(f"{name} must have the shape {shape}, however: {name}.shape={array.shape}; reshape it")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, however: {name}.shape={array.shape}; give at least one row")
    _refuse(~np.isfinite(array), array, name, "must hold finite numbers", "drop or fill such rows")
    return array


def _refuse(wrong: NDArray[np.bool_], array: NDArray[Any], name: str, rule: str, cure: str) -> None:
    """Name the first wrong entry."""
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        value = array[place].item()
        raise ValueError(f"{name} {rule}, however: {name}[{', '.join(map(str, place))}]={value!r}; {cure}")


def _rows(sample_weight: ArrayLike | None, **named: ArrayLike) -> tuple[FloatArray, list[FloatArray]]:
    """Weights (n,) and the named arrays, checked, without the rows of weight zero."""
    arrays = [_array(values, name) for name, values in named.items()]
    _same_length(tuple(named), [len(array) for array in arrays])
    if sample_weight is None:
        return np.ones(len(arrays[0])), arrays
    weights = _array(sample_weight, "sample_weight")
    _same_length((next(iter(named)), "sample_weight"), [len(arrays[0]), len(weights)])
    _refuse(weights < 0, weights, "sample_weight", "must not be negative", "give rows to ignore the weight 0")
    kept = weights > 0
    if not kept.any():
        raise ValueError("sample_weight must have a positive sum, however: sum=0.0; give some row a positive weight")
    if kept.all():
        return weights, arrays
    return weights[kept], [array[kept] for array in arrays]


def _same_length(names: Sequence[str], lengths: Sequence[int]) -> None:
    if len(set(lengths)) > 1:
        given = ", ".join(f"len({name})={length}" for name, length in zip(names, lengths, strict=True))
        raise ValueError(f"{' and '.join(names)} must have the same length, however: {given}; pass them row by row")


def _require_counts(weights: FloatArray, metric: str) -> None:
    """Some metrics count the pairs between copies of a row, which half a copy does not have."""
    rule = f"must hold whole numbers for {metric}, where a weight counts copies of a row"
    _refuse(weights != np.rint(weights), weights, "sample_weight", rule, "scale and round the weights")


def _require_whole(values: FloatArray, name: str) -> IndexArray:
    _refuse(values != np.rint(values), values, name, "must hold grades, that is whole numbers", "round or bin it first")
    return values.astype(np.intp)


def _require_range(grades: IndexArray, name: str, n_grades: int) -> None:
    if n_grades < 1:
        raise ValueError(f"n_grades must be positive, however: n_grades={n_grades}; count all grades that exist")
    wrong = (grades < 0) | (grades >= n_grades)
    _refuse(wrong, grades, name, f"must lie in 0..{n_grades - 1}", "count grades from 0 and check their number")


def _require_fraction(values: ArrayLike, name: str) -> FloatArray:
    """Levels (q,), each strictly between 0 and 1; a single one is taken as q = 1."""
    levels = _array(np.atleast_1d(np.asarray(values)), name)
    if np.any((levels <= 0) | (levels >= 1)):
        raise ValueError(
            f"{name} must lie strictly between 0 and 1, however: {name}={values!r}; give 0.9 for 90 percent"
        )
    return levels


def _require_probabilities(probabilities: FloatArray) -> None:
    _refuse(probabilities < 0, probabilities, "probabilities", "must not be negative", "apply a softmax first")
    sums = probabilities.sum(axis=1, dtype=np.float64)
    wrong = np.abs(sums - 1) > 1e-3  # generous enough for half precision
    _refuse(wrong, sums, "probabilities.sum(axis=1)", "must be one", "divide each row by its sum")


def _mean(values: FloatArray, weights: FloatArray) -> float:
    return float(np.average(values, weights=weights))


# Errors of one number per row.


def mae(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean absolute error, in the units of y.

    Shape: `y_true` (n,), `y_pred` (n,).

    >>> mae([1, 2, 3], [1, 3, 5])
    1.0
    """
    weights, (true, predicted) = _rows(sample_weight, y_true=y_true, y_pred=y_pred)
    return _mean(np.abs(predicted - true), weights)


def rmse(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Root of the mean squared error, in the units of y.

    Shape: `y_true` (n,), `y_pred` (n,).

    >>> rmse([0, 0], [3, 5])
    4.123105625617661
    """
    weights, (true, predicted) = _rows(sample_weight, y_true=y_true, y_pred=y_pred)
    return math.sqrt(_mean((predicted - true) ** 2, weights))


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
    weights, (true, predicted) = _rows(sample_weight, y_true=y_true, y_pred=y_pred)
    if not limit >= 0:
        raise ValueError(f"limit must not be negative, however: limit={limit}; give the largest accepted error")
    predicted = np.rint(predicted) if round else predicted
    return _mean((np.abs(predicted - true) <= limit).astype(np.float64), weights)


def pinball(
    y_true: ArrayLike, y_pred: ArrayLike, level: float = 0.5, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean pinball loss of a predicted quantile: at level 0.5 half the absolute error.

    Shape: `y_true` (n,), `y_pred` (n,).

    >>> pinball([10, 10], [8, 12], level=0.75)
    1.0
    """
    _require_fraction(level, "level")
    weights, (true, predicted) = _rows(sample_weight, y_true=y_true, y_pred=y_pred)
    return _mean(_pinball(true - predicted, level), weights)


def _pinball(error: FloatArray, level: float | FloatArray) -> FloatArray:
    return np.maximum(level * error, (level - 1) * error)


# Order: pairs of rows.


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
    weights, (true, predicted) = _rows(sample_weight, y_true=y_true, y_pred=y_pred)
    scores, pairs = _concordance(true, predicted, weights, np.zeros(len(true), np.intp), ties)
    if pairs[0] <= 0:
        need = "two rows with different y_true" if ties == "skip" else "two rows"
        raise ValueError(f"xauc needs {need}, however: y_true={true[0]} in all of {len(true)} row(s); give more rows")
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
    weights, (true, predicted, kept) = _rows(sample_weight, y_true=y_true, y_pred=y_pred, groups=codes)
    group = kept.astype(np.intp)
    scores, pairs = _concordance(true, predicted, weights, group, ties)
    comparable = pairs > 0
    if not comparable.any():
        raise ValueError(
            f"xgauc needs a group with a pair to compare, however: {len(np.unique(group))} group(s) and "
            f"{len(true)} row(s), none with one; check that groups repeat and y_true varies inside them"
        )
    sizes = _sum_by(group, weights)
    return _mean(scores[comparable], sizes[comparable])


def label_tie_share(y_true: ArrayLike) -> float:
    """Share of pairs of rows whose labels are equal: what separates the three tie rules of `xauc`.

    Shape: `y_true` (n,).

    >>> label_tie_share([1, 2, 2, 3])
    0.16666666666666666
    """
    _, (true,) = _rows(None, y_true=y_true)
    n_rows = len(true)
    if n_rows < 2:
        raise ValueError(f"y_true must hold at least two rows to make a pair, however: len(y_true)={n_rows}; add rows")
    counts = np.unique(true, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum() / (n_rows * (n_rows - 1.0)))


def _group_codes(groups: ArrayLike) -> IndexArray:
    """Number the groups 0, 1, ... whatever their type."""
    array = np.asarray(groups)
    if array.ndim != 1:
        raise ValueError(f"groups must have the shape (n,), however: groups.shape={array.shape}; reshape it")
    if array.dtype.kind == "f":
        _array(array, "groups")
    try:
        return np.unique(array, return_inverse=True)[1]
    except TypeError:
        raise ValueError("groups must be of one type, however: a mixture that has no order; use strings") from None


def _concordance(
    true: FloatArray, predicted: FloatArray, weights: FloatArray, groups: IndexArray, ties: Ties
) -> tuple[FloatArray, FloatArray]:
    """Per group: the share of pairs in right order, and the weight of the pairs it is a share of."""
    if ties not in ("skip", "strict", "correct"):
        raise ValueError(f"ties must be 'skip', 'strict' or 'correct', however: ties={ties!r}; 'skip' is the default")
    comparable = _sum_by(groups, _unequal_pairs(groups, true, weights))
    prediction_ties = _sum_by(groups, _unequal_pairs(_codes(groups, predicted), true, weights))
    wrong = _discordant_pairs(true, predicted, weights, groups) + prediction_ties / 2
    if ties == "skip":
        pairs, right = comparable, comparable - wrong
    else:
        _require_counts(weights, f"ties={ties!r}")
        sizes = _sum_by(groups, weights)
        pairs = sizes * (sizes - 1) / 2
        right = comparable - wrong if ties == "strict" else pairs - wrong
    return np.clip(right / np.where(pairs > 0, pairs, 1), 0, 1), pairs


def _sum_by(codes: IndexArray, values: FloatArray) -> FloatArray:
    return np.bincount(codes, values).astype(np.float64, copy=False)


def _changes(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the rows of sorted keys at which a new combination begins."""
    begins = np.ones(len(keys[0]), np.bool_)
    begins[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return begins


def _codes(major: NDArray[Any], minor: NDArray[Any]) -> IndexArray:
    """Number the distinct pairs of keys, major key first."""
    order = np.lexsort((minor, major))
    codes = np.empty(len(order), np.intp)
    codes[order] = np.cumsum(_changes(major[order], minor[order])) - 1
    return codes


def _unequal_pairs(outer: IndexArray, inner: FloatArray, weights: FloatArray) -> FloatArray:
    """Per row: the weight of its pairs with rows of the same `outer` and a smaller `inner` value."""
    order = np.lexsort((inner, outer))
    sorted_weights = weights[order]
    before = np.concatenate([[0.0], np.cumsum(sorted_weights)[:-1]])
    outer_begins = _changes(outer[order])
    inner_begins = _changes(outer[order], inner[order])
    smaller = before[inner_begins][np.cumsum(inner_begins) - 1] - before[outer_begins][np.cumsum(outer_begins) - 1]
    pairs = np.empty(len(order))
    pairs[order] = sorted_weights * smaller
    return pairs


def _discordant_pairs(true: FloatArray, predicted: FloatArray, weights: FloatArray, groups: IndexArray) -> FloatArray:
    """Per group: the weight of pairs whose labels and predictions stand in strictly opposite order.

    Rows get a position by (group, label) and are visited by (group, prediction); a discordant pair is an inversion of
    the positions. Groups come in the same order both times, so no pair crosses them, and each tie is broken by the
    other key, so no tie is an inversion. One pass per bit of the position, highest first, counts the inversions
    between the two halves of each block of positions and then separates the halves, keeping their order.
    """
    n_rows = len(true)
    by_label = np.lexsort((predicted, true, groups))
    position = np.empty(n_rows, np.intp)
    position[by_label] = np.arange(n_rows)
    order = np.lexsort((position, predicted, groups))
    positions, carried = position[order], weights[order]
    discordant = np.zeros(n_rows)  # by position
    for bit in reversed(range((n_rows - 1).bit_length())):
        upper = (positions >> bit) & 1 == 1
        lower_weight = np.cumsum(np.where(upper, 0.0, carried))
        last = np.flatnonzero(np.append(np.diff(positions >> (bit + 1)) != 0, True))  # of each block
        lower_total = np.repeat(lower_weight[last], np.diff(last, prepend=-1))
        later = (lower_total - lower_weight)[upper]  # lower positions that are visited after this one
        discordant[positions[upper]] += carried[upper] * later
        halves = np.concatenate([np.flatnonzero(~upper), np.flatnonzero(upper)])
        positions, carried = positions[halves], carried[halves]
    return _sum_by(groups[by_label], discordant)


# Order: correlation and shares.


def lcc(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Linear (Pearson) correlation; 0 with a RuntimeWarning where one side is constant.

    Shape: `y_true` (n,), `y_pred` (n,).

    >>> round(lcc([1, 2, 3], [1, 2, 4]), 6)
    0.981981
    """
    weights, (true, predicted) = _rows(sample_weight, y_true=y_true, y_pred=y_pred)
    return _correlation(true, predicted, weights, "lcc")


def srcc(y_true: ArrayLike, y_pred: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Rank (Spearman) correlation, ties at their average rank; 0 with a RuntimeWarning where one side is constant.

    Shape: `y_true` (n,), `y_pred` (n,).

    >>> round(srcc([1, 2, 3], [1, 2, 400]), 6)
    1.0
    """
    weights, (true, predicted) = _rows(sample_weight, y_true=y_true, y_pred=y_pred)
    return _correlation(_ranks(true, weights), _ranks(predicted, weights), weights, "srcc")


def _ranks(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Average ranks less one half, which no correlation sees and which needs no unit of weight."""
    inverse = np.unique(values, return_inverse=True)[1]
    sizes = _sum_by(inverse, weights)
    middles: FloatArray = np.cumsum(sizes) - sizes / 2
    return middles[inverse]


def _correlation(true: FloatArray, predicted: FloatArray, weights: FloatArray, metric: str) -> float:
    for values, name in ((true, "y_true"), (predicted, "y_pred")):
        if np.ptp(values) == 0:
            warnings.warn(f"{metric} is undefined and given as 0: {name} is constant", RuntimeWarning, stacklevel=3)
            return 0.0
    a, b = _centred(true, weights), _centred(predicted, weights)
    scale = math.sqrt(_mean(a * a, weights)) * math.sqrt(_mean(b * b, weights))
    return float(np.clip(_mean(a * b, weights) / scale, -1, 1))


def _centred(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Deviations from the mean, the largest being one: their squares cannot vanish or overflow."""
    deviations: FloatArray = values - _mean(values, weights)
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
    weights, (true, predicted) = _rows(sample_weight, y_true=y_true, y_pred=y_pred)
    _require_counts(weights, "normalized_gini")
    _refuse(true < 0, true, "y_true", "must not be negative to be shared out", "shift it or choose xauc")
    if not true.any():
        raise ValueError("y_true must have a positive sum to be shared out, however: sum=0.0; choose another metric")
    return _gini(true, predicted, weights) / _gini(true, true, weights)


def _gini(true: FloatArray, score: FloatArray, weights: FloatArray) -> float:
    """Within a tie the expected share grows evenly from rank to rank, so its sum has a closed form."""
    inverse = np.unique(-score, return_inverse=True)[1]
    sizes = _sum_by(inverse, weights)
    amounts = _sum_by(inverse, weights * true)
    before = np.cumsum(amounts) - amounts
    collected = sizes * before + amounts * (sizes + 1) / 2
    return float(2 * collected.sum() / (sizes.sum() * amounts.sum()) - 1)


# Grades.


def qwk(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    n_grades: int | None = None,
    labels: Sequence[Any] | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Quadratic weighted kappa: 1 less the squared grade distance over that expected from independent grades.

    Grades are whole numbers, with `n_grades` checked to lie in ``0..n_grades - 1``, or any of the ordered `labels`,
    whose distance is that of their places in the list. Grades that no row has therefore change nothing.
    Where all rows have one and the same grade on both sides, the result is 0 with a RuntimeWarning.

    Shape: `y_true` (n,), `y_pred` (n,).

    >>> qwk([0, 1, 2, 2], [0, 1, 1, 2])
    0.8
    >>> qwk(["low", "high"], ["low", "mid"], labels=["low", "mid", "high"])
    0.6666666666666667
    """
    if n_grades is not None and labels is not None:
        raise ValueError(f"n_grades and labels exclude each other, however: {n_grades=} and {labels=}; give one")
    if labels is not None:
        y_true, y_pred = _places(y_true, "y_true", labels), _places(y_pred, "y_pred", labels)
    weights, (true, predicted) = _rows(sample_weight, y_true=y_true, y_pred=y_pred)
    for values, name in ((true, "y_true"), (predicted, "y_pred")):
        grades = _require_whole(values, name)
        if n_grades is not None:
            _require_range(grades, name, n_grades)
    # Chance disagreement needs only the first two moments: no table of grades by grades is built.
    true_mean, predicted_mean = _mean(true, weights), _mean(predicted, weights)
    spread = _mean((true - true_mean) ** 2 + (predicted - predicted_mean) ** 2, weights)
    if np.ptp(np.concatenate([true, predicted])) == 0:
        warnings.warn("qwk is undefined and given as 0: there is only one grade", RuntimeWarning, stacklevel=2)
        return 0.0
    return 1 - _mean((true - predicted) ** 2, weights) / (spread + (true_mean - predicted_mean) ** 2)


def _places(values: ArrayLike, name: str, labels: Sequence[Any]) -> IndexArray:
    """Where each value stands in the ordered labels."""
    place = {label: index for index, label in enumerate(np.asarray(labels).tolist())}
    if len(place) != len(labels):
        raise ValueError(f"labels must differ from each other, however: labels={list(labels)}; drop the repeated ones")
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must have the shape (n,), however: {name}.shape={array.shape}; reshape it")
    places = np.array([place.get(value, -1) for value in array.tolist()], np.intp)
    _refuse(places < 0, array, name, "must hold only the given labels", "add it to labels, or round or bin it first")
    return places


def accuracy_off_by(
    y_true: ArrayLike, y_pred: ArrayLike, distance: int = 1, *, sample_weight: ArrayLike | None = None
) -> float:
    """Share of rows, 0 to 1, whose grade is at most `distance` grades off; with 0, plain accuracy.

    Shape: `y_true` (n,) whole numbers, `y_pred` (n,) whole numbers.

    >>> accuracy_off_by([0, 1, 2, 3], [0, 2, 0, 3])
    0.75
    """
    weights, (true, predicted) = _rows(sample_weight, y_true=y_true, y_pred=y_pred)
    if distance < 0:
        raise ValueError(f"distance must not be negative, however: distance={distance}; 0 gives plain accuracy")
    off = np.abs(_require_whole(true, "y_true") - _require_whole(predicted, "y_pred"))
    return _mean((off <= distance).astype(np.float64), weights)


def rps(y_true: ArrayLike, probabilities: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Ranked probability score: the sum over grades of the squared error of the cumulative probability.

    Not divided by K - 1, so a certain prediction scores the number of grades it is off.

    Shape: `y_true` (n,) grades in 0..K-1, `probabilities` (n, K).

    >>> rps([2], [[1, 0, 0]])
    2.0
    >>> rps([1], [[0.25, 0.5, 0.25]])
    0.125
    """
    weights, (true, table) = _rows(sample_weight, y_true=y_true, probabilities=probabilities)
    grades = _require_whole(true, "y_true")
    _require_range(grades, "y_true", table.shape[1])
    _require_probabilities(table)
    cumulative = np.cumsum(table, axis=1, dtype=np.float64)[:, :-1]  # (n, K - 1): the last one is always 1
    reached = grades[:, None] <= np.arange(table.shape[1] - 1)
    return _mean(((cumulative - reached) ** 2).sum(axis=1), weights)


# Intervals.


def coverage(y_true: ArrayLike, low: ArrayLike, high: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Share of rows, 0 to 1, inside their interval, ends included; good where it equals the interval's nominal level.

    Shape: `y_true` (n,), `low` (n,), `high` (n,).

    >>> coverage([1, 2, 3, 4], [0, 2, 4, 0], [1, 3, 5, 9])
    0.75
    """
    weights, (true, lower, upper) = _rows(sample_weight, y_true=y_true, low=low, high=high)
    _require_order(lower, upper)
    return _mean(((lower <= true) & (true <= upper)).astype(np.float64), weights)


def interval_width(low: ArrayLike, high: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean width of the intervals, in the units of y; compare it only at equal coverage.

    Shape: `low` (n,), `high` (n,).

    >>> interval_width([0, 2], [1, 5])
    2.0
    """
    weights, (lower, upper) = _rows(sample_weight, low=low, high=high)
    _require_order(lower, upper)
    return _mean(upper - lower, weights)


def _require_order(low: FloatArray, high: FloatArray) -> None:
    wrong = np.flatnonzero(low > high)
    if len(wrong):
        row = wrong[0]
        given = f"low={float(low[row])!r} and high={float(high[row])!r} in row {row}"
        raise ValueError(f"low must not exceed high, however: {given}; swap them")


def _width_of_interval(
    y_true: ArrayLike, low: ArrayLike, high: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """`interval_width` with the arguments that all interval metrics of the table take."""
    return interval_width(low, high, sample_weight=sample_weight)


# Distributions.


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
    weights, (true, table) = _rows(sample_weight, y_true=y_true, samples=samples)
    return _mean(crps_each(true, table, fair), weights)


def crps_each(y_true: ArrayLike, samples: ArrayLike, fair: bool = False) -> FloatArray:
    """Score of :func:`crps_samples` row by row.

    Shape: `y_true` (n,), `samples` (n, m) -> (n,).

    >>> crps_each([3, 1], [[3, 3], [0, 2]]).tolist()
    [0.0, 0.5]
    """
    _, (true, table) = _rows(None, y_true=y_true, samples=samples)
    n_samples = table.shape[1]
    if fair and n_samples < 2:
        raise ValueError(f"samples must have two columns for fair=True, however: {n_samples}; draw more samples")
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


def crps_quantiles(
    y_true: ArrayLike, quantiles: ArrayLike, levels: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """CRPS from predicted quantiles: twice the mean pinball loss over evenly spread levels.

    Shape: `y_true` (n,), `quantiles` (n, q), `levels` (q,) in (0, 1).

    >>> crps_quantiles([3], [[1, 2, 4]], [0.25, 0.5, 0.75])
    0.8333333333333334
    """
    fractions = _require_fraction(levels, "levels")
    weights, (true, table) = _rows(sample_weight, y_true=y_true, quantiles=quantiles)
    if len(fractions) != table.shape[1]:
        given = f"len(levels)={len(fractions)} and quantiles.shape={table.shape}"
        raise ValueError(f"levels must name each column of quantiles, however: {given}; give one level per column")
    return 2 * _mean(_pinball(true[:, None] - table, fractions).mean(axis=1), weights)


def crps_bins(
    y_true: ArrayLike, probabilities: ArrayLike, edges: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """CRPS of a histogram: the sum over bins of width times the squared error of the distribution at the upper edge.

    The distribution function counts as constant inside a bin, as of a discrete distribution (`rps` times the width).
    This is not the exact CRPS of a density that is uniform inside the bins; both agree as bins get narrow.
    Outside the edges the function is 0 or 1, and the distance of y to the nearest edge is added.

    Shape: `y_true` (n,), `probabilities` (n, K), `edges` (K + 1,) increasing.

    >>> crps_bins([1.5], [[0.25, 0.5, 0.25]], [0, 1, 2, 4])
    0.125
    >>> crps_bins([5.0], [[0, 0, 1]], [0, 1, 2, 4])
    3.0
    """
    weights, (true, table) = _rows(sample_weight, y_true=y_true, probabilities=probabilities)
    _require_probabilities(table)
    borders = _array(edges, "edges")
    if len(borders) != table.shape[1] + 1:
        given = f"len(edges)={len(borders)} and probabilities.shape={table.shape}"
        raise ValueError(f"edges must have one entry more than there are bins, however: {given}; give both outer edges")
    widths = np.diff(borders)
    if np.any(widths <= 0):
        raise ValueError(f"edges must increase, however: edges={borders.tolist()}; sort them and drop equal ones")
    reached = true[:, None] <= borders[1:]
    inside = (np.cumsum(table, axis=1, dtype=np.float64) - reached) ** 2 @ widths
    outside = np.maximum(borders[0] - true, 0) + np.maximum(true - borders[-1], 0)
    return _mean(inside + outside, weights)


def crps_gaussian(
    y_true: ArrayLike, mean: ArrayLike, sd: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """CRPS of normal distributions in closed form; with a standard deviation of 0, the absolute error.

    Shape: `y_true` (n,), `mean` (n,), `sd` (n,) not negative.

    >>> round(crps_gaussian([3], [2], [1.5]), 6)
    0.607075
    """
    from scipy.special import erf  # here, since importing scipy takes longer than all of this module

    weights, (true, centre, scale) = _rows(sample_weight, y_true=y_true, mean=mean, sd=sd)
    _refuse(scale < 0, scale, "sd", "must not be negative", "give a standard deviation")
    error = np.abs(true - centre)
    certain = scale == 0
    z = error / np.where(certain, 1, scale)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    scores = scale * (z * erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))
    return _mean(np.where(certain, error, scores), weights)


def qice(
    y_true: ArrayLike, samples: ArrayLike, n_bins: int = 10, random_state: int | np.random.Generator | None = 0
) -> float:
    """Quantile interval calibration error: how unevenly y falls into intervals that should be equally likely.

    The mean absolute difference between 1 / n_bins and the share of rows in each interval; 0 is perfect.
    A row's interval is read from the rank of y among its samples. A rank stands for a stretch of probability, longer
    where samples equal y as at a point mass, and a random place in it is taken. If y is distributed as the samples,
    that place is exactly uniform, for any number of samples and any point masses. Being random, it takes no weights.

    Shape: `y_true` (n,), `samples` (n, m).

    >>> rng = np.random.default_rng(0)
    >>> y, samples = rng.normal(size=2000), rng.normal(size=(2000, 100))
    >>> qice(y, samples) < 0.01 < qice(y + 1, samples)
    True
    """
    _, (true, table) = _rows(None, y_true=y_true, samples=samples)
    if n_bins < 2:
        raise ValueError(f"n_bins must be at least 2, however: n_bins={n_bins}; 10 is customary")
    below, equal = np.empty((2, len(true)))
    for block in _row_blocks(table):
        place = true[block, None].astype(table.dtype)  # else float32 samples never equal a y such as 0.1
        below[block] = (table[block] < place).sum(axis=1)
        equal[block] = (table[block] == place).sum(axis=1)
    # A stream of its own: with a bare seed, y drawn from the same seed would be correlated with the random places.
    seed = [_QICE_STREAM, random_state] if isinstance(random_state, (int, np.integer)) else random_state
    random = np.random.default_rng(seed).random(len(true))
    probability = (below + random * (equal + 1)) / (table.shape[1] + 1)
    bins = np.minimum((probability * n_bins).astype(np.intp), n_bins - 1)
    shares = np.bincount(bins, minlength=n_bins) / len(true)
    return float(np.abs(shares - 1 / n_bins).mean())


def picp(
    y_true: ArrayLike, samples: ArrayLike, coverage: float = 0.95, *, sample_weight: ArrayLike | None = None
) -> float:
    """Share of rows, 0 to 1, inside the central interval of their samples, ends included; ideal is `coverage`.

    Few samples give too short an interval, and a point mass at one of its ends too high a share: see `qice`.

    Shape: `y_true` (n,), `samples` (n, m).

    >>> picp([0.5, 9.9], [np.arange(11), np.arange(11)], coverage=0.9)
    0.5
    """
    _require_fraction(coverage, "coverage")
    weights, (true, table) = _rows(sample_weight, y_true=y_true, samples=samples)
    inside = np.empty(len(true))
    for block in _row_blocks(table):
        low, high = np.quantile(table[block], [(1 - coverage) / 2, (1 + coverage) / 2], axis=1)
        place = true[block].astype(table.dtype)  # else float32 samples never equal a y such as 0.1
        inside[block] = (low <= place) & (place <= high)
    return _mean(inside, weights)


# The table, and scorers for scikit-learn.


@dataclass(frozen=True)
class Metric:
    """A metric of the table: what it is called with, and which way is better.

    After the truth, `function` takes predictions (n,) for the kinds "point" and "grade", samples (n, m) for "samples",
    and two arrays (n,), low and high, for "interval".

    >>> METRICS["mae"].function([1, 2], [1, 4])
    1.0
    """

    name: str
    function: Callable[..., float]
    kind: Kind
    greater_is_better: bool
    description: str

    @property
    def takes_weight(self) -> bool:
        """Whether `function` accepts ``sample_weight``.

        >>> METRICS["mae"].takes_weight, METRICS["qice"].takes_weight
        (True, False)
        """
        return "sample_weight" in inspect.signature(self.function).parameters


_STRICT, _CORRECT = partial(xauc, ties="strict"), partial(xauc, ties="correct")
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("mae", mae, "point", False, "Mean absolute error."),
        Metric("rmse", rmse, "point", False, "Root mean squared error."),
        Metric("cs", cs, "point", True, "Share of rows at most 5 units off."),
        Metric("xauc", xauc, "point", True, "Share of pairs in right order, pairs with tied labels left out."),
        Metric("xauc_strict", _STRICT, "point", True, "Share of pairs in right order, tied labels counted as wrong."),
        Metric("xauc_correct", _CORRECT, "point", True, "Share of pairs in right order, tied labels counted as right."),
        Metric("lcc", lcc, "point", True, "Linear (Pearson) correlation."),
        Metric("srcc", srcc, "point", True, "Rank (Spearman) correlation."),
        Metric("normalized_gini", normalized_gini, "point", True, "Gini coefficient as a share of the best possible."),
        Metric("qwk", qwk, "grade", True, "Quadratic weighted kappa of whole-number grades."),
        Metric("accuracy_off_by", accuracy_off_by, "grade", True, "Share of rows at most one grade off."),
        Metric("crps", crps_samples, "samples", False, "Continuous ranked probability score of the samples."),
        Metric(
            "crps_fair", partial(crps_samples, fair=True), "samples", False, "CRPS without the bias of few samples."
        ),
        Metric("qice", qice, "samples", False, "Unevenness of y over ten equally likely intervals."),
        Metric("picp", picp, "samples", True, "Share of rows inside the central 95 percent of their samples."),
        Metric("coverage", coverage, "interval", True, "Share of rows inside their interval."),
        Metric("interval_width", _width_of_interval, "interval", False, "Mean width of the intervals."),
    )
}


def scorer(name: str, coverage: float = 0.9) -> MetricScorer:
    """Make a scikit-learn scorer of a metric of `METRICS`; of its values, greater is better (errors are negated).

    Point and grade metrics ask the estimator for ``predict(X)``, sample metrics for ``predict_distribution(X).samples``
    (n, m), interval metrics for ``predict_interval(X, coverage)``: a pair (low, high) or an array (n, 2).

    >>> from sklearn.dummy import DummyRegressor
    >>> model = DummyRegressor().fit([[0], [0]], [1, 3])
    >>> scorer("mae")(model, [[0]], [5])
    -3.0
    """
    if name not in METRICS:
        related = [known for known in METRICS if known in name or name in known]
        close = related or difflib.get_close_matches(name, METRICS, n=1, cutoff=0.5)
        cure = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(METRICS)}"
        raise ValueError(f"name must be that of a metric, however: name={name!r}; {cure}")
    _require_fraction(coverage, "coverage")
    return MetricScorer(METRICS[name], coverage)


@dataclass
class MetricScorer:
    """A callable (estimator, X, y) for the `scoring` of scikit-learn; made by `scorer`.

    >>> scorer("mae").metric.description
    'Mean absolute error.'
    """

    metric: Metric
    coverage: float
    weight_request: bool | str | None = None

    def __call__(self, estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Score the estimator on rows X with labels y; greater is better."""
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        if options and not self.metric.takes_weight:
            raise ValueError(f"sample_weight must be None for {self.metric.name}, however: it was given; leave it out")
        value = self.metric.function(y, *self._ask(estimator, X), **options)
        return value if self.metric.greater_is_better else -value

    def _ask(self, estimator: Any, X: Any) -> tuple[ArrayLike, ...]:
        """The prediction that this kind of metric is about."""
        method = {"samples": "predict_distribution", "interval": "predict_interval"}.get(self.metric.kind, "predict")
        if not hasattr(estimator, method):
            given = type(estimator).__name__
            raise TypeError(f"{self.metric.name} needs {method}, however: {given} has none; choose another metric")
        if method == "predict":
            return (estimator.predict(X),)
        if method == "predict_distribution":
            return (estimator.predict_distribution(X).samples,)
        interval = estimator.predict_interval(X, self.coverage)
        # An array has one row per row of X, a pair one entry per end.
        low, high = interval if isinstance(interval, (tuple, list)) else np.asarray(interval).T
        return low, high

    def set_score_request(self, *, sample_weight: bool | str | None) -> MetricScorer:
        """Say whether scikit-learn's metadata routing, where enabled, passes ``sample_weight`` on to this scorer.

        >>> scorer("mae").set_score_request(sample_weight=True).weight_request
        True
        """
        self.weight_request = sample_weight
        return self

    def get_metadata_routing(self) -> Any:
        """Tell scikit-learn's metadata routing what this scorer asked for.

        >>> scorer("mae").set_score_request(sample_weight=True).get_metadata_routing()
        {'score': {'sample_weight': True}}
        """
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=type(self).__name__)
        if self.metric.takes_weight:
            request.score.add_request(param="sample_weight", alias=self.weight_request)
        return request

    def _accept_sample_weight(self) -> bool:
        """Asked by scikit-learn where several scorers share one call that has weights."""
        return self.metric.takes_weight
