"""Atomic writes: a file appears whole or not at all, and an old one stays until the new one is there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diffor.errors import UserError


class DataError(UserError):
    """A file cannot be used; the message says why and what to do."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to; at the end it takes the other's place in one step, after an error it goes."""
    path = path.resolve()  # a link stays a link
    temporary = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=path.suffix)
        os.close(handle)
        temporary = Path(name)
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        yield temporary
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())  # else a power failure could leave the name and lose the content
        os.replace(temporary, path)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}; make room or choose another") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file, in a folder that is made if need be, in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _umask() -> int:
    """Permissions that the user's new files lack; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
