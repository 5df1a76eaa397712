"""Which settings are worth searching, and how far: a space for each preset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diffor.encoders.images.choice import reads_images
from diffor.errors import UserError, did_you_mean
from diffor.estimators.grades import GradeEstimator
from diffor.estimators.settings import PRESETS, resolve_settings


@dataclass(frozen=True)
class Choice:
    """One of several values of a setting."""

    options: tuple[Any, ...]

    def nearest(self, value: Any) -> Any:
        """The value if it is among them, or the first of them."""
        return value if value in self.options else self.options[0]

    def distribution(self) -> Any:
        """The same for Optuna."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.options)


@dataclass(frozen=True)
class Range:
    """A number between two others, by ratios where ``log``."""

    low: float
    high: float
    log: bool = False

    def nearest(self, value: Any) -> float:
        """The value, moved into the range."""
        return float(min(max(value, self.low), self.high))

    def distribution(self) -> Any:
        """The same for Optuna."""
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self.low, self.high, log=self.log)


Space = dict[str, Choice | Range]

TRAINING: Space = {
    "learning_rate": Range(3e-4, 1e-2, log=True),
    "batch_size": Choice((128, 256, 512)),
    "weight_decay": Choice((0.0, 0.02, 0.1)),
}
"""How networks learn."""
SPACES: dict[str, Space] = {
    **dict.fromkeys(("fast", "balanced", "accurate"), TRAINING | {"n_increments": Choice(("auto", 64, 128))}),
    "paper": {
        "learning_rate": Range(1e-4, 3e-3, log=True),
        "batch_size": Choice((256, 512, 1024)),
        "weight_decay": Choice((0.0, 1e-4, 1e-3, 1e-2)),
    },
}
OF_VALUES = ("n_increments",)
"""Settings of amounts: grades have a step for each border."""
OF_TABLES = ("n_increments", "batch_size")
"""Settings of tables: batches of images are as large as memory allows."""


def search_space(estimator: Any) -> Space:
    """The settings of an estimator that are worth searching: of its preset's space, those that it leaves at None.

    >>> from diffor import DiffoRRegressor
    >>> sorted(search_space(DiffoRRegressor("fast", batch_size=64)))
    ['learning_rate', 'n_increments', 'weight_decay']
    """
    if estimator.preset not in SPACES:
        hint = did_you_mean(str(estimator.preset), PRESETS)
        raise UserError(f"preset must be one of {', '.join(PRESETS)}, but got preset={estimator.preset!r}{hint}")
    given = estimator.get_params(deep=False)
    left_out: tuple[str, ...] = OF_VALUES if isinstance(estimator, GradeEstimator) else ()
    if reads_images(resolve_settings(estimator.preset, given).encoder):
        left_out += OF_TABLES
    return {
        name: one
        for name, one in SPACES[estimator.preset].items()
        if name in given and given[name] is None and name not in left_out
    }
