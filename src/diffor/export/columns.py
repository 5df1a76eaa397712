"""Raw columns to what networks read, inside the program: scaling and levels of categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from diffor.encoders import TabularInputs
from diffor.encoders.tabular.inputs import (
    FAR,
    FIRST_LEVEL,
    MISSING,
    SMOOTH_CLIP,
    UNKNOWN,
    CategoryColumn,
    NumericColumn,
)
from diffor.export.graph import DOUBLE, FLOAT, LEARNING, TEXT, TRUTH, WHOLE, ExportError, Graph, Value

NUMBERS, CATEGORIES = "numbers", "categories"
"""Names of the program's inputs: numbers, missing ones NaN, and texts."""


@dataclass(frozen=True)
class RawColumns:
    """The columns that the program reads, in its order; what was constant in training is not read."""

    numbers: list[NumericColumn]
    """All numbers; those that a frozen network of images gives come first."""
    from_images: list[int]
    """Places, among the features of a frozen network of images, of the first numbers."""
    categories: list[CategoryColumn]
    missing: str
    """The text that stands for a missing category: empty, unless that is a level."""

    @classmethod
    def of(cls, inputs: TabularInputs, n_features: int = 0) -> RawColumns:
        """The columns of fitted inputs, the first of which may be features of images.

        Columns that keep no list of their levels are refused.
        """
        numbers, from_images = [], []
        for place, one in enumerate(inputs.columns):
            if isinstance(one, NumericColumn) and not one.is_constant:
                numbers.append(one)
                from_images += [place] if place < n_features else []
        categories = [one for one in inputs.columns if isinstance(one, CategoryColumn)]
        for column in categories:
            if column.levels is None:
                raise ExportError(
                    f"columns must keep a list of their levels to be exported, but {column.name!r} has so many "
                    "that they are hashed; group rare levels, or turn them into numbers, and fit again"
                )
        levels = {level for column in categories for level in column.levels or ()}
        missing = ""
        while missing in levels:
            missing += "<missing>"
        return cls(numbers, from_images, categories, missing)

    @property
    def passed(self) -> list[NumericColumn]:
        """The numbers that the caller passes."""
        return self.numbers[len(self.from_images) :]

    def to_json(self) -> dict[str, Any]:
        """Names and levels, for those who fill the inputs."""
        return {
            NUMBERS: [column.to_json()["name"] for column in self.passed],
            CATEGORIES: [{"name": column.to_json()["name"], "levels": column.levels} for column in self.categories],
            "missing_category": self.missing,
        }


@dataclass(frozen=True)
class TableRows:
    """What networks and priors read of a table: scaled numbers, and the code of each category."""

    graph: Graph
    numbers: Value
    """**Shape:** ``(n, n_numbers)`` float32."""
    codes: list[Value]
    """**Shape:** each ``(n,)`` int64."""
    n_numbers: int
    category_sizes: list[int]


def read_columns(graph: Graph, inputs: TabularInputs, columns: RawColumns, features: Value | None) -> TableRows:
    """The columns of a table; ``features`` are those of a frozen network of images. **Shape:** features ``(n, d)``."""
    parts = [] if features is None else [features.take(columns.from_images).cast(DOUBLE)]
    if columns.passed or not parts:
        parts.append(graph.input(NUMBERS, DOUBLE, (None, len(columns.passed))))
    raw = graph.concat(parts)
    texts = graph.input(CATEGORIES, TEXT, (None, len(columns.categories))) if columns.categories else None
    codes = []
    for place, column in enumerate(columns.categories):
        assert texts is not None
        assert column.levels is not None
        codes.append(
            graph.apply(
                "LabelEncoder",
                texts.take(place),
                dtype=WHOLE,
                domain=LEARNING,
                keys_strings=[*column.levels, columns.missing],
                values_int64s=[*range(FIRST_LEVEL, FIRST_LEVEL + len(column.levels)), MISSING],
                default_int64=UNKNOWN,
            )
        )
    numbers = _scale_numbers(graph, columns.numbers, raw)
    return TableRows(graph, numbers, codes, inputs.n_numbers, inputs.category_sizes)


def _scale_numbers(graph: Graph, columns: list[NumericColumn], raw: Value) -> Value:
    """As :meth:`NumericColumn.transform`, all columns at once. **Shape:** ``(n, columns)`` -> ``(n, p)``."""
    if not columns:
        return raw.cast(FLOAT)
    centre = graph.constant(np.array([column.centre for column in columns]))
    spread = graph.constant(np.array([column.spread or 1.0 for column in columns]))
    is_missing = graph.apply("IsNaN", raw, dtype=TRUTH)
    scaled = ((graph.where(is_missing, centre, raw) - centre) / spread).clip(-FAR, FAR)
    share = scaled / SMOOTH_CLIP
    scaled = (scaled / graph.apply("Sqrt", share * share + 1.0)).cast(FLOAT)
    if any(column.spread == 0 for column in columns):  # which tell only whether they are missing
        scaled = scaled * graph.constant(np.array([float(column.spread > 0) for column in columns], dtype=np.float32))
    flagged = [place for place, column in enumerate(columns) if column.has_missing]
    if not flagged:
        return scaled
    # The flag of a column follows its number.
    order = np.argsort([*range(len(columns)), *flagged], kind="stable")
    return graph.concat([scaled, is_missing.cast(FLOAT).take(flagged)]).take(order)
