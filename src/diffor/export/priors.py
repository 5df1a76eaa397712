"""Priors as parts of a program: boosted trees, and Gaussian processes as matrix products in double precision."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.export.columns import TableRows
from diffor.export.graph import DOUBLE, FLOAT, WHOLE, ExportError, Value
from diffor.export.trees import Forest
from diffor.priors import FittedPriors
from diffor.priors.boosting import BoostedTrees
from diffor.priors.contract import MIN_SPREAD
from diffor.priors.folds import FoldModels
from diffor.priors.gaussian_process import GaussianProcess
from diffor.priors.kernel import Kernel
from diffor.priors.process_columns import FAR, Ranks, Standard

Places = NDArray[np.int64]


class Sheet:
    """What all priors read, side by side: numbers, then each category as its level's mean target in each design."""

    def __init__(self, rows: TableRows, designs: list[list[Tensor]]) -> None:
        graph, self.n_numbers, self.n_designs = rows.graph, rows.n_numbers, len(designs)
        parts = [rows.numbers] if rows.n_numbers else []
        for place, (codes, size) in enumerate(zip(rows.codes, rows.category_sizes, strict=True)):
            means = np.stack([_for_codes(levels[place], size) for levels in designs], axis=1)
            parts.append(graph.constant(means).take(codes, axis=0))
        # Without any column there is one of zeros.
        self.columns = (graph.concat(parts) if parts else rows.numbers.sum(1, keepdims=True)).cast(DOUBLE)
        self.is_empty = not parts
        self.width = max(self.n_numbers + len(rows.codes) * self.n_designs, 1)

    def places(self, chosen: Tensor, design: int) -> Places:
        """Where the chosen columns of a design stand. **Shape:** ``(k,)``, kept."""
        column = chosen.numpy()
        coded = self.n_numbers + (column - self.n_numbers) * self.n_designs + design
        return np.where((column < self.n_numbers) | self.is_empty, column, coded)


def _for_codes(means: Tensor, size: int) -> NDArray[np.float32]:
    """A level's mean for every code, those beyond the table as its last entry. **Shape:** -> ``(size,)``."""
    return np.asarray(means.numpy()[np.minimum(np.arange(size), len(means) - 1)])


def ask_priors(rows: TableRows, priors: FittedPriors) -> tuple[Value, Value]:
    """Place and spread by each prior, as :meth:`FittedPriors.predict`. **Shape:** -> ``(P, n, 1)`` each."""
    asked = [_checked(prior) for prior in priors.priors]
    spreads = [prior.spread for prior in asked if prior.spread is not None]
    of_places = [_designs(prior) for prior in asked]
    of_spreads = [levels for spread in spreads for levels in spread.models.levels]
    sheet, first, places = Sheet(rows, [*chain(*of_places), *of_spreads]), 0, []
    for prior, designs in zip(asked, of_places, strict=True):
        if isinstance(prior, GaussianProcess):
            places.append(_place_by_process(prior, sheet, first))
        else:
            assert prior.place is not None
            places.append(_ask_trees(sheet, [prior.place], first, sheet.columns))
        first += len(designs)
    place = rows.graph.concat(places).clip(0.0, 1.0)
    columns = rows.graph.concat([sheet.columns, place.cast(DOUBLE)])
    logs = _ask_trees(sheet, [spread.models for spread in spreads], first, columns)
    scales = np.array([spread.scale.tolist() for spread in spreads], dtype=np.float32)
    common, factor = rows.graph.constant(scales[:, 0]), rows.graph.constant(scales[:, 1])
    spread = ((logs.graph.apply("Exp", logs) + common) * factor).clip(MIN_SPREAD, 1.0)
    axis = rows.graph.constant(np.array([2]))
    apart = [rows.graph.apply("Unsqueeze", one.transpose(1, 0), axis) for one in (place, spread)]
    return apart[0], apart[1]


def _checked(prior: object) -> BoostedTrees | GaussianProcess:
    if isinstance(prior, (BoostedTrees, GaussianProcess)):
        return prior
    raise ExportError(
        f"priors must be boosted trees or Gaussian processes to be exported, but got {type(prior).__name__}; "
        "fit without it, or export a student: model.distill(X)"
    )


def _designs(prior: BoostedTrees | GaussianProcess) -> list[list[Tensor]]:
    """How categories are coded for the place, in one or several ways."""
    if isinstance(prior, GaussianProcess):
        return [] if prior.columns is None else [prior.columns.levels]
    assert prior.place is not None
    return prior.place.levels


def _ask_trees(sheet: Sheet, models: list[FoldModels], first: int, columns: Value) -> Value:
    """What trees say; ``first`` is the place of their first design. **Shape:** -> ``(n, models)`` float32."""
    forest = Forest(len(models))
    for answer, own in enumerate(models):
        parts = [sheet.places(chosen, first + fold) for fold, chosen in enumerate(own.chosen)]
        # Behind all columns stand the places, of which the trees of a spread read one.
        forest.add_boosted(own.trees, answer, np.concatenate([*parts, [sheet.width + answer]]))
        first += len(own.levels)
    return forest.answer(columns)


# --- Gaussian processes ---


def _place_by_process(prior: GaussianProcess, sheet: Sheet, design: int) -> Value:
    """The expected place. **Shape:** -> ``(n, 1)`` float32."""
    mean, spread = (float(part) for part in prior.target_scale)
    if prior.columns is None:  # there was nothing to learn from
        return (sheet.columns.take([0]) * 0.0 + mean).cast(FLOAT)
    chosen, scale = sheet.places(prior.columns.chosen, design), prior.columns.scale
    is_all = len(chosen) == sheet.width and (chosen == np.arange(sheet.width)).all()
    columns = sheet.columns if is_all else sheet.columns.take(chosen)
    scaled = _standard(columns, scale) if isinstance(scale, Standard) else _ranks(columns, scale)
    known, slopes = prior.known.numpy().astype(np.float64), prior.slopes.numpy().astype(np.float64)
    return (_likeness(scaled, prior.kernel, known, slopes * spread) + mean).cast(FLOAT)


def _standard(columns: Value, scale: Standard) -> Value:
    centre, spread = (columns.graph.constant(part.numpy()) for part in scale)
    return ((columns - centre) / spread).clip(-FAR, FAR)


def _ranks(columns: Value, ranks: Ranks) -> Value:
    """Normal numbers of ranks, by a straight line for each interval of knots. **Shape:** ``(n, k)``, kept."""
    graph, knots, normals = columns.graph, ranks.knots.numpy(), ranks.normals.numpy()
    count, n_lines = knots.shape[0], knots.shape[1] - 1
    forest = Forest(count)
    for place, own in enumerate(knots):
        forest.add_steps(own[1:-1], place)
    width = np.diff(knots)
    rise = np.where(width > 0, np.diff(normals) / np.where(width > 0, width, 1.0), 0.0)
    first = graph.constant((np.arange(count) * n_lines).astype(np.float32))
    line = (forest.answer(columns) + first).cast(WHOLE)
    start = graph.constant((normals[:, :-1] - knots[:, :-1] * rise).ravel()).take(line, axis=0)
    inside = columns.at_least(graph.constant(knots[:, 0])).at_most(graph.constant(knots[:, -1]))
    return inside * graph.constant(rise.ravel()).take(line, axis=0) + start


def _likeness(rows: Value, kernel: Kernel, known: NDArray[np.float64], slopes: NDArray[np.float64]) -> Value:
    """Likeness to known rows times their slopes. **Shape:** ``(n, k)``, ``(m, k)``, ``(m,)`` -> ``(n, 1)``."""
    graph = rows.graph
    near, linear, _ = kernel.log_scales.float().exp().tolist()
    view = kernel.scaled(torch.eye(known.shape[1], dtype=torch.float64)).numpy()
    scaled, others = rows @ graph.constant(view), known @ view
    factor = -0.5 if bool(kernel.is_smooth) else 5 / 3  # of the squared distances, as they are needed below
    squares = (scaled * scaled).sum(1, keepdims=True) * factor
    beside = np.concatenate([-2 * factor * others, np.ones((len(others), 1))], axis=1)
    lengths = graph.constant((others**2).sum(axis=1) * factor)
    products = graph.apply("Gemm", graph.concat([scaled, squares]), graph.constant(beside.T.copy()), lengths)
    if bool(kernel.is_smooth):
        nearness = graph.apply("Exp", products)
    else:
        products = products.at_least(0.0)
        root = graph.apply("Sqrt", products) * -math.sqrt(3)
        nearness = (products - root + 1.0) * graph.apply("Exp", root)
    straight = linear / max(known.shape[1], 1) * (slopes @ known)
    return nearness @ graph.constant(near * slopes[:, None]) + rows @ graph.constant(straight[:, None])
