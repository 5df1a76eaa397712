"""The bytes of a CSV file on their way to its reader, which would take a NUL byte for the end of a number."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diffor.files.atomic import DataError

OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""What opens compressed files, by their suffixes; those of other archives are pandas's own affair."""
ARCHIVES = (".zip", ".zst", ".tar")


class _WithoutNul(io.RawIOBase):
    """Bytes of a file as long as none is NUL."""

    def __init__(self, file: Any, path: Path) -> None:
        super().__init__()
        self.file, self.path, self.n_read = file, path, 0

    def readable(self) -> bool:
        """Whether bytes can be read: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or refuse what would."""
        data = self.file.read(len(buffer))
        place = data.find(b"\0")
        if place >= 0:
            raise DataError(
                f"{self.path} must be text in UTF-8, but byte {self.n_read + place + 1} is NUL; convert the file to "
                "UTF-8 if it is in UTF-16, or replace it"
            )
        buffer[: len(data)] = data
        self.n_read += len(data)
        return len(data)


@contextmanager
def csv_bytes(path: Path) -> Iterator[Any]:
    """What a reader of CSV is to read: the file without a NUL byte, or a path where only pandas can open it."""
    if path.suffixes and any(suffix in ARCHIVES for suffix in path.suffixes):
        yield path
        return
    with OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
        yield io.BufferedReader(_WithoutNul(file, path), 2**18)
