"""Quantile regression forests (Meinshausen, JMLR 2006): a forest whose leaves keep their training targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from diffor.bench.peers.columns import FilledColumns
from diffor.bench.peers.problem import Fitted, FittedBy, Problem, Values, all_rows, import_package, quantile_levels
from diffor.core.prediction import Prediction


def fit_quantile_forest(problem: Problem, **settings: Any) -> Fitted:
    """A forest of all rows, validation rows too, since it has nothing to stop; leaves keep all of their targets."""
    quantile_forest = import_package("quantile_forest", "quantile-forest")
    x, y = all_rows(problem)
    columns = FilledColumns(x)
    chosen = {"n_estimators": 500, "min_samples_leaf": 5, "max_samples_leaf": None, "random_state": problem.seed,
              "n_jobs": problem.n_threads, **settings}  # fmt: skip
    model = quantile_forest.RandomForestQuantileRegressor(**chosen).fit(_matrix(columns, x), y)

    def answer(x: pd.DataFrame) -> Prediction:
        levels = quantile_levels(problem.n_samples).tolist()
        quantiles = np.asarray(model.predict(_matrix(columns, x), quantiles=levels), dtype=np.float64)
        return Prediction(quantiles.reshape(len(x), -1))

    return FittedBy(answer)


def _matrix(columns: FilledColumns, x: pd.DataFrame) -> Values:
    return np.concatenate([columns.numbers(x), columns.codes(x)], axis=1)
