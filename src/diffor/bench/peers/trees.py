"""Gradient-boosted trees: quantiles one model each or all in one, a Gaussian, and classes for grades."""

from __future__ import annotations

import inspect
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from diffor.bench.peers.columns import TrainingColumns
from diffor.bench.peers.problem import (
    LEVELS,
    Fitted,
    FittedBy,
    Problem,
    by_probabilities,
    by_quantiles,
    import_package,
    quantile_levels,
)
from diffor.core.prediction import Prediction

MAX_HISTOGRAM_LEVELS = 200
"""scikit-learn's trees refuse categories with more levels than bins; rarer ones count as missing there."""


# LightGBM.


def lightgbm_data(problem: Problem, columns: TrainingColumns) -> tuple[Any, Any]:
    """Training and validation rows as LightGBM wants them; the bins are made once for all models of a problem."""
    lightgbm = import_package("lightgbm")
    parameters = {"num_threads": problem.n_threads, "verbose": -1}
    train = lightgbm.Dataset(columns.categories(problem.x), problem.y, free_raw_data=False, params=parameters)
    return train, train.create_valid(columns.categories(problem.x_valid), problem.y_valid)


def lightgbm_model(problem: Problem, data: tuple[Any, Any], n_estimators: int, patience: int, **parameters: Any) -> Any:
    """A LightGBM model that is stopped by the validation rows."""
    lightgbm = import_package("lightgbm")
    chosen = {"learning_rate": 0.05, "num_leaves": 31, "verbose": -1, "seed": problem.seed,
              "num_threads": problem.n_threads, "deterministic": True, "force_col_wise": True,
              **parameters}  # fmt: skip
    stop = lightgbm.early_stopping(patience, verbose=False)
    train, valid = data
    return lightgbm.train(chosen, train, num_boost_round=n_estimators, valid_sets=[valid], callbacks=[stop])


def fit_lightgbm_quantile(problem: Problem, n_estimators: int = 1000, patience: int = 50, **parameters: Any) -> Fitted:
    """One LightGBM model for each of 19 quantiles, each stopped by the validation rows' pinball loss."""
    columns = TrainingColumns(problem.x)
    data = lightgbm_data(problem, columns)
    models = [
        lightgbm_model(problem, data, n_estimators, patience, objective="quantile", alpha=level, **parameters)
        for level in LEVELS
    ]

    def quantiles(x: pd.DataFrame) -> Any:
        table = columns.categories(x)
        return np.stack([model.predict(table, num_threads=problem.n_threads) for model in models], axis=1)

    return by_quantiles(problem, quantiles)


def fit_lightgbm_classifier(
    problem: Problem, n_estimators: int = 1000, patience: int = 50, **parameters: Any
) -> Fitted:
    """LightGBM with one class per grade, stopped by the validation rows' log loss."""
    columns = TrainingColumns(problem.x)
    chosen = {"objective": "multiclass", "num_class": problem.n_grades, "metric": "multi_logloss", **parameters}
    model = lightgbm_model(problem, lightgbm_data(problem, columns), n_estimators, patience, **chosen)
    return by_probabilities(
        problem, lambda x: model.predict(columns.categories(x), num_threads=problem.n_threads)
    )  # fmt: skip


# CatBoost.


def catboost_model(problem: Problem, kind: str, loss: str, settings: dict[str, Any]) -> tuple[Any, TrainingColumns]:
    """A CatBoost model that is stopped by the validation rows, and the columns it knows."""
    catboost = import_package("catboost")
    columns = TrainingColumns(problem.x)
    patience = settings.pop("patience", 50)
    chosen = {"iterations": 1000, "learning_rate": 0.05, "random_seed": problem.seed, "thread_count": problem.n_threads,
              "allow_writing_files": False, "verbose": False, **settings}  # fmt: skip
    model = getattr(catboost, kind)(loss_function=loss, cat_features=columns.category_names, **chosen)
    valid = (columns.spelled(problem.x_valid), problem.y_valid)
    # CatBoost warns through its own log where a grade is absent from the rows; the benchmark knows.
    model.fit(columns.spelled(problem.x), problem.y, eval_set=valid, early_stopping_rounds=patience,
              log_cerr=_Silence())  # fmt: skip
    return model, columns


class _Silence:
    """A log that keeps nothing."""

    def write(self, text: str) -> int:
        """Take a text and forget it."""
        return len(text)


def fit_catboost_uncertainty(problem: Problem, n_ensembles: int = 10, **settings: Any) -> Fitted:
    """CatBoost's Gaussian: mean and variance of the model, widened by the spread of virtual ensembles."""
    centre, spread = float(problem.y.mean()), float(problem.y.std()) or 1.0
    scaled = replace(problem, y=(problem.y - centre) / spread, y_valid=(problem.y_valid - centre) / spread)
    model, columns = catboost_model(scaled, "CatBoostRegressor", "RMSEWithUncertainty", settings)
    # The virtual ensembles are cut from the second half of the trees, so there cannot be more of them than that.
    count = min(n_ensembles, model.tree_count_ // 2)

    def answer(x: pd.DataFrame) -> Prediction:
        table = columns.spelled(x)
        mean, variance = model.predict(table, thread_count=problem.n_threads).T
        if count >= 2:
            # The mean of the shortened ensembles is the worse one: only the disagreement is taken from them.
            parts = model.virtual_ensembles_predict(
                table, "TotalUncertainty", virtual_ensembles_count=count, thread_count=problem.n_threads
            )
            variance = variance + parts[:, 1]
        standard = ndtri(quantile_levels(problem.n_samples))
        return Prediction(centre + spread * (mean[:, None] + np.sqrt(variance)[:, None] * standard))

    return FittedBy(answer)


def fit_catboost_quantile(problem: Problem, **settings: Any) -> Fitted:
    """One CatBoost model for all 19 quantiles."""
    loss = f"MultiQuantile:alpha={','.join(map(str, LEVELS))}"
    model, columns = catboost_model(problem, "CatBoostRegressor", loss, settings)
    return by_quantiles(problem, lambda x: model.predict(columns.spelled(x), thread_count=problem.n_threads))


def fit_catboost_classifier(problem: Problem, **settings: Any) -> Fitted:
    """CatBoost with one class per grade."""
    chosen = {"classes_count": problem.n_grades, **settings}
    model, columns = catboost_model(problem, "CatBoostClassifier", "MultiClass", chosen)
    return by_probabilities(problem, lambda x: model.predict_proba(columns.spelled(x), thread_count=problem.n_threads))


# scikit-learn.


def fit_hist_gradient_boosting(problem: Problem, **settings: Any) -> Fitted:
    """scikit-learn's histogram trees: one model for each of 19 quantiles, or one classifier for grades."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    columns = TrainingColumns(problem.x, MAX_HISTOGRAM_LEVELS)
    chosen = {"max_iter": 1000, "learning_rate": 0.05, "n_iter_no_change": 50, "early_stopping": True,
              "random_state": problem.seed, **settings}  # fmt: skip
    if problem.n_grades is not None:
        # The classifier refuses validation rows of grades that no training row has.
        known = np.isin(problem.y_valid, problem.y)
        model = fit_histogram_model(problem, HistGradientBoostingClassifier(**chosen), columns, known)
        return by_probabilities(problem, _with_threads(problem, columns, model.predict_proba), model.classes_)
    every = np.ones(len(problem.y_valid), dtype=bool)
    makes = (HistGradientBoostingRegressor(loss="quantile", quantile=level, **chosen) for level in LEVELS)
    models = [fit_histogram_model(problem, model, columns, every) for model in makes]
    return by_quantiles(
        problem,
        _with_threads(problem, columns, lambda table: np.stack([model.predict(table) for model in models], axis=1)),
    )


def fit_histogram_model(problem: Problem, model: Any, columns: TrainingColumns, known: NDArray[np.bool_]) -> Any:
    """The model, fitted and stopped by those validation rows that are ``known``."""
    if "X_val" not in inspect.signature(model.fit).parameters:
        raise ImportError(
            "this method needs scikit-learn 1.7 or later, which stops by given validation rows, but "
            f"{version('scikit-learn')} is installed; upgrade it"
        )
    with _threads(problem.n_threads):
        table, valid = columns.categories(problem.x), columns.categories(problem.x_valid[known])
        return model.fit(table, problem.y, X_val=valid, y_val=problem.y_valid[known])


def _with_threads(problem: Problem, columns: TrainingColumns, predict: Any) -> Any:
    def answer(x: pd.DataFrame) -> Any:
        with _threads(problem.n_threads):
            return predict(columns.categories(x))

    return answer


def _threads(n_threads: int) -> Any:
    from threadpoolctl import threadpool_limits

    return threadpool_limits(n_threads, user_api="openmp")
