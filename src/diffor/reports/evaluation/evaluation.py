"""A model's answers to rows whose truth is known: what a page about it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.core.prediction import Prediction
from diffor.reports.evaluation.scores import Score

Array = NDArray[np.float64]

MAX_ROWS = 20_000
"""Rows that figures and slices look at: of longer tables so many are picked."""
_STREAM = 20261116


@dataclass(frozen=True)
class Evaluation:
    """A model's answers to rows with known targets.

    **Shape:** r of all n rows: rows ``(r,)`` (their numbers in the data), table of r rows with the model's columns,
    truth ``(r,)`` (values, or places of grades), prediction of r rows, intervals ``(r, 2)``, answered ``(r,)``.
    """

    model: Any
    name: str
    data: str
    target: str
    n_rows: int
    scores: Sequence[Score]
    rows: NDArray[np.int64]
    table: pd.DataFrame
    truth: NDArray[Any]
    prediction: Prediction
    answered: NDArray[Any]
    statistic: str
    intervals: Array | None = None
    coverage: float = 0.9
    against: Sequence[Mapping[str, Any]] = ()
    """Records of baselines that were trained on the same rows, as a page shows them."""

    @property
    def is_graded(self) -> bool:
        """Whether the targets are grades."""
        return hasattr(self.model, "classes_")

    def row_name(self, place: int) -> str:
        """What a row is called: its number in the data, from 1."""
        return f"row {self.rows[place] + 1}"


def picked_rows(n_rows: int, limit: int = MAX_ROWS) -> NDArray[np.int64]:
    """The rows that figures show: all, or ``limit`` of them, in their order; the same each time. **Shape:** ``(r,)``.

    >>> picked_rows(3).tolist(), len(picked_rows(30_000))
    ([0, 1, 2], 20000)
    """
    if n_rows <= limit:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng([_STREAM, n_rows]).permutation(n_rows)[:limit])


def row_errors(evaluation: Evaluation) -> tuple[Array, str]:
    """How wrong the model is about each row, and what that is called. **Shape:** -> ``(r,)``."""
    if evaluation.is_graded or not evaluation.model.has_distribution:
        return np.abs(np.asarray(evaluation.answered - evaluation.truth, dtype=np.float64)), "absolute error"
    return np.asarray(evaluation.prediction.crps(evaluation.truth)), "CRPS"
