"""How much each column moves a model's answer, as far as a handful of rows tell: for people who fill in a form."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffor.encoders.tabular.inputs import CategoryColumn, NumericColumn
from diffor.errors import UserError
from diffor.serving.server.columns import Columns, example_of
from diffor.serving.server.rows import check_rows

MAX_COLUMNS = 500
MAX_LEVELS = 4
"""Levels of a category that are tried beside the typical one."""
QUARTILE = 0.6745
"""Distance of a quartile from the centre, in spreads."""


def influences(model: Any, columns: Columns) -> dict[str, float]:
    """How far the mean answer to a typical row moves when one column changes, as a share of the farthest.

    Numbers go to their quartiles, categories to their first levels. It is no measure of importance: columns that act
    together, or far from typical rows, are not seen. Empty where the model cannot answer such rows, or has very many
    columns.
    """
    typical = {column["name"]: example_of(column) for column in columns.to_json()}
    changed = [(str(one.name), value) for one in columns.features[:MAX_COLUMNS] for value in _others(one)]
    if not changed or len(columns.features) > MAX_COLUMNS:
        return {}
    rows = [typical, *({**typical, name: value} for name, value in changed)]
    try:
        checked = check_rows(rows, columns, len(rows))
        means = np.asarray(model.predict_distribution(checked.table, **checked.side).mean, dtype=np.float64)
    except UserError:
        return {}
    found = dict.fromkeys(columns.feature_names, 0.0)
    for (name, _), mean in zip(changed, means[1:].tolist(), strict=True):
        found[name] = max(found[name], abs(mean - float(means[0])))
    largest = max(found.values())
    return {name: move / largest for name, move in found.items()} if largest > 0 else {}


def _others(column: NumericColumn | CategoryColumn) -> list[float | str]:
    """Values of a column beside its typical one."""
    if isinstance(column, CategoryColumn):
        return list((column.levels or [])[1 : 1 + MAX_LEVELS])
    if column.spread == 0:
        return []
    low, high = column.range
    step = QUARTILE * column.spread
    return [max(low, column.centre - step), min(high, column.centre + step)]
