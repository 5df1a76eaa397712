"""A table in many Parquet files: its row groups, its columns, and its rows a block at a time."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from diffor.files.tables import PARQUET_SUFFIXES, DataError, column_names, is_parquet, open_parquet, readable

BLOCK_ROWS = 16_384
"""Rows that are decoded at a time."""
WILDCARDS = "*?["


@dataclass(frozen=True)
class RowGroup:
    """Consecutive rows that a file holds together; ``first`` is the number of the first among the rows of all files."""

    path: Path
    place: int
    first: int
    n_rows: int


class ParquetTable:
    """The rows of many Parquet files with the same columns, in the order of their names.

    ``ids`` are columns whose values are names, even where they are written as numbers.
    """

    def __init__(self, paths: Sequence[Path], ids: Sequence[str] = ()) -> None:
        self.paths, self.ids = list(paths), frozenset(ids)
        self.groups: list[RowGroup] = []
        self.kinds: dict[str, str] = {}
        """``number``, ``time``, ``text`` or the name of a type that no model reads, for each column."""
        first = 0
        for path in self.paths:
            with readable(path), open_parquet(path) as file:
                counts = [file.metadata.row_group(place).num_rows for place in range(file.metadata.num_row_groups)]
                schema = file.schema_arrow
            self._check_columns(path, {name: kind_of(schema.field(name).type) for name in column_names(path)})
            for place, n_rows in enumerate(counts):
                self.groups += [RowGroup(path, place, first, n_rows)] * (n_rows > 0)
                first += n_rows
        self.n_rows = first
        if not self.groups:
            raise DataError(f"{self.paths[0]} must hold at least one row, but all {len(self.paths)} files are "
                            "empty; check how they were written")  # fmt: skip

    def _check_columns(self, path: Path, kinds: dict[str, str]) -> None:
        """Refuse a file whose columns are not those of the first."""
        if path == self.paths[0]:
            self.kinds = kinds
            return
        for name in (*self.kinds, *kinds):
            here, there = kinds.get(name, "missing"), self.kinds.get(name, "missing")
            if here != there:
                raise DataError(
                    f"all files must have the same columns, but column {name!r} is {there} in {self.paths[0]} and "
                    f"{here} in {path}; write the files alike, or name fewer of them"
                )

    @property
    def digest(self) -> str:
        """Names files by their row groups and columns, so that runs on other ones are told apart."""
        facts = [[group.path.name, group.place, group.n_rows] for group in self.groups]
        return hashlib.sha256(repr((facts, self.kinds, sorted(self.ids))).encode()).hexdigest()

    def describe(self, row: int) -> str:
        """Where a row is, by its number among all: for messages."""
        group = next(group for group in reversed(self.groups) if group.first <= row)
        before = sum(other.n_rows for other in self.groups if other.path == group.path and other.first < group.first)
        return f"row {row - group.first + before + 1} of {group.path}"

    def blocks(self, group: RowGroup, columns: Sequence[str], skip: int = 0) -> Iterator[tuple[int, Any]]:
        """The rows of a group after ``skip`` of them, in Arrow's form, each block with its first row's place."""
        place = 0
        with readable(group.path), open_parquet(group.path) as file:
            for batch in file.iter_batches(BLOCK_ROWS, row_groups=[group.place], columns=list(columns)):
                left_out = min(max(skip - place, 0), len(batch))
                if left_out < len(batch):
                    yield place + left_out, batch.slice(left_out)
                place += len(batch)

    def is_category(self, name: str) -> bool:
        """Whether a column's values are levels: text, or ids."""
        return name in self.ids or self.kinds[name] == "text"

    def frame(self, batch: Any) -> pd.DataFrame:
        """Rows in Arrow's form as a data frame: text and ids as categories, all else as numbers and times."""
        columns = {name: self._as_series(batch.column(name), name) for name in batch.schema.names}
        frame: pd.DataFrame = pd.DataFrame(columns, copy=False)
        return frame

    def _as_series(self, column: Any, name: str) -> Any:
        import pyarrow

        kind = column.type
        if self.is_category(name):
            if pyarrow.types.is_dictionary(kind):
                column = column.cast(kind.value_type)  # dictionaries may differ from block to block, and hold repeats
            return column.dictionary_encode().to_pandas()
        if pyarrow.types.is_decimal(kind) or pyarrow.types.is_boolean(kind) or pyarrow.types.is_float16(kind):
            column = column.cast(pyarrow.float64())
        elif pyarrow.types.is_date(kind):
            column = column.cast(pyarrow.timestamp("ms"))
        return column.to_pandas()


def kind_of(kind: Any) -> str:
    """What an Arrow type means to a model: ``number``, ``time`` or ``text``; else the type's own name."""
    from pyarrow import types

    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind):
        return "number"
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        return "time"
    inner = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_string(inner) or types.is_large_string(inner):
        return "text"
    return str(kind)


def is_stream(data: str) -> bool:
    """Whether a path names many files: a folder, or a pattern with ``*``, ``?`` or ``[``.

    >>> is_stream("data/*.parquet"), is_stream("train.parquet")
    (True, False)
    """
    path = Path(data)
    return path.is_dir() or (any(mark in data for mark in WILDCARDS) and not path.exists())


def find_files(data: str) -> list[Path]:
    """The Parquet files that a pattern, a folder or a path names, in the order of their names."""
    path = Path(data)
    if path.is_dir():
        found = [each for each in path.iterdir() if is_parquet(each) and not each.name.startswith(".")]
        cure = "pass a folder or a pattern of Parquet files"
    else:
        found = [path] if path.exists() else [Path(name) for name in glob.glob(data, recursive=True)]
        cure = "check the pattern, and put it into quotes"
    if not found:
        raise DataError(f"{data} must match at least one file, but none; {cure}")
    for each in found:
        if not is_parquet(each):
            raise DataError(f"files to stream must end in {' or '.join(PARQUET_SUFFIXES)}, but {data} matches "
                            f"{each}; write them as Parquet")  # fmt: skip
    return sorted(found)
