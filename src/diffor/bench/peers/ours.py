"""DiffoR itself behind the contract of a peer: one entry for each preset."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from diffor.bench.peers.problem import Fitted, Peer, Problem
from diffor.core.prediction import Prediction

if TYPE_CHECKING:
    from diffor.estimators.api import DiffoRClassifier, DiffoRRegressor


@dataclass(frozen=True)
class FittedDiffoR:
    """A fitted estimator and the number of samples it is asked for."""

    estimator: DiffoRRegressor | DiffoRClassifier
    n_samples: int

    def predict(self, x: pd.DataFrame) -> Prediction:
        """Distribution of each row's target."""
        return self.estimator.predict_distribution(x, self.n_samples)

    @property
    def facts(self) -> dict[str, Any]:
        """What the fit decided by itself, for the result line."""
        history = self.estimator.history_
        return {
            "encoders": list(self.estimator.encoders_),
            "steps": history.steps,
            "best_step": history.best_step,
            "stopped": history.stopped,
        }


def fit_diffor(problem: Problem, preset: str = "balanced", **settings: Any) -> Fitted:
    """Fit a preset; ``settings`` are further arguments of the estimator."""
    from diffor.estimators.api import DiffoRClassifier, DiffoRRegressor

    shared = {"random_state": problem.seed, "verbose": 0, "n_jobs": problem.n_threads, **own_settings(preset, settings)}
    estimator: DiffoRRegressor | DiffoRClassifier
    if problem.n_grades is not None:
        estimator = DiffoRClassifier(preset, grades=list(range(problem.n_grades)), **shared)
    else:
        estimator = DiffoRRegressor(preset, **{"bounds": problem.bounds, **shared})
    target, target_valid = problem.y, problem.y_valid
    if problem.n_grades is not None:
        target, target_valid = target.astype(int), target_valid.astype(int)
    if preset == "paper":
        estimator.fit(problem.x, target, X_val=problem.x_valid, y_val=target_valid)
    else:  # every row is held out once, so validation rows are rows like the others
        groups = None
        if problem.groups is not None and problem.groups_valid is not None:
            groups = np.concatenate([problem.groups, problem.groups_valid])
        rows, targets = pd.concat([problem.x, problem.x_valid]), np.concatenate([target, target_valid])
        estimator.fit(rows, targets, groups=groups)
    return FittedDiffoR(estimator, problem.n_samples)


def own_settings(preset: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the estimator; with the preset ``paper`` those of its method are settings of it.

    >>> own_settings("paper", {"n_increments": 4, "max_steps": 10})
    {'max_steps': 10, 'method_settings': {'n_increments': 4}}
    """
    if preset != "paper":
        return settings
    from diffor.methods.diffor import IncrementDiffusion

    of_method = inspect.signature(IncrementDiffusion).parameters
    shared = {name: value for name, value in settings.items() if name not in of_method}
    return shared | {"method_settings": {name: value for name, value in settings.items() if name in of_method}}


OURS: tuple[Peer, ...] = tuple(
    Peer(
        name=name,
        description=f"DiffoR with the preset {preset}",
        tasks=("value", "grades"),
        fit=partial(fit_diffor, preset=preset),
        is_ours=True,
    )
    for name, preset in (
        ("diffor", "balanced"),
        ("diffor-fast", "fast"),
        ("diffor-accurate", "accurate"),
        ("diffor-paper", "paper"),
    )
)
