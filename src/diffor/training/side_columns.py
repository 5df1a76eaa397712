"""Side columns: what some methods need of each row beside its features, such as the duration of a video.

Most stand on the target's scale and are asked for in predictions too. What a method only learns from, such as the votes
that a mean score is the mean of, may hold several numbers of each row, is handed on as it is, and stays out of
predictions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diffor.core.method import Method
from diffor.core.target import GradeScale, TargetScale
from diffor.errors import UserError, UserTypeError
from diffor.methods import METHODS

Array = NDArray[Any]


def separate_sides(side: dict[str, Any], has_validation: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Side columns of training and of validation rows, which end in ``_val``.

    >>> separate_sides({"duration": [1], "duration_val": [2]}, has_validation=True)
    ({'duration': [1]}, {'duration': [2]})
    """
    of_validation = {name[:-4]: column for name, column in side.items() if name.endswith("_val")}
    if of_validation and not has_validation:
        first = next(iter(of_validation))
        raise UserError(f"{first}_val belongs to X_val and y_val, but these are not given; pass them too")
    return {name: column for name, column in side.items() if not name.endswith("_val")}, of_validation


def check_validation_sides(method: type[Method], of_training: dict[str, Any], of_validation: dict[str, Any]) -> None:
    """Refuse validation rows that lack a side column of the training rows, or have one that these lack."""
    for name in (*method.requires, *method.accepts):
        is_given, is_given_val = of_training.get(name) is not None, of_validation.get(name) is not None
        if is_given == is_given_val:
            continue
        there, absent, rows = (name, f"{name}_val", "X_val") if is_given else (f"{name}_val", name, "X")
        raise UserError(
            "side columns must come with training and with validation rows, but "
            f"{there} is given and {absent} is not; pass {absent}=..., one number for each row of {rows}"
        )


def check_side(column: str, values: Any, n_rows: int, method: type[Method], name: str) -> Array:
    """A side column as finite numbers, one for each row. **Shape:** ``(n_rows,)``."""
    known = (*method.requires, *method.accepts, *method.learns_from)
    if column not in known:
        uses = f"it uses {', '.join(known)}" if known else "it uses none"
        raise UserTypeError(f"method {name!r} must be given side columns that it uses, but got {column!r}; {uses}")
    try:
        numbers = np.asarray(values, dtype=np.float64)
        numbers = numbers if column in method.learns_from and numbers.ndim == 2 else numbers.ravel()
    except (TypeError, ValueError) as error:
        raise UserError(f"{column} must hold numbers, but {error}") from error
    if len(numbers) != n_rows:
        raise UserError(f"{column} must have one value per row, {n_rows}, but got {len(numbers)}")
    if not np.isfinite(numbers).all():
        row = int(np.argwhere(~np.isfinite(numbers))[0, 0])
        raise UserError(f"{column} must be finite, but row {row} has {numbers[row]}; remove or fill such rows")
    if column == "duration" and (numbers < 0).any():
        row = int(np.flatnonzero(numbers < 0)[0])
        raise UserError(f"duration must not be negative, but row {row} has {numbers[row]}; remove or correct such rows")
    return numbers


def read_sides(side: dict[str, Any], n_rows: int, name: str, *, learning: bool = True) -> dict[str, Array]:
    """The side columns that the method of this name needs or can use, as numbers.

    With ``learning=False`` those that it only learns from are left out.

    **Shape:** each ``(n_rows,)``, or ``(n_rows, k)`` where the method learns from several numbers.
    """
    method = METHODS[name]
    missing = [column for column in method.requires if side.get(column) is None]
    if missing:
        raise UserError(
            f"method {name!r} needs the column {missing[0]!r}, but it is not given; "
            f"pass {missing[0]}=... beside X, in fit and in predict"
        )
    left_out = () if learning else method.learns_from
    given = {column: values for column, values in side.items() if values is not None and column not in left_out}
    return {column: check_side(column, values, n_rows, method, name) for column, values in given.items()}


def side_tensors(
    side: dict[str, Array], scale: TargetScale | GradeScale, as_given: tuple[str, ...] = ()
) -> dict[str, torch.Tensor]:
    """Side columns mapped as the targets are, but not cut off at the bounds; those of ``as_given`` as they are.

    **Shape:** each ``(n,)``, kept.
    """
    width = max(scale.high - scale.low, np.finfo(np.float64).tiny)
    tensors = {}
    for name, column in side.items():
        if name in as_given:
            tensors[name] = torch.from_numpy(column.astype(np.float32))
            continue
        unit = (column - scale.low) / width
        if getattr(scale, "transform", "uniform") != "uniform":
            beyond = np.where(column > scale.high, unit - 1, np.where(column < scale.low, unit, 0))
            unit = scale.to_unit(column) + beyond
        tensors[name] = torch.from_numpy(unit.astype(np.float32))
    return tensors
