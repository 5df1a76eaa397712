"""How what is asked and answered now differs from training: values out of range, and shares that have moved.

Shares are those of parts that training rows filled in a known way: the sixteen pieces of a number column, the quarters
of the target, the grades. How far they have moved is one number, the population stability index: the sum over parts of
``(now - then) * log(now / then)``. By an old rule of thumb it means little below 0.1 and much above 0.25.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.encoders.tabular.inputs import N_PIECES, UNKNOWN, CategoryColumn, NumericColumn
from diffor.serving.server.columns import Columns, spell
from diffor.serving.server.metrics import Counter, Sample, counter_lines, gauge_lines

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
        self.values, self.missing, self.outside = Counter(), Counter(), Counter()
        self.columns = columns.features[:MAX_COLUMNS]
        self._pieces = {str(column.name): Shares(np.ones(N_PIECES)) for column in self.columns if _has_pieces(column)}
        summary = (model.data_summary_ or {}).get("target", {})
        self._cuts = _quarters(summary)
        self._answers: Shares | None = None
        if self._cuts is not None:
            self._answers = Shares(np.ones(4))
        elif sum(summary.get("counts", [])):
            self._answers = Shares(np.array(summary["counts"], dtype=np.float64))
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
        name = str(column.name)
        if isinstance(column, CategoryColumn):
            n_missing, n_outside = int(pd.isna(values).sum()), 0
            if column.levels is not None:
                n_outside = int((column.transform(_spelled(values)) == UNKNOWN).sum())
        else:
            known = values[~np.isnan(values)]
            low, high = column.range
            n_missing = len(values) - len(known)
            n_outside = int(((known < low) | (known > high)).sum())
            if name in self._pieces and len(known):
                scaled = column.transform(known)[:, 0]
                places = np.searchsorted(np.array(column.edges[1:-1]), scaled, side="right")
                self._pieces[name].add(np.bincount(places, minlength=N_PIECES).astype(np.float64))
        self.values.add(len(values), column=name)
        self.missing.add(n_missing, column=name)
        self.outside.add(n_outside, column=name)

    def to_text(self) -> list[str]:
        """Lines about all columns and answers."""
        with self._lock:
            found = [({"column": name}, shares.index) for name, shares in self._pieces.items()]
            inputs: list[Sample] = [(labels, index) for labels, index in found if index is not None]
            index = None if self._answers is None else self._answers.index
        return [
            *counter_lines("diffor_input_values_total", "Values that were sent, by column.", self.values.samples),
            *counter_lines("diffor_input_missing_total", "Values that were not known.", self.missing.samples),
            *counter_lines("diffor_input_outside_total", "Numbers outside the range of training, and levels that "
                           "training did not have.", self.outside.samples),
            *gauge_lines("diffor_input_drift", "How far recent values have moved from training (population stability "
                         "index).", inputs),
            *gauge_lines("diffor_prediction_drift", "How far recent predictions have moved from the targets of "
                         "training (population stability index).", [] if index is None else [({}, index)]),
        ]  # fmt: skip


def _has_pieces(column: NumericColumn | CategoryColumn) -> bool:
    # Where pieces were merged, because values are shared, nobody knows any more how many rows each had.
    return isinstance(column, NumericColumn) and len(column.edges) == N_PIECES + 1


def _quarters(summary: dict[str, Any]) -> Floats | None:
    """Ends of the quarters of the training targets; None where they are not known or fall together."""
    names = ("least", "lower quarter", "median", "upper quarter", "largest")
    if not all(name in summary for name in names):
        return None
    ends = np.array([summary[name] for name in names], dtype=np.float64)
    return ends[1:-1] if (np.diff(ends) > 0).all() else None


def _spelled(values: NDArray[Any]) -> NDArray[np.object_]:
    """Levels as training spelled them."""
    found: NDArray[np.object_] = np.full(len(values), None, dtype=object)
    for place in np.flatnonzero(~pd.isna(values)).tolist():
        found[place] = spell(values[place])
    return found
