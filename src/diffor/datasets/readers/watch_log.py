"""Logs of who watched what, from one or more large files, and features of users and videos to be looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.readers.arrow_cache import CachedTable
from diffor.datasets.readers.data_files import CURE, as_numbers, exact_table, from_codes
from diffor.datasets.readers.reading import ReadReport
from diffor.errors import UserError

Columns = dict[str, NDArray[Any]]

UNKNOWN = ("", "UNKNOWN", "-124", "-124.0")
"""Cells of the tables of features that stand for a missing value."""


def read_log(tables: Sequence[CachedTable], columns: Sequence[str]) -> tuple[Columns, ReadReport]:
    """Columns of all tables, one after the other; ``table`` says from which each row is, counting from 0."""
    found = [table.arrays(columns) for table in tables]
    for number, (part, table) in enumerate(zip(found, tables, strict=True)):
        part["table"] = np.full(table.n_rows, number, dtype=np.int8)
    joined = {name: np.concatenate([part.pop(name) for part in found]) for name in [*columns, "table"]}
    report = ReadReport([table.source for table in tables], sum(table.n_read for table in tables))
    for table in tables:
        report.drop(table.dropped)
    return joined, report


def drop_rows(columns: Columns, report: ReadReport, reasons: Mapping[str, NDArray[np.bool_]]) -> Columns:
    """Columns without the rows that any of the reasons names, each of which counts under the first."""
    is_kept = np.ones(len(columns["table"]), dtype=bool)
    for reason, concerned in reasons.items():
        report.drop({reason: int((concerned & is_kept).sum())})
        is_kept &= ~concerned
    return columns if is_kept.all() else {name: values[is_kept] for name, values in columns.items()}


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
