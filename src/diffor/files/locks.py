"""Locks: what only one process at a time may do. The system forgets those of a process that dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diffor.files.atomic import DataError, writing


@contextmanager
def alone(lock: Path, busy: str | None) -> Iterator[None]:
    """Hold a file's lock; if another has it, refuse in the words ``busy``, or wait where there are none.

    Where files cannot be locked, nobody is kept out.
    """
    with writing(lock):
        file = lock.open("ab")
    with file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX if busy is None else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(str(busy)) from None
        except (ImportError, OSError):
            pass
        yield
