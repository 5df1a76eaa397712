"""What a model reads of a row: its columns by name, their kinds, and what training rows had in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from diffor.encoders.tabular.inputs import CategoryColumn, NumericColumn
from diffor.methods import METHODS

MAX_LEVELS = 1000
"""Levels of a category that are told to clients."""


@dataclass(frozen=True)
class SideColumn:
    """A column that the model reads beside the features; ``role`` is its own name for it."""

    name: str
    role: str
    is_required: bool


@dataclass(frozen=True)
class Columns:
    """The columns of a row: features in the fitted order, and what the method reads beside them."""

    features: tuple[NumericColumn | CategoryColumn, ...]
    sides: tuple[SideColumn, ...] = ()

    @cached_property
    def required(self) -> list[str]:
        """Names of the columns that a row must have, each once."""
        sides = [side.name for side in self.sides if side.is_required]
        return list(dict.fromkeys([*self.feature_names, *sides]))

    @cached_property
    def feature_names(self) -> list[str]:
        """Names of the features, in the fitted order."""
        return [str(column.name) for column in self.features]

    @cached_property
    def known(self) -> dict[str, None]:
        """Names of all columns that a row may have, each once, quick to look up."""
        return dict.fromkeys([*self.feature_names, *(side.name for side in self.sides)])

    def to_json(self) -> list[dict[str, Any]]:
        """The columns as clients see them, features first."""
        told = [_describe(column) for column in self.features]
        roles = {side.name: side for side in self.sides}
        for entry in told:
            entry["role"] = roles.pop(entry["name"]).role if entry["name"] in roles else "feature"
        return told + [
            {"name": side.name, "kind": "number", "role": side.role, "required": side.is_required, "range": None,
             "centre": None}
            for side in roles.values()
        ]  # fmt: skip


def columns_of(model: Any, remembered: Mapping[str, str] | None = None) -> Columns:
    """The columns of a fitted model.

    ``remembered`` names the column of each side that was fitted with; without it, columns are called as the method
    calls them, and those that it can do without are optional.
    """
    method = METHODS[model.settings_.method]
    if remembered is None:
        sides = [SideColumn(role, role, True) for role in method.requires]
        sides += [SideColumn(role, role, False) for role in method.accepts]
        sides += [SideColumn("upper", "upper", True)] if model.learns_share else []
    else:
        sides = [SideColumn(name, role, True) for role, name in remembered.items()]
    features = model.inputs_.columns
    if model.images_ is not None and model.images_.frozen is not None:
        features = features[model.images_.frozen.out_features :]  # the others are the network's own
    return Columns(tuple(features), tuple(sides))


def _describe(column: NumericColumn | CategoryColumn) -> dict[str, Any]:
    told: dict[str, Any] = {"name": str(column.name), "kind": column.kind, "required": True}
    if isinstance(column, NumericColumn):
        return told | {"range": list(column.range), "centre": column.centre, "may_miss": column.has_missing}
    levels = column.levels
    if levels is None:
        return told | {"levels": None, "n_levels": None}
    return told | {"levels": levels[:MAX_LEVELS], "n_levels": len(levels)}


def spell(value: str | float) -> str:
    """A level as the fitted column knows it: whole numbers have no point.

    >>> spell(2.0), spell("2.0")
    ('2', '2.0')
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def example_of(column: dict[str, Any]) -> Any:
    """A typical value of a column."""
    if column["kind"] == "number":
        return 1.0 if column["centre"] is None else column["centre"]
    return column["levels"][0] if column["levels"] else "text"
