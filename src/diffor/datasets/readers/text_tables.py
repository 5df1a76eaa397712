"""Large text tables, plain or gzipped: blocks of lines as Arrow tables, and the lines that Arrow cannot read.

Arrow parses a block as a whole or not at all, and its ``invalid_row_handler`` sees only lines of another width. Where
a block cannot be parsed, halving it again and again finds the bad lines: what Arrow refuses, and nothing else.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from tqdm import tqdm

from diffor.datasets.readers.data_files import CURE
from diffor.files.tables import DataError

BLOCK_BYTES = 64 * 2**20
"""Text that is read at a time; parsing it and writing it takes several times as much memory."""
HEADER_BYTES = 2**16
_GZIP_START = b"\x1f\x8b"


@dataclass(frozen=True)
class TextFormat:
    """How a text table is written: one row per line, cells parted by a separator, no quotes."""

    columns: Mapping[str, str | None]
    """Arrow types by name, in the order of the file; columns with None are not kept."""
    separator: str = ","
    has_header: bool = True
    may_be_empty: tuple[str, ...] = ()
    """Columns of numbers and dates whose cells may be empty; text always may."""
    cure: str = CURE
    """What to do about a file in another format."""

    @property
    def kept(self) -> dict[str, str]:
        """Arrow types of the columns that are kept."""
        return {name: kind for name, kind in self.columns.items() if kind is not None}

    @property
    def header(self) -> str:
        """The line that names the columns."""
        return self.separator.join(self.columns)


@contextmanager
def open_text(source: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """A text file, unpacked where it is gzipped, and the file itself."""
    try:
        with source.open("rb") as raw:
            is_packed = raw.read(2) == _GZIP_START
            raw.seek(0)
            yield (cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if is_packed else raw), raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{source} must be a whole gzip file, but {error}; {CURE}") from error


def check_header(line: bytes, source: Path, header: str, cure: str) -> None:
    """Refuse a first line that does not name just these columns."""
    found = line.rstrip(b"\r\n").decode("utf-8", errors="replace")
    if found != header:
        raise DataError(f"{source} must begin with the header {header}, but got {found[:200]!r}; {cure}")


def parse_block(block: bytes, form: TextFormat, columns: Sequence[str] | None = None) -> Any:
    """The rows of a block as an Arrow table; pyarrow.ArrowInvalid where a row cannot be read."""
    import pyarrow
    from pyarrow import compute, csv

    kinds = {name: pyarrow.type_for_alias(kind) for name, kind in form.kept.items()}
    wanted = list(kinds if columns is None else columns)
    if not block or block.isspace():
        return pyarrow.schema([(name, kinds[name]) for name in wanted]).empty_table()
    table = csv.read_csv(
        pyarrow.BufferReader(block),
        csv.ReadOptions(column_names=list(form.columns)),
        csv.ParseOptions(delimiter=form.separator, quote_char=False),
        csv.ConvertOptions(column_types=kinds, include_columns=wanted, null_values=[""], strings_can_be_null=False),
    )
    for name in wanted:
        if name not in form.may_be_empty and table.column(name).null_count:
            raise pyarrow.ArrowInvalid(f"column {name} has empty cells")
        is_number = pyarrow.types.is_floating(kinds[name])
        if is_number and compute.all(compute.is_finite(table.column(name))).as_py() is False:  # None of empty cells
            raise pyarrow.ArrowInvalid(f"column {name} has cells that are no finite numbers")
    return table


def find_bad_lines(block: bytes, form: TextFormat) -> Iterator[int]:
    """The places of the lines of a block that cannot be read, one by one."""
    return _bad_places(block.split(b"\n"), 0, form)


def _bad_places(lines: list[bytes], first: int, form: TextFormat) -> Iterator[int]:
    if _is_readable(b"\n".join(lines), form):
        return
    if len(lines) == 1:
        yield first
        return
    half = len(lines) // 2
    yield from _bad_places(lines[:half], first, form)
    yield from _bad_places(lines[half:], first + half, form)


def _is_readable(block: bytes, form: TextFormat, columns: Sequence[str] | None = None) -> bool:
    import pyarrow

    try:
        parse_block(block, form, columns)
    except pyarrow.ArrowInvalid:
        return False
    return True


def explain(line: bytes, number: int, form: TextFormat) -> tuple[str, str]:
    """Why a line, without its end, cannot be read: the reason, and what to say of the file."""
    cells, n_cells = line.split(form.separator.encode()), len(form.columns)
    if len(cells) != n_cells:
        return "wrong number of cells", f"must have {n_cells} cells in each line, but line {number} has {len(cells)}"
    bad = next((name for name in form.kept if not _is_readable(line, form, [name])), None)
    if bad is None:
        return "unreadable line", f"must be a text table, but line {number} cannot be read"
    cell = cells[list(form.columns).index(bad)].decode("utf-8", errors="replace")[:80]
    kind = "UTF-8 text" if form.kept[bad] == "string" else f"values of type {form.kept[bad]}"
    return f"unreadable cell in column {bad}", f"must hold {kind} in column {bad}, but line {number} has {cell!r}"


def progress_bar(total: int, unit: str, purpose: str) -> tqdm:
    """A bar for what takes longer than two seconds."""
    return tqdm(total=total, unit=unit, unit_scale=True, desc=purpose, delay=2, disable=None)
