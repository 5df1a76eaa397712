"""Every method of the METHODS table as a peer: all on the same encoder, with the same training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from diffor.bench.peers.problem import Fitted, Peer, Problem, Values
from diffor.core.prediction import Prediction
from diffor.methods import METHODS

if TYPE_CHECKING:
    from diffor.estimators.api import OrdinalClassifier, OrdinalRegressor


@dataclass(frozen=True)
class FittedMethod:
    """A fitted estimator, the number of samples it is asked for, and the side columns that its method uses."""

    estimator: OrdinalRegressor | OrdinalClassifier
    n_samples: int
    uses: tuple[str, ...]

    def predict(self, x: pd.DataFrame) -> Prediction:
        """Distribution of each row's target, of a method that needs nothing beside the table."""
        return self.predict_beside(x, {})

    def predict_beside(self, x: pd.DataFrame, side: Mapping[str, Values]) -> Prediction:
        """Distribution of each row's target, given the rows' side columns."""
        beside: dict[str, Any] = chosen(side, self.uses)
        return self.estimator.predict_distribution(x, self.n_samples, **beside)

    @property
    def facts(self) -> dict[str, Any]:
        """What the result line says about the fit."""
        method, history = METHODS[self.estimator.settings_.method], self.estimator.history_
        return {
            "native": method.native_statistic,
            "is_reconstruction": method.is_reconstruction,
            "encoders": list(self.estimator.encoders_),
            "steps": history.steps,
            "best_step": history.best_step,
        }


def chosen(side: Mapping[str, Values], uses: tuple[str, ...], ending: str = "") -> dict[str, Values]:
    """The side columns that a method uses, each name with an ending.

    >>> chosen({"duration": 1, "price": 2}, ("duration",), "_val")
    {'duration_val': 1}
    """
    return {name + ending: side[name] for name in uses if name in side}


def fit_method(problem: Problem, name: str, **settings: Any) -> Fitted:
    """Fit a method; ``settings`` are further arguments of the estimator."""
    from diffor.estimators.api import OrdinalClassifier, OrdinalRegressor

    uses = (*METHODS[name].requires, *METHODS[name].accepts)
    shared = {"random_state": problem.seed, "verbose": 0, "n_jobs": problem.n_threads, **settings}
    side = chosen(problem.side, uses) | chosen(problem.side_valid, uses, "_val")
    estimator: OrdinalRegressor | OrdinalClassifier
    target, target_valid = problem.y, problem.y_valid
    if problem.n_grades is not None:
        estimator = OrdinalClassifier(name, grades=list(range(problem.n_grades)), **shared)
        codes, codes_valid = target.astype(np.int64), target_valid.astype(np.int64)
        estimator.fit(problem.x, codes, X_val=problem.x_valid, y_val=codes_valid, **side)
    else:
        estimator = OrdinalRegressor(name, **{"bounds": problem.bounds, **shared})
        estimator.fit(problem.x, target, X_val=problem.x_valid, y_val=target_valid, **side)
    return FittedMethod(estimator, problem.n_samples, uses)


def find_method(name: str) -> Peer:
    """The peer that fits a method of the table.

    >>> find_method("corn").description
    'CORN on the shared encoder (Shi et al., PAA 2023)'
    """
    method = METHODS[name]
    label = "A reconstruction: " if method.is_reconstruction else ""
    return Peer(
        name=f"method:{name}",
        description=f"{label}{method.title} on the shared encoder ({method.paper})",
        tasks=method.tasks,
        fit=partial(fit_method, name=name),
        is_ours=name == "diffor",
    )
