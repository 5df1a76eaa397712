"""Large text tables as Parquet: read once, as a stream in bounded memory, and kept in a cache folder.

A cached table is a folder with a Parquet part for every block of text. Each part says in its metadata where its text
ends and what was dropped from it, and appears whole or not at all: a process that is killed loses the block it was at,
and the next one goes on from there. Memory holds one block, whatever the length of the file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from diffor.datasets.readers.text_tables import (
    BLOCK_BYTES,
    HEADER_BYTES,
    TextFormat,
    check_header,
    explain,
    find_bad_lines,
    open_text,
    parse_block,
    progress_bar,
)
from diffor.errors import check_choice
from diffor.files.atomic import DataError, replacing, write_atomically
from diffor.files.locks import alone
from diffor.files.tables import require_pyarrow

VERSION = 2
"""Raised when the content of a cache changes: older ones are then built anew."""
BATCH_ROWS = 2**18
"""Rows of a batch, and of a row group of a part."""
MAX_BAD_ROWS = 1000
"""More unreadable rows than this are no damage but another format: they are not dropped any more."""
FACTS = b"diffor"
"""Key of a part's metadata that holds the facts about its block."""


@dataclass(frozen=True)
class Part:
    """A block of text as Parquet: rows, where its text ends, lines up to there, and what was dropped from it."""

    path: Path
    n_rows: int
    end: int
    n_lines: int
    dropped: dict[str, int]
    first_bad: str | None


@dataclass(frozen=True)
class CachedTable:
    """A text table that was read: where its parts are, and how many rows were dropped, by reason."""

    source: Path
    parts: tuple[Part, ...]
    dropped: Mapping[str, int]

    @property
    def n_rows(self) -> int:
        """Rows that are kept."""
        return sum(part.n_rows for part in self.parts)

    @property
    def n_read(self) -> int:
        """Rows of the file, those that were dropped among them."""
        return self.n_rows + sum(self.dropped.values())

    def batches(self, columns: Sequence[str], *, coded: Sequence[str] = (), purpose: str = "read") -> Iterator[Any]:
        """Arrow record batches of some columns, in the order of the file; ``coded`` ones come as dictionaries."""
        from pyarrow import parquet

        with progress_bar(self.n_rows, "row", f"{purpose} {self.source.name}") as bar:
            for part in self.parts:
                file = parquet.ParquetFile(part.path, read_dictionary=list(coded))
                for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
                    yield batch
                    bar.update(batch.num_rows)

    def arrays(self, columns: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Columns of numbers as NumPy arrays, empty cells as NaN. **Shape:** ``(n_rows,)`` each."""
        from pyarrow import parquet

        paths = [part.path for part in self.parts]
        # One by one: an Arrow table of all columns would hold everything a second time.
        return {name: parquet.read_table(paths, columns=[name]).column(name).to_numpy() for name in columns}


def cached_table(
    source: Path, form: TextFormat, cache: Path, *, on_bad_row: str = "raise", block_bytes: int = BLOCK_BYTES
) -> CachedTable:
    """The table of a text file, plain or gzipped: from the cache where it is up to date, else read into it.

    A row that cannot be read is an error, or is dropped and counted with ``on_bad_row="drop"``.
    """
    require_pyarrow(source)
    check_choice("on_bad_row", on_bad_row, ("raise", "drop"))
    folder, state = cache / f"{source.name}-{_digest(_place(source, cache))}", _state(source, form)
    parts = _complete_parts(folder, state)
    if parts is None:
        with locked(folder):
            parts = _complete_parts(folder, state)  # another process may have read it meanwhile
            if parts is None:
                parts = _build(source, form, folder, state, on_bad_row, block_bytes)
    first_bad = next((part.first_bad for part in parts if part.first_bad is not None), None)
    if on_bad_row == "raise" and first_bad is not None:  # the cache was made by a call that dropped such rows
        raise DataError(_may_be_dropped(first_bad))
    dropped: Counter[str] = Counter()
    for part in parts:
        dropped.update(part.dropped)
    return CachedTable(source, tuple(parts), dict(dropped))


def kept_result(folder: Path, key: Any, make: Callable[[], Any]) -> Any:
    """The Arrow table that ``make()`` gives, kept in a folder under what it depends on."""
    from pyarrow import parquet

    path = folder / f"{_digest([VERSION, key])}.parquet"
    if not path.exists():
        with locked(folder):
            if not path.exists():
                with replacing(path) as temporary:
                    parquet.write_table(make(), temporary)
    return parquet.read_table(path)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder, and let only one process at a time work in it; the lock ends with its process."""
    lock = folder.with_name(folder.name + ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.touch()
    except OSError as error:
        raise DataError(
            f"{folder.parent} must be a writable folder, but {error.strerror or error}; "
            "set DIFFOR_CACHE to another folder"
        ) from error
    with alone(lock, None):
        yield


def _digest(key: Any) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:12]


def _place(source: Path, cache: Path) -> str:
    """Tells files of one name apart; it stays as it is where a file and its cache are moved together."""
    try:
        return os.path.relpath(source.resolve(), cache.resolve())
    except ValueError:  # they are on different drives
        return str(source.resolve())


def _state(source: Path, form: TextFormat) -> str:
    """Digest of what a part must agree with to be used: version, file and format."""
    facts = source.stat()
    columns = list(form.columns.items())  # their order counts
    return _digest([VERSION, facts.st_size, facts.st_mtime_ns, columns, {**asdict(form), "columns": None}])


def _part_path(folder: Path, state: str, number: int) -> Path:
    return folder / f"part-{state}-{number:05d}.parquet"


def _whole_parts(folder: Path, state: str) -> list[Part]:
    """The parts that are done, up to the first that is missing or damaged."""
    from pyarrow import ArrowInvalid, parquet

    parts: list[Part] = []
    with suppress(OSError, ArrowInvalid):
        while True:
            path = _part_path(folder, state, len(parts))
            found = parquet.read_metadata(path)
            parts.append(Part(path, found.num_rows, **json.loads(found.metadata[FACTS])))
    return parts


def _complete_parts(folder: Path, state: str) -> list[Part] | None:
    """All parts of a table; None where some are still to be made."""
    try:
        n_parts = int((folder / f"complete-{state}").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    parts = _whole_parts(folder, state)
    return parts if len(parts) == n_parts else None


def _build(source: Path, form: TextFormat, folder: Path, state: str, on_bad_row: str, block_bytes: int) -> list[Part]:
    """Read the text from where the parts end, a part for each block."""
    from pyarrow import parquet

    parts = _whole_parts(folder, state)
    for leftover in set(folder.iterdir()) - {part.path for part in parts}:
        leftover.unlink()  # of another state of the file, or what was being written when a process died
    end, n_lines = (parts[-1].end, parts[-1].n_lines) if parts else (0, 0)
    with open_text(source) as (text, raw), progress_bar(source.stat().st_size, "B", f"cache {source.name}") as bar:
        text.seek(end)
        if form.has_header and not parts:
            line = text.readline(HEADER_BYTES)
            check_header(line, source, form.header, form.cure)
            end, n_lines = len(line), 1
        while block := text.read(block_bytes) + text.readline(BLOCK_BYTES):
            first_line, end = n_lines + 1, end + len(block)
            n_lines += block.count(b"\n") + (not block.endswith(b"\n"))
            if not block.isspace():
                n_bad = sum(sum(part.dropped.values()) for part in parts)
                table, dropped, first_bad = _read_block(block, source, form, first_line, on_bad_row, n_bad)
                facts: dict[str, Any] = {"end": end, "n_lines": n_lines, "dropped": dropped, "first_bad": first_bad}
                path = _part_path(folder, state, len(parts))
                with replacing(path) as temporary:
                    marked = table.replace_schema_metadata({FACTS: json.dumps(facts)})
                    parquet.write_table(marked, temporary, row_group_size=BATCH_ROWS, compression="zstd")
                parts.append(Part(path, table.num_rows, **facts))
            bar.update(raw.tell() - bar.n)
    if _state(source, form) != state:
        raise DataError(f"{source} must not change while it is read, but it did; run again")
    if not sum(part.n_rows for part in parts):
        raise DataError(f"{source} must hold rows, but it has none that can be read; {form.cure}")
    write_atomically(folder / f"complete-{state}", str(len(parts)).encode())
    return parts


def _read_block(
    block: bytes, source: Path, form: TextFormat, first_line: int, on_bad_row: str, n_bad: int
) -> tuple[Any, dict[str, int], str | None]:
    """The rows of a block that can be read, how many cannot by reason, and what to say of the first of these."""
    import pyarrow

    try:
        return parse_block(block, form), {}, None
    except pyarrow.ArrowInvalid:
        lines = block.split(b"\n")
        bad: dict[int, tuple[str, str]] = {}
        for place in find_bad_lines(block, form):
            reason, complaint = explain(lines[place].removesuffix(b"\r"), first_line + place, form)
            bad[place] = reason, f"{source} {complaint}; {form.cure}"
            if on_bad_row == "raise":
                raise DataError(_may_be_dropped(bad[place][1])) from None
            if n_bad + len(bad) > MAX_BAD_ROWS:
                raise DataError(
                    f"{source} must have at most {MAX_BAD_ROWS} rows that cannot be read, but it has more, the last: "
                    f"{complaint}; {form.cure}"
                ) from None
    table = parse_block(b"\n".join(line for place, line in enumerate(lines) if place not in bad), form)
    return table, dict(Counter(reason for reason, _ in bad.values())), next(iter(bad.values()))[1]


def _may_be_dropped(message: str) -> str:
    return f"{message}, or pass on_bad_row='drop' to leave such rows out"
