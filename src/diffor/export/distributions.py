"""Methods that answer with a distribution in closed form, as parts of a program: evenly spread samples and a point."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diffor.baselines.bins import EarthMover, ExpectedClass, MeanVariance, MiddleClass, UnimodalConcentrated
from diffor.baselines.densities import DEVIATION_FLOOR, MixtureDensity
from diffor.baselines.quantiles import ConditionalQuantiles, QuantileMethod, QuantileRegression
from diffor.export.graph import WHOLE, Value
from diffor.export.networks import as_array, linear
from diffor.method import Method

N_HALVINGS = 26
"""Halvings of [0, 1] after which a quantile is found to single precision near 1."""

Array = NDArray[Any]
Answer = tuple[Value, Value]
"""Samples ``(n, m)`` and the value that the method's authors decide on, ``(n,)``; both in [0, 1]."""


def sample_levels(n_samples: int) -> Array:
    """Levels of evenly spread samples. **Shape:** -> ``(n_samples,)``."""
    return ((torch.arange(n_samples) + 0.5) / n_samples).numpy()


# --- quantiles ---


def answer_by_quantiles(method: Method, features: Value, n_samples: int) -> Answer:
    """A curve through quantiles, linear between their levels."""
    assert isinstance(method, QuantileMethod)
    graph, levels = features.graph, as_array(method.levels)
    moves, count = linear(features, method.head), len(levels)
    if isinstance(method, QuantileRegression):
        quantiles = moves * float(method.spread) + graph.constant(as_array(method.start))
    else:
        assert isinstance(method, ConditionalQuantiles)
        kind = "Softplus" if method.activation is torch.nn.functional.softplus else "Relu"
        quantiles = (graph.apply(kind, moves) * graph.constant(as_array(method.units))).cumsum(1)
    curve = quantiles.sorted(count).clip(0.0, 1.0)
    if method.decoding == "mean":
        shares = np.gradient(levels.astype(np.float64)) if count > 1 else np.ones(1)
        shares[0], shares[-1] = (levels[0] + levels[1]) / 2, 1 - (levels[-1] + levels[-2]) / 2
        point = (curve @ graph.constant(shares.astype(np.float32)[:, None])).reshape(-1)
    else:
        point = _along(curve, levels, np.array([0.5], dtype=np.float32)).reshape(-1)
    return _along(curve, levels, sample_levels(n_samples)), point.clip(0.0, 1.0)


def _along(curve: Value, levels: Array, wanted: Array) -> Value:
    """Values of a curve at fixed levels. **Shape:** ``(n, N)`` -> ``(n, len(wanted))``."""
    last = len(levels) - 1
    after = np.minimum(np.searchsorted(levels, wanted), last)
    before = np.maximum(after - 1, 0)
    gap = np.maximum(levels[after] - levels[before], np.finfo(np.float32).tiny)
    share = np.clip((wanted - levels[before]) / gap, 0, 1).astype(np.float32)
    low = curve.take(before)
    return low + (curve.take(after) - low) * curve.graph.constant(share)


# --- a mixture of Gaussians ---


def answer_by_mixture(method: Method, features: Value, n_samples: int) -> Answer:
    """Quantiles of a mixture by bisection, and the weighted mean of its components."""
    assert isinstance(method, MixtureDensity)
    graph, count = features.graph, method.n_components
    outputs = linear(features, method.head)
    logits, means, raw = (outputs.take(range(first, first + count)) for first in range(0, 3 * count, count))
    weights = graph.apply("Softmax", logits, axis=-1)
    means = means * float(method.spread) + float(method.centre)
    deviations = (graph.apply("Softplus", raw) + DEVIATION_FLOOR) * float(method.spread)
    point = (weights * means).sum(1).clip(0.0, 1.0)
    rate, shares = (deviations * math.sqrt(2)).reshape(-1, 1, count), weights.reshape(-1, count, 1)
    centre = means.reshape(-1, 1, count)

    def reached(values: Value) -> Value:
        """The cdf inside (0, 1). **Shape:** ``(n or 1, c)`` -> ``(n, c)``."""
        z = (values.reshape(-1, n_samples, 1) - centre) / rate
        return (((graph.apply("Erf", z) + 1.0) * 0.5) @ shares).reshape(-1, n_samples)

    wanted = graph.constant(sample_levels(n_samples)[None])
    zeros = graph.constant(np.zeros((1, n_samples), dtype=np.float32))
    width, low = 1.0, zeros
    for _ in range(N_HALVINGS):  # the target lies between low and low + width
        width /= 2
        middle = low + width
        low = graph.where(reached(middle) >= wanted, low, middle)
    is_zero = reached(zeros) >= wanted
    return graph.where(is_zero, zeros, low + width), point


# --- probabilities of grades or of bins ---


def answer_by_bins(method: Method, features: Value, n_samples: int) -> Answer:
    """Steps at the grades, or bins of values that are split at their means."""
    assert isinstance(method, (ExpectedClass, MeanVariance, UnimodalConcentrated, EarthMover))
    graph, binning = features.graph, method.binning
    reachable, places = as_array(binning.reachable), as_array(binning.places)
    logits = linear(features, method.head)
    if binning.policy == "quantile":
        masked = graph.constant(np.full(len(places), binning.UNREACHABLE, dtype=np.float32))
        logits = graph.where(graph.constant(reachable), logits, masked)
    shares = graph.apply("Softmax", logits, axis=-1)
    if binning.policy == "grades":
        samples = _along_steps(shares.cumsum(1), places, n_samples)
    else:
        shares = shares * graph.constant(reachable.astype(np.float32))
        shares = shares / shares.sum(1, keepdims=True)
        samples = _along_bins(shares, as_array(binning.edges), places, n_samples)
    if isinstance(method, MiddleClass):
        middle = (shares.cumsum(1) < 0.5).cast(WHOLE).sum(1)
        point = graph.constant(places).take(graph.apply("Min", middle, graph.constant(np.array(len(places) - 1))), 0)
    else:
        point = (shares @ graph.constant(places[:, None])).reshape(-1)
    return samples, point.clip(0.0, 1.0)


def _along_steps(sums: Value, places: Array, n_samples: int) -> Value:
    """The first place that reaches each level. **Shape:** ``(n, K)`` -> ``(n, n_samples)``."""
    count = len(places)
    reached = sums / sums.take([count - 1])
    levels = sums.graph.constant(sample_levels(n_samples)[None, :, None])
    index = (reached.reshape(-1, 1, count) < levels).cast(WHOLE).sum(2)
    index = sums.graph.apply("Min", index, sums.graph.constant(np.array(count - 1)))
    return sums.graph.constant(places).take(index, axis=0)


def _along_bins(shares: Value, edges: Array, places: Array, n_samples: int) -> Value:
    """Quantiles, linear between the edges and means of bins. **Shape:** ``(n, K)`` -> ``(n, n_samples)``."""
    graph, count = shares.graph, len(places)
    low, high = edges[:-1], edges[1:]
    with np.errstate(invalid="ignore", divide="ignore"):
        left = np.clip(np.where(high > low, (high - places) / (high - low), 0.5), 0, 1)
    split = np.stack([left, 1 - left], axis=1).astype(np.float32)  # (K, 2)
    knots = np.append(np.stack([low, places], axis=1).ravel(), edges[-1]).astype(np.float32)  # (2 K + 1,)
    parts = (shares.reshape(-1, count, 1) * graph.constant(split)).reshape(-1, 2 * count)
    sums = parts.cumsum(1)
    reached = sums / sums.take([2 * count - 1])
    levels = graph.constant(sample_levels(n_samples)[None])
    index = (reached.reshape(-1, 1, 2 * count) < levels.reshape(1, n_samples, 1)).cast(WHOLE).sum(2)
    index = graph.apply("Min", index, graph.constant(np.array(2 * count - 1)))  # the part that holds each level
    start = graph.apply("GatherElements", reached - parts / sums.take([2 * count - 1]), index, axis=1)
    height = graph.apply("GatherElements", parts / sums.take([2 * count - 1]), index, axis=1)
    tiny = graph.constant(np.array(np.finfo(np.float32).tiny))
    share = ((levels - start) / graph.apply("Max", height, tiny)).clip(0.0, 1.0)
    from_knot, to_knot = graph.constant(knots[:-1]).take(index, 0), graph.constant(knots[1:]).take(index, 0)
    return from_knot + (to_knot - from_knot) * share


CLOSED_FORMS: dict[type[Method], Callable[[Method, Value, int], Answer]] = {
    QuantileRegression: answer_by_quantiles,
    ConditionalQuantiles: answer_by_quantiles,
    MixtureDensity: answer_by_mixture,
    ExpectedClass: answer_by_bins,
    MiddleClass: answer_by_bins,
    MeanVariance: answer_by_bins,
    UnimodalConcentrated: answer_by_bins,
    EarthMover: answer_by_bins,
}
"""How each method that can be exported, beside DiffoR itself, is written."""
