"""Hidden files on the way to their names: whose they are while their process lives, and removed once it is dead.

The owner of a hidden file holds its lock. The system gives back the locks of a process that dies, however it does, so
whoever can take the lock of a hidden file knows that nobody will finish it. Where files cannot be locked nothing is
removed.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MARK = ".diffor-"
"""Part of each hidden name, by which nobody else's file is taken for one of ours."""
FRESH, OLD = "-fresh", "-old"
"""What is added to a claim's name for the folder that is being made, and for the one that it replaces."""
LONGEST = 180
"""Bytes of a name that its hidden file repeats: the system allows 255 in all."""
MOMENTS, MOMENT = 500, 0.01
"""How often, and after how many seconds, a folder that another process is replacing is looked for."""
_CLAIM = re.compile(rf"\..*{re.escape(MARK)}[0-9a-f]{{8}}(\.[^.]*)?", re.DOTALL)


@contextmanager
def claimed(path: Path, content: bytes = b"") -> Iterator[Path]:
    """A new hidden file beside ``path``, this process's own while the block runs, after which it is gone.

    Where it stands for a folder its ``content`` is the folder's name.
    """
    claim, handle = _new_claim(path)
    try:
        if content:
            claim.write_bytes(content)
        yield claim
    finally:
        try:
            _clear(claim, content)
        finally:
            if handle is not None:
                os.close(handle)


@contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """A private folder where the system keeps what is temporary; those of dead processes go first."""
    place = Path(tempfile.gettempdir(), name)
    remove_leftovers(place.parent)
    with claimed(place) as claim:
        fresh = claim.with_name(claim.name + FRESH)
        fresh.mkdir(mode=0o700)
        yield fresh


def remove_leftovers(folder: Path) -> None:
    """Remove what processes that are dead left in a folder, after a half-done exchange has been undone."""
    with suppress(OSError), os.scandir(folder) as entries:
        found = [Path(entry.path) for entry in entries if _is_claim(entry)]
        for claim in found:
            with suppress(OSError):
                _remove_if_dead(claim)


def wait_for(folder: Path) -> None:
    """Let a folder that is being replaced come to its place, or put it there if the process that did so is dead."""
    for _ in range(MOMENTS):
        if folder.exists() or not _is_beside(folder):
            return
        remove_leftovers(Path(os.path.realpath(folder)).parent)
        time.sleep(MOMENT)


def _is_beside(folder: Path) -> bool:
    """Whether a folder has left its place for another, which is not there yet."""
    with suppress(OSError, ValueError):  # as names with a zero byte give, which nothing has
        place = Path(os.path.realpath(folder))
        start = _start_of(place)
        with os.scandir(place.parent) as entries:
            return any(each.name.startswith(start) and each.name.endswith(OLD) and each.is_dir() for each in entries)
    return False


def _is_claim(entry: os.DirEntry[str]) -> bool:
    return _CLAIM.fullmatch(entry.name) is not None and entry.is_file(follow_symlinks=False)


def _start_of(path: Path) -> str:
    stem = os.fsencode(path.stem)[:LONGEST].decode("utf-8", "ignore")
    return f".{stem}{MARK}"


def _new_claim(path: Path) -> tuple[Path, int | None]:
    """A new file, with the permissions of the user's new files, and what holds its lock, if it can be locked."""
    while True:
        claim = path.with_name(f"{_start_of(path)}{secrets.token_hex(4)}{path.suffix[:10]}")
        handle = os.open(claim, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        if _lock(handle, wait=True) and os.fstat(handle).st_nlink:
            return claim, handle
        os.close(handle)
        if claim.exists():
            return claim, None
        # Between its making and its lock, another process took it for one of the dead's.


def _lock(handle: int, wait: bool) -> bool:
    """Take the lock of an open file; False where another has it, or nobody can."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def _remove_if_dead(claim: Path) -> None:
    handle = os.open(claim, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        if _lock(handle, wait=False) and os.fstat(handle).st_nlink:
            _clear(claim, os.read(handle, 256))
    finally:
        os.close(handle)


def _clear(claim: Path, name: bytes) -> None:
    """Remove a claim and its folders; the old folder of a half-done exchange goes back to its place."""
    fresh, old = (claim.with_name(claim.name + ending) for ending in (FRESH, OLD))
    if old.is_dir():
        place = os.path.join(os.fsencode(claim.parent), os.path.basename(name))
        if not os.path.lexists(place):
            os.rename(old, place)
    for folder in (fresh, old):
        if folder.is_dir():
            shutil.rmtree(folder, ignore_errors=True)
    if not fresh.is_dir() and not old.is_dir():
        claim.unlink(missing_ok=True)
