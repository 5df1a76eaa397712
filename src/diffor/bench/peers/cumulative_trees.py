"""Boosted trees for ordered grades: one model for each border, of whether the grade lies above it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from diffor.bench.peers.columns import TrainingColumns
from diffor.bench.peers.problem import Fitted, Problem, Values, by_probabilities
from diffor.bench.peers.trees import catboost_model, lightgbm_data, lightgbm_model
from diffor.bench.peers.xgboost_trees import XGBoostModel

Binary = Callable[[pd.DataFrame], Values]
"""From a table to the probability that each row's grade lies above a border. **Shape:** -> ``(n,)``."""


def fit_cumulative(problem: Problem, library: str, **settings: Any) -> Fitted:
    """Fit a model for each border; the probabilities of lying above them are made to fall."""
    n_borders = int(problem.n_grades or 0) - 1
    borders = [_fit_border(problem, border, BINARY[library], settings) for border in range(n_borders)]
    return by_probabilities(problem, lambda x: grades_from_borders(np.stack([border(x) for border in borders], axis=1)))


def grades_from_borders(above: Values) -> Values:
    """Probabilities of the grades from those of lying above each border. **Shape:** ``(n, K - 1)`` -> ``(n, K)``.

    Where they rise, they are replaced by the middle between the falling curves just below and just above them.

    >>> grades_from_borders(np.array([[0.75, 0.25], [0.25, 0.75]])).tolist()
    [[0.25, 0.5, 0.25], [0.5, 0.0, 0.5]]
    """
    lower = np.minimum.accumulate(above, axis=1)
    upper = np.maximum.accumulate(above[:, ::-1], axis=1)[:, ::-1]
    falling = (lower + upper) / 2
    ends = np.ones((len(above), 1)), np.zeros((len(above), 1))
    above_each = np.concatenate([ends[0], falling, ends[1]], axis=1)
    return np.asarray(above_each[:, :-1] - above_each[:, 1:])


def _fit_border(problem: Problem, border: int, fit_binary: Callable[..., Binary], settings: dict[str, Any]) -> Binary:
    y, y_valid = (problem.y > border).astype(np.float64), (problem.y_valid > border).astype(np.float64)
    if y.min() == y.max():  # nothing to learn: all rows lie on one side
        share = float(y[0])
        return lambda x: np.full(len(x), share)
    return fit_binary(replace(problem, y=y, y_valid=y_valid, n_grades=2), **settings)


def lightgbm_binary(problem: Problem, n_estimators: int = 1000, patience: int = 50, **parameters: Any) -> Binary:
    """LightGBM with a logistic loss."""
    columns = TrainingColumns(problem.x)
    data = lightgbm_data(problem, columns)
    model = lightgbm_model(problem, data, n_estimators, patience, objective="binary", **parameters)
    return lambda x: np.asarray(model.predict(columns.categories(x), num_threads=problem.n_threads))


def xgboost_binary(problem: Problem, **parameters: Any) -> Binary:
    """XGBoost with a logistic loss."""
    return XGBoostModel(problem, **{"objective": "binary:logistic", "eval_metric": "logloss", **parameters}).outputs


def catboost_binary(problem: Problem, **settings: Any) -> Binary:
    """CatBoost with a logistic loss."""
    model, columns = catboost_model(problem, "CatBoostClassifier", "Logloss", settings)
    return lambda x: np.asarray(model.predict_proba(columns.spelled(x), thread_count=problem.n_threads)[:, 1])


BINARY: dict[str, Callable[..., Binary]] = {
    "lightgbm": lightgbm_binary,
    "xgboost": xgboost_binary,
    "catboost": catboost_binary,
}
