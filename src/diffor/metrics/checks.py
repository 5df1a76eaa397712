"""Checks of what metrics are given: each message says the rule, then the value, then the cure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.errors import UserError

FloatArray = NDArray[np.floating[Any]]
IndexArray = NDArray[np.intp]

# Arguments with several numbers per row; all others have one.
_TABLES = frozenset({"samples", "quantiles", "probabilities", "cdf"})


def checked_array(values: ArrayLike, name: str) -> FloatArray:
    """Finite numbers, (n,) in float64, or (n, m) in their own precision for the names in `_TABLES`."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fbiuO":
            raise TypeError
        if name not in _TABLES or array.dtype.kind != "f":
            array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        given = getattr(values, "dtype", type(values).__name__)
        raise UserError(f"{name} must be an array of numbers, but got {given}; convert it first") from None
    shape = "(n, m)" if name in _TABLES else "(n,)"
    if array.ndim != (2 if name in _TABLES else 1):
        raise UserError(f"{name} must have the shape {shape}, but got {name}.shape={array.shape}; reshape it")
    if array.size == 0:
        raise UserError(f"{name} must not be empty, but got {name}.shape={array.shape}; give at least one row")
    refuse(~np.isfinite(array), array, name, "must hold finite numbers", "drop or fill such rows")
    return array


def refuse(wrong: NDArray[np.bool_], array: NDArray[Any], name: str, rule: str, cure: str) -> None:
    """Name the first wrong entry."""
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        value = array[place].item()
        raise UserError(f"{name} {rule}, but got {name}[{', '.join(map(str, place))}]={value!r}; {cure}")


def checked_rows(sample_weight: ArrayLike | None, **named: ArrayLike) -> tuple[FloatArray, list[FloatArray]]:
    """Weights (n,) and the named arrays, checked, without the rows of weight zero."""
    arrays = [checked_array(values, name) for name, values in named.items()]
    _same_length(tuple(named), [len(array) for array in arrays])
    if sample_weight is None:
        return np.ones(len(arrays[0])), arrays
    weights = checked_array(sample_weight, "sample_weight")
    _same_length((next(iter(named)), "sample_weight"), [len(arrays[0]), len(weights)])
    refuse(weights < 0, weights, "sample_weight", "must not be negative", "give rows to ignore the weight 0")
    kept = weights > 0
    if not kept.any():
        raise UserError("sample_weight must have a positive sum, but got sum=0.0; give some row a positive weight")
    if kept.all():
        return weights, arrays
    return weights[kept], [array[kept] for array in arrays]


def _same_length(names: Sequence[str], lengths: Sequence[int]) -> None:
    if len(set(lengths)) > 1:
        given = ", ".join(f"len({name})={length}" for name, length in zip(names, lengths, strict=True))
        raise UserError(f"{' and '.join(names)} must have the same length, but got {given}; pass them row by row")


def require_counts(weights: FloatArray, metric: str) -> None:
    """Some metrics count the pairs between copies of a row, which half a copy does not have."""
    rule = f"must hold whole numbers for {metric}, where a weight counts copies of a row"
    refuse(weights != np.rint(weights), weights, "sample_weight", rule, "scale and round the weights")


def require_whole(values: FloatArray, name: str) -> IndexArray:
    """Grades (n,) as whole numbers."""
    refuse(values != np.rint(values), values, name, "must hold grades, that is whole numbers", "round or bin it first")
    return values.astype(np.intp)


def require_range(grades: IndexArray, name: str, n_grades: int) -> None:
    """Grades (n,) from 0 to `n_grades` - 1."""
    if n_grades < 1:
        raise UserError(f"n_grades must be positive, but got n_grades={n_grades}; count all grades that exist")
    wrong = (grades < 0) | (grades >= n_grades)
    refuse(wrong, grades, name, f"must lie in 0..{n_grades - 1}", "count grades from 0 and check their number")


def require_fraction(values: ArrayLike, name: str) -> FloatArray:
    """Levels (q,), each strictly between 0 and 1; a single one is taken as q = 1."""
    levels = checked_array(np.atleast_1d(np.asarray(values)), name)
    if np.any((levels <= 0) | (levels >= 1)):
        raise UserError(f"{name} must lie strictly between 0 and 1, but got {name}={values!r}; give 0.9 for 90 percent")
    return levels


def require_probabilities(probabilities: FloatArray) -> None:
    """Rows (n, K) that are not negative and sum to one."""
    refuse(probabilities < 0, probabilities, "probabilities", "must not be negative", "apply a softmax first")
    sums = probabilities.sum(axis=1, dtype=np.float64)
    wrong = np.abs(sums - 1) > 1e-3  # generous enough for half precision
    refuse(wrong, sums, "probabilities.sum(axis=1)", "must be one", "divide each row by its sum")


def weighted_mean(values: FloatArray, weights: FloatArray) -> float:
    """Mean of `values` (n,), each counted with its weight."""
    return float(np.average(values, weights=weights))
