"""Logs of who watched what, from one or more large files, and features of users and videos to be looked up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.readers.arrow_cache import CachedTable
from diffor.datasets.readers.data_files import CURE, as_numbers
from diffor.datasets.readers.label_files import exact_table
from diffor.datasets.readers.large_tables import LargeTable, draw_rows, from_codes
from diffor.datasets.readers.reading import ReadReport
from diffor.errors import UserError

Columns = dict[str, NDArray[Any]]

UNKNOWN = ("", "UNKNOWN", "-124", "-124.0")
"""Cells of the tables of features that stand for a missing value."""


@dataclass(frozen=True)
class Log:
    """Rows of one or more log files, one after the other, and what was read and dropped."""

    columns: Columns
    report: ReadReport

    def keep(self, reasons: Mapping[str, NDArray[np.bool_]]) -> Log:
        """Drop the rows that any of the reasons names, counting each under the first."""
        dropped = Counter(self.report.dropped)
        is_kept = np.ones(len(self.columns["user_id"]), dtype=bool)
        for reason, concerned in reasons.items():
            dropped[reason] += int((concerned & is_kept).sum())
            is_kept &= ~concerned
        columns = self.columns if is_kept.all() else {name: values[is_kept] for name, values in self.columns.items()}
        counts = {reason: count for reason, count in dropped.items() if count}
        return Log(columns, ReadReport(self.report.files, self.report.n_read, counts))


def read_log(tables: Sequence[CachedTable], columns: Sequence[str], options: LargeTable) -> Log:
    """Columns of all tables, one after the other; ``table`` says from which each row is, counting from 0."""
    sizes = [table.n_rows for table in tables]
    ends = np.cumsum(sizes)
    rows = draw_rows(int(ends[-1]), options.max_rows, options.seed)
    dropped: Counter[str] = Counter()
    found: list[Columns] = []
    for number, (table, end) in enumerate(zip(tables, ends, strict=True)):
        dropped.update(table.dropped)
        start = end - table.n_rows
        chosen = None if rows is None else rows[slice(*np.searchsorted(rows, [start, end]))] - start
        found.append(table.arrays(columns, chosen))
        n_found = table.n_rows if chosen is None else len(chosen)
        found[-1]["table"] = np.full(n_found, number, dtype=np.int8)
    n_read = int(ends[-1]) + dropped.total()
    if rows is not None:
        dropped["not drawn, because of max_rows"] = int(ends[-1]) - len(rows)
    joined = {name: np.concatenate([part.pop(name) for part in found]) for name in [*columns, "table"]}
    return Log(joined, ReadReport([table.source for table in tables], n_read, dict(dropped)))


def read_features(path: Path, header: str, columns: Sequence[str]) -> pd.DataFrame:
    """Columns of a table of features as text, missing ones as NaN; the first of the header, a number, is the index."""
    names = header.split(",")
    cells = exact_table(path, names)
    keys = as_numbers(cells[names[:1]], path)[names[0]].astype(np.int64)
    if keys.duplicated().any():
        repeated = keys[keys.duplicated()].iloc[0]
        raise UserError(f"{path} must have one line per {names[0]}, but {repeated} has several; {CURE}")
    features: pd.DataFrame = cells[list(columns)].set_axis(pd.Index(keys), axis=0)
    known: pd.DataFrame = features.mask(features.isin(UNKNOWN))
    return known


def look_up(keys: NDArray[Any], name: str, features: pd.DataFrame) -> dict[str, pd.Categorical]:
    """The key itself and its features as categories, one for each row; what has no features misses them.

    **Shape:** keys ``(n,)``; categories of ``(n,)`` each.
    """
    levels, place = np.unique(keys, return_inverse=True)
    found = {name: from_codes(place, levels)}
    for column, values in features.reindex(levels).items():
        category = values.astype("category").cat
        found[str(column)] = from_codes(category.codes.to_numpy()[place], category.categories)
    return found
