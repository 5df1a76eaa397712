"""XGBoost: one model for 19 quantiles, or one class per grade."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from diffor.bench.peers.columns import TrainingColumns
from diffor.bench.peers.problem import (
    LEVELS,
    Fitted,
    Problem,
    Values,
    by_probabilities,
    by_quantiles,
    import_package,
)


class XGBoostModel:
    """A model that is stopped by the validation rows, and the columns it knows."""

    def __init__(self, problem: Problem, n_estimators: int = 1000, patience: int = 50, **parameters: Any) -> None:
        self._xgboost = import_package("xgboost", "xgboost-cpu")
        self._columns, self._n_threads = TrainingColumns(problem.x), problem.n_threads
        train = self._matrix(problem.x, problem.y)
        valid = self._matrix(problem.x_valid, problem.y_valid, ref=train)
        chosen = {"learning_rate": 0.05, "tree_method": "hist", "seed": problem.seed, "nthread": problem.n_threads,
                  "verbosity": 0, **parameters}  # fmt: skip
        self._model = self._xgboost.train(
            chosen, train, n_estimators, evals=[(valid, "valid")], early_stopping_rounds=patience, verbose_eval=False
        )

    def _matrix(self, x: pd.DataFrame, y: Values, **more: Any) -> Any:
        table = self._columns.categories(x)
        return self._xgboost.QuantileDMatrix(table, y, enable_categorical=True, nthread=self._n_threads, **more)

    def outputs(self, x: pd.DataFrame) -> Values:
        """What the trees up to the best round say. **Shape:** ``(n,)`` or ``(n, outputs)``."""
        rows = self._xgboost.DMatrix(self._columns.categories(x), enable_categorical=True, nthread=self._n_threads)
        best = (0, self._model.best_iteration + 1)
        return np.asarray(self._model.predict(rows, iteration_range=best), dtype=np.float64)


def fit_xgboost_quantile(problem: Problem, **settings: Any) -> Fitted:
    """One XGBoost model for all 19 quantiles, stopped by the validation rows' pinball loss."""
    chosen = {"objective": "reg:quantileerror", "quantile_alpha": list(LEVELS), **settings}
    return by_quantiles(problem, XGBoostModel(problem, **chosen).outputs)


def fit_xgboost_classifier(problem: Problem, **settings: Any) -> Fitted:
    """XGBoost with one class per grade, stopped by the validation rows' log loss."""
    chosen = {"objective": "multi:softprob", "num_class": problem.n_grades, "eval_metric": "mlogloss", **settings}
    return by_probabilities(problem, XGBoostModel(problem, **chosen).outputs)
