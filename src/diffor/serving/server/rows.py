"""Rows as clients send them, checked cell by cell against the model's columns and put into a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.encoders.tabular.inputs import UNKNOWN, CategoryColumn
from diffor.errors import did_you_mean
from diffor.estimators.novelty import far_outside, range_of
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
    novel: list[list[str]] = field(default_factory=list)
    """Names of each row's columns that are unlike training."""

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
        message = f"a request must have at most {max_rows} rows, but it has {len(rows)}; send them in several"
        raise refusal(413, "too_many_rows", message, "rows")
    problems = Problems()
    for place, row in enumerate(rows):
        if not isinstance(row, dict) or row.keys() != columns.known.keys():
            _check_names(place, row, columns, problems)
        if problems.are_enough:
            break
    problems.refuse()
    return _as_table(rows, columns)


def _check_names(place: int, row: Any, columns: Columns, problems: Problems) -> None:
    """Find columns that a row lacks, and those that the model does not know."""
    if not isinstance(row, dict):
        if problems.count():
            message = f"row {place} must be an object of columns and values, but got {show(row)}"
            problems.add("row", message, "rows", place)
        return
    for name in columns.required:
        if name not in row and problems.count():
            message = f"row {place} must have the column {name!r}, but it is missing; add it (null if it is not known)"
            problems.add("missing_column", message, "rows", place, name)
    for name in row:
        if name not in columns.known and problems.count():
            message = (
                f"row {place} must have columns that the model knows, but got {show(name)}, which is none"
                f"{_guess(name, columns.known, problems)}; leave it out"
            )
            problems.add("unknown_column", message, "rows", place, name[:100])
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
    novel: list[list[str]] = [[] for _ in rows]
    for column in columns.features:
        name = str(column.name)
        if isinstance(column, CategoryColumn):
            cells = _read_cells(rows, name, _as_level, "category", "a text or a number", problems)
            features[name] = np.array(cells, dtype=object)
            found, said = _new_levels(features[name], column)
        else:
            cells = _read_cells(rows, name, as_number, "number", "a finite number", problems)
            features[name] = np.array(cells, dtype=np.float64)  # what is not known is NaN
            found = far_outside(column, features[name])
            said = f"which is far outside the training range, {range_of(column)}" if found.any() else ""
        for row in np.flatnonzero(found).tolist():
            novel[row].append(name)
            if len(warnings) < MAX_PROBLEMS:
                warnings.append(f"row {row}: {name!r} is {show(cells[row])}, {said}")
    side = _read_sides(rows, columns, problems)
    problems.refuse()
    return CheckedRows(pd.DataFrame(features, index=range(len(rows))), side, warnings, novel)


def _read_cells(
    rows: Sequence[dict[str, Any]], name: str, read: Callable[[Any], Any], kind: str, wanted: str, problems: Problems
) -> list[Any]:
    """The values of a column, None where they are not known; those that ``read`` makes None of are wrong."""
    found = []
    for place, row in enumerate(rows):
        cell = row[name]
        value = None if cell is None else read(cell)
        if value is None and cell is not None and problems.count():
            is_quoted = kind == "number" and isinstance(cell, str) and _spells_number(cell)
            cure = "send it without quotes" if is_quoted else "null if not known"
            message = f"{name!r} of row {place} must be {wanted}, but got {show(cell)}; {cure}"
            problems.add(kind, message, "rows", place, name)
        found.append(value)
    return found


def as_number(cell: Any) -> float | None:
    """A cell as a finite number; None where it is none. Text is none, whatever it spells, as in training."""
    try:
        number = float(cell) if isinstance(cell, (bool, int, float)) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _as_level(cell: Any) -> Any:
    """A cell as a level; None where it is neither a number nor a text without half characters, which JSON can spell."""
    if not isinstance(cell, str):
        return None if as_number(cell) is None else cell
    try:
        cell.encode()
    except UnicodeEncodeError:
        return None
    return cell


def _spells_number(text: str) -> bool:
    try:
        float(text[:400])
    except ValueError:
        return False
    return True


def _new_levels(values: NDArray[np.object_], column: CategoryColumn) -> tuple[NDArray[np.bool_], str]:
    """Which rows have levels that training rows did not have, and what to say of them. **Shape:** ``(n,)`` each."""
    if column.levels is None:
        return np.zeros(len(values), dtype=bool), ""
    spelled = np.array([None if value is None else spell(value) for value in values], dtype=object)
    return column.transform(spelled) == UNKNOWN, "which no training row had; the answer takes it for unknown"


def _read_sides(rows: Sequence[dict[str, Any]], columns: Columns, problems: Problems) -> dict[str, NDArray[np.float64]]:
    """Side columns by role, known in every row; an optional one may be left out of all rows."""
    side = {}
    for one in columns.sides:
        has = [one.name in row for row in rows]
        if any(has) and not all(has) and problems.count():
            place = has.index(False)
            message = (
                f"row {place} must have the column {one.name!r}, as other rows of the request have, but it is "
                "missing; add it to all rows or to none"
            )
            problems.add("missing_column", message, "rows", place, one.name)
        if not all(has):
            continue
        values = [as_number(row[one.name]) for row in rows]
        for place, value in enumerate(values):
            is_limit = one.role == "upper"  # a share of nothing is none
            if (value is None or value < 0 or (is_limit and value == 0)) and problems.count():
                given, least = show(rows[place][one.name]), "above 0" if is_limit else "from 0 on"
                what = "limit" if is_limit else one.role
                message = f"{one.name!r} of row {place}, the {what}, must be a number {least}, but got {given}"
                problems.add("number", message, "rows", place, one.name)
        side[one.role] = np.array(values, dtype=np.float64)
    return side
