"""Label files of image data sets: tables that must look exactly as their owners ship them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.readers.data_files import CURE, read_cells
from diffor.datasets.readers.reading import refuse_stand_in
from diffor.errors import UserError


def beside(path: Path, name: str) -> Path:
    """The file of this name in the folder of another, which must exist."""
    if not (path.parent / name).is_file():
        raise FileNotFoundError(f"{path.parent / name} must lie beside {path.name}, but it is missing; {CURE}")
    return path.parent / name


def exact_table(path: Path, header: Sequence[str]) -> pd.DataFrame:
    """A comma-separated table whose first line is exactly this header; the index counts the lines of the file."""
    refuse_stand_in(path)
    try:
        first, *rows = read_cells(path)
    except UnicodeDecodeError as error:
        raise UserError(f"{path} must be a text file, but got {error}; {CURE}") from error
    if tuple(first) != tuple(header):
        raise UserError(f"{path} must begin with {','.join(header)}, but got {','.join(first)[:200]}; {CURE}")
    if len(rows[0]) != len(header):
        raise UserError(f"{path} must have {len(header)} cells in each line, but line 2 has {len(rows[0])}; {CURE}")
    table: pd.DataFrame = pd.DataFrame(rows, columns=list(header), index=range(2, len(rows) + 2))
    return table


def whole_numbers(path: Path, width: int) -> NDArray[np.int64]:
    """Lines of so many whole numbers, parted by blanks. **Shape:** ``(lines, width)``."""
    refuse_stand_in(path)
    try:
        table = np.loadtxt(path, dtype=np.int64, ndmin=2, comments=None)
    except ValueError as error:
        raise UserError(f"{path} must hold {width} whole numbers in each line, {_odd_line(path, width)}") from error
    if table.shape[1] != width:
        raise UserError(f"{path} must hold {width} whole numbers in each line, {_odd_line(path, width)}")
    return table


def _odd_line(path: Path, width: int) -> str:
    """Which line is the first that does not hold so many whole numbers."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip() and (len(line.split()) != width or not re.fullmatch(r"[-+\d\s]+", line)):
            return f"but line {number} is {line[:80]!r}; {CURE}"
    return f"but some do not; {CURE}"
