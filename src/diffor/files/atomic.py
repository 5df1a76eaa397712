"""Atomic writes: a file or folder appears whole or not at all, and an old one stays until the new one is there.

Every writer of the package comes here. What a killed process left half done is removed by the next one that writes
into the same folder (:mod:`diffor.files.claims`).
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diffor.errors import UserError
from diffor.files.claims import FRESH, OLD, claimed, remove_leftovers


class DataError(UserError):
    """A file cannot be used; the message says why and what to do."""


@contextmanager
def replacing(path: Path, tidy: bool = True) -> Iterator[Path]:
    """A path beside ``path`` to write to; at the end it takes the other's place in one step, after an error it goes.

    ``tidy`` says whether the folder is searched for what dead processes left there; whoever writes thousands of files
    into one does that once, by himself.
    """
    path = Path(os.path.realpath(path))  # a link stays a link
    with writing(path):
        if tidy:
            remove_leftovers(path.parent)
        with claimed(path) as temporary:
            yield temporary
            with temporary.open("r+b") as file:
                os.fsync(file.fileno())  # else a power failure could leave the name and lose the content
            if path.exists():
                temporary.chmod(path.stat().st_mode & 0o777)
            os.replace(temporary, path)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file, in a folder that is made if need be, in one step."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def replacing_folder(folder: Path, overwrite: bool = True) -> Iterator[Path]:
    """A fresh folder to write to; at the end it takes the place of ``folder``, which is never absent in between.

    Without ``overwrite`` there must be none, even if another process makes it meanwhile.

    Where the system cannot exchange two names, the old folder goes away a moment before the new one comes. A process
    that dies in that moment leaves it beside, from where :func:`diffor.files.claims.remove_leftovers` puts it back.
    """
    folder = Path(os.path.realpath(folder))
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder.parent)
        with claimed(folder, os.fsencode(folder.name)) as claim:
            fresh, old = (claim.with_name(claim.name + ending) for ending in (FRESH, OLD))
            fresh.mkdir()
            yield fresh
            if not overwrite or not folder.exists():
                os.rename(fresh, folder)
                return
            shutil.copymode(folder, fresh)
            if not _exchange(fresh, folder):
                os.rename(folder, old)
                os.rename(fresh, folder)  # if this fails, the end of the claim puts the old one back


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say of a file or folder that cannot be written why not, in one line."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}; make room or choose another") from error


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change names in one step; False where this system, or this file system, cannot."""
    if _renameat2 is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of <fcntl.h> and <linux/fs.h>
    return bool(_renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def _find_renameat2() -> Any:
    try:
        return ctypes.CDLL(None).renameat2
    except (OSError, TypeError, AttributeError):  # not Linux, or a library without it
        return None


_renameat2 = _find_renameat2()
