"""Ordered grades: their order, their positions, and which one to answer with."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from diffor.errors import UserError

Array = NDArray[Any]
DECISIONS = ("median", "mode", "qwk")
"""What can be decided from probabilities alone."""
ALL_DECISIONS = (*DECISIONS, "native")
"""Also what the method's authors decide by, which they may read off something else."""


class Spread(NamedTuple):
    """How expected grades are moved apart before they are rounded: ``factor`` times as far from ``centre``.

    Quadratic weighted kappa compares the squared distance of answers and truths with what it would be if they had
    nothing to do with each other. Expected grades vary less than true ones do, which it punishes. Among all answers
    ``centre + factor * (mean - centre)`` it is largest where these vary as much as the truth.
    """

    centre: float
    factor: float

    @classmethod
    def of(cls, probabilities: Array, weights: Array | None = None) -> Spread:
        """The spread for rows with these probabilities, if they are right. **Shape:** ``(n, K)``, ``(n,)``.

        The truth varies as the means do and, around each, as the row's own grades do.

        >>> Spread.of(np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]))
        Spread(centre=1.0, factor=1.4142135623730951)
        """
        grades = np.arange(probabilities.shape[1])
        means = probabilities @ grades
        of_rows = probabilities @ grades**2 - means**2
        if weights is None:
            centre, around, between = float(means.mean()), float(of_rows.mean()), float(means.var())
        else:
            centre, around = float(np.average(means, weights=weights)), float(np.average(of_rows, weights=weights))
            between = float(np.average((means - centre) ** 2, weights=weights))
        # Where all rows have the same mean there is nothing to move apart.
        return cls(centre, float(np.sqrt(1 + around / between)) if between > 1e-12 else 1.0)


AS_THEY_ARE = Spread(0.0, 1.0)


def decide_grades(probabilities: Array, decision: str, spread: Spread = AS_THEY_ARE) -> NDArray[np.int64]:
    """Choose a grade for each row: the ``median``, the ``mode``, or the one nearest to the mean (``qwk``).

    Means are first moved apart by ``spread``.

    **Shape:** ``(n, K)`` -> ``(n,)``, positions among the grades.

    >>> decide_grades(np.array([[0.4, 0.1, 0.1, 0.4]]), "median")
    array([1])
    """
    check_decision(decision)
    if decision == "mode":
        return np.asarray(probabilities.argmax(axis=1), dtype=np.int64)
    if decision == "median":
        below_half = probabilities.cumsum(axis=1) < 0.5 - 1e-9  # sums of shares may round just below a half
        return np.asarray(below_half[:, :-1].sum(axis=1), dtype=np.int64)
    moved = spread.centre + spread.factor * (probabilities @ np.arange(probabilities.shape[1]) - spread.centre)
    return np.asarray(np.clip(np.rint(moved), 0, probabilities.shape[1] - 1), dtype=np.int64)


def check_decision(decision: str, known: tuple[str, ...] = DECISIONS) -> None:
    """Refuse a decision that does not exist."""
    if decision not in known:
        raise UserError(f"decision must be one of {', '.join(known)}, but got decision={decision!r}")


def find_grades(y: Any, grades: Any, counted: NDArray[np.bool_] | None = None) -> Array:
    """The grades from lowest to highest; only targets that are ``counted`` are looked at. **Shape:** ``(K,)``."""
    if y is None:
        raise UserError("requires y to be passed, but the target y is None")
    dtype = getattr(y, "dtype", None)
    if grades is None and isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
        return check_grades(np.asarray(dtype.categories), "categories of y")
    column = np.asarray(y, dtype=object) if hasattr(y, "cat") else column_or_1d(y, warn=grades is None)
    column = column if counted is None else column[counted]
    if grades is not None:
        listed = list_grades(grades)
        return _places_of_codes(column, listed) if _are_codes(column, listed) else listed
    if pd.isna(column).any():
        grade_codes(column, _distinct(column[~pd.isna(column)]), "y")
    check_grades(_distinct(column), "y")
    if column.dtype == object and len(column) and not isinstance(column[0], str):
        column = np.array(column.tolist())  # numbers and booleans by their own type
    try:
        check_classification_targets(column)
    except ValueError as error:  # numbers that are not whole
        raise UserError(f"{error} List the grades if they are: grades=[lowest, ..., highest]") from error
    found = np.unique(column)
    if found.dtype.kind in "OUS" and len(found) > 2:
        warnings.warn(
            f"the order of text grades is taken from sorting: {found.tolist()}; pass grades=[lowest, ..., highest]",
            stacklevel=5,
        )
    return np.asarray(found)


def list_grades(grades: Any) -> Array:
    """Grades that were given as a list, if it is a proper one. **Shape:** -> ``(K,)``."""
    if isinstance(grades, (str, bytes, dict, set)) or not hasattr(grades, "__len__"):
        raise UserError(f"grades must list each grade once, lowest first, but got grades={grades!r}")
    listed = np.empty(len(grades), dtype=object)
    listed[:] = [grade.item() if isinstance(grade, np.generic) else grade for grade in grades]
    return np.asarray(check_grades(listed, "grades").tolist())


def _distinct(column: Array) -> Array:
    try:
        return np.asarray(pd.unique(column))
    except TypeError as error:  # lists and the like
        raise UserError(
            f"y must hold text, numbers or booleans, but got {column[0]!r}; pass one grade a row"
        ) from error


def check_grades(found: Array, name: str) -> Array:
    """Refuse grades that are no list of different texts, numbers or booleans: others could not be sorted or saved.

    **Shape:** ``(K,)``, kept.
    """
    cure = "pass each grade once, lowest first, as text, numbers or booleans, all of one kind"
    if found.ndim != 1 or not len(found):
        raise UserError(f"{name} must list each grade once, lowest first, but has shape={found.shape}; {cure}")
    kinds = {bool: "boolean", str: "text", int: "number", float: "number"}
    of_each = [next((word for kind, word in kinds.items() if isinstance(grade, kind)), type(grade).__name__)
               for grade in _items(found)]  # fmt: skip
    of_dates = found.dtype.kind in "mM"  # whose items would pass for whole numbers
    wrong = next((place for place, word in enumerate(of_each) if word not in kinds.values() or of_dates), None)
    if wrong is not None:
        raise UserError(f"{name} must hold text, numbers or booleans, but got {found[wrong]!r}; {cure}")
    if len(set(of_each)) > 1:
        raise UserError(f"{name} must be of one kind, but got {' and '.join(sorted(set(of_each)))}; {cure}")
    if of_each[0] == "number" and not all(abs(grade) < np.inf for grade in found.tolist()):
        raise UserError(f"{name} must be finite, but got {found.tolist()}; {cure}")
    if len(set(found.tolist())) != len(found):
        raise UserError(f"{name} must list each grade once, lowest first, but got grades={found.tolist()}; {cure}")
    return found


def _items(found: Array) -> list[Any]:
    """Values as Python's own."""
    return [grade.item() if isinstance(grade, np.generic) else grade for grade in found.tolist()]


def _are_codes(column: Array, listed: Array) -> bool:
    """Whether targets are numbers 0 to K - 1 in place of grades that are not all called so.

    Much of scikit-learn (``cross_val_predict`` of probabilities, stacking, voting) fits classifiers on such codes, in
    the order of sorting.
    """
    if not all(isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in column[:1]):
        return False
    found = set(_distinct(column).tolist())
    return found == set(range(len(listed))) and not found <= set(listed.tolist())


def _places_of_codes(column: Array, listed: Array) -> NDArray[np.int64]:
    """The codes of the sorted grades, from the lowest to the highest. **Shape:** ``(n,)``, ``(K,)`` -> ``(K,)``."""
    codes = np.searchsorted(np.unique(listed), listed)
    said = ", ".join(f"{code} for {grade!r}" for code, grade in zip(codes.tolist(), listed.tolist(), strict=True))
    if codes.tolist() != list(range(len(codes))):
        warnings.warn(
            f"y holds 0 to {len(listed) - 1} in place of the grades, so it is read as scikit-learn writes them, in the "
            f"order of sorting: {said}; if you mean otherwise, pass the grades themselves as y",
            stacklevel=6,
        )
    return np.asarray(codes, dtype=np.int64)


def grade_codes(y: Any, classes: Array, name: str, counted: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """Position of each target among the grades; 0 where targets are not ``counted``. **Shape:** ``(n,)``."""
    column = pd.Series(np.asarray(y, dtype=object) if hasattr(y, "cat") else column_or_1d(y))
    codes = pd.Index(classes).get_indexer(column)
    wrong = np.flatnonzero((codes < 0) if counted is None else (codes < 0) & counted)
    if len(wrong):
        shown = ", ".join(f"row {row}: {column.iloc[row]!r}" for row in wrong[:3])
        raise UserError(
            f"{name} must hold grades only, no NaN or inf, but {len(wrong)} of {len(codes)} values are none of "
            f"{np.asarray(classes).tolist()} ({shown}{', ...' if len(wrong) > 3 else ''}); correct them or list them "
            "in grades"
        )
    return np.maximum(codes, 0).astype(np.int64)
