"""What the loaders of large tables share: how they are read, how they are divided, and how their files are checked."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from diffor.datasets.readers.arrow_cache import CachedTable, cached_table
from diffor.datasets.readers.data_files import CURE
from diffor.datasets.readers.reading import (
    CheckReport,
    cache_folder,
    data_root,
    find_below,
    need_below,
    refuse_stand_in,
)
from diffor.datasets.readers.text_blocks import BLOCK_BYTES, TextFormat, open_text
from diffor.datasets.samples import Rows
from diffor.datasets.splits import Split, random_parts
from diffor.errors import UserError
from diffor.files.tables import DataError

SHARES = (0.7, 0.1, 0.2)
"""Training, validation and test shares of the paper's tables."""


@dataclass(frozen=True)
class LargeTable:
    """Options of every loader of a large table."""

    max_rows: int | None = None
    """At most this many rows, drawn by ``seed`` from all; None for all."""
    seed: int = 0
    shares: tuple[float, float, float] = SHARES
    """Training, validation and test shares of the random split."""
    whole_users: bool = True
    """Whether the random split keeps the rows of a user together. The paper does not say; where a user's rows are on
    both sides, the test asks about people whose answers were seen."""
    on_bad_row: str = "raise"
    """``raise``: a row that cannot be read is an error. ``drop``: it is left out and counted."""
    cache: str | Path | None = None
    """Folder of the Parquet cache; None for the folder that the environment variable ``DIFFOR_CACHE`` names, or
    ``.diffor-cache`` below the root."""

    def open(self, source: Path, form: TextFormat, root: Path) -> CachedTable:
        """The table of a text file, by way of the cache."""
        return cached_table(source, form, self.cache_folder(root), on_bad_row=self.on_bad_row)

    def cache_folder(self, root: Path) -> Path:
        """Where the Parquet cache is."""
        return cache_folder(root, self.cache)

    def random_rows(self, users: NDArray[np.int64], index: int) -> Split:
        """The random split, drawn by the index. **Shape:** users of the rows ``(n,)``."""
        return random_parts(len(users), index, self.shares, users if self.whole_users else None)


def draw_rows(n_rows: int, max_rows: int | None, seed: int) -> Rows | None:
    """At most ``max_rows`` row numbers, rising, drawn by the seed; None where all rows are wanted.

    >>> draw_rows(3, None, seed=0) is draw_rows(3, 5, seed=0) is None, len(draw_rows(100, 5, seed=0))
    (True, 5)
    """
    if max_rows is not None and max_rows < 1:
        raise UserError(f"max_rows must be at least 1, or None for all rows, but got max_rows={max_rows}")
    if max_rows is None or max_rows >= n_rows:
        return None
    return np.sort(np.random.default_rng(seed).choice(n_rows, max_rows, replace=False))


def date_parts(dates: NDArray[np.float64], last_dates: tuple[int, int]) -> Split:
    """Rows by date, as YYYYMMDD: training up to the first of the last dates, validation up to the second, then testing.

    Rows without a date (NaN) are in no part. **Shape:** ``(n,)``.

    >>> date_parts(np.array([20220408, 20220422, 20220429, np.nan]), (20220421, 20220428)).test.tolist()
    [2]
    """
    last_training, last_validation = last_dates
    if not last_training <= last_validation:
        raise UserError(f"last_dates must rise from training to validation, but got last_dates={last_dates}")
    in_training, in_test = dates <= last_training, dates > last_validation
    in_validation = (dates > last_training) & (dates <= last_validation)
    return Split(np.flatnonzero(in_training), np.flatnonzero(in_validation), np.flatnonzero(in_test))


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise UserError(f"{name} must be one of {', '.join(map(str, choices))}, but got {name}={value!r}")


def from_codes(codes: NDArray[Any], levels: Any) -> pd.Categorical:
    """A categorical in as few bytes as its levels allow."""
    kind = np.int8 if len(levels) < 2**7 else np.int16 if len(levels) < 2**15 else np.int32
    return pd.Categorical.from_codes(codes.astype(kind, copy=False), categories=pd.Index(levels), validate=False)


# Checks.


@dataclass(frozen=True)
class PublishedFile:
    """What is known of a file of a distribution; None stands for what is not."""

    names: tuple[str, ...]
    """Names under which the file is found; the first that exists is meant."""
    header: str | None = None
    n_rows: int | None = None
    n_bytes: int | None = None
    digest: tuple[str, str] | None = None
    """Algorithm and hexadecimal checksum."""
    is_needed: bool = True
    cure: str = CURE
    is_official: bool = True
    """Whether the owner says so; what only users report is worth a warning."""


def check_files(root: str | Path | None, name: str, obtain: str, files: Sequence[PublishedFile]) -> CheckReport:
    """Compare files below the root with what is published of them; the first shows where the distribution lies."""
    report = CheckReport()
    try:
        folder = data_root(root, name, obtain)
        first = need_below(folder, name, obtain, *files[0].names)
    except (OSError, ValueError) as error:
        report.errors.append(str(error))
        return report
    for known in files:
        path = next((first.parent / each for each in known.names if (first.parent / each).is_file()), None)
        path = path or find_below(folder, *known.names)
        if path is not None:
            complaints = report.errors if known.is_official else report.warnings
            complaints += _complaints(path, known)
        elif known.is_needed:
            shown = " or ".join(known.names)
            report.errors.append(f"{name} needs the file {shown}, but {folder} holds none. {obtain}")
    return report


def _complaints(path: Path, known: PublishedFile) -> list[str]:
    """What is wrong with a file, the cheapest checks first; a file of another kind is not read to its end."""
    try:
        refuse_stand_in(path)
        if known.header is not None:
            _check_first_line(path, known)
        size = path.stat().st_size
        if known.n_bytes is not None and size != known.n_bytes:
            return [f"{path} must have {known.n_bytes:,} bytes, but it has {size:,}; {known.cure}"]
        if known.digest is not None:
            kind, wanted = known.digest
            found = file_digest(path, kind)
            return [] if found == wanted else [f"{path} must have the {kind} {wanted}, but got {found}; {known.cure}"]
        if known.n_rows is not None:
            n_rows = count_lines(path) - (known.header is not None)
            wrong = f"{path} must have {known.n_rows:,} rows, but it has {n_rows:,}; {known.cure}"
            return [] if n_rows == known.n_rows else [wrong]
    except (OSError, ValueError) as error:
        return [str(error)]
    return []


def _check_first_line(path: Path, known: PublishedFile) -> None:
    with open_text(path) as (text, _):
        line = text.readline(2**16).rstrip(b"\r\n").decode("utf-8", errors="replace")
    if line != known.header:
        raise DataError(f"{path} must begin with the header {known.header}, but got {line[:200]!r}; {known.cure}")


def file_digest(path: Path, algorithm: str) -> str:
    """Hexadecimal checksum of a file."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file, _bar(path, algorithm) as bar:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            bar.update(len(block))
    return digest.hexdigest()


def count_lines(path: Path) -> int:
    """Number of lines of a text file, plain or gzipped; the last may lack its end."""
    n_lines, last = 0, b"\n"
    with open_text(path) as (text, raw), _bar(path, "count") as bar:
        while block := text.read(BLOCK_BYTES):
            n_lines += block.count(b"\n")
            last = block[-1:]
            bar.update(raw.tell() - bar.n)
    return n_lines + (last != b"\n")


def _bar(path: Path, purpose: str) -> tqdm:
    total = path.stat().st_size
    return tqdm(total=total, unit="B", unit_scale=True, desc=f"{purpose} {path.name}", delay=2, disable=None)
