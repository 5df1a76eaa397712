"""Rows as clients send them, checked cell by cell against the model's columns and put into a table."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.encoders.tabular.inputs import CategoryColumn
from diffor.errors import did_you_mean
from diffor.serving.server.columns import Columns, spell
from diffor.serving.server.refusals import MAX_PROBLEMS, Problems, refusal, show

MAX_COMPARED = 2000
"""Names that the wrong ones of a request are compared with, to guess which was meant."""


@dataclass(frozen=True)
class CheckedRows:
    """Rows that the model can answer: a table of features, side columns by role, and what clients should know."""

    table: pd.DataFrame
    side: dict[str, NDArray[np.float64]]
    warnings: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.table)


def check_rows(rows: Any, columns: Columns, max_rows: int) -> CheckedRows:
    """Read a list of ``{column: value}``, or refuse it with every cell that is wrong.

    Every column must be there, and no other: a column that was left out by mistake would be a missing value without
    anybody knowing. A value that is not known is null.
    """
    if not isinstance(rows, list):
        raise refusal(422, "rows", f"rows must be a list of objects, one for each row, but got {show(rows)}", "rows")
    if not rows:
        raise refusal(422, "rows", "rows must hold at least one row, but the list is empty", "rows")
    if len(rows) > max_rows:
        raise refusal(
            413, "too_many_rows",
            f"a request must have at most {max_rows} rows, but it has {len(rows)}; send them in several", "rows",
        )  # fmt: skip
    problems = Problems()
    for place, row in enumerate(rows):
        _check_names(place, row, columns, problems)
        if problems.are_enough:
            break
    problems.refuse()
    return _as_table(rows, columns)


def _check_names(place: int, row: Any, columns: Columns, problems: Problems) -> None:
    """Find columns that a row lacks, and those that the model does not know."""
    if not isinstance(row, dict):
        if problems.count():
            problems.add(
                "row", f"row {place} must be an object of columns and values, but got {show(row)}", "rows", place
            )
        return
    known = columns.known
    if row.keys() == known.keys():
        return
    for name in columns.required:
        if name not in row and problems.count():
            problems.add(
                "missing_column",
                f"row {place} must have the column {name!r}, but it is missing; add it (null if it is not known)",
                "rows", place, name,
            )  # fmt: skip
    for name in row:
        if name not in known and problems.count():
            problems.add(
                "unknown_column",
                f"row {place} must have columns that the model knows, but got {show(name)}, which is none"
                f"{_guess(name, known, problems)}; leave it out",
                "rows", place, name[:100],
            )  # fmt: skip
        if problems.are_enough:
            return


def _guess(name: str, known: Collection[str], problems: Problems) -> str:
    """The column that was probably meant; not for every problem where there are many columns to compare with."""
    is_cheap = problems.n * len(known) <= MAX_COMPARED
    return did_you_mean(name[:100], known) if is_cheap else ""


def _as_table(rows: Sequence[dict[str, Any]], columns: Columns) -> CheckedRows:
    """Rows with the right columns as a table, or a refusal that names their wrong values."""
    problems = Problems()
    warnings: list[str] = []
    features: dict[str, Any] = {}
    for column in columns.features:
        name = str(column.name)
        cells = [row[name] for row in rows]
        if isinstance(column, CategoryColumn):
            features[name] = _read_categories(cells, name, problems)
            warnings += _new_levels(features[name], column, MAX_PROBLEMS - len(warnings))
        else:
            features[name] = _read_numbers(cells, name, problems)
    side = _read_sides(rows, columns, problems)
    problems.refuse()
    return CheckedRows(pd.DataFrame(features, index=range(len(rows))), side, warnings)


def _read_numbers(cells: list[Any], name: str, problems: Problems) -> NDArray[np.float64]:
    values = np.full(len(cells), np.nan)
    for place, cell in enumerate(cells):
        if cell is None:
            continue
        number = _as_number(cell)
        if number is not None:
            values[place] = number
        elif problems.count():
            cure = "send it without quotes" if isinstance(cell, str) and _spells_number(cell) else "null if not known"
            message = f"{name!r} of row {place} must be a finite number, but got {show(cell)}; {cure}"
            problems.add("number", message, "rows", place, name)
    return values


def _as_number(cell: Any) -> float | None:
    """A cell as a finite number; None where it is none. Text is none, whatever it spells, as in training."""
    if not isinstance(cell, (bool, int, float)):
        return None
    try:
        number = float(cell)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _spells_number(text: str) -> bool:
    try:
        float(text[:400])
    except ValueError:
        return False
    return True


def _read_categories(cells: list[Any], name: str, problems: Problems) -> NDArray[np.object_]:
    values: NDArray[np.object_] = np.full(len(cells), None, dtype=object)
    for place, cell in enumerate(cells):
        if cell is None:
            continue
        is_known = _is_text(cell) if isinstance(cell, str) else _as_number(cell) is not None
        if is_known:
            values[place] = cell
        elif problems.count():
            message = f"{name!r} of row {place} must be a text or a number, but got {show(cell)}; null if not known"
            problems.add("category", message, "rows", place, name)
    return values


def _is_text(cell: str) -> bool:
    """Whether a text has no half characters, which JSON can spell and nothing can store."""
    try:
        cell.encode()
    except UnicodeEncodeError:
        return False
    return True


def _new_levels(values: NDArray[np.object_], column: CategoryColumn, n_told: int) -> list[str]:
    """What to tell, of ``n_told`` rows at most, about levels that training rows did not have."""
    if column.levels is None or n_told <= 0:
        return []
    codes = column.transform(np.array([None if value is None else spell(value) for value in values], dtype=object))
    rows = np.flatnonzero(codes == 0).tolist()
    return [
        f"row {row}: {str(column.name)!r} is {show(values[row])}, which no training row had; the answer takes it for "
        "unknown"
        for row in rows[:n_told]
    ]


def _read_sides(rows: Sequence[dict[str, Any]], columns: Columns, problems: Problems) -> dict[str, NDArray[np.float64]]:
    """Side columns by role, known in every row; an optional one may be left out of all rows."""
    side = {}
    for one in columns.sides:
        has = [one.name in row for row in rows]
        if not any(has):
            continue
        if not all(has):
            place = has.index(False)
            message = (
                f"row {place} must have the column {one.name!r}, as other rows of the request have, but it is "
                "missing; add it to all rows or to none"
            )
            if problems.count():
                problems.add("missing_column", message, "rows", place, one.name)
            continue
        values = np.array([_as_amount(row[one.name]) for row in rows])
        for place in np.flatnonzero(np.isnan(values)).tolist():
            if not problems.count():
                continue
            given = show(rows[place][one.name])
            message = f"{one.name!r} of row {place}, the {one.role}, must be a number from 0 on, but got {given}"
            problems.add("number", message, "rows", place, one.name)
        side[one.role] = values
    return side


def _as_amount(cell: Any) -> float:
    number = _as_number(cell)
    return math.nan if number is None or number < 0 else number
