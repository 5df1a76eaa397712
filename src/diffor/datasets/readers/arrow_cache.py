"""Large text tables as Parquet: read once, as a stream in bounded memory, and kept in a cache folder.

A cached table is a folder with a Parquet part for every block of text, and ``progress.json``, which says which parts
are done, where in the text each ends, and which file, format and version they belong to. Parts and progress are
written beside their place and moved there in one step, so a process that is killed loses the block it was at, and the
next one goes on from there. Memory holds one block, whatever the length of the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from diffor.datasets.readers.text_blocks import (
    BLOCK_BYTES,
    BadRow,
    TextFormat,
    find_bad_rows,
    is_blank,
    line_blocks,
    open_text,
    parse_block,
    skip_bytes,
    without_header,
    without_rows,
)
from diffor.datasets.samples import Rows
from diffor.errors import UserError
from diffor.files.atomic import DataError, replacing

VERSION = 1
"""Raised when the content of a cache changes: older ones are then built anew."""
BATCH_ROWS = 2**18
"""Rows of a batch, and of a row group of a part."""
MAX_BAD_ROWS = 1000
"""More unreadable rows than this are no damage but another format: they are not dropped any more."""
BAD_ROW_CHOICES = ("raise", "drop")
PROGRESS = "progress.json"


@dataclass(frozen=True)
class _Part:
    """A finished block: its rows, the size of its file, where its text ends, and what was dropped from it."""

    n_rows: int
    n_bytes: int
    end: int
    n_lines: int
    dropped: dict[str, int] = field(default_factory=dict)
    first_bad: str | None = None


@dataclass
class _Progress:
    """What ``progress.json`` holds."""

    identity: dict[str, Any]
    parts: list[_Part] = field(default_factory=list)
    is_complete: bool = False

    def save(self, folder: Path) -> None:
        with replacing(folder / PROGRESS) as temporary:
            temporary.write_text(json.dumps(asdict(self)), encoding="utf-8")


@dataclass(frozen=True)
class CachedTable:
    """A text table that was read: where its parts are, how many rows they have, and what was dropped by reason."""

    source: Path
    parts: tuple[Path, ...]
    part_rows: tuple[int, ...]
    dropped: Mapping[str, int]
    identity: Mapping[str, Any]

    @property
    def n_rows(self) -> int:
        """Rows that are kept."""
        return sum(self.part_rows)

    @property
    def key(self) -> dict[str, Any]:
        """What a result that is taken from this table depends on."""
        return {**self.identity, "folder": self.parts[0].parent.name, "dropped": dict(self.dropped)}

    def batches(
        self, columns: Sequence[str], *, rows: Rows | None = None, coded: Sequence[str] = (), purpose: str = "read"
    ) -> Iterator[Any]:
        """Arrow record batches of some columns, in the order of the file; ``coded`` ones come as dictionaries.

        ``rows`` are the row numbers to give, rising; None stands for all.
        """
        from pyarrow import parquet

        first = 0
        with _progress_bar(self.n_rows, "row", f"{purpose} {self.source.name}") as bar:
            for path, n_part in zip(self.parts, self.part_rows, strict=True):
                wanted = None if rows is None else rows[slice(*np.searchsorted(rows, [first, first + n_part]))]
                if wanted is None or len(wanted):
                    file = parquet.ParquetFile(path, read_dictionary=list(coded))
                    for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
                        yield batch if wanted is None else _take(batch, wanted, first)
                        first += batch.num_rows
                        bar.update(batch.num_rows)
                else:
                    first += n_part
                    bar.update(n_part)

    def arrays(self, columns: Sequence[str], rows: Rows | None = None) -> dict[str, NDArray[Any]]:
        """Columns of numbers as NumPy arrays, empty cells as NaN. **Shape:** ``(n_rows,)`` each."""
        import pyarrow

        types = dict(self.identity["columns"])
        n_rows = self.n_rows if rows is None else len(rows)
        found = {
            name: np.empty(n_rows, dtype=pyarrow.type_for_alias(types[name]).to_pandas_dtype()) for name in columns
        }
        place = 0
        for batch in self.batches(columns, rows=rows):
            for name, values in found.items():
                values[place : place + batch.num_rows] = batch.column(name).to_numpy(zero_copy_only=False)
            place += batch.num_rows
        return found


def _take(batch: Any, rows: Rows, first: int) -> Any:
    """Those rows of a batch that are wanted; ``first`` is the number of its first row."""
    low, high = np.searchsorted(rows, [first, first + batch.num_rows])
    return batch.take(rows[low:high] - first)


def _progress_bar(total: int, unit: str, purpose: str) -> Any:
    return tqdm(total=total, unit=unit, unit_scale=True, desc=purpose, delay=2, disable=None)


# The cache.


def cached_table(
    source: Path, form: TextFormat, cache: Path, *, on_bad_row: str = "raise", block_bytes: int = BLOCK_BYTES
) -> CachedTable:
    """The table of a text file, plain or gzipped: from the cache where it is up to date, else read into it.

    A row that cannot be read is an error, or is dropped and counted with ``on_bad_row="drop"``.
    """
    require_pyarrow(source)
    if on_bad_row not in BAD_ROW_CHOICES:
        raise UserError(f"on_bad_row must be one of {', '.join(BAD_ROW_CHOICES)}, but got on_bad_row={on_bad_row!r}")
    identity = _identify(source, form)
    folder = cache / f"{source.name}-{_place(source, cache)}"
    progress = _load_progress(folder, identity)
    if not progress.is_complete:
        with locked(folder):
            progress = _load_progress(folder, identity)  # another process may have read it meanwhile
            if not progress.is_complete:
                _build(source, form, folder, progress, on_bad_row, block_bytes)
    first_bad = next((part.first_bad for part in progress.parts if part.first_bad is not None), None)
    if on_bad_row == "raise" and first_bad is not None:  # the cache was made by a call that dropped such rows
        raise DataError(f"{first_bad}, or pass on_bad_row='drop' to do without such rows")
    dropped: Counter[str] = Counter()
    for part in progress.parts:
        dropped.update(part.dropped)
    parts = tuple(_part_path(folder, number) for number in range(len(progress.parts)))
    return CachedTable(source, parts, tuple(part.n_rows for part in progress.parts), dropped, identity)


def kept_result(cache: Path, name: str, key: Mapping[str, Any], write: Callable[[Path, Path], None]) -> Any:
    """The Arrow table that ``write(path, scratch)`` writes as Parquet, kept in the cache under a name and a key.

    ``scratch`` is an empty folder for what does not fit into memory; it goes afterwards.
    """
    from pyarrow import parquet

    digest = hashlib.sha256(json.dumps([VERSION, key], sort_keys=True).encode()).hexdigest()[:16]
    path = cache / f"{name}-{digest}.parquet"
    if not path.exists():
        scratch = cache / f"{name}-{digest}.scratch"
        with locked(scratch):
            if not path.exists():
                _clear(scratch, path)
                with replacing(path) as temporary:
                    write(temporary, scratch)
            shutil.rmtree(scratch)
    return parquet.read_table(path)


def require_pyarrow(path: Path) -> None:
    """Refuse to go on without the package that reads and writes Parquet."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DataError(
            f"{path} is read by way of Parquet and needs pyarrow, but it is not installed; "
            'pip install "diffor[parquet]"'
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder, and let only one process at a time work in it; the lock ends with its process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder.with_name(folder.name + ".lock").open("w", encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"{folder.parent} must be a writable folder, but got {error.strerror or error}; "
            "pass another folder as cache"
        ) from error
    with file:
        with suppress(ImportError):  # where files cannot be locked, two processes at once would do the work twice
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        folder.mkdir(exist_ok=True)  # the process before may have taken it away
        yield


def _clear(scratch: Path, path: Path) -> None:
    """Remove what a killed process left."""
    shutil.rmtree(scratch)
    scratch.mkdir()
    for unfinished in path.parent.glob(f".{path.stem}.*"):
        unfinished.unlink()


def _place(source: Path, cache: Path) -> str:
    """Tells files of one name apart; it stays as it is where a file and its cache are moved together."""
    try:
        path = os.path.relpath(source.resolve(), cache.resolve())
    except ValueError:  # they are on different drives
        path = str(source.resolve())
    return hashlib.sha256(path.encode()).hexdigest()[:8]


def _part_path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.parquet"


def _identify(source: Path, form: TextFormat) -> dict[str, Any]:
    """What a cache must agree with to be used: version, file and format."""
    state = source.stat()
    return {
        "version": VERSION,
        "bytes": state.st_size,
        "modified": state.st_mtime_ns,
        "columns": [[name, kind] for name, kind in form.columns.items()],
        "separator": form.separator,
        "has_header": form.has_header,
        "may_be_empty": sorted(form.may_be_empty),
    }


def _load_progress(folder: Path, identity: dict[str, Any]) -> _Progress:
    """What is done so far, as far as it is whole and belongs to this file; else an empty start."""
    try:
        found = json.loads((folder / PROGRESS).read_text(encoding="utf-8"))
        if found["identity"] != identity:
            return _Progress(identity)
        parts = [_Part(**part) for part in found["parts"]]
        is_complete = bool(found["is_complete"])
    except (OSError, ValueError, KeyError, TypeError):
        return _Progress(identity)
    for number, part in enumerate(parts):
        path = _part_path(folder, number)
        if not path.is_file() or path.stat().st_size != part.n_bytes:
            return _Progress(identity, parts[:number])
    return _Progress(identity, parts, is_complete)


def _build(
    source: Path, form: TextFormat, folder: Path, progress: _Progress, on_bad_row: str, block_bytes: int
) -> None:
    """Read the text from where the progress ends, a part for each block."""
    _remove_leftovers(folder, progress)
    end = progress.parts[-1].end if progress.parts else 0
    n_bytes = progress.identity["bytes"]
    with open_text(source) as (text, raw), _progress_bar(n_bytes, "B", f"cache {source.name}") as bar:
        skip_bytes(text, raw, end)
        for block in line_blocks(text, source, block_bytes, form.cure):
            rows = without_header(block, source, form) if end == 0 and form.has_header else block
            end += len(block)
            if not is_blank(rows):
                progress.parts.append(_write_part(rows, source, form, folder, progress, end, on_bad_row))
                progress.save(folder)
            bar.update(raw.tell() - bar.n)
    if _identify(source, form) != progress.identity:
        raise DataError(f"{source} must not change while it is read, but it did; run again")
    if not sum(part.n_rows for part in progress.parts):
        raise DataError(f"{source} must hold rows, but it has none that can be read; {form.cure}")
    progress.is_complete = True
    progress.save(folder)


def _remove_leftovers(folder: Path, progress: _Progress) -> None:
    """Remove parts that belong to another file, and what was being written when a process died."""
    kept = {_part_path(folder, number) for number in range(len(progress.parts))}
    if progress.parts:
        kept.add(folder / PROGRESS)
    for path in folder.iterdir():
        if path not in kept:
            path.unlink()


def _write_part(
    rows: bytes, source: Path, form: TextFormat, folder: Path, progress: _Progress, end: int, on_bad_row: str
) -> _Part:
    """Write the rows of a block as the next part, without those that cannot be read."""
    import pyarrow
    from pyarrow import parquet

    n_lines = progress.parts[-1].n_lines if progress.parts else int(form.has_header)
    bad: list[BadRow] = []
    try:
        table = parse_block(rows, form)
    except pyarrow.ArrowInvalid:
        n_before = sum(sum(part.dropped.values()) for part in progress.parts)
        for row in find_bad_rows(rows, source, form, n_lines + 1):
            bad.append(row)
            _check_bad_row(row, on_bad_row, n_before + len(bad), source, form)
        table = parse_block(without_rows(rows, [row.place for row in bad]), form)
    path = _part_path(folder, len(progress.parts))
    with replacing(path) as temporary:
        parquet.write_table(table, temporary, row_group_size=BATCH_ROWS, compression="zstd")
    return _Part(
        n_rows=table.num_rows,
        n_bytes=path.stat().st_size,
        end=end,
        n_lines=n_lines + rows.count(b"\n") + (not rows.endswith(b"\n")),
        dropped=dict(Counter(row.reason for row in bad)),
        first_bad=bad[0].message if bad else None,
    )


def _check_bad_row(row: BadRow, on_bad_row: str, n_bad: int, source: Path, form: TextFormat) -> None:
    if on_bad_row == "raise":
        raise DataError(f"{row.message}, or pass on_bad_row='drop' to do without such rows")
    if n_bad > MAX_BAD_ROWS:
        raise DataError(
            f"{source} must have at most {MAX_BAD_ROWS} rows that cannot be read, but it has more, the last is "
            f"this: {row.message}; {form.cure}"
        )
