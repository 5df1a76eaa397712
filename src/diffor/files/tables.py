"""Tables in files: CSV and Parquet, read whole or a chunk at a time, and written so that a file is whole or absent."""

from __future__ import annotations

import math
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from diffor.files.atomic import DataError as DataError
from diffor.files.atomic import replacing
from diffor.files.csv_bytes import csv_bytes
from diffor.files.dates import as_times

if TYPE_CHECKING:
    import pandas as pd

CSV_OPTIONS: dict[str, Any] = {"low_memory": False, "float_precision": "round_trip"}
"""How CSV is read: numbers to the last bit, which pandas before 3.1 does not do by itself. A row whose number is off by
one unit in the last place has other noise, so that file and table would be answered differently."""
CHUNK_ROWS = 8192
"""Rows that are in memory at a time where a file is streamed."""
PARQUET_SUFFIXES = (".parquet", ".pq")
OUTPUT_SUFFIXES = (".csv", *PARQUET_SUFFIXES)
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_NAMELESS = re.compile(r"Unnamed: \d+|__index_level_\d+__")  # what pandas calls a column that has no name

Write = Callable[["pd.DataFrame"], None]


@dataclass(frozen=True)
class Chunk:
    """Some consecutive rows: the columns to compute with, the columns to hand on, and the number of the first row."""

    table: pd.DataFrame
    kept: pd.DataFrame
    first: int

    def __len__(self) -> int:
        return len(self.table)

    def describe(self, path: Path) -> str:
        """Which rows these are, for messages."""
        return f"rows {self.first + 1} to {self.first + len(self)} of {path}: "


def is_parquet(path: Path) -> bool:
    """Whether a path names a Parquet file; all others are read as CSV.

    >>> is_parquet(Path("rows.parquet")), is_parquet(Path("rows.csv.gz"))
    (True, False)
    """
    return path.suffix.lower() in PARQUET_SUFFIXES


# Reading.


def column_names(path: Path) -> list[str]:
    """The names of a file's columns; columns without a name are left out."""
    if not path.exists():
        raise DataError(f"{path} must be an existing file, but there is none; check the path")
    if not path.is_file():
        raise DataError(f"{path} must be a file, but it is a folder or a stream; pass a CSV or Parquet file")
    with readable(path):
        names = open_parquet(path).schema_arrow.names if is_parquet(path) else _csv_names(path)
    return [name for name in names if not _NAMELESS.fullmatch(name)]


def read_table(path: Path, columns: list[str] | None = None, text: Iterable[str] = ()) -> pd.DataFrame:
    """Read a whole file, or some of its columns; a CSV file's ``text`` columns are taken as they are written.

    Other columns of a CSV file that hold dates become times (:mod:`diffor.files.dates`).
    """
    import pandas as pd

    wanted = column_names(path) if columns is None else columns
    with unchanged(path), readable(path):
        if is_parquet(path):
            table = open_parquet(path).read(columns=wanted).to_pandas(ignore_metadata=columns is not None)
            table = table.reset_index(drop=True)
        else:
            # Where only some columns are asked for, pandas overlooks rows with too many fields.
            with csv_bytes(path) as source:
                table = pd.read_csv(source, usecols=columns, dtype=dict.fromkeys(text, str), **CSV_OPTIONS)
            table = _with_times(table, set(table.columns).difference(text))
    if len(table) == 0:
        raise DataError(f"{path} must hold at least one row, but it has only a header; add rows")
    present: pd.DataFrame = table[[name for name in wanted if name in table.columns]]  # a stored index is no column
    return present


def read_chunks(
    path: Path,
    numbers: Sequence[str],
    text: Sequence[str],
    keep: Sequence[str] = (),
    rows: int = CHUNK_ROWS,
    groups: Sequence[int] | None = None,
) -> Iterator[Chunk]:
    """Stream a file: memory holds one chunk, whatever the file's length.

    ``numbers`` and ``text`` name the columns to compute with by their kind, so that chunks cannot disagree about it.
    ``keep`` names columns to hand on unchanged: the text of a CSV file, the types of a Parquet file. ``groups`` are
    those of a Parquet file's row groups that are wanted, one after the other (None: all).
    """
    columns = [*numbers, *text]
    with unchanged(path), readable(path):
        first = before = 0 if not groups else sum(row_groups(path)[: groups[0]])
        pairs = (
            _parquet_chunks(path, columns, keep, rows, groups)
            if is_parquet(path)
            else _csv_chunks(path, columns, text, keep, rows)
        )
        for table, kept in pairs:
            if len(table) == 0:
                continue
            table = table if is_parquet(path) else _with_times(table, numbers)
            for name in numbers:
                check_numbers(table[name], path, first)
            yield Chunk(table, kept, first)
            first += len(table)
    if first == before:
        raise DataError(f"{path} must hold at least one row, but it has only a header; add rows")


def count_rows(path: Path) -> int | None:
    """Number of rows where the file says so without being read, else None."""
    return sum(row_groups(path)) if is_parquet(path) else None


def row_groups(path: Path) -> list[int]:
    """Number of rows in each row group of a Parquet file."""
    with readable(path):
        facts = open_parquet(path).metadata
        return [int(facts.row_group(place).num_rows) for place in range(facts.num_row_groups)]


def is_empty(path: Path) -> bool:
    """Whether a file has columns but no row."""
    import pandas as pd

    if is_parquet(path):
        return count_rows(path) == 0
    with readable(path), csv_bytes(path) as source:
        return len(pd.read_csv(source, nrows=1, dtype=str)) == 0


def _with_times(table: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """The table with those of some columns as times that hold dates."""
    times = {name: as_times(table[name]) for name in names}
    read: pd.DataFrame = table.assign(**{name: column for name, column in times.items() if column is not None})
    return read


def check_numbers(column: pd.Series[Any], path: Path, first: int = 0) -> None:
    """Refuse text in a column of numbers, naming its row; ``first`` is the place of the column's first row."""
    import pandas as pd

    if not pd.api.types.is_string_dtype(column.dtype):
        return
    if column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) != "string":
        return  # booleans with gaps, decimals, very large integers
    numbers = pd.to_numeric(column.astype(object), errors="coerce")
    wrong = (numbers.isna() & column.notna()).to_numpy().nonzero()[0]
    if len(wrong):
        raise DataError(
            f"column {column.name!r} of {path} must hold numbers, but got {column.iloc[wrong[0]]!r} in row "
            f"{first + int(wrong[0]) + 1} after the header; correct the value or leave it empty"
        )


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Refuse what was read of a file that another process replaced, cut off or removed meanwhile."""
    before, failure = _state_of(path), None
    try:
        yield
    except Exception as error:
        failure = error
    if _state_of(path) != before:
        raise DataError(_changed(path)) from failure
    if failure is not None:
        raise failure


def _state_of(path: Path) -> tuple[int, ...] | None:
    with suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None


def _changed(path: Path) -> str:
    return f"{path} must stay as it is while it is read, but it was changed or removed meanwhile; run again"


def _check_still_there(wanted: Iterable[str], names: Iterable[str], path: Path) -> None:
    """Refuse a file that had the wanted columns when it was looked at, and now is another."""
    if not set(wanted) <= set(names):
        raise DataError(_changed(path))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Say of a file that cannot be read why not, in one line."""
    import pandas as pd

    kind = "Parquet" if is_parquet(path) else "CSV"
    try:
        yield
    except (DataError, BrokenPipeError):
        raise
    except pd.errors.EmptyDataError as error:
        raise DataError(f"{path} must hold a table, but the file is empty; check how it was written") from error
    except UnicodeError as error:
        raise DataError(f"{path} must be a {kind} file in UTF-8, but {error}; convert it first") from error
    except (ValueError, OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DataError(f"{path} must be a readable {kind} file, but {reason}; correct or replace it") from error


def _csv_names(path: Path) -> list[str]:
    import pandas as pd

    with csv_bytes(path) as source:
        header = pd.read_csv(source, nrows=1, dtype=str, header=None, na_filter=False).iloc[0]
    repeated = header[header.duplicated() & (header != "")]
    if len(repeated):
        raise DataError(f"{path} must name each column once, but {repeated.iloc[0]!r} stands twice in its header")
    with csv_bytes(path) as source:
        top = pd.read_csv(source, nrows=1, dtype=str)
    if not isinstance(top.index, pd.RangeIndex):  # pandas takes surplus fields for an index, shifting all names
        raise DataError(
            f"{path} must have as many fields in each row as in its header, but the first row has more; "
            "name every column, or remove separators at line ends"
        )
    return [str(name) for name in top.columns]


def _csv_chunks(
    path: Path, columns: Sequence[str], text: Sequence[str], keep: Sequence[str], rows: int
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Two readers in step: one gives values to compute with, the other the kept columns as they are written."""
    import pandas as pd

    options: dict[str, Any] = {"chunksize": rows, **CSV_OPTIONS}
    numbers = set(columns).difference(text)
    names = _csv_names(path)
    _check_still_there([*columns, *keep], names, path)
    types = {name: str for name in names if name not in numbers}
    # All columns are read, as pandas would overlook rows with too many fields if only some were.
    with csv_bytes(path) as source, pd.read_csv(source, dtype=types, **options) as values:
        if not keep:
            yield from ((table[list(columns)], table[[]]) for table in values)
            return
        asked: dict[str, Any] = {"usecols": list(keep), "dtype": str, "na_filter": False, **options}
        with csv_bytes(path) as again, pd.read_csv(again, **asked) as texts:
            for table, kept in zip(values, texts, strict=True):
                yield table[list(columns)], kept[list(keep)]


def _parquet_chunks(
    path: Path, columns: Sequence[str], keep: Sequence[str], rows: int, groups: Sequence[int] | None
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    import pandas as pd

    wanted = list(dict.fromkeys([*columns, *keep]))
    file = open_parquet(path)
    _check_still_there(wanted, file.schema_arrow.names, path)
    for batch in file.iter_batches(batch_size=rows, row_groups=groups, columns=wanted):
        # Integers with gaps stay integers: as floats, long identifiers would be rounded.
        table = batch.select(list(columns)).to_pandas(ignore_metadata=True, integer_object_nulls=True)
        kept = batch.select(list(keep)).to_pandas(ignore_metadata=True, types_mapper=pd.ArrowDtype)
        yield table, kept


def open_parquet(path: Path) -> Any:
    """A Parquet file, opened for reading in parts."""
    require_pyarrow(path)
    from pyarrow import parquet

    return parquet.ParquetFile(path, buffer_size=2**20)  # buffered: a row group is never in memory as a whole


def require_pyarrow(path: Path) -> None:
    """Refuse to go on without the package that reads and writes Parquet."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DataError(f"{path} needs pyarrow, but it is not installed; pip install 'diffor[parquet]'") from error


# Writing.


def check_parent(path: Path) -> None:
    """Refuse a path in a folder that does not exist or in which nothing may be written."""
    if not path.parent.is_dir():
        raise DataError(f"{path} must lie in an existing folder, but {path.parent} is none; create it first")
    if not os.access(path.parent, os.W_OK):
        raise DataError(f"{path.parent} must be writable, but it is not; choose another folder")


def check_output(path: Path, force: bool) -> None:
    """Refuse an output file that cannot be written, or that exists and may not be replaced."""
    check_parent(path)
    if path.exists() and not path.is_file():
        raise DataError(f"{path} must be a file, but something else has this name; choose another")
    if path.exists() and not force:
        raise DataError(f"{path} must not exist yet, but it does; choose another or pass --force to replace it")


def check_table_output(path: Path, force: bool) -> None:
    """Refuse an output path for a table, as :func:`check_output` does, also by its suffix."""
    if path.suffix.lower() not in OUTPUT_SUFFIXES:
        raise DataError(f"{path} must end in {' or '.join(OUTPUT_SUFFIXES)}, but it does not; rename it")
    if is_parquet(path):
        require_pyarrow(path)
    check_output(path, force)


@contextmanager
def table_writer(path: Path, facts: Mapping[bytes, bytes] | None = None, tidy: bool = True) -> Iterator[Write]:
    """A function that appends rows to the table at ``path``, which appears, whole, when the block ends well.

    ``facts`` are kept in a Parquet file beside its schema; ``tidy`` is that of :func:`diffor.files.atomic.replacing`.
    """
    with replacing(path, tidy) as temporary:
        if is_parquet(path):
            with _parquet_writer(temporary, facts) as write:
                yield write
        else:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                yield csv_writer(file)


def csv_writer(file: TextIO) -> Write:
    """A function that appends rows to an open text file; the header comes first.

    Spreadsheets run text that begins like a formula, whoever wrote it; behind an apostrophe it is text to them.
    """
    import pandas as pd

    is_first = True

    def write(rows: pd.DataFrame) -> None:
        nonlocal is_first
        told = pd.DataFrame({_no_formula(name): _without_formulas(rows[name]) for name in rows})
        told.to_csv(file, index=False, header=is_first, lineterminator="\n")
        is_first = False

    return write


def _without_formulas(column: pd.Series[Any]) -> pd.Series[Any]:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        return column
    return column.astype(object).map(_no_formula)


def _no_formula(cell: Any) -> Any:
    """What a spreadsheet shows as it stands.

    >>> [_no_formula(cell) for cell in ("=1+1", "-5", "-five", -5)]
    ["'=1+1", '-5', "'-five", -5]
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) and not _is_number(cell) else cell


def _is_number(text: str) -> bool:
    try:
        return "_" not in text and math.isfinite(float(text))
    except ValueError:
        return False


@contextmanager
def _parquet_writer(path: Path, facts: Mapping[bytes, bytes] | None) -> Iterator[Write]:
    import pyarrow
    from pyarrow import parquet

    writer: Any = None

    def write(rows: pd.DataFrame) -> None:
        nonlocal writer
        schema = None if writer is None else writer.schema
        # Without pandas' own notes, every reader sees plain Arrow types.
        table = pyarrow.Table.from_pandas(rows, schema=schema, preserve_index=False).replace_schema_metadata(facts)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()
