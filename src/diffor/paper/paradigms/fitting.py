"""What the four measurements share: rows of a known law, methods fitted alike, and figures over seeds."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from diffor.core.method import Inputs, OrdinalModel
from diffor.core.row_noise import row_keys
from diffor.core.table import as_table
from diffor.datasets.open.synthetic import Law
from diffor.estimators.api import OrdinalRegressor
from diffor.estimators.ensemble import with_steps
from diffor.estimators.values import ValueEstimator
from diffor.reports.html import number

Values = NDArray[np.float64]
Rows = tuple[pd.DataFrame, Values]
"""Inputs and a target for each."""
Found = dict[str, Any]
"""What is measured of a paradigm, ready for JSON."""

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
"""What tables and figures call the methods."""


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


def over_seeds(found: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation (0 of a single seed) of figures of the same names, found for each seed."""
    return {
        name: {"mean": float(np.mean(values)), "deviation": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0}
        for name, values in ((name, [one[name] for one in found]) for name in found[0])
    }


def table_rows(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Results as records of a table: methods by their titles, figures over seeds as mean and deviation.

    >>> table_rows([{"method": "gr", "mae": {"mean": 2.0, "deviation": 0.123}, "crps": None}])
    [{'method': 'GR', 'mae': '2.00 ± 0.12', 'crps': None}]
    """
    return [{name: _in_words(name, value) for name, value in one.items()} for one in results]


def side_by_side(found: Found, names: Sequence[str]) -> list[dict[str, Any]]:
    """Equally long lists among the findings as the columns of a table.

    >>> side_by_side({"counts": [2, 4], "mae": [0.5, 0.3]}, ("counts", "mae"))
    [{'counts': 2, 'mae': 0.5}, {'counts': 4, 'mae': 0.3}]
    """
    return [dict(zip(names, row, strict=True)) for row in zip(*(found[name] for name in names), strict=True)]


def _in_words(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        mean = number(value["mean"])
        return f"{mean} ± {value['deviation']:.{len(mean.partition('.')[2]) if value['mean'] else 2}f}"
    return TITLES[value] if name == "method" else value


def draw_rows(law: Law, n_rows: int, seed: Sequence[int]) -> Rows:
    """Inputs of a law and one target for each; the same for the same seed. **Shape:** -> ``(n, p)``, ``(n,)``."""
    random = np.random.default_rng(list(seed))
    x = law.inputs(n_rows, random)
    return x, law.draw(x, 1, random)[:, 0]


def trials(law: Law, size: Size, seed: int) -> Iterator[tuple[int, Rows, Rows]]:
    """The number of each seed, rows to learn from, and rows to ask about."""
    for trial in range(size.n_seeds):
        trained = draw_rows(law, size.n_rows, [seed, trial, 0])
        yield trial, trained, draw_rows(law, size.n_test_rows, [seed, trial, 1])


def fit_method(
    method: str,
    rows: Rows,
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
    if method in (DIFFOR, DIFFOR_HEADS):
        settings = CHAIN | {"decoding": "chain" if method == DIFFOR else "heads"} | settings
        method = "diffor-paper"
    return OrdinalRegressor(method, **alike, method_settings=settings).fit(*rows)


def with_long_chain(model: ValueEstimator) -> ValueEstimator:
    """A fitted DiffoR, its weights shared, whose samples take ``LONG_STEPS`` denoiser calls, not as few as it can."""
    longer = copy.copy(model)
    longer.model_ = with_steps(model.ensemble_, LONG_STEPS)
    return longer


def member_of(model: ValueEstimator, x: pd.DataFrame) -> tuple[OrdinalModel, Inputs, Tensor]:
    """The only network of a fitted model, with the rows ``x`` as it reads them and their keys."""
    inputs = model.inputs_.transform(as_table(x))
    return model.ensemble_.models[0], inputs, row_keys(inputs, model.seed_)
