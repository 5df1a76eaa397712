"""Gradient-boosted trees: quantiles one model each or all in one, a Gaussian, and classes for grades."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from diffor.bench.peers.problem import (
    Fitted,
    Peer,
    Problem,
    Values,
    from_grade_probabilities,
    from_quantiles,
    quantile_levels,
)
from diffor.core.prediction import Prediction

LEVELS: tuple[float, ...] = tuple(round(0.05 * i, 2) for i in range(1, 20))
"""The 19 quantile levels 0.05, 0.10, ..., 0.95 of every method that learns quantiles."""

MAX_HISTOGRAM_LEVELS = 200
"""scikit-learn's trees refuse categories with more levels than bins; rarer ones count as missing there."""


def import_package(module: str, package: str | None = None) -> Any:
    """Import an optional package, or say how to install it.

    >>> import_package("math").sqrt(4.0)
    2.0
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # A package that is there but lacks one of its own parts tells more by its own message.
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ImportError(
            f"this method needs the package {package or module}, but it is not installed; "
            'install it with pip install "diffor[bench]"'
        ) from error


class TrainingColumns:
    """Columns as the training rows know them: categories that they do not have count as missing.

    The columns get plain names, because some libraries refuse names with commas or brackets.

    >>> train = pd.DataFrame({"size, cm": [1.0, None], "kind": pd.Categorical(["a", "b"])})
    >>> test = pd.DataFrame({"size, cm": [2.0], "kind": pd.Categorical(["c"])})
    >>> columns = TrainingColumns(train)
    >>> columns.categories(test).to_dict("records")
    [{'x0': 2.0, 'x1': nan}]
    >>> columns.codes(train).tolist()
    [[1.0, 0.0], [nan, 1.0]]
    """

    def __init__(self, x: pd.DataFrame, max_levels: int | None = None) -> None:
        self.names: list[Hashable] = list(x.columns)
        self.levels: dict[int, pd.Index[Any]] = {}
        for place, name in enumerate(self.names):
            if not pd.api.types.is_numeric_dtype(x[name].dtype):
                column = x[name].astype("category")  # where it is one already, its levels keep their order
                counts = column.value_counts()  # commonest first
                kept = set(counts[counts > 0].index[:max_levels])
                self.levels[place] = pd.Index([level for level in column.cat.categories if level in kept], dtype=object)

    def categories(self, x: pd.DataFrame) -> pd.DataFrame:
        """Numbers as float64, the others as pandas categories with the levels of the training rows."""
        columns: dict[str, Any] = {}
        for place in range(len(self.names)):
            if place in self.levels:
                columns[f"x{place}"] = pd.Categorical.from_codes(self._codes(x, place), self.levels[place])
            else:
                columns[f"x{place}"] = self._numbers(x, place)
        table: pd.DataFrame = pd.DataFrame(columns)
        return table

    def codes(self, x: pd.DataFrame) -> Values:
        """Numbers, and for categories the place of the level; NaN where missing or unknown. **Shape:** ``(n, d)``."""
        table = np.empty((len(x), len(self.names)))
        for place in range(len(self.names)):
            if place in self.levels:
                codes = self._codes(x, place)
                table[:, place] = np.where(codes < 0, np.nan, codes)
            else:
                table[:, place] = self._numbers(x, place)
        return table

    def spelled(self, x: pd.DataFrame) -> pd.DataFrame:
        """Categories as strings, also unknown ones, and "missing" where there is none."""
        table = self.categories(x)
        for place in self.levels:
            values = x[self.names[place]].astype(object)
            table[f"x{place}"] = values.where(values.notna(), "missing").astype(str).to_numpy(dtype=object)
        return table

    @property
    def category_names(self) -> list[str]:
        """Plain names of the columns that are categories."""
        return [f"x{place}" for place in self.levels]

    def _codes(self, x: pd.DataFrame, place: int) -> NDArray[np.int64]:
        values = x[self.names[place]].astype(object)
        return np.asarray(self.levels[place].get_indexer(pd.Index(values, dtype=object)), dtype=np.int64)

    def _numbers(self, x: pd.DataFrame, place: int) -> Values:
        return np.asarray(x[self.names[place]].to_numpy(dtype=np.float64, na_value=np.nan))


@dataclass(frozen=True)
class FittedBy:
    """A fitted method whose answer a function computes."""

    answer: Callable[[pd.DataFrame], Prediction]

    def predict(self, x: pd.DataFrame) -> Prediction:
        """Distribution of each row's target."""
        return self.answer(x)


def spread_over_grades(probabilities: Any, classes: Any, n_grades: int) -> Values:
    """Probabilities of the classes that were seen, as those of all grades. **Shape:** ``(n, c)`` -> ``(n, grades)``.

    >>> spread_over_grades([[0.25, 0.75]], [0, 2], 3).tolist()
    [[0.25, 0.0, 0.75]]
    """
    given = np.asarray(probabilities, dtype=np.float64)
    table = np.zeros((len(given), n_grades))
    table[:, np.asarray(classes, dtype=np.int64)] = given
    return table


# LightGBM.


def lightgbm_data(problem: Problem, columns: TrainingColumns) -> tuple[Any, Any]:
    """Training and validation rows as LightGBM wants them."""
    lightgbm = import_package("lightgbm")
    # The bins are made once, and all models of a problem share them.
    parameters = {"num_threads": problem.n_threads, "verbose": -1}
    train = lightgbm.Dataset(columns.categories(problem.x), problem.y, free_raw_data=False, params=parameters)
    valid = train.create_valid(columns.categories(problem.x_valid), problem.y_valid)
    return train, valid


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

    def answer(x: pd.DataFrame) -> Prediction:
        table = columns.categories(x)
        quantiles = [model.predict(table, num_threads=problem.n_threads) for model in models]
        return from_quantiles(LEVELS, np.stack(quantiles, axis=1), problem.n_samples)

    return FittedBy(answer)


def fit_lightgbm_classifier(
    problem: Problem, n_estimators: int = 1000, patience: int = 50, **parameters: Any
) -> Fitted:
    """LightGBM with one class per grade, stopped by the validation rows' log loss."""
    columns = TrainingColumns(problem.x)
    data = lightgbm_data(problem, columns)
    chosen = {"objective": "multiclass", "num_class": problem.n_grades, "metric": "multi_logloss", **parameters}
    model = lightgbm_model(problem, data, n_estimators, patience, **chosen)

    def answer(x: pd.DataFrame) -> Prediction:
        probabilities = model.predict(columns.categories(x), num_threads=problem.n_threads)
        return from_grade_probabilities(probabilities, problem.n_samples)

    return FittedBy(answer)


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

    def answer(x: pd.DataFrame) -> Prediction:
        quantiles = model.predict(columns.spelled(x), thread_count=problem.n_threads)
        return from_quantiles(LEVELS, quantiles, problem.n_samples)

    return FittedBy(answer)


def fit_catboost_classifier(problem: Problem, **settings: Any) -> Fitted:
    """CatBoost with one class per grade."""
    chosen = {"classes_count": problem.n_grades, **settings}
    model, columns = catboost_model(problem, "CatBoostClassifier", "MultiClass", chosen)

    def answer(x: pd.DataFrame) -> Prediction:
        probabilities = model.predict_proba(columns.spelled(x), thread_count=problem.n_threads)
        return from_grade_probabilities(probabilities, problem.n_samples)

    return FittedBy(answer)


# scikit-learn.


def _threads(n_threads: int) -> Any:
    from threadpoolctl import threadpool_limits

    return threadpool_limits(n_threads, user_api="openmp")


def _fit_histogram_model(problem: Problem, model: Any, columns: TrainingColumns, known: NDArray[np.bool_]) -> Any:
    if "X_val" not in inspect.signature(model.fit).parameters:
        raise ImportError(
            "this method needs scikit-learn 1.7 or later, which stops by given validation rows, but "
            f"{version('scikit-learn')} is installed; upgrade it"
        )
    with _threads(problem.n_threads):
        table, valid = columns.categories(problem.x), columns.categories(problem.x_valid[known])
        return model.fit(table, problem.y, X_val=valid, y_val=problem.y_valid[known])


def fit_hist_gradient_boosting(problem: Problem, **settings: Any) -> Fitted:
    """scikit-learn's histogram trees: one model for each of 19 quantiles, or one classifier for grades."""
    columns = TrainingColumns(problem.x, MAX_HISTOGRAM_LEVELS)
    chosen = {"max_iter": 1000, "learning_rate": 0.05, "n_iter_no_change": 50, "early_stopping": True,
              "random_state": problem.seed, **settings}  # fmt: skip
    fit = _fit_histogram_quantiles if problem.n_grades is None else _fit_histogram_grades
    return fit(problem, columns, chosen)


def _fit_histogram_quantiles(problem: Problem, columns: TrainingColumns, settings: dict[str, Any]) -> Fitted:
    from sklearn.ensemble import HistGradientBoostingRegressor

    all_known = np.ones(len(problem.y_valid), dtype=bool)
    models = [
        _fit_histogram_model(
            problem, HistGradientBoostingRegressor(loss="quantile", quantile=level, **settings), columns, all_known
        )
        for level in LEVELS
    ]

    def answer(x: pd.DataFrame) -> Prediction:
        table = columns.categories(x)
        with _threads(problem.n_threads):
            quantiles = np.stack([model.predict(table) for model in models], axis=1)
        return from_quantiles(LEVELS, quantiles, problem.n_samples)

    return FittedBy(answer)


def _fit_histogram_grades(problem: Problem, columns: TrainingColumns, settings: dict[str, Any]) -> Fitted:
    from sklearn.ensemble import HistGradientBoostingClassifier

    n_grades = int(problem.n_grades or 0)
    # The classifier refuses validation rows of grades that no training row has.
    known = np.isin(problem.y_valid, problem.y)
    model = _fit_histogram_model(problem, HistGradientBoostingClassifier(**settings), columns, known)

    def answer(x: pd.DataFrame) -> Prediction:
        with _threads(problem.n_threads):
            probabilities = model.predict_proba(columns.categories(x))
        return from_grade_probabilities(spread_over_grades(probabilities, model.classes_, n_grades), problem.n_samples)

    return FittedBy(answer)


TREES: tuple[Peer, ...] = (
    Peer("lightgbm-quantile", "LightGBM, one model for each of 19 quantiles", ("value",), fit_lightgbm_quantile,
         package="lightgbm"),
    Peer("lightgbm-classifier", "LightGBM, one class per grade", ("grades",), fit_lightgbm_classifier,
         package="lightgbm"),
    Peer("catboost-uncertainty", "CatBoost, a Gaussian with virtual ensembles", ("value",), fit_catboost_uncertainty,
         package="catboost"),
    Peer("catboost-quantile", "CatBoost, one model for 19 quantiles", ("value",), fit_catboost_quantile,
         package="catboost"),
    Peer("catboost-classifier", "CatBoost, one class per grade", ("grades",), fit_catboost_classifier,
         package="catboost"),
    Peer("hist-gradient-boosting", "scikit-learn's histogram trees, 19 quantiles or one class per grade",
         ("value", "grades"), fit_hist_gradient_boosting),
)  # fmt: skip
