"""The whole answer as one program: raw columns and noise in, points, quantiles and samples in the user's units out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffor.conformal import REACH_FLOOR, depth_for
from diffor.diffusion import IncrementDiffusion
from diffor.encoders.image_encoders import ImageTableEncoder
from diffor.export.chain import ChainNoise, draw_increments, noise_of_chains
from diffor.export.columns import RawColumns, answer_of_guide, read_columns
from diffor.export.distributions import CLOSED_FORMS
from diffor.export.graph import DOUBLE, FLOAT, WHOLE, Graph, Value
from diffor.export.images import encode_images, read_pixels
from diffor.export.intervals import central_interval, quantiles
from diffor.export.networks import encode
from diffor.export.refusal import ExportError
from diffor.export.trees import count_below
from diffor.grade_estimator import GradeEstimator
from diffor.method import Encoder, OrdinalModel
from diffor.methods import METHODS
from diffor.target import GradeScale, TargetScale
from diffor.value_estimator import ValueEstimator

NOISE = "noise"
"""Name of the program's input of standard normal numbers."""
Estimator = ValueEstimator | GradeEstimator


@dataclass(frozen=True)
class Member:
    """A member with its place in the ensemble, its share of the samples and the noise that it needs."""

    model: OrdinalModel
    place: int
    n_samples: int
    noise: ChainNoise | None

    @property
    def noise_width(self) -> int:
        """Numbers of noise for a row."""
        return 0 if self.noise is None else self.noise.width


def count_features(model: Estimator) -> int:
    """How many of a model's first columns are features of a frozen network of images."""
    frozen = None if model.images_ is None else model.images_.frozen
    return 0 if frozen is None else frozen.out_features


def raw_columns_of(model: Estimator) -> RawColumns:
    """The columns that the program of a model reads; features of images it computes itself."""
    return RawColumns.of(model.inputs_, count_features(model))


def members_of(model: Estimator, n_samples: int, n_steps: int | None = None) -> list[Member]:
    """The members that draw; methods that cannot be exported are refused."""
    members = []
    for member, place, share in model.model_.shares(n_samples):
        method = member.method
        if isinstance(method, IncrementDiffusion):
            members.append(Member(member, place, share, noise_of_chains(method, share, n_steps)))
        elif type(method) in CLOSED_FORMS:
            members.append(Member(member, place, share, None))
        else:
            names = [name for name, kind in METHODS.items() if kind in (IncrementDiffusion, *CLOSED_FORMS)]
            raise ExportError(
                f"only the methods {', '.join(names)} can be exported, however: {model.settings_.method!r}; "
                "fit one of these"
            )
    return members


def write_samples(
    graph: Graph, model: Estimator, members: list[Member], columns: RawColumns
) -> tuple[Value, Value | None]:
    """Samples of all members in [0, 1], rising, and the mean of their points, if all have one.

    **Shape:** -> ``(n, m)`` float64, ``(n,)``.
    """
    features_by = read_rows(graph, model, columns)
    width = sum(member.noise_width for member in members)
    noise = graph.input(NOISE, FLOAT, (None, width)) if width else None
    parts, points, first = [], [], 0
    for member in members:
        features, method = features_by(member.model.encoder), member.model.method
        if isinstance(method, IncrementDiffusion):
            assert noise is not None
            assert member.noise is not None
            own = noise.take(range(first, first + member.noise_width))
            parts.append(draw_increments(method, features, own, member.noise, member.n_samples))
            first += member.noise_width
        else:
            samples, own_point = CLOSED_FORMS[type(method)](method, features, member.n_samples)
            parts.append(samples)
            points.append(own_point.reshape(-1, 1))
    count = sum(member.n_samples for member in members)
    ordered = graph.concat(parts).sorted(count).cast(DOUBLE)
    point = graph.concat(points).cast(DOUBLE).mean(1) if len(points) == len(parts) else None
    return _widen(ordered, float(model.model_.dispersion), count), point


def read_rows(graph: Graph, model: Estimator, columns: RawColumns) -> Callable[[Encoder], Value]:
    """Read images and columns; what a member's encoder makes of them follows. **Shape:** of its answer, ``(n, d)``."""
    reader, pixels, features = model.images_, None, None
    if reader is not None:
        pixels = read_pixels(graph, reader.inputs)
        if reader.frozen is not None:  # its features are columns, and all that members see of the images
            features = encode_images(reader.frozen, pixels)
            pixels = None
    if pixels is not None and not model.inputs_.columns:
        return partial(encode_images, pixels=pixels)
    numbers, codes = read_columns(graph, columns, features)
    n_numbers, guide = model.inputs_.n_numbers, None
    if model.guide_ is not None:
        guide = answer_of_guide(graph, model.guide_, numbers, codes, n_numbers)
    read_table = partial(encode, graph, numbers=numbers, codes=codes, guide=guide, n_numbers=n_numbers)

    def read_both(encoder: Encoder) -> Value:
        assert isinstance(encoder, ImageTableEncoder)
        assert pixels is not None
        return graph.concat([encode_images(encoder.images, pixels), read_table(encoder.table)])

    return read_table if pixels is None else read_both


def _widen(ordered: Value, factor: float, count: int) -> Value:
    """Every sample ``factor`` times as far from the median, inside [0, 1]. **Shape:** ``(n, m)``, kept."""
    if factor == 1:
        return ordered
    centre = quantiles(ordered, [0.5], count)
    return (centre + (ordered - centre) * factor).clip(0.0, 1.0)


# --- values ---


def write_values(
    graph: Graph,
    model: ValueEstimator,
    unit: Value,
    point: Value | None,
    count: int,
    levels: list[float],
    coverage: float,
) -> None:
    """Outputs in the user's units: point, interval, quantiles, samples."""
    samples = _from_samples(model.scale_, unit, count)
    if model.default_statistic == "native" and point is not None:
        best = _from_samples(model.scale_, point.reshape(-1, 1), 1).reshape(-1)
    else:
        best = quantiles(samples, [0.5], count).reshape(-1)
    graph.output("point", best, (None,))
    graph.output("interval", _interval(model, unit, samples, count, coverage), (None, 2))
    graph.output("quantiles", quantiles(samples, levels, count), (None, len(levels)))
    graph.output("samples", samples, (None, count))


def _interval(model: ValueEstimator, unit: Value, samples: Value, count: int, coverage: float) -> Value:
    """The central interval, or the guaranteed one where the model is calibrated. **Shape:** -> ``(n, 2)``."""
    if model.conformal_ is None:
        return central_interval(samples, coverage, count)
    threshold = model.conformal_.threshold(coverage)
    if math.isinf(threshold):
        return samples.take([0, 0]) * 0.0 + samples.graph.constant(np.array(model.conformal_.widest))
    depth = depth_for(threshold, count)
    median = quantiles(unit, [0.5], count)
    if depth < 0:
        lower = unit.take([0]) + (median - unit.take([0]) + REACH_FLOOR) * depth
        upper = unit.take([count - 1]) + (unit.take([count - 1]) - median + REACH_FLOOR) * -depth
    else:
        place = math.floor(depth)
        following, share = min(place + 1, count - 1), depth - place
        lower = unit.take([place]) + (unit.take([following]) - unit.take([place])) * share
        mirrored, before = count - 1 - place, count - 1 - following
        upper = unit.take([mirrored]) + (unit.take([before]) - unit.take([mirrored])) * share
    upper = unit.graph.apply("Max", upper, lower)
    return _from_unit(model.scale_, unit.graph.concat([lower, upper]).clip(0.0, 1.0), 2)


def _from_unit(scale: TargetScale, unit: Value, width: int) -> Value:
    """[0, 1] to the user's targets, as :meth:`TargetScale.from_unit`. **Shape:** ``(n, width)``, kept."""
    graph, unit = unit.graph, unit.clip(0.0, 1.0)
    if scale.transform == "log" and scale.high > scale.low:
        grown = graph.apply("Exp", unit * scale.log_range()) - 1.0
        inside = grown * scale.log_scale + scale.low
        values = graph.where(unit.equals(1.0), graph.constant(np.array(scale.high)), inside)
    elif len(scale.units) == 2:
        values = unit * (scale.high - scale.low) + scale.low
    else:
        index = graph.apply("Min", count_below(unit, scale.units[1:], width),
                            graph.constant(np.array(len(scale.units) - 2)))  # fmt: skip
        start, height, slope = (
            graph.constant(part).take(index, axis=0)
            for part in (scale.units[:-1], scale.values[:-1], np.diff(scale.values) / np.diff(scale.units))
        )
        values = height + (unit - start) * slope
    return values.clip(scale.low, scale.high)


def _from_samples(scale: TargetScale, unit: Value, width: int) -> Value:
    """The same, but what is within reach of an atom becomes equal to it. **Shape:** ``(n, width)``, kept."""
    values, atoms = _from_unit(scale, unit, width), scale.atoms
    if atoms is None or not len(atoms):
        return values
    graph = unit.graph
    place = graph.apply("Min", count_below(unit, atoms.high, width), graph.constant(np.array(len(atoms) - 1)))
    low, high, value = (graph.constant(part).take(place, axis=0) for part in (atoms.low, atoms.high, atoms.values))
    within = graph.apply("And", low <= unit, unit <= high)
    return graph.where(within, value, values)


# --- grades ---


def write_grades(graph: Graph, model: GradeEstimator, unit: Value, point: Value | None, count: int) -> None:
    """Outputs: the grade that is answered with, the probability of each, samples as their numbers."""
    n_grades = len(model.classes_)
    codes = _nearest_grades(model.scale_, unit)
    numbers = graph.constant(np.arange(n_grades, dtype=np.float64))
    shares = codes.reshape(-1, count, 1).equals(numbers).cast(DOUBLE).mean(1)  # (n, K)
    if model.decision == "native" and point is not None:
        chosen = _nearest_grades(model.scale_, point)
    elif model.decision == "native":
        chosen = graph.apply("Round", quantiles(codes, [0.5], count).reshape(-1))
    else:
        chosen = _decide(model, shares, n_grades)
    graph.output("point", graph.constant(_labels(model)).take(chosen.cast(WHOLE), axis=0), (None,))
    graph.output("probabilities", shares, (None, n_grades))
    graph.output("samples", codes.cast(WHOLE), (None, count))


def _labels(model: GradeEstimator) -> NDArray[Any]:
    """The grades as whole or other numbers, or spelled. **Shape:** ``(K,)``."""
    kind = {"i": np.int64, "u": np.int64, "f": np.float64}.get(model.classes_.dtype.kind)
    return (
        np.array([str(grade) for grade in model.classes_], dtype=object)
        if kind is None
        else model.classes_.astype(kind)
    )


def _nearest_grades(scale: GradeScale, unit: Value) -> Value:
    return unit.graph.apply("Round", unit * scale.high).clip(0.0, scale.high)


def _decide(model: GradeEstimator, shares: Value, n_grades: int) -> Value:
    """The grade that a decision chooses, as ``decide_grades`` does. **Shape:** ``(n, K)`` -> ``(n,)``."""
    graph = shares.graph
    if model.decision == "mode":
        return graph.apply("ArgMax", shares, dtype=WHOLE, axis=1, keepdims=0)
    if model.decision == "median":
        below_half = shares.cumsum(1) < 0.5 - 1e-9
        return below_half.cast(WHOLE).take(range(n_grades - 1)).sum(1)
    centre, factor = model.scale_.spread
    mean = (shares @ graph.constant(np.arange(n_grades, dtype=np.float64)[:, None])).reshape(-1)
    return graph.apply("Round", (mean - centre) * factor + centre).clip(0.0, n_grades - 1.0)
