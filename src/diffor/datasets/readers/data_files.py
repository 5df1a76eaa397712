"""Text tables on disk: found below a folder, read cell by cell, and named with line and cure where they are damaged."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.readers.reading import refuse_stand_in
from diffor.errors import UserError

CURE = "fetch the file again"
MISSING = ("", "?", "NA")
"""Cells that stand for a missing value."""


def data_file(root: str | Path | None, name: str, *relatives: str, origin: str = "") -> Path:
    """Path of a data set's file, which must lie below the root under one of these names."""
    cure = f"pass the folder that holds {' or '.join(relatives)}{origin}"
    if root is None:
        raise UserError(f"{name} is read from files, but got root=None; {cure}")
    for relative in relatives:
        if (Path(root) / relative).is_file():
            return Path(root) / relative
    raise FileNotFoundError(f"{Path(root) / relatives[0]} does not exist: {cure}")


def beside(path: Path, name: str) -> Path:
    """The file of this name in the folder of another, which must exist."""
    if not (path.parent / name).is_file():
        raise FileNotFoundError(f"{path.parent / name} must lie beside {path.name}, but it is missing; {CURE}")
    return path.parent / name


def read_cells(path: Path, separator: str | None = ",") -> list[list[str]]:
    """The cells of each line, all as text; without a separator, cells are parted by blanks.

    Every line must have as many cells as the second: the first may be a header of another width.
    """
    text = path.read_text(encoding="utf-8")
    if separator is None:
        rows = [line.split() for line in text.splitlines()]
    else:
        # Split by newlines only: a line that `str.splitlines` would cut at an exotic separator is one row to csv.
        rows = list(csv.reader(text.rstrip("\n").split("\n"), delimiter=separator, skipinitialspace=True))
    if len(rows) < 2:
        raise UserError(f"{path} must have two lines or more, but it has {len(rows)}; {CURE}")
    width = len(rows[1])
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != width:
            raise UserError(f"{path} must have {width} cells in each line, but line {number} has {len(row)}; {CURE}")
    return rows


def with_header(path: Path, needed: Sequence[str]) -> pd.DataFrame:
    """A table of text cells whose first line names the columns, the needed ones among them."""
    header, *rows = read_cells(path)
    absent = [column for column in needed if column not in header]
    if absent or len(header) != len(rows[0]):
        raise UserError(
            f"{path} must begin with a header that names {', '.join(needed[:3])} ... ({len(needed)} columns), "
            f"but missing {', '.join(absent) or 'names of some columns'}; {CURE}"
        )
    return _numbered(rows, header)


def exact_table(path: Path, header: Sequence[str]) -> pd.DataFrame:
    """A table of text cells whose first line is exactly this header; the index counts the lines of the file."""
    refuse_stand_in(path)
    try:
        first, *rows = read_cells(path)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} must be a text file, but {error}; {CURE}") from error
    if tuple(first) != tuple(header):
        raise UserError(f"{path} must begin with {','.join(header)}, but got {','.join(first)[:200]}; {CURE}")
    if len(rows[0]) != len(header):
        raise UserError(f"{path} must have {len(header)} cells in each line, but line 2 has {len(rows[0])}; {CURE}")
    return _numbered(rows, header)


def _numbered(rows: list[list[str]], header: Sequence[str]) -> pd.DataFrame:
    table: pd.DataFrame = pd.DataFrame(rows, columns=list(header), index=range(2, len(rows) + 2))
    return table


def as_numbers(cells: pd.DataFrame, path: Path, *, may_miss: bool = False) -> pd.DataFrame:
    """Text cells as floats, missing ones as NaN; the index of the cells counts the lines of the file."""
    numbers: pd.DataFrame = cells.apply(pd.to_numeric, errors="coerce").astype(float)
    bad = ~np.isfinite(numbers.to_numpy())
    if may_miss:
        bad &= ~cells.apply(lambda column: column.str.strip()).isin(MISSING).to_numpy()
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise UserError(
            f"{path} must hold numbers, but line {cells.index[row]}, column {cells.columns[column]} "
            f"is {cells.iloc[row, column]!r}; {CURE}"
        )
    numbers.index = pd.RangeIndex(len(numbers))
    return numbers


def whole_numbers(path: Path, width: int) -> NDArray[np.int64]:
    """Lines of so many whole numbers, parted by blanks. **Shape:** ``(lines, width)``."""
    refuse_stand_in(path)
    with suppress(ValueError):
        table = np.loadtxt(path, dtype=np.int64, ndmin=2, comments=None)
        if table.shape[1] == width:
            return table
    rule, complaint = f"{path} must hold {width} whole numbers in each line", "some do not"
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), start=1):
        if line.strip() and (len(line.split()) != width or not re.fullmatch(r"[-+\d\s]+", line)):
            complaint = f"line {number} is {line[:80]!r}"
            break
    raise UserError(f"{rule}, but {complaint}; {CURE}")


def from_codes(codes: NDArray[Any], levels: Any) -> pd.Categorical:
    """A categorical in as few bytes as its levels allow."""
    kind = np.int8 if len(levels) < 2**7 else np.int16 if len(levels) < 2**15 else np.int32
    return pd.Categorical.from_codes(codes.astype(kind, copy=False), categories=pd.Index(levels), validate=False)
