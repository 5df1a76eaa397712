"""How what is asked and answered now differs from training: values out of range, and shares that have moved.

Shares are those of parts that training rows filled in a known way: the sixteen pieces of a number column, the quarters
of the target, the grades. How far they have moved is one number, the population stability index: the sum over parts of
``(now - then) * log(now / then)``. By an old rule of thumb it means little below 0.1 and much above 0.25.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.encoders.tabular.inputs import N_PIECES, UNKNOWN, CategoryColumn, NumericColumn
from diffor.serving.server.columns import Columns, spell
from diffor.serving.server.metrics import figure

RECENT_ROWS = 10_000
"""When so many rows have been counted, all counts are halved: the old ones fade."""
LEAST_ROWS = 500
"""Rows before an index is told: that of fewer is mostly chance."""
MAX_COLUMNS = 200
"""Columns that are told about, in the fitted order."""
LEVELS = np.linspace(0.05, 0.95, 10)
"""A distribution is counted as if it were these quantiles of it."""

Floats = NDArray[np.float64]


class Shares:
    """How recent rows are spread over parts, beside how training rows were."""

    def __init__(self, then: Floats) -> None:
        self.then = then / then.sum()
        self.now = np.zeros(len(then))

    def add(self, counts: Floats) -> None:
        """Count rows; the sum of the counts is their number."""
        self.now += counts
        if self.now.sum() > RECENT_ROWS:
            self.now /= 2

    @property
    def index(self) -> float | None:
        """The population stability index; None while too few rows are counted."""
        n = self.now.sum()
        if n < LEAST_ROWS:
            return None
        now, then = (self.now + 0.5) / (n + 0.5 * len(self.now)), np.maximum(self.then, 1e-4)
        return float(np.sum((now - then) * np.log(now / then)))


class Drift:
    """Counts the rows of one model and its answers; it may be asked from any thread."""

    def __init__(self, model: Any, columns: Columns) -> None:
        self.values: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self.outside: Counter[str] = Counter()
        self.columns = columns.features[:MAX_COLUMNS]
        # Where pieces were merged, because values are shared, nobody knows any more how many rows each had.
        self._pieces = {
            str(column.name): Shares(np.ones(N_PIECES))
            for column in self.columns
            if isinstance(column, NumericColumn) and len(column.edges) == N_PIECES + 1
        }
        # Where shares of limits were learned, training knows shares only, and answers are values.
        summary = {} if model.learns_share else (model.data_summary_ or {}).get("target", {})
        self._cuts = _quarters(summary)
        then = np.ones(4) if self._cuts is not None else np.array(summary.get("counts", []), dtype=np.float64)
        self._answers = Shares(then) if then.sum() else None
        self._lock = threading.Lock()

    def add(self, table: pd.DataFrame, prediction: Any, grades: Any) -> None:
        """Count rows and what was predicted for them: distributions of values, or probabilities of ``grades``."""
        with self._lock:
            for column in self.columns:
                self._add_column(column, table[str(column.name)].to_numpy())
            if self._answers is None:
                return
            if grades is not None:
                self._answers.add(np.asarray(grades, dtype=np.float64).sum(axis=0))
            elif self._cuts is not None:
                found = np.asarray(prediction.quantile(LEVELS), dtype=np.float64)
                parts = np.searchsorted(self._cuts, found.ravel(), side="right")
                self._answers.add(np.bincount(parts, minlength=4) / len(LEVELS))

    def _add_column(self, column: NumericColumn | CategoryColumn, values: NDArray[Any]) -> None:
        name, is_missing = str(column.name), pd.isna(values)
        known, n_outside = values[~is_missing], 0
        if isinstance(column, NumericColumn):
            low, high = column.range
            n_outside = int(((known < low) | (known > high)).sum())
            if name in self._pieces and len(known):
                places = np.searchsorted(np.array(column.edges[1:-1]), column.transform(known)[:, 0], side="right")
                self._pieces[name].add(np.bincount(places, minlength=N_PIECES).astype(np.float64))
        elif column.levels is not None and len(known):
            spelled = np.array([spell(value) for value in known.tolist()], dtype=object)
            n_outside = int((column.transform(spelled) == UNKNOWN).sum())
        self.values[name] += len(values)
        self.missing[name] += int(is_missing.sum())
        self.outside[name] += n_outside

    def to_text(self) -> list[str]:
        """Lines about all columns and answers."""
        with self._lock:
            pieces = {name: shares.index for name, shares in self._pieces.items()}
            moved = None if self._answers is None else self._answers.index
            return [
                *figure("diffor_input_values_total", "Values that were sent, by column.", self.values, "column"),
                *figure("diffor_input_missing_total", "Values that were not known.", self.missing, "column"),
                *figure("diffor_input_outside_total", "Numbers outside the range of training, and levels that training "
                        "did not have.", self.outside, "column"),
                *figure("diffor_input_drift", "How far recent values have moved from training (population stability "
                        "index).", {name: index for name, index in pieces.items() if index is not None}, "column"),
                *figure("diffor_prediction_drift", "How far recent predictions have moved from the targets of training "
                        "(population stability index).", {} if moved is None else moved),
            ]  # fmt: skip


def _quarters(summary: dict[str, Any]) -> Floats | None:
    """Ends of the quarters of the training targets; None where they are not known or fall together."""
    names = ("least", "lower quarter", "median", "upper quarter", "largest")
    ends = np.array([summary.get(name, np.nan) for name in names], dtype=np.float64)
    return ends[1:-1] if (np.diff(ends) > 0).all() else None
