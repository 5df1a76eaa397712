"""Paired differences: how far a method is from a reference on the same rows, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from diffor.bench.leaderboard import MEASURES, Cells, Measure, common_seeds, names_in
from diffor.errors import UserError
from diffor.reports.html import Section, Table

CONFIDENCE = 0.95
ALL_SETS = "all sets"
COMPARED = (
    *(measure for name in ("mae", "crps", "srcc") for measure in MEASURES
      if (measure.name, measure.task) == (name, "value")),
    Measure("xauc", "XAUC", "value", greater_is_better=True),
    Measure("lcc", "linear correlation", "value", greater_is_better=True),
)  # fmt: skip
"""What variants are compared in: two that are better when lower, as shares of the reference's, and what tells orders
apart. The last two are of data sets that name them."""


@dataclass(frozen=True)
class Findings:
    """What an experiment answers with: numbers for programs, sections for a page or a terminal."""

    numbers: dict[str, Any]
    """Plain lists, dicts, strings and finite numbers, ready for JSON."""
    sections: Sequence[Section]


@dataclass(frozen=True)
class Contrast:
    """A method less its reference: the mean over seeds and its confidence interval.

    Errors are relative, 0.05 for five percent more; correlations are plain differences.
    """

    dataset: str
    method: str
    metric: str
    mean: float
    low: float
    high: float
    n_seeds: int
    method_mean: float
    reference_mean: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


def student_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Mean of a few values with the ends of its interval by Student's t.

    **Shape:** values ``(n,)``, at least two.
    """
    from scipy.stats import t  # here, since importing scipy.stats takes long

    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or len(found) < 2:
        raise UserError(
            f"an interval needs at least two values, but got shape={found.shape}; run with more seeds, as --seeds 5"
        )
    half = float(t.ppf((1 + confidence) / 2, len(found) - 1) * found.std(ddof=1) / math.sqrt(len(found)))
    mean = float(found.mean())
    return mean, mean - half, mean + half


def is_relative(measure: Measure) -> bool:
    """Whether differences are shares of the reference: of errors, not of correlations."""
    return not measure.greater_is_better


def contrasts(
    cells: Cells, reference: str, methods: Sequence[str], measures: Iterable[Measure] = COMPARED
) -> list[Contrast]:
    """Every method against the reference on every data set, and over all sets where there are several.

    Over all sets, each seed counts with its mean over those data sets on which all methods have it.
    """
    found = []
    for measure, method in product(measures, methods):
        by_set = {}
        for dataset in names_in(cells, 0):
            pairs = {
                seed: [cells[dataset, name, seed]["metrics"].get(measure.name) for name in (method, reference)]
                for seed in common_seeds(cells, dataset, (method, reference))
            }
            rows = {seed: pair for seed, pair in pairs.items() if None not in pair}
            if len(rows) > 1:
                by_set[dataset] = rows
                found.append(_contrast(dataset, method, measure, [rows.values()]))
        seeds = sorted(set.intersection(*map(set, by_set.values()))) if len(by_set) > 1 else []
        if len(seeds) > 1:
            each = [[rows[seed] for seed in seeds] for rows in by_set.values()]
            found.append(_contrast(ALL_SETS, method, measure, each))
    return found


def _contrast(dataset: str, method: str, measure: Measure, scores: Iterable[Iterable[Sequence[float]]]) -> Contrast:
    """**Shape:** scores (data sets, seeds, 2): the method's and the reference's."""
    ours, theirs = np.moveaxis(np.array([list(rows) for rows in scores], dtype=np.float64), 2, 0)
    differences = ((ours - theirs) / theirs if is_relative(measure) else ours - theirs).mean(axis=0)
    mean, low, high = student_interval(differences)
    levels = float(ours.mean()), float(theirs.mean())
    return Contrast(dataset, method, measure.name, mean, low, high, len(differences), *levels)


def amount(measure: Measure, mean: float, *ends: float) -> str:
    """A difference, with the ends of its interval where they are given, as a cell of a table."""
    scale, unit, digits = (100, " %", 1) if is_relative(measure) else (1, "", 3)
    middle, *around = (f"{scale * value:+.{digits}f}" for value in (mean, *ends))
    return f"{middle}{unit} ({' to '.join(around)})" if around else f"{middle}{unit}"


def contrast_table(
    found: Sequence[Contrast],
    measure: Measure,
    names: tuple[str, Mapping[str, object]],
    caption: str = "",
    more: tuple[str, Mapping[str, str]] | None = None,
) -> Table:
    """Contrasts with the scores behind them; ``names`` are the first column's heading and its cells by method.

    ``more`` is one more column, by method. Errors of all data sets together have no unit, so their scores are left out.
    """
    records = []
    for one in found:
        has_level = one.dataset != ALL_SETS or not is_relative(measure)
        reference, here = (f"{level:.4g}" if has_level else None for level in (one.reference_mean, one.method_mean))
        last = {} if more is None else {more[0]: more[1].get(one.method)}
        records.append({
            names[0]: str(names[1][one.method]), "data set": one.dataset, "reference": reference, "here": here,
            "difference": amount(measure, one.mean, one.low, one.high), "seeds": one.n_seeds, **last,
        })  # fmt: skip
    direction = "higher" if measure.greater_is_better else "lower"
    text = f"{measure.heading}, {direction} is better. Bold where the interval leaves zero out. {caption}".strip()
    strong = frozenset((place, 4) for place, one in enumerate(found) if one.is_clear)
    return replace(Table.of(records, text), strong=strong)
