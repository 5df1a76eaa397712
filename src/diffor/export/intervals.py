"""Quantiles and intervals of rising samples, as a ``Prediction`` has them."""

from __future__ import annotations

import math

import numpy as np

from diffor.export.graph import DOUBLE, FLOAT, WHOLE, Value
from diffor.prediction import ROUNDING


def quantiles(ordered: Value, levels: list[float], count: int) -> Value:
    """Quantiles at levels in [0, 1]. **Shape:** ``(n, count)`` -> ``(n, levels)``."""
    place = np.clip(np.array(levels, dtype=np.float64) * count - 0.5, 0, count - 1)
    below = np.floor(place).astype(np.int64)
    low, high = ordered.take(below), ordered.take(np.minimum(below + 1, count - 1))
    return low + (high - low) * ordered.graph.constant(place - below)


def central_interval(ordered: Value, coverage: float, count: int) -> Value:
    """The central interval: :meth:`Prediction.interval`. **Shape:** ``(n, count)`` -> ``(n, 2)``."""
    graph, mirrored = ordered.graph, ordered.take(range(count - 1, -1, -1))
    spare, half = (1 - coverage) * count - 1, (count + 1) // 2
    outside = [_left_out(side, half, math.floor(max(spare, 0.0)) + 2) for side in (ordered, mirrored * -1.0)]
    few_enough = (outside[0] + outside[1] <= spare + ROUNDING).cast(DOUBLE).sum(1, keepdims=True)
    pair = (few_enough - 1.0).clip(0.0, half - 1.0)  # (n, 1)
    at, following = pair.cast(WHOLE), (pair + 1.0).clip(0.0, count - 1.0).cast(WHOLE)
    ends = [(side.take_each(at), side.take_each(following)) for side in (ordered, mirrored)]
    stays = [here.equals(there).cast(DOUBLE) for here, there in ends]
    moving = stays[0] * -1.0 - stays[1] + 2.0
    kept = outside[0].take_each(at) * stays[0] + outside[1].take_each(at) * stays[1]
    reached = (kept * -1.0 + spare) / moving.clip(1.0, 2.0)
    depth = graph.where(moving.equals(0.0), pair, reached)
    depth = graph.apply("Min", graph.apply("Max", depth, pair), (pair + 1.0).clip(0.0, (count - 1) / 2))
    return graph.concat([here + (there - here) * (depth - pair) for here, there in ends])


def _left_out(ordered: Value, half: int, most: int) -> Value:
    """How many samples lie outside each of the first half; ``most`` stand for any more.

    **Shape:** ``(n, count)`` -> ``(n, half)``.
    """
    most = min(most, half)
    outermost, outer = ordered.take(range(most)).reshape(-1, 1, most), ordered.take(range(half)).reshape(-1, half, 1)
    return (outermost < outer).cast(FLOAT).sum(2).cast(DOUBLE)
