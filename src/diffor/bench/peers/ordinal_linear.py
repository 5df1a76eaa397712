"""Linear models of ordered grades: one direction through the columns, and thresholds that cut it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.bench.peers.problem import Fitted, Peer, Problem, Values, from_grade_probabilities
from diffor.bench.peers.tabular_networks import FilledColumns
from diffor.bench.peers.trees import FittedBy, import_package, spread_over_grades
from diffor.core.prediction import Prediction

MAX_ONE_HOT_LEVELS = 20
COLLINEAR_BELOW = 1e-7


class LinearDesign:
    """Standardised numbers and one column for each of the commonest levels of a category; rarer levels have none.

    **Shape:** ``matrix`` ``(n, p)``.

    >>> train = pd.DataFrame({"size": [1.0, 3.0], "kind": pd.Categorical(["a", "b"])})
    >>> LinearDesign(train).matrix(train).tolist()
    [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """

    def __init__(self, x: pd.DataFrame, max_levels: int = MAX_ONE_HOT_LEVELS) -> None:
        self._columns = FilledColumns(x, max_levels)
        numbers = self._columns.numbers(x)
        self._centre, self._spread = numbers.mean(axis=0), numbers.std(axis=0)

    def matrix(self, x: pd.DataFrame) -> Values:
        """The columns of the linear model."""
        parts = [(self._columns.numbers(x) - self._centre) / self._spread]
        codes = self._columns.codes(x)
        parts += [
            (codes[:, [place]] == np.arange(n_codes - 1)).astype(np.float64)
            for place, n_codes in enumerate(self._columns.cardinalities)
        ]
        return np.concatenate(parts, axis=1)


def independent_columns(matrix: Values) -> NDArray[np.int64]:
    """Places of columns that neither a constant nor the other ones can stand for. **Shape:** ``(n, p)`` -> ``(q,)``.

    >>> independent_columns(np.array([[1.0, 2.0, 5.0], [2.0, 4.0, 5.0], [3.0, 6.0, 5.0]])).tolist()
    [1]
    """
    from scipy.linalg import qr

    centred = matrix - matrix.mean(axis=0)
    _, triangle, order = qr(centred, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    kept = sizes > COLLINEAR_BELOW * max(sizes.max(initial=0.0), np.sqrt(len(matrix)) * COLLINEAR_BELOW)
    return np.sort(order[: len(sizes)][kept]).astype(np.int64)


def fit_mord(problem: Problem, alpha: float = 1.0, **settings: Any) -> Fitted:
    """Ordinal logistic regression with all thresholds (mord's LogisticAT). It has no use for validation rows."""
    mord = import_package("mord")
    design = LinearDesign(problem.x)
    # It wants grades without gaps, so those that no training row has are left out and get the probability zero.
    grades, codes = np.unique(problem.y.astype(np.int64), return_inverse=True)
    model = mord.LogisticAT(alpha=alpha, **settings)
    model.fit(design.matrix(problem.x), codes)
    n_grades = int(problem.n_grades or 0)

    def answer(x: pd.DataFrame) -> Prediction:
        probabilities = np.clip(model.predict_proba(design.matrix(x)), 0.0, None)
        return from_grade_probabilities(spread_over_grades(probabilities, grades, n_grades), problem.n_samples)

    return FittedBy(answer)


def fit_ordered_model(
    problem: Problem, distribution: str = "logit", max_iterations: int = 200, max_levels: int = MAX_ONE_HOT_LEVELS
) -> Fitted:
    """Ordered logit by maximum likelihood (statsmodels' OrderedModel). It has no use for validation rows."""
    ordinal_model = import_package("statsmodels.miscmodels.ordinal_model", "statsmodels")
    design = LinearDesign(problem.x, max_levels)
    matrix = design.matrix(problem.x)
    kept = independent_columns(matrix)
    grades, codes = np.unique(problem.y.astype(np.int64), return_inverse=True)
    n_grades = int(problem.n_grades or 0)
    model = ordinal_model.OrderedModel(codes, matrix[:, kept], distr=distribution)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last of the allowed iterations is an answer too
        fitted = model.fit(method="bfgs", maxiter=max_iterations, disp=False, skip_hessian=True)

    def answer(x: pd.DataFrame) -> Prediction:
        probabilities = np.clip(fitted.model.predict(fitted.params, design.matrix(x)[:, kept]), 0.0, None)
        return from_grade_probabilities(spread_over_grades(probabilities, grades, n_grades), problem.n_samples)

    return FittedBy(answer)


ORDINAL_LINEAR: tuple[Peer, ...] = (
    Peer("mord", "ordinal logistic regression with all thresholds", ("grades",), fit_mord, package="mord"),
    Peer("ordered-model", "ordered logit by maximum likelihood", ("grades",), fit_ordered_model,
         package="statsmodels"),
)  # fmt: skip
