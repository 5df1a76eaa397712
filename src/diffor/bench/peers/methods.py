"""Our estimators as peers: DiffoR's presets, and every method of the METHODS table on the shared encoder."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from diffor.bench.peers.problem import Fitted, Problem, Values, all_rows
from diffor.core.prediction import Prediction
from diffor.estimators.api import DiffoRClassifier, DiffoRRegressor, Estimator, OrdinalClassifier, OrdinalRegressor
from diffor.estimators.settings import PRESETS
from diffor.methods import METHODS

UNITS = "units"
"""A number of bins: one for each whole unit of the target, such as a year of age."""


@dataclass(frozen=True)
class FittedEstimator:
    """A fitted estimator and the number of samples it is asked for."""

    estimator: Estimator
    n_samples: int

    def predict(self, x: pd.DataFrame) -> Prediction:
        """Distribution of each row's target, of a method that needs nothing beside the table."""
        return self.predict_beside(x, {})

    def predict_beside(self, x: pd.DataFrame, side: Mapping[str, Values]) -> Prediction:
        """Distribution of each row's target, given the rows' side columns."""
        beside: dict[str, Any] = used_by(self.estimator.settings_.method, side)
        return self.estimator.predict_distribution(x, self.n_samples, **beside)

    @property
    def facts(self) -> dict[str, Any]:
        """What the fit decided by itself, for the result line."""
        method, history = METHODS[self.estimator.settings_.method], self.estimator.history_
        return {
            "native": method.native_statistic,
            "is_reconstruction": method.is_reconstruction,
            "encoders": list(self.estimator.encoders_),
            "steps": history.steps,
            "best_step": history.best_step,
            "stopped": history.stopped,
        }


def fit_preset(problem: Problem, preset: str, **settings: Any) -> Fitted:
    """Fit a preset of DiffoR; ``settings`` are further arguments of the estimator, or of the method that it trains."""
    makes: Any = DiffoRRegressor if problem.n_grades is None else DiffoRClassifier
    cross_fits = PRESETS[preset].cross_fits
    own = settings if cross_fits else own_settings(PRESETS[preset].method, settings)
    estimator = makes(preset, **_arguments(problem, own))
    if not cross_fits or problem.keeps_validation:
        _fit_beside_validation(problem, estimator, groups=problem.groups if cross_fits else None)
        return FittedEstimator(estimator, problem.n_samples)
    x, y = all_rows(problem)  # every row is held out once, so validation rows are rows like the others
    groups = None
    if problem.groups is not None and problem.groups_valid is not None:
        groups = np.concatenate([problem.groups, problem.groups_valid])
    estimator.fit(x, _target(problem, y), groups=groups)
    return FittedEstimator(estimator, problem.n_samples)


def fit_method(problem: Problem, method: str, **settings: Any) -> Fitted:
    """Fit a method of the table; ``settings`` are further arguments of the estimator or of the method's class."""
    makes: Any = OrdinalRegressor if problem.n_grades is None else OrdinalClassifier
    if settings.get("n_bins") == UNITS:
        settings |= {"n_bins": count_units(problem), "policy": "uniform"}
    estimator = makes(method, **_arguments(problem, own_settings(method, settings)))
    side = used_by(method, problem.side)
    side |= {f"{column}_val": values for column, values in used_by(method, problem.side_valid).items()}
    _fit_beside_validation(problem, estimator, **side)
    return FittedEstimator(estimator, problem.n_samples)


def count_units(problem: Problem) -> int:
    """How many classes there are where each whole unit, such as a year of age, is one."""
    low, high = problem.bounds or (float(problem.y.min()), float(problem.y.max()))
    return round(high - low) + 1


def own_settings(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the estimator; those of the method's class become its ``method_settings``.

    >>> own_settings("diffor-paper", {"n_increments": 4, "max_steps": 10})
    {'max_steps': 10, 'method_settings': {'n_increments': 4}}
    """
    known = inspect.signature(METHODS[method]).parameters
    own = {name: value for name, value in settings.items() if name in known}
    shared = {name: value for name, value in settings.items() if name not in known}
    return {**shared, "method_settings": {**(shared.get("method_settings") or {}), **own}}


def used_by(method: str, side: Mapping[str, Values]) -> dict[str, Values]:
    """The side columns that a method uses or learns from.

    >>> list(used_by("d2q", {"duration": np.ones(1), "price": np.ones(1)}))
    ['duration']
    """
    made = METHODS[method]
    return {name: side[name] for name in (*made.requires, *made.accepts, *made.learns_from) if name in side}


def _arguments(problem: Problem, settings: Mapping[str, Any]) -> dict[str, Any]:
    target = {"bounds": problem.bounds} if problem.n_grades is None else {"grades": list(range(problem.n_grades))}
    return {**target, "random_state": problem.seed, "verbose": 0, "n_jobs": problem.n_threads, **settings}


def _target(problem: Problem, y: Values) -> Any:
    return y if problem.n_grades is None else y.astype(np.int64)


def _fit_beside_validation(problem: Problem, estimator: Any, **side: Any) -> None:
    y, y_valid = _target(problem, problem.y), _target(problem, problem.y_valid)
    estimator.fit(problem.x, y, X_val=problem.x_valid, y_val=y_valid, **side)
