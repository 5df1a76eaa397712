"""Quantiles and intervals of values, read off a distribution function on knots as a ``CdfPrediction`` does."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from diffor.estimators.conformal import _ROUNDING, OUTER_DEPTH, REACH_FLOOR
from diffor.estimators.values import ValueEstimator
from diffor.export.answer import Knots, write_heights
from diffor.export.graph import DOUBLE, WHOLE, Graph, Shape, Value

SLACK = 1e-12
"""Levels nearer to 0 and 1 than this are the ends of what has any probability."""
TINY = 1e-300
UPPER = "upper"
"""Input of a model that has learned shares of limits: the limit of each row."""


def write_values(graph: Graph, model: ValueEstimator, levels: list[float], coverage: float) -> None:
    """Outputs in the user's units: point, interval, quantiles, the distribution function and its knots.

    Where shares of limits were learned, they are times the input ``upper``, and each row has knots of its own.
    """
    knots = Knots.of(model)
    curve = Curve(knots, write_heights(graph, model, knots))
    half = (1 - coverage) / 2
    is_plain = model.conformal_ is None and not curve.has_atoms  # then an interval lies between two quantiles
    wanted = [0.5, *levels, *([half, 1 - half] if is_plain else [])]
    found = curve.quantiles(wanted)
    if is_plain:
        interval = found.take([len(wanted) - 2, len(wanted) - 1])
    elif model.conformal_ is None:
        interval = curve.ends(curve.depth(1 - coverage))
    else:
        interval = open_interval(curve, model, coverage)
    places, shape = graph.constant(knots.values), cast(Shape, (len(knots.values),))
    if model.learns_share:
        limit = graph.input(UPPER, DOUBLE, (None,)).reshape(-1, 1)
        found, interval, places, shape = limit * found, limit * interval, limit * places, (None, *shape)
    graph.output("point", found.take(0), (None,))
    graph.output("interval", interval, (None, 2))
    graph.output("quantiles", found.take(range(1, len(levels) + 1)), (None, len(levels)))
    graph.output("cdf", curve.heights, (None, len(knots.values)))
    graph.output("knots", places, shape)


class Curve:
    """Rising heights at knots, ``(n, m)``, straight between them."""

    def __init__(self, knots: Knots, heights: Value) -> None:
        self.graph, self.heights, self.places = heights.graph, heights, knots.values
        width = np.diff(self.places)
        self.wide, self.atoms = np.flatnonzero(width > 0), np.flatnonzero(width == 0)
        self.is_discrete = knots.is_discrete
        if not len(self.wide):  # a single value: as if it could be left, which nothing does
            self.wide, self.atoms = np.array([0]), np.array([], dtype=np.int64)
        self.low, self.high = (heights.take(self.wide + end) for end in (0, 1))
        self.rate = 1.0 / (self.high - self.low).at_least(TINY)

    @property
    def has_atoms(self) -> bool:
        """Whether values may have a probability of their own."""
        return len(self.atoms) > 0

    def quantiles(self, levels: list[float]) -> Value:
        """Smallest values that reach the levels. **Shape:** -> ``(n, levels)``."""
        count = len(self.wide)
        wanted = self.graph.constant(np.clip(np.array(levels), SLACK, 1 - SLACK)[:, None])
        low, rate = self.low.reshape(-1, 1, count), self.rate.reshape(-1, 1, count)
        return self._sum(((wanted - low) * rate).clip(0.0, 1.0)).reshape(-1, len(levels))

    def _sum(self, filled: Value) -> Value:
        """The value up to which pieces are filled. **Shape:** ``(..., pieces)`` -> ``(..., 1)``."""
        edges = self.places[np.append(self.wide, self.wide[-1] + 1)]
        if self.is_discrete:  # pieces are filled or not, and values are exact
            passed = (filled @ self.graph.constant(np.ones((len(self.wide), 1)))).cast(WHOLE)
            return self.graph.constant(edges).take(passed, axis=0)
        lengths = np.diff(self.places)[self.wide]
        return filled @ self.graph.constant(lengths[:, None]) + float(self.places[0])

    def ends(self, depth: Value) -> Value:
        """Values with this much probability at or beyond them. **Shape:** ``(n, 1)`` -> ``(n, 2)``."""
        depth = depth.at_least(SLACK)
        lower = ((depth - self.low) * self.rate).clip(0.0, 1.0)
        upper = 1.0 - ((depth - (1.0 - self.high)) * self.rate).clip(0.0, 1.0)
        return self.graph.concat([self._sum(lower), self._sum(upper)])

    def depth(self, spare: float) -> Value:
        """Largest depth of both ends that leaves out at most ``spare``. **Shape:** -> ``(n, 1)``.

        What an end leaves out is its depth, or what lies below an atom that it stands in. So the heights at which ends
        enter and leave atoms are put in order, the deepest that leaves out little enough is found, and from there the
        rest of the way is divided.
        """
        graph, count = self.graph, len(self.atoms)
        low, high = (self.heights.take(self.atoms + end) for end in (0, 1))
        sides = [(low, high), (1.0 - high, 1.0 - low)]
        # An atom without probability is never entered.
        marks = [graph.where(one < other, one, graph.constant(np.array(-2.0))) for one, other in sides]
        joined = graph.concat([marks[0], high, marks[1], sides[1][1]])
        depths, origin = graph.sort(joined, 4 * count)
        kind, nothing = graph.constant(np.arange(4)[:, None]), graph.constant(np.array([[-2.0], [-1.0]] * 2))
        group = graph.apply("Div", origin, graph.constant(np.array(count))).reshape(-1, 1, 4 * count)
        apart = graph.where(group.equals(kind), depths.reshape(-1, 1, 4 * count), nothing)
        before = apart.cummax(4 * count).take(range(4 * count - 1), axis=2)  # (n, 4, candidates)
        tried = depths.take(range(1, 4 * count))
        outside = [
            graph.where(before.take(side + 1, axis=1) <= before.take(side, axis=1), before.take(side, axis=1), tried)
            for side in (0, 2)
        ]
        allowed = graph.apply("And", outside[0] + outside[1] <= spare + SLACK, tried <= 0.5)
        start = graph.where(allowed, tried, graph.constant(np.array(spare / 2))).max(1).at_least(spare / 2)
        return self._further(start, sides, spare)

    def _further(self, start: Value, sides: list[tuple[Value, Value]], spare: float) -> Value:
        """The depth beyond ``start`` at which ends outside atoms leave out the rest. **Shape:** ``(n, 1)``, kept."""
        graph, fixed, n_held = self.graph, [], []
        beyond = start + 2 * SLACK
        for low, high in sides:
            is_held = graph.apply("And", low < beyond, beyond <= high).cast(DOUBLE)
            fixed.append((is_held * low).sum(1, keepdims=True))
            n_held.append(is_held.sum(1, keepdims=True))
        kept = spare - (fixed[0] + fixed[1])
        moving = 2.0 - (n_held[0] + n_held[1])
        both_held = graph.where(graph.constant(np.array(0.0)) <= kept, graph.constant(np.array(0.5)), start)
        further = graph.where(moving.equals(0.0), both_held, kept / moving.at_least(1.0))
        return further.at_most(0.5).at_least(start)


def open_interval(curve: Curve, model: ValueEstimator, coverage: float) -> Value:
    """The interval that a calibration guarantees. **Shape:** -> ``(n, 2)``."""
    graph, conformal, (low, high) = curve.graph, model.conformal_, (model.scale_.low, model.scale_.high)
    assert conformal is not None
    threshold = conformal.threshold(coverage)
    if math.isinf(threshold):
        return curve.heights.take([0, 0]) * 0.0 + graph.constant(np.array(conformal.widest))
    depth = max(min(OUTER_DEPTH - threshold, 0.5) - _ROUNDING, OUTER_DEPTH)
    opened, floor = max(threshold, 0.0) + _ROUNDING, REACH_FLOOR * (high - low)
    ends, median = curve.ends(graph.constant(np.array([[depth]]))), curve.quantiles([0.5])
    lower, upper = ends.take([0]), ends.take([1])
    first = lower - (median - lower + floor) * opened
    last = (upper + (upper - median + floor) * opened).at_least(first)
    return graph.concat([first, last]).clip(low, high)
