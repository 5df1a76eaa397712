"""TOML files, read by Python's own reader or, before Python 3.11, by that of tomli."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def read_toml(path: Path, what: str, error: type[ValueError], parse_float: Callable[[str], Any] = float) -> Any:
    """The content of a file; what is wrong with it is raised as ``error``, whose message begins with ``what``."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as reason:
        shown = getattr(reason, "strerror", None) or reason
        raise error(f"{what} must be readable, but got {path}: {shown}; check the path") from reason
    try:
        toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    except ImportError as reason:
        raise error(f'{what} needs tomli on Python 3.10: pip install "diffor[bench]"') from reason
    try:
        return toml.loads(text, parse_float=parse_float)
    except toml.TOMLDecodeError as reason:
        raise error(f"{what} must be TOML, but got {path}: {reason}; correct this line") from reason
