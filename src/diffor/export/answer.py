"""The whole answer as one program: raw columns in, the distribution function at its knots, and what is read off it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from diffor.core.method import Encoder
from diffor.encoders.images.networks import ImageTableEncoder
from diffor.estimators.cross_fitted import LEAST, LEAST_SPREAD, CrossFitted
from diffor.estimators.grades import GradeEstimator
from diffor.estimators.values import ValueEstimator
from diffor.export.columns import RawColumns, TableRows, read_columns
from diffor.export.graph import DOUBLE, WHOLE, ExportError, Graph, Value
from diffor.export.images import encode_images, read_pixels
from diffor.export.networks import ask_folds, ask_once, encode
from diffor.export.priors import ask_priors
from diffor.methods import METHODS
from diffor.methods.diffor.borders import Borders

Estimator = ValueEstimator | GradeEstimator
Array = NDArray[Any]


@dataclass(frozen=True)
class Knots:
    """Where the distribution function is known, and which increment stands there. **Shape:** ``(m,)`` each."""

    source: NDArray[np.int64]
    """Places among (1, S increments, 0), as in :class:`~diffor.methods.diffor.borders.Layout`."""
    values: NDArray[np.float64]
    """In the user's units."""
    is_discrete: bool

    @classmethod
    def of(cls, model: Estimator) -> Knots:
        """The knots of a fitted model's answers; of grades there is one before, between and behind them."""
        borders = borders_of(model)
        if isinstance(model, GradeEstimator):
            source = np.arange(len(borders) + 2)
            return cls(source, source / 1.0, is_discrete=True)
        values = np.asarray(model.scale_.from_unit(borders.layout.knots), dtype=np.float64)
        outer = np.ones(len(values), dtype=bool)  # of a knot that occurs more than twice only the outer heights count
        outer[1:-1] = (values[1:-1] != values[:-2]) | (values[1:-1] != values[2:])
        return cls(borders.layout.source[outer], values[outer], borders.is_discrete)


def borders_of(model: Estimator) -> Borders:
    """The borders of a model's answers; methods that have none are refused."""
    if isinstance(model.model_, CrossFitted):
        return model.model_.borders
    if not METHODS[model.settings_.method].has_borders:
        able = [name for name, method in METHODS.items() if method.has_borders]
        raise ExportError(
            f"only methods with borders can be exported, but got {model.settings_.method!r}; fit {' or '.join(able)}"
        )
    borders: list[Borders] = [cast(Any, member.method).borders for member in model.model_.models]
    if not all(np.array_equal(one.edges, borders[0].edges) for one in borders):
        raise ExportError("members must share their borders to be exported, but they differ; fit them together")
    return borders[0]


def count_features(model: Estimator) -> int:
    """How many of a model's first columns are features of a frozen network of images."""
    frozen = None if model.images_ is None else model.images_.frozen
    return 0 if frozen is None else frozen.out_features


def raw_columns_of(model: Estimator) -> RawColumns:
    """The columns that the program of a model reads; features of images it computes itself."""
    return RawColumns.of(model.inputs_, count_features(model))


def write_heights(graph: Graph, model: Estimator, knots: Knots) -> Value:
    """The distribution function at the knots. **Shape:** -> ``(n, m)`` float64."""
    pixels, rows = read_rows(graph, model)
    network, source, width = model.model_, knots.source, len(knots.source)
    if isinstance(network, CrossFitted):
        assert rows is not None
        prior = None
        if model.priors_ is not None and any(kind.factors.shape[1] for kind in network.networks):
            prior = ask_priors(rows, model.priors_)
        below = [ask_folds(kind, rows, prior, source) for kind in network.networks]  # each (K, n, m)
        sizes = np.array([kind.n_folds for kind in network.networks], dtype=np.int64)
        weights = np.repeat(network.weights.cpu().numpy() / sizes, sizes)
    else:
        below = []
        for member in network.models:
            features = _features(member.encoder, pixels, rows)
            below.append(ask_once(cast(Any, member.method), features, source).reshape(1, -1, width))
        weights = np.full(len(below), 1 / len(below))
    ends = (source == 0, source == source.max())  # nothing lies below the first, everything below the last
    if not below:  # all targets were equal
        assert rows is not None
        return rows.numbers.cast(DOUBLE).sum(1, keepdims=True) * 0.0 + graph.constant(ends[1].astype(np.float64))
    heights = graph.concat(below, axis=0).cummax(width).sigmoid()  # (networks, n, m)
    if len(weights) > 1:
        share = graph.constant(weights.astype(np.float32)[None])
        heights = share @ heights.reshape(len(weights), -1)
    heights, least = heights.reshape(-1, width), 0.0
    if isinstance(network, CrossFitted):
        heights, least = _recalibrate(heights, network, source)
    low, high = np.where(ends[1], 1.0, least), np.where(ends[0], 0.0, 1.0 - least)
    low, high = np.where(ends[0], 0.0, low), np.where(ends[1], 1.0, high)
    bounds = [graph.constant(part.astype(np.float32)) for part in (low, high)]
    return heights.at_least(bounds[0]).at_most(bounds[1]).cast(DOUBLE)


def _recalibrate(heights: Value, network: CrossFitted, source: Array) -> tuple[Value, float]:
    """As :func:`~diffor.estimators.cross_fitted.recalibrated`, seen from below; also the least height that is left.

    **Shape:** ``(n, m)``, kept.
    """
    scale, shift, by_spread = network.recalibration.tolist()
    if (scale, shift, by_spread) == (1.0, 0.0, 0.0):
        return heights, LEAST
    apply, inner = heights.graph.apply, heights.clip(LEAST, 1 - LEAST)
    increments, first = np.unique(source, return_index=True)  # an increment may stand at several knots
    widths = np.zeros((len(source), 1), dtype=np.float32)
    widths[first, 0] = np.pad(network.widths.cpu().numpy(), 1)[increments]
    spread = (heights * (1.0 - heights)) @ heights.graph.constant(widths) + LEAST_SPREAD
    slope = apply("Exp", apply("Log", spread) * by_spread) * scale
    return ((apply("Log", inner) - apply("Log", 1.0 - inner)) * slope - shift).sigmoid(), 0.0


def read_rows(graph: Graph, model: Estimator) -> tuple[Value | None, TableRows | None]:
    """The images that members read, and the columns; features of a frozen network are among these."""
    reader, pixels, features = model.images_, None, None
    if reader is not None:
        pixels = read_pixels(graph, reader.inputs)
        if reader.frozen is not None:  # its features are columns, and all that members see of the images
            features, pixels = encode_images(reader.frozen, pixels), None
    if pixels is not None and not model.inputs_.columns:
        return pixels, None
    return pixels, read_columns(graph, model.inputs_, raw_columns_of(model), features)


def _features(encoder: Encoder, pixels: Value | None, rows: TableRows | None) -> Value:
    """What an encoder makes of rows. **Shape:** -> ``(n, d)``."""
    if pixels is None:
        assert rows is not None
        return encode(encoder, rows)
    if rows is None:
        return encode_images(encoder, pixels)
    assert isinstance(encoder, ImageTableEncoder)
    return rows.graph.concat([encode_images(encoder.images, pixels), encode(encoder.table, rows)])


# --- grades ---


def write_grades(graph: Graph, model: GradeEstimator) -> None:
    """Outputs: the grade that is answered with, and the probability of each."""
    n_grades = len(model.grades_)
    heights = write_heights(graph, model, Knots.of(model))  # (n, K + 1)
    shares = heights.take(range(1, n_grades + 1)) - heights.take(range(n_grades))
    if model.decision == "mode":
        chosen = graph.apply("ArgMax", shares, dtype=WHOLE, axis=1, keepdims=0)
    elif model.decision == "qwk":
        centre, factor = model.scale_.spread
        mean = (shares @ graph.constant(np.arange(n_grades, dtype=np.float64)[:, None])).reshape(-1)
        chosen = graph.apply("Round", (mean - centre) * factor + centre).clip(0.0, n_grades - 1.0).cast(WHOLE)
    else:  # the median, which is also what the method itself decides on
        chosen = (heights.take(range(1, n_grades)) < 0.5 - 1e-9).cast(WHOLE).sum(1)
    graph.output("point", graph.constant(_labels(model)).take(chosen, axis=0), (None,))
    graph.output("probabilities", shares, (None, n_grades))


def _labels(model: GradeEstimator) -> Array:
    """The grades as whole or other numbers, or spelled. **Shape:** ``(K,)``."""
    kind = {"i": np.int64, "u": np.int64, "f": np.float64}.get(model.grades_.dtype.kind)
    if kind is not None:
        return model.grades_.astype(kind)
    return np.array([str(grade) for grade in model.grades_], dtype=object)
