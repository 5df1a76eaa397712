"""Files of large tables compared with what is published of them: header, size, checksum, number of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diffor.datasets.readers.data_files import CURE
from diffor.datasets.readers.reading import CheckReport, Place, data_root, refuse_stand_in
from diffor.datasets.readers.text_tables import BLOCK_BYTES, HEADER_BYTES, check_header, open_text, progress_bar


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


def check_files(
    root: str | Path | None,
    name: str,
    obtain: str,
    files: Sequence[PublishedFile],
    *,
    read_all: bool = True,
    shown_by: Sequence[str] = (),
) -> CheckReport:
    """Compare files below the root with what is published of them.

    The first file, or one of the names of ``shown_by``, shows where the distribution lies. Rows are counted and
    checksums taken only with ``read_all``.
    """
    try:
        place = Place(data_root(root, name, obtain), name, obtain)
        first = place.need(*(shown_by or files[0].names))
    except (OSError, ValueError) as error:
        return CheckReport.of(error)
    report = CheckReport()
    for known in files:
        path = next((first.parent / each for each in known.names if (first.parent / each).is_file()), None)
        path = path or place.find(*known.names)
        if path is not None:
            report.add(complaint_about(path, known, read_all), known.is_official)
        elif known.is_needed:
            report.add(f"{name} needs the file {' or '.join(known.names)}, but {place.root} holds none. {obtain}")
    return report


def complaint_about(path: Path, known: PublishedFile, read_all: bool = True) -> str | None:
    """What is wrong with a file, the cheapest checks first; a file of another kind is not read to its end."""
    try:
        refuse_stand_in(path)
        if known.header is not None:
            with open_text(path) as (text, _):
                check_header(text.readline(HEADER_BYTES), path, known.header, known.cure)
        size = path.stat().st_size
        if known.n_bytes is not None and size != known.n_bytes:
            return f"{path} must have {known.n_bytes:,} bytes, but it has {size:,}; {known.cure}"
        if known.digest is not None and read_all:
            return _digest_complaint(path, known.digest, known.cure)
        if known.n_rows is not None and read_all:
            n_rows = _count_lines(path) - (known.header is not None)
            if n_rows != known.n_rows:
                return f"{path} must have {known.n_rows:,} rows, but it has {n_rows:,}; {known.cure}"
    except (OSError, ValueError) as error:
        return str(error)
    return None


def _digest_complaint(path: Path, digest: tuple[str, str], cure: str) -> str | None:
    """What to say of a file whose checksum is not that of an algorithm and a hexadecimal value."""
    algorithm, wanted = digest
    found = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file, progress_bar(path.stat().st_size, "B", f"{algorithm} {path.name}") as bar:
        while block := file.read(BLOCK_BYTES):
            found.update(block)
            bar.update(len(block))
    if found.hexdigest() == wanted:
        return None
    return f"{path} must have the {algorithm} {wanted}, but got {found.hexdigest()}; {cure}"


def _count_lines(path: Path) -> int:
    """Number of lines of a text file, plain or gzipped; the last may lack its end."""
    n_lines, last = 0, b"\n"
    with open_text(path) as (text, raw), progress_bar(path.stat().st_size, "B", f"count {path.name}") as bar:
        while block := text.read(BLOCK_BYTES):
            n_lines += block.count(b"\n")
            last = block[-1:]
            bar.update(raw.tell() - bar.n)
    return n_lines + (last != b"\n")
