"""Trees of other people: boosted ones, with quantiles, a Gaussian, classes or borders of grades, and a forest."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from diffor.bench.peers.columns import FilledColumns, TrainingColumns
from diffor.bench.peers.problem import (
    LEVELS,
    Fitted,
    FittedBy,
    Problem,
    Values,
    all_rows,
    by_probabilities,
    by_quantiles,
    import_package,
    quantile_levels,
)
from diffor.core.prediction import Prediction

MAX_HISTOGRAM_LEVELS = 200
"""scikit-learn's trees refuse categories with more levels than bins; rarer ones count as missing there."""
Outputs = Callable[[pd.DataFrame], Values]
"""What a model says about rows: 19 quantiles, probabilities of the classes, or of the second of two classes."""


# Boosted trees of three libraries. Each model is stopped by the validation rows: by their pinball or log loss.


def lightgbm_outputs(
    problem: Problem, kind: str, n_estimators: int = 1000, patience: int = 50, **parameters: Any
) -> Outputs:
    """LightGBM: one model for each of 19 quantiles, or one for classes; the bins are made once for all models."""
    lightgbm = import_package("lightgbm")
    columns, threads = TrainingColumns(problem.x), {"num_threads": problem.n_threads}
    quiet = {**threads, "verbose": -1}
    train = lightgbm.Dataset(columns.categories(problem.x), problem.y, free_raw_data=False, params=quiet)
    valid = train.create_valid(columns.categories(problem.x_valid), problem.y_valid)
    objectives: dict[str, list[dict[str, Any]]] = {
        "quantile": [{"objective": "quantile", "alpha": level} for level in LEVELS],
        "classes": [{"objective": "multiclass", "num_class": problem.n_grades, "metric": "multi_logloss"}],
        "border": [{"objective": "binary"}],
    }
    shared = {"learning_rate": 0.05, "num_leaves": 31, "seed": problem.seed, "deterministic": True,
              "force_col_wise": True, **quiet}  # fmt: skip
    models = [
        lightgbm.train({**shared, **objective, **parameters}, train, num_boost_round=n_estimators, valid_sets=[valid],
                       callbacks=[lightgbm.early_stopping(patience, verbose=False)])
        for objective in objectives[kind]
    ]  # fmt: skip

    def outputs(x: pd.DataFrame) -> Values:
        table = columns.categories(x)
        found = [np.asarray(model.predict(table, **threads)) for model in models]
        return np.stack(found, axis=1) if kind == "quantile" else found[0]

    return outputs


def xgboost_outputs(
    problem: Problem, kind: str, n_estimators: int = 1000, patience: int = 50, **parameters: Any
) -> Outputs:
    """XGBoost: one model for all 19 quantiles, or for classes."""
    xgboost = import_package("xgboost", "xgboost-cpu")
    columns, shared = TrainingColumns(problem.x), {"enable_categorical": True, "nthread": problem.n_threads}
    train = xgboost.QuantileDMatrix(columns.categories(problem.x), problem.y, **shared)
    valid = xgboost.QuantileDMatrix(columns.categories(problem.x_valid), problem.y_valid, ref=train, **shared)
    objectives: dict[str, dict[str, Any]] = {
        "quantile": {"objective": "reg:quantileerror", "quantile_alpha": list(LEVELS)},
        "classes": {"objective": "multi:softprob", "num_class": problem.n_grades, "eval_metric": "mlogloss"},
        "border": {"objective": "binary:logistic", "eval_metric": "logloss"},
    }
    chosen = {"learning_rate": 0.05, "tree_method": "hist", "seed": problem.seed, "nthread": problem.n_threads,
              "verbosity": 0, **objectives[kind], **parameters}  # fmt: skip
    model = xgboost.train(
        chosen, train, n_estimators, evals=[(valid, "valid")], early_stopping_rounds=patience, verbose_eval=False
    )

    def outputs(x: pd.DataFrame) -> Values:
        rows, best = xgboost.DMatrix(columns.categories(x), **shared), (0, model.best_iteration + 1)
        return np.asarray(model.predict(rows, iteration_range=best), dtype=np.float64)

    return outputs


class _Silence:
    """A log that keeps nothing."""

    def write(self, text: str) -> int:
        """Take a text and forget it."""
        return len(text)


def catboost_model(
    problem: Problem, kind: str, loss: str, patience: int = 50, **settings: Any
) -> tuple[Any, TrainingColumns]:
    """A CatBoost model that is stopped by the validation rows, and the columns it knows."""
    catboost = import_package("catboost")
    columns = TrainingColumns(problem.x)
    chosen = {"iterations": 1000, "learning_rate": 0.05, "random_seed": problem.seed, "thread_count": problem.n_threads,
              "allow_writing_files": False, "verbose": False, **settings}  # fmt: skip
    model = getattr(catboost, kind)(loss_function=loss, cat_features=columns.category_names, **chosen)
    # CatBoost warns through its own log where a grade is absent from the rows; the benchmark knows.
    model.fit(columns.spelled(problem.x), problem.y, early_stopping_rounds=patience, log_cerr=_Silence(),
              eval_set=(columns.spelled(problem.x_valid), problem.y_valid))  # fmt: skip
    return model, columns


def catboost_outputs(problem: Problem, kind: str, **settings: Any) -> Outputs:
    """CatBoost: one model for all 19 quantiles, or for classes."""
    if kind == "quantile":
        loss = f"MultiQuantile:alpha={','.join(map(str, LEVELS))}"
        model, columns = catboost_model(problem, "CatBoostRegressor", loss, **settings)
        return lambda x: np.asarray(model.predict(columns.spelled(x), thread_count=problem.n_threads))
    loss, classes = ("MultiClass", {"classes_count": problem.n_grades}) if kind == "classes" else ("Logloss", {})
    model, columns = catboost_model(problem, "CatBoostClassifier", loss, **{**classes, **settings})

    def outputs(x: pd.DataFrame) -> Values:
        found = np.asarray(model.predict_proba(columns.spelled(x), thread_count=problem.n_threads))
        return found if kind == "classes" else found[:, 1]

    return outputs


LIBRARIES: dict[str, Callable[..., Outputs]] = {
    "lightgbm": lightgbm_outputs,
    "xgboost": xgboost_outputs,
    "catboost": catboost_outputs,
}


def fit_quantiles(problem: Problem, library: str, **settings: Any) -> Fitted:
    """19 quantiles by boosted trees of a library."""
    return by_quantiles(problem, LIBRARIES[library](problem, "quantile", **settings))


def fit_classifier(problem: Problem, library: str, **settings: Any) -> Fitted:
    """Boosted trees of a library with one class per grade."""
    return by_probabilities(problem, LIBRARIES[library](problem, "classes", **settings))


def fit_cumulative(problem: Problem, library: str, **settings: Any) -> Fitted:
    """A boosted model for each border between grades, of whether the grade lies above it."""

    def of_border(border: int) -> Outputs:
        y, y_valid = (problem.y > border).astype(np.float64), (problem.y_valid > border).astype(np.float64)
        if y.min() == y.max():  # nothing to learn: all rows lie on one side
            return lambda x: np.full(len(x), float(y[0]))
        return LIBRARIES[library](replace(problem, y=y, y_valid=y_valid, n_grades=2), "border", **settings)

    borders = [of_border(border) for border in range(int(problem.n_grades or 0) - 1)]
    return by_probabilities(problem, lambda x: grades_from_borders(np.stack([border(x) for border in borders], axis=1)))


def grades_from_borders(above: Values) -> Values:
    """Probabilities of the grades from those of lying above each border. **Shape:** ``(n, K - 1)`` -> ``(n, K)``.

    Where they rise, they are replaced by the middle between the falling curves just below and just above them.

    >>> grades_from_borders(np.array([[0.75, 0.25], [0.25, 0.75]])).tolist()
    [[0.25, 0.5, 0.25], [0.5, 0.0, 0.5]]
    """
    lower = np.minimum.accumulate(above, axis=1)
    upper = np.maximum.accumulate(above[:, ::-1], axis=1)[:, ::-1]
    falling = np.pad((lower + upper) / 2, ((0, 0), (1, 1)), constant_values=((0, 0), (1, 0)))
    return np.asarray(falling[:, :-1] - falling[:, 1:])


def fit_catboost_uncertainty(problem: Problem, n_ensembles: int = 10, **settings: Any) -> Fitted:
    """CatBoost's Gaussian: mean and variance of the model, widened by the spread of virtual ensembles."""
    centre, spread = float(problem.y.mean()), float(problem.y.std()) or 1.0
    scaled = replace(problem, y=(problem.y - centre) / spread, y_valid=(problem.y_valid - centre) / spread)
    model, columns = catboost_model(scaled, "CatBoostRegressor", "RMSEWithUncertainty", **settings)
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


# scikit-learn, and a forest of its kind.


def fit_hist_gradient_boosting(problem: Problem, **settings: Any) -> Fitted:
    """scikit-learn's histogram trees: one model for each of 19 quantiles, or one classifier for grades."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    columns = TrainingColumns(problem.x, MAX_HISTOGRAM_LEVELS)
    chosen = {"max_iter": 1000, "learning_rate": 0.05, "n_iter_no_change": 50, "early_stopping": True,
              "random_state": problem.seed, **settings}  # fmt: skip
    if problem.n_grades is not None:
        # The classifier refuses validation rows of grades that no training row has.
        known = np.isin(problem.y_valid, problem.y)
        makes: list[Any] = [HistGradientBoostingClassifier(**chosen)]
    else:
        known = np.ones(len(problem.y_valid), dtype=bool)
        makes = [HistGradientBoostingRegressor(loss="quantile", quantile=level, **chosen) for level in LEVELS]
    models = [fit_histogram_model(problem, model, columns, known) for model in makes]

    def outputs(x: pd.DataFrame) -> Values:
        table = columns.categories(x)
        with _threads(problem):
            if problem.n_grades is not None:
                return np.asarray(models[0].predict_proba(table))
            return np.stack([model.predict(table) for model in models], axis=1)

    if problem.n_grades is not None:
        return by_probabilities(problem, outputs, models[0].classes_)
    return by_quantiles(problem, outputs)


def fit_histogram_model(problem: Problem, model: Any, columns: TrainingColumns, known: NDArray[np.bool_]) -> Any:
    """The model, fitted and stopped by those validation rows that are ``known``."""
    if "X_val" not in inspect.signature(model.fit).parameters:
        raise ImportError(
            "this method needs scikit-learn 1.7 or later, which stops by given validation rows, but "
            f"{version('scikit-learn')} is installed; upgrade it"
        )
    with _threads(problem):
        table, valid = columns.categories(problem.x), columns.categories(problem.x_valid[known])
        return model.fit(table, problem.y, X_val=valid, y_val=problem.y_valid[known])


def _threads(problem: Problem) -> Any:
    from threadpoolctl import threadpool_limits

    return threadpool_limits(problem.n_threads, user_api="openmp")


def fit_quantile_forest(problem: Problem, **settings: Any) -> Fitted:
    """A quantile regression forest (Meinshausen, JMLR 2006), whose leaves keep all of their training targets.

    It learns from all rows, validation rows too, since it has nothing to stop.
    """
    quantile_forest = import_package("quantile_forest", "quantile-forest")
    x, y = all_rows(problem)
    columns = FilledColumns(x)
    chosen = {"n_estimators": 500, "min_samples_leaf": 5, "max_samples_leaf": None, "random_state": problem.seed,
              "n_jobs": problem.n_threads, **settings}  # fmt: skip
    model = quantile_forest.RandomForestQuantileRegressor(**chosen).fit(columns.matrix(x), y)

    def answer(x: pd.DataFrame) -> Prediction:
        quantiles = model.predict(columns.matrix(x), quantiles=quantile_levels(problem.n_samples).tolist())
        return Prediction(np.asarray(quantiles, dtype=np.float64).reshape(len(x), -1))

    return FittedBy(answer)
