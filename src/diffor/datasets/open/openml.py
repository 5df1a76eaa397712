"""Any table of OpenML by its number, ``openml:537``: fetched by scikit-learn, kept in its cache, read from there after.

The cache is ``<root>/openml`` where a root is given, else scikit-learn's own (``SCIKIT_LEARN_DATA``, or the folder
``scikit_learn_data`` of the user).
"""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.datasets.open.packages import VALUE_METRICS, typed
from diffor.datasets.samples import Dataset, Samples, split_read
from diffor.errors import UserError

PREFIX = "openml:"


def openml_id(name: str) -> int:
    """The number that a name holds.

    >>> openml_id("openml:537")
    537
    """
    number = name.removeprefix(PREFIX)
    if not number.isdecimal() or not int(number):
        raise UserError(f"a table of OpenML must be named by its number, as openml:537 is, but got {name!r}")
    return int(number)


def read_openml(root: str | Path | None, name: str, target: str | None = None) -> Samples:
    """Read a table: ``target`` is the column to predict, the one that OpenML names if None.

    Columns that OpenML calls row numbers or to be ignored are out; words are categories; rows without a target are
    dropped.
    """
    fetched = _fetch(root, name)
    table: pd.DataFrame = fetched.data
    column = _target_column(list(table.columns), fetched.details.get("default_target_attribute"), name, target)
    y = _targets(table[column], name)
    known = np.isfinite(y)
    return Samples(typed(table[known].drop(columns=column)), y[known])


def _fetch(root: str | Path | None, name: str) -> Any:
    from sklearn.datasets import fetch_openml, get_data_home

    home = None if root is None else str(root)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A network error occurred")  # it tries again, and the end is told below
            # The target is taken from the columns here: scikit-learn refuses one that is missing in some rows.
            return fetch_openml(
                data_id=openml_id(name), data_home=home, target_column=None, as_frame=True, parser="auto"
            )
    except OSError as error:
        raise OSError(
            f"{name} must come from openml.org or lie in the cache {Path(get_data_home(home)) / 'openml'}, "
            f"but {getattr(error, 'reason', error)}; connect this machine once, or copy that folder from one that "
            "has read the table"
        ) from error
    except (ValueError, KeyError) as error:
        raise UserError(f"{name} must be a table that scikit-learn can read, but {error}; check it at "
                         f"openml.org/d/{openml_id(name)}") from error  # fmt: skip


def _target_column(columns: list[str], default: str | None, name: str, target: str | None) -> str:
    chosen = default if target is None else target
    if chosen in columns:
        return chosen
    given = f"OpenML names {default or 'none'}" if target is None else f"target={target!r}"
    shown = ", ".join(columns[:10]) + (" ..." if len(columns) > 10 else "")
    raise UserError(f"{name} must have one target, but got {given}; pass target=, one of {shown}")


def _targets(column: pd.Series, name: str) -> NDArray[np.float64]:
    words = column.astype(str) if isinstance(column.dtype, pd.CategoricalDtype) else column
    numbers = np.asarray(pd.to_numeric(words, errors="coerce"), dtype=np.float64)
    strange = column[np.isnan(numbers) & column.notna().to_numpy()]
    if len(strange):
        raise UserError(f"the target of {name} must be numbers, but {column.name} holds {strange.iloc[0]!r}; "
                         "pass target= with a column of numbers")  # fmt: skip
    return numbers


def openml_dataset(name: str) -> Dataset:
    """The data set of a name such as ``openml:537``; nothing is fetched yet.

    >>> openml_dataset("openml:537").source
    'openml.org/d/537'
    """
    read = partial(read_openml, name=name)
    return Dataset(
        name=name,
        description=f"table {openml_id(name)} of OpenML",
        source=f"openml.org/d/{openml_id(name)}",
        metrics=VALUE_METRICS,
        read=read,
        split=partial(split_read, read=read),
    )
