"""Ordered grades: their order, their positions, and which one to answer with."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from diffor.errors import UserError

if TYPE_CHECKING:
    from diffor.core.prediction import Prediction

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
    def of(cls, probabilities: Array) -> Spread:
        """The spread for rows with these probabilities, if they are right. **Shape:** ``(n, K)``.

        The truth varies as the means do and, around each, as the row's own grades do.

        >>> Spread.of(np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]))
        Spread(centre=1.0, factor=1.4142135623730951)
        """
        grades = np.arange(probabilities.shape[1])
        means = probabilities @ grades
        around = float((probabilities @ grades**2 - means**2).mean())
        between = float(means.var())
        # Where all rows have the same mean there is nothing to move apart.
        return cls(float(means.mean()), float(np.sqrt(1 + around / between)) if between > 1e-12 else 1.0)


AS_THEY_ARE = Spread(0.0, 1.0)


def grade_shares(samples: Array, n_grades: int) -> NDArray[np.float64]:
    """Probability of each grade: its share of a row's samples. **Shape:** ``(n, m)`` -> ``(n, n_grades)``.

    >>> grade_shares(np.array([[0.0, 2.0, 2.0, 2.0]]), n_grades=3)
    array([[0.25, 0.  , 0.75]])
    """
    counts = [(samples == grade).sum(axis=1) for grade in range(n_grades)]
    return np.asarray(np.stack(counts, axis=1) / samples.shape[1])


def grade_probabilities(prediction: Prediction, n_grades: int) -> NDArray[np.float64]:
    """Probability of each grade in predictions of either form. **Shape:** n rows -> ``(n, n_grades)``.

    >>> from diffor.core.prediction import Prediction
    >>> grade_probabilities(Prediction([[0.0, 2.0, 2.0, 2.0]]), n_grades=3)
    array([[0.25, 0.  , 0.75]])
    """
    return np.asarray(prediction.grade_probabilities(n_grades), dtype=np.float64)


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


def find_grades(y: Any, grades: Any) -> Array:
    """The grades from lowest to highest. **Shape:** ``(K,)``."""
    if y is None:
        raise UserError("requires y to be passed, but the target y is None")
    if grades is not None:
        listed = np.asarray(grades)
        if listed.ndim != 1 or len(np.unique(listed)) != len(listed):
            raise UserError(f"grades must list each grade once, lowest first, but got grades={grades!r}")
        return listed
    dtype = getattr(y, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
        return np.asarray(dtype.categories)
    column = column_or_1d(y, warn=True)
    if pd.isna(column).any():
        grade_codes(column, np.unique(column[~pd.isna(column)]), "y")
    check_classification_targets(column)
    found = np.unique(column)
    if found.dtype.kind in "OUS" and len(found) > 2:
        warnings.warn(
            f"the order of text grades is taken from sorting: {found.tolist()}; pass grades=[lowest, ..., highest]",
            stacklevel=3,
        )
    return np.asarray(found)


def grade_codes(y: Any, classes: Array, name: str) -> NDArray[np.int64]:
    """Position of each target among the grades. **Shape:** ``(n,)``."""
    column = pd.Series(np.asarray(y, dtype=object) if hasattr(y, "cat") else column_or_1d(y))
    codes = pd.Index(classes).get_indexer(column)
    wrong = np.flatnonzero(codes < 0)
    if len(wrong):
        shown = ", ".join(f"row {row}: {column.iloc[row]!r}" for row in wrong[:3])
        raise UserError(
            f"{name} must hold grades only, no NaN or inf, but {len(wrong)} of {len(codes)} values are none of "
            f"{classes.tolist()} ({shown}{', ...' if len(wrong) > 3 else ''}); correct them or list them in grades"
        )
    return codes.astype(np.int64)
