"""Where a model is wrong: parts of the table in which its error is larger than elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from diffor.errors import UserError
from diffor.reports.plots.predictions import digits_of, ranges_of
from diffor.reports.significance import holm, welch

Array = NDArray[np.float64]

MIN_ROWS = 20
"""Rows that a slice, and what is left beside it, must have."""
N_RANGES = 5
MAX_CATEGORIES = 50
"""Of a column with more categories the most frequent are looked at."""
MISSING = "(missing)"


@dataclass(frozen=True)
class Slice:
    """Rows that have a value, or a range of values, in one column: their mean error, and that of all others."""

    column: str
    values: str
    n_rows: int
    error: float
    elsewhere: float
    statistic: float
    """Welch's t of the difference: large where the slice is worse, and the more rows say so."""
    p: float
    """How often chance alone would give such a difference or a larger one, among all slices (Holm)."""

    @property
    def ratio(self) -> float:
        """How many times as large the error is as elsewhere."""
        return self.error / self.elsewhere if self.elsewhere > 0 else float("inf")


def worst_slices(table: pd.DataFrame, errors: ArrayLike) -> list[Slice]:
    """Slices of all columns, those first that are most clearly worse than the rest.

    Each column is cut into its categories, or its numbers into up to five parts of about equally many rows; unknown
    values are a slice of their own.
    Welch's t weighs the difference by the number of rows. Many slices are looked at, so that one of them looks bad by
    chance: Holm's correction takes care of that.

    **Shape:** table of n rows, errors ``(n,)``.

    >>> table = pd.DataFrame({"city": ["Oslo"] * 30 + ["Rome"] * 30})
    >>> errors = np.r_[np.linspace(1, 2, 30), np.linspace(3, 4, 30)]
    >>> [(part.column, part.values, part.n_rows, round(part.ratio, 2)) for part in worst_slices(table, errors)][0]
    ('city', 'Rome', 30, 2.33)
    """
    values = np.asarray(errors, dtype=np.float64)
    if values.shape != (len(table),):
        raise UserError(
            f"errors must hold one number for each row of the table, but got rows={len(table)}, shape={values.shape}"
        )
    found = []
    for name in table.columns:
        for words, chosen in slices_of(table[name]):
            if MIN_ROWS <= chosen.sum() <= len(table) - MIN_ROWS:
                found.append((str(name), words, chosen))
    tests = [welch(values[chosen], values[~chosen]) for _, _, chosen in found]
    corrected = holm([p for _, p in tests])
    parts = [
        Slice(name, words, int(chosen.sum()), float(values[chosen].mean()), float(values[~chosen].mean()), t, float(p))
        for (name, words, chosen), (t, _), p in zip(found, tests, corrected, strict=True)
    ]
    return sorted(parts, key=lambda part: -part.statistic)


def slices_of(column: pd.Series[Any]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """The values or ranges of a column, with the rows that have them. **Shape:** yields words, ``(n,)``."""
    missing = column.isna().to_numpy()
    if missing.any():
        yield MISSING, missing
    every, known = np.arange(len(column)), np.flatnonzero(~missing)
    if not len(known):
        return
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        # Of few rows fewer parts are made, so that each has enough.
        for part in ranges_of(numbers[known], int(np.clip(len(known) // MIN_ROWS, 2, N_RANGES))):
            yield _range_words(part.low, part.high, numbers[known]), np.isin(every, known[part.rows])
        return
    texts = column.iloc[known].astype(str)
    for value in texts.value_counts().index[:MAX_CATEGORIES]:
        yield str(value), np.isin(every, known[texts == value])


def _range_words(low: float, high: float, numbers: Array) -> str:
    """The ends of a range with as many digits as the whole column needs."""
    if low == high:
        return f"{low:.6g}"
    digits = 0 if (numbers == np.rint(numbers)).all() else digits_of(float(np.ptp(numbers)))
    return f"{low:.{digits}f} to {high:.{digits}f}"
