"""Which settings are worth searching, and how far: a space for each preset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diffor.encoders.image_choice import reads_images
from diffor.grade_estimator import GradeEstimator
from diffor.presets import PRESETS, resolve_settings
from diffor.suggestion import did_you_mean


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
    "learning_rate": Range(1e-3, 2e-2, log=True),
    "batch_size": Choice((128, 256, 512)),
    "weight_decay": Choice((0.0, 1e-4, 1e-3, 1e-2)),
    "guide": Choice((True, False)),
}
"""What matters to every method of the presets that learn fast."""
NETWORK: Space = {
    "dropout": Range(0.0, 0.4),
    "n_layers": Choice((1, 2, 3)),
    "width": Choice((64, 128, 256)),
    "increment_weight": Range(0.3, 100.0, log=True),
    "aligned_share": Range(0.1, 0.9),
    "n_increments": Choice((2, 4, 8, 16)),
}
"""What matters to DiffoR's own network and objective."""
SPACES: dict[str, Space] = {
    "fast": TRAINING | NETWORK | {"width": Choice((32, 64, 128)), "transform": Choice(("auto", "uniform", "quantile"))},
    "balanced": TRAINING | NETWORK | {"transform": Choice(("auto", "uniform", "quantile"))},
    "accurate": TRAINING
    | NETWORK
    | {
        "transform": Choice(("auto", "uniform", "quantile")),
        "partner": Choice(("auto", "none")),
        "chains_per_sample": Choice((1, 3, 5)),
    },
    # The paper's model stays the paper's: its dials, and how it is trained.
    "paper": NETWORK
    | {
        "learning_rate": Range(1e-4, 3e-3, log=True),
        "batch_size": Choice((256, 512, 1024)),
        "weight_decay": Choice((0.0, 1e-4, 1e-3, 1e-2)),
        "spacing": Choice(("linear", "log")),
        "schedule": Choice(("linear", "cosine")),
    },
}
OF_VALUES = ("n_increments", "transform")
"""Settings of amounts: grades have an increment for each border, and no range to spread."""
OF_TABLES = ("guide", "batch_size")
"""Settings of tables: images are advised by no trees, and their batches are as large as memory allows."""


def search_space(estimator: Any) -> Space:
    """The settings of an estimator that are worth searching: of its preset's space, those that it leaves at None.

    >>> from diffor import DiffoRRegressor
    >>> sorted(search_space(DiffoRRegressor("fast", width=64, guide=False)))[:3]
    ['aligned_share', 'batch_size', 'dropout']
    """
    if estimator.preset not in SPACES:
        hint = did_you_mean(str(estimator.preset), PRESETS)
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, however: preset={estimator.preset!r}{hint}")
    given = estimator.get_params(deep=False)
    left_out: tuple[str, ...] = OF_VALUES if isinstance(estimator, GradeEstimator) else ()
    if reads_images(resolve_settings(estimator.preset, given).encoder):
        left_out += OF_TABLES
    return {
        name: one
        for name, one in SPACES[estimator.preset].items()
        if name in given and given[name] is None and name not in left_out
    }
