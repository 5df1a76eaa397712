"""Reading files of strangers: ordinary ones only, of bounded size, inside their folder; strict JSON."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

from diffor.files.atomic import DataError

MOST_JSON = 256 * 2**20
"""Bytes of a JSON file at most: tables with 10,000 levels in each of hundreds of columns have fewer."""
MOST_DEPTH = 32
MIB = 2**20


def read_guarded(path: Path, most_bytes: int, root: Path | None = None) -> bytes:
    """The content of an ordinary file; whatever else has its name is refused before it is opened.

    ``most_bytes`` is the largest size; ``root``, where given, is the folder that links must not lead out of.
    """
    try:
        place = path.resolve(strict=True)
        if root is not None and not place.is_relative_to(root.resolve()):
            raise DataError(
                f"{path} is a link that leads out of its folder, to {place}; put the file itself there if you trust it"
            )
        found = os.stat(place)
        if not stat.S_ISREG(found.st_mode):
            raise DataError(f"{path} must be an ordinary file, but it is {_kind_of(found.st_mode)}; remove it")
        # Another may have taken its place by now: a pipe would be waited for, so what was opened is looked at again.
        handle = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_size > most_bytes:
                raise DataError(
                    f"{path} must be an ordinary file of at most {most_bytes / MIB:.0f} MiB, but it has "
                    f"{found.st_size / MIB:.0f} MiB; it is not what was saved, or this machine is too small for it"
                )
            return file.read(found.st_size)
    except (RuntimeError, OSError) as error:  # links that go round in circles
        reason = getattr(error, "strerror", None) or "its links go round in circles"
        raise DataError(f"{path} cannot be read ({reason}); the folder is incomplete") from error
    except MemoryError as error:
        raise DataError(f"{path} does not fit into the memory that is left; close other programs") from error


def read_json(content: bytes) -> Any:
    """Strict JSON: no name twice, no NaN or Infinity, at most ``MOST_DEPTH`` deep; a ValueError says what is wrong.

    >>> read_json(b'{"a": [1, null]}')
    {'a': [1, None]}
    >>> read_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the name 'a' stands twice
    """
    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=_once_each, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError(f"it is nested more than {MOST_DEPTH} deep") from error
    layer = [value]
    for _ in range(MOST_DEPTH):
        layer = [
            entry
            for part in layer
            if isinstance(part, (dict, list))
            for entry in (part.values() if isinstance(part, dict) else part)
            if isinstance(entry, (dict, list))
        ]
        if not layer:
            return value
    raise ValueError(f"it is nested more than {MOST_DEPTH} deep")


def read_json_file(path: Path, root: Path | None = None) -> Any:
    """The strict JSON of an ordinary file."""
    content = read_guarded(path, MOST_JSON, root)
    try:
        return read_json(content)
    except ValueError as error:
        raise DataError(f"{path} is damaged ({error}); restore it") from error


def root_of(folder: Path) -> Path:
    """The folder that files must lie in: of a snapshot in the hub's cache, which links to files beside it, the cache's.

    >>> root_of(Path("/cache/models--me--it/snapshots/0a1b")).name, root_of(Path("/models/it")).name
    ('models--me--it', 'it')
    """
    place = folder.resolve()
    is_cached = place.parent.name == "snapshots" and place.parent.parent.name.startswith("models--")
    return place.parent.parent if is_cached else place


def physical_memory() -> int:
    """Bytes of memory that this machine has.

    >>> physical_memory() > 2**20
    True
    """
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not told here
        return 2**40


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)[:80]!r} stands twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _kind_of(mode: int) -> str:
    kinds = {
        "a folder": stat.S_ISDIR, "a pipe": stat.S_ISFIFO, "a socket": stat.S_ISSOCK, "a device": stat.S_ISCHR,
    }  # fmt: skip
    return next((name for name, is_kind in kinds.items() if is_kind(mode)), "a device")
