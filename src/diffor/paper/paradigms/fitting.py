"""What the four measurements share: rows of a known law, methods fitted alike, and figures over seeds."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from diffor.core.method import Inputs, OrdinalModel
from diffor.core.row_noise import row_keys
from diffor.core.table import as_table
from diffor.datasets.open.synthetic import Law
from diffor.estimators.api import OrdinalRegressor
from diffor.estimators.ensemble import with_steps
from diffor.estimators.values import ValueEstimator

Values = NDArray[np.float64]

DIFFOR, DIFFOR_HEADS = "diffor", "diffor-heads"
"""DiffoR with its distribution read off the chain's last state, and as the paper decodes it, by the heads."""
CHAIN: dict[str, Any] = {
    "schedule": "cosine",
    "parameterization": "velocity",
    "denoiser": "mlp",
    "width": 64,
    "objective": "one_call",
    "n_draws": 4,
}
"""The paper's method as it learns these laws in few steps."""
LONG_STEPS = 32
"""Denoiser calls of a chain that is long enough not to blur what it draws."""
TITLES = {
    "truth": "the law itself",
    "value-squared": "squared-error regression",
    "cross-entropy": "cross-entropy of bins",
    "or-cnn": "OR-CNN",
    "coral": "CORAL",
    "corn": "CORN",
    "gr": "GR",
    "gor": "GoR",
    DIFFOR: "DiffoR",
    f"diffor, {LONG_STEPS} steps": f"DiffoR in {LONG_STEPS} steps",
    DIFFOR_HEADS: "DiffoR by its heads",
}
"""What sentences and figures call the methods."""


@dataclass(frozen=True)
class Size:
    """How much is drawn and trained: rows, seeds, steps, and samples of each test row."""

    n_rows: int
    n_test_rows: int
    n_seeds: int
    max_steps: int
    n_samples: int


QUICK = Size(n_rows=300, n_test_rows=60, n_seeds=1, max_steps=30, n_samples=64)
"""Seconds: enough to see that all runs, too little to learn anything."""
FULL = Size(n_rows=3000, n_test_rows=500, n_seeds=5, max_steps=1200, n_samples=256)
"""Minutes on one core."""


@dataclass(frozen=True)
class Measured:
    """A figure over seeds: its mean, and its standard deviation from seed to seed (0 of a single seed).

    >>> print(Measured.of([1.0, 2.0, 3.0]))
    2.00 ± 1.00
    """

    mean: float
    deviation: float

    @classmethod
    def of(cls, figures: ArrayLike) -> Measured:
        """Summarise the figures of all seeds. **Shape:** ``(seeds,)``."""
        values = np.asarray(figures, dtype=np.float64)
        return cls(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0)

    def __str__(self) -> str:
        digits = max(_digits(self.mean), 0) if self.mean else 2
        return f"{significant(self.mean)} ± {self.deviation:.{min(digits, 6)}f}"

    @property
    def percent(self) -> str:
        """A share in words.

        >>> Measured(0.125, 0.01).percent
        '12.5 ± 1.0 %'
        """
        return f"{100 * self.mean:.1f} ± {100 * self.deviation:.1f} %"


def over_seeds(found: Sequence[Mapping[str, float]]) -> dict[str, Measured]:
    """Figures of the same names, found for each seed, each as one.

    >>> over_seeds([{"mae": 1.0}, {"mae": 3.0}])["mae"].mean
    2.0
    """
    return {name: Measured.of([one[name] for one in found]) for name in found[0]}


def significant(value: float) -> str:
    """A number with three digits that matter.

    >>> significant(0.012345), significant(1234.5), significant(2.0), significant(0.0), significant(3e-8)
    ('0.0123', '1,234', '2.00', '0', '3e-08')
    """
    if value == 0:
        return "0"
    digits = _digits(value)
    return f"{value:,.{max(digits, 0)}f}" if digits < 7 else f"{value:.2g}"


def in_seeds(count: int) -> str:
    """How many seeds, in words.

    >>> in_seeds(1), in_seeds(5)
    ('1 seed', '5 seeds')
    """
    return f"{count} seed" if count == 1 else f"{count} seeds"


def _digits(value: float) -> int:
    """Digits after the point of which the last is the third that matters."""
    return 2 - math.floor(math.log10(abs(value)))


def draw_rows(law: Law, n_rows: int, seed: Sequence[int]) -> tuple[pd.DataFrame, Values]:
    """Inputs of a law and one target for each: the same seed gives the same rows. **Shape:** -> ``(n, p)``, ``(n,)``.

    >>> from diffor.datasets.open.synthetic import Bimodal
    >>> draw_rows(Bimodal(), 3, [0])[1].shape
    (3,)
    """
    random = np.random.default_rng(list(seed))
    x = law.inputs(n_rows, random)
    return x, law.draw(x, 1, random)[:, 0]


def fit_method(
    method: str,
    rows: tuple[pd.DataFrame, Values],
    size: Size,
    seed: int,
    bounds: tuple[float, float] | None = None,
    **settings: Any,
) -> ValueEstimator:
    """Fit a method of the table on the encoder, the preset and the number of steps that all others have.

    ``settings`` are those of the method's class.
    """
    # One encoder and one member: what is compared is the way of predicting, not what stands around it.
    alike: dict[str, Any] = {
        "preset": "fast",
        "encoder": "periodic",
        "n_members": 1,
        "max_steps": size.max_steps,
        "bounds": bounds,
        "transform": "uniform",
        "random_state": seed,
        "verbose": 0,
    }
    model: ValueEstimator
    if method in (DIFFOR, DIFFOR_HEADS):
        chain = CHAIN | {"decoding": "chain" if method == DIFFOR else "heads"}
        model = OrdinalRegressor("diffor-paper", **alike, method_settings=chain | settings)
    else:
        model = OrdinalRegressor(method, **alike, method_settings=settings)
    return model.fit(*rows)


def with_long_chain(model: ValueEstimator) -> ValueEstimator:
    """A fitted DiffoR, its weights shared, whose samples take ``LONG_STEPS`` denoiser calls, not as few as it can."""
    longer = copy.copy(model)
    longer.model_ = with_steps(model.ensemble_, LONG_STEPS)
    return longer


def member_of(model: ValueEstimator, x: pd.DataFrame) -> tuple[OrdinalModel, Inputs, Tensor]:
    """The only network of a fitted model, with the rows ``x`` as it reads them and their keys."""
    inputs = model.inputs_.transform(as_table(x))
    return model.ensemble_.models[0], inputs, row_keys(inputs, model.seed_)


Found = TypeVar("Found")


def rebuild(kind: type[Found], values: Any) -> Found:
    """A result from what ``dataclasses.asdict`` made of it, as read from JSON.

    >>> rebuild(Measured, {"mean": 1.0, "deviation": 0.5})
    Measured(mean=1.0, deviation=0.5)
    """
    fields = get_type_hints(kind)
    return kind(**{name: _rebuild_field(hint, values[name]) for name, hint in fields.items()})


def _rebuild_field(hint: Any, value: Any) -> Any:
    """A field of a result: a result of its own, several of them, or a plain value."""
    inner = next((one for one in (hint, *get_args(hint)) if is_dataclass(one)), None)
    if inner is None or value is None:
        return value
    assert isinstance(inner, type)
    if isinstance(value, list):
        return [rebuild(inner, one) for one in value]
    if hint is not inner and get_origin(hint) is dict:
        return {name: rebuild(inner, one) for name, one in value.items()}
    return rebuild(inner, value)
