"""The target column of a table: whether it holds amounts or grades, which grades, and its values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffor.cli.model_folder import is_classifier
from diffor.errors import UserError
from diffor.files import tables

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


def find_grades(column: pd.Series[Any], listed: Sequence[str] | None, classify: bool) -> list[Any] | None:
    """The grades from lowest to highest, or None where the target is an amount.

    ``listed`` are the grades that the user names; ``classify`` says that the column's own numbers are grades.
    """
    import pandas as pd

    if _is_amount(column):
        if listed is not None:
            return _as_numeric_grades(listed, column)
        return _whole_grades(column) if classify else None
    if listed is not None:
        return list(listed)
    if isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.ordered:
        return [str(level) for level in column.cat.categories]
    if classify and pd.api.types.is_bool_dtype(column.dtype):
        return ["False", "True"]
    found = [str(value) for value in column.dropna().unique()[:5]]
    raise UserError(
        f"target {column.name!r} must hold numbers unless its grades are listed, but it holds "
        f"{', '.join(map(repr, found))}; pass --grades with all of them, lowest first"
    )


def target_values(column: pd.Series[Any], grades: Sequence[Any] | None, data: Path) -> NDArray[Any]:
    """The targets as numbers, or as text where the grades are; all must be known. **Shape:** ``(n,)``."""
    missing = column.isna().to_numpy().nonzero()[0]
    if len(missing):
        raise UserError(
            f"target {column.name!r} must be known in every row of {data}, but {len(missing)} of {len(column)} "
            f"rows have none, the first is row {missing[0] + 1}; remove these rows"
        )
    if grades is None or not isinstance(grades[0], str):
        tables.check_numbers(column, data)
        return column.to_numpy(dtype="float64")
    return column.astype(object).map(str).to_numpy(dtype=object)


def _is_amount(column: pd.Series[Any]) -> bool:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype):
        return not pd.api.types.is_bool_dtype(column.dtype)
    return column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in ("decimal", "integer")


def _as_numeric_grades(grades: Sequence[str], column: pd.Series[Any]) -> list[Any]:
    try:
        numbers = [float(grade) for grade in grades]
    except ValueError:
        raise UserError(
            f"--grades must be numbers as target {column.name!r} holds them, but got {','.join(grades)}; list the "
            "numbers, lowest first"
        ) from None
    return [int(number) for number in numbers] if all(number.is_integer() for number in numbers) else numbers


def _whole_grades(column: pd.Series[Any]) -> list[Any]:
    values = column.dropna().astype("float64")
    fractions = values[values % 1 != 0]
    if len(fractions):
        raise UserError(
            f"--classify needs whole numbers in target {column.name!r}, but got {fractions.iloc[0]}; "
            "list the grades with --grades, or leave --classify out to predict an amount"
        )
    return [int(value) for value in sorted(values.unique())]


def true_targets(model: Any, target: str, data: Path) -> NDArray[Any]:
    """The true values of a model's target, as numbers or as places of its grades. **Shape:** ``(n,)``."""
    import pandas as pd

    grades = model.grades_ if is_classifier(model) else None
    spelled = grades is not None and grades.dtype.kind in "OU"
    table = tables.read_table(data, [target], [target] if spelled else [])
    listed = None if grades is None else grades.tolist()
    values = target_values(table[target], listed, data)
    if grades is None:
        return values
    places: NDArray[Any] = pd.Index(grades).get_indexer(pd.Index(values))
    wrong = (places < 0).nonzero()[0]
    if len(wrong):
        raise UserError(
            f"target {target!r} must hold the model's grades {', '.join(map(str, listed or []))}, but "
            f"{len(wrong)} of {len(values)} rows do not, the first is row {wrong[0] + 1} with {values[wrong[0]]!r}; "
            "remove or correct these rows"
        )
    return places
