"""Raw columns to what encoders read, inside the program: scaling, levels of categories, the guide's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffor.encoders import Guide, TabularInputs
from diffor.encoders.curve import NEARNESS_WEIGHT, Curve
from diffor.encoders.guide import Fold
from diffor.encoders.tabular_inputs import (
    FAR,
    FIRST_LEVEL,
    MISSING,
    SMOOTH_CLIP,
    UNKNOWN,
    CategoryColumn,
    NumericColumn,
)
from diffor.export.graph import DOUBLE, FLOAT, LEARNING, TEXT, TRUTH, WHOLE, Graph, Value
from diffor.export.refusal import ExportError
from diffor.export.trees import Forest

Array = NDArray[Any]
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
        read = [
            (place, one)
            for place, one in enumerate(inputs.columns)
            if isinstance(one, NumericColumn) and not one.is_constant
        ]
        numbers, from_images = [one for _, one in read], [place for place, _ in read if place < n_features]
        categories = [one for one in inputs.columns if isinstance(one, CategoryColumn)]
        for column in categories:
            if column.levels is None:
                raise ExportError(
                    f"columns must keep a list of their levels to be exported, however: {column.name!r} has so many "
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


def read_columns(graph: Graph, columns: RawColumns, features: Value | None = None) -> tuple[Value, list[Value]]:
    """Scaled numbers and the code of each category. **Shape:** -> ``(n, p)`` float32, c times ``(n,)`` int64.

    ``features`` are those of a frozen network of images, ``(n, d)``.
    """
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
    return _scale_numbers(graph, columns.numbers, raw), codes


def _scale_numbers(graph: Graph, columns: list[NumericColumn], raw: Value) -> Value:
    """As :meth:`NumericColumn.transform`, all columns at once. **Shape:** ``(n, columns)`` -> ``(n, p)``."""
    if not columns:
        return raw.cast(FLOAT)
    centre = graph.constant(np.array([column.centre for column in columns]))
    # A column without spread tells only whether it is missing.
    rate = graph.constant(np.array([0.0 if column.spread == 0 else 1.0 for column in columns]))
    spread = graph.constant(np.array([column.spread or 1.0 for column in columns]))
    is_missing = graph.apply("IsNaN", raw, dtype=TRUTH)
    scaled = ((graph.where(is_missing, centre, raw) - centre) / spread).clip(-FAR, FAR)
    share = scaled / SMOOTH_CLIP
    scaled = (scaled / graph.apply("Sqrt", share * share + 1.0) * rate).cast(FLOAT)
    flagged = [place for place, column in enumerate(columns) if column.has_missing]
    if not flagged:
        return scaled
    flags = is_missing.cast(FLOAT).take(flagged)
    order, n_flags = [], 0
    for place, column in enumerate(columns):  # the flag of a column follows its number
        order.append(place)
        if column.has_missing:
            order.append(len(columns) + n_flags)
            n_flags += 1
    return graph.concat([scaled, flags]).take(order)


def answer_of_guide(graph: Graph, guide: Guide, numbers: Value, codes: list[Value], n_numbers: int) -> Value:
    """The mean of what all folds say: place and spread. **Shape:** -> ``(n, 2)``."""
    columns = [_columns_of_fold(graph, fold, numbers, codes, n_numbers) for fold in guide.folds]
    width, count = len(guide.folds[0].chosen), len(guide.folds)
    joined = graph.concat(columns)  # (n, folds * k): one operator follows the trees of all folds
    forest = Forest(n_answers=2)
    for place, fold in enumerate(guide.folds):
        forest.add_boosted(fold.place, 0, (1 - float(fold.smooth)) / count, place * width)
        forest.add_boosted(fold.spread, 1, 1 / count, place * width)
    answer = forest.answer(joined)
    if not any(float(fold.smooth) for fold in guide.folds):
        return answer
    curves = _answer_of_curves(graph, guide.folds, joined, width)
    return graph.concat([answer.take([0]) + curves, answer.take([1])])


def _columns_of_fold(graph: Graph, fold: Fold, numbers: Value, codes: list[Value], n_numbers: int) -> Value:
    """Numbers, and each category as its level's mean target, as far as they are chosen. **Shape:** -> ``(n, k)``."""
    parts = [numbers] if n_numbers else []
    for means, column in zip(fold.levels, codes, strict=True):
        place = graph.apply("Min", column, graph.constant(np.array(len(means) - 1)))
        parts.append(graph.constant(means.numpy()).take(place, axis=0).reshape(-1, 1))
    if not parts:  # there was nothing to tell rows apart
        return numbers.sum(1, keepdims=True)
    columns, n_columns = graph.concat(parts), n_numbers + len(codes)
    return columns if len(fold.chosen) == n_columns else columns.take(fold.chosen.numpy())


def _answer_of_curves(graph: Graph, folds: list[Fold], joined: Value, width: int) -> Value:
    """The curves' part of the place, in double precision as :class:`Curve` has it. **Shape:** -> ``(n, 1)``."""
    curves = [fold.curve for fold in folds]
    count = len(folds)
    apart = joined.cast(DOUBLE).reshape(-1, count, width).transpose(1, 0, 2)  # (folds, n, k)
    centre = graph.constant(np.stack([curve.centre.numpy() for curve in curves])[:, None])
    rate = graph.constant(np.stack([1 / curve.scale.numpy() for curve in curves])[:, None])
    scaled = (apart - centre) * rate
    n_landmarks = max(len(curve.landmarks) for curve in curves)
    landmarks = np.stack([_padded(curve.landmarks.numpy(), n_landmarks) for curve in curves])  # (folds, m, k)
    lengths = (scaled * scaled).sum(2, keepdims=True) + graph.constant((landmarks**2).sum(axis=2)[:, None])
    products = scaled @ graph.constant(np.ascontiguousarray(-2 * landmarks.transpose(0, 2, 1)))
    distances = graph.apply("Max", lengths + products, graph.constant(np.zeros(())))
    sharpness = graph.constant(np.array([-float(curve.sharpness) for curve in curves])[:, None, None])
    nearness = graph.apply("Exp", distances * sharpness)
    of_columns = graph.constant(np.stack([curve.slopes[:width].numpy() for curve in curves])[:, :, None])
    of_nearness = graph.constant(np.stack([_nearness_slopes(curve, width, n_landmarks) for curve in curves]))
    constant = graph.constant(np.array([float(curve.slopes[-1]) for curve in curves])[:, None, None])
    place = (scaled @ of_columns + nearness @ of_nearness + constant).clip(0.0, 1.0)  # (folds, n, 1)
    shares = graph.constant(np.array([float(fold.smooth) / count for fold in folds])[:, None, None])
    return (place * shares).sum(0).cast(FLOAT)


def _nearness_slopes(curve: Curve, width: int, count: int) -> Array:
    """Slopes of the nearnesses, 0 for landmarks that only fill up. **Shape:** -> ``(count, 1)``."""
    return _padded(NEARNESS_WEIGHT * curve.slopes[width:-1].numpy()[:, None], count)


def _padded(rows: Array, count: int) -> Array:
    return np.pad(rows, ((0, count - len(rows)), (0, 0)))
