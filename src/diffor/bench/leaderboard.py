"""Leaderboards: what the lines of a benchmark say about which method is better, and how sure that is.

Methods are compared on the means over seeds, data set by data set, and only on data sets where all of them have
results. Values and grades are two competitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.bench.cell import N_PIT_BINS

Array = NDArray[np.float64]
Line = dict[str, Any]
Cells = dict[tuple[str, str, int], Line]

SIGNIFICANT = 0.05
FEWEST_DATASETS = 5
"""Data sets from which on a critical difference is computed."""
RANKED_SHARE = 0.5
"""Methods with results on fewer data sets than this share are not ranked, since each would cost the others sets."""


@dataclass(frozen=True)
class Measure:
    """A metric by which methods are ranked."""

    name: str
    heading: str
    task: str
    greater_is_better: bool = False


MEASURES = (
    Measure("crps", "CRPS", "value"),
    Measure("crps_grid", "CRPS on the grid", "value"),
    Measure("mae", "MAE", "value"),
    Measure("rmse", "RMSE", "value"),
    Measure("interval_score_90", "interval score 90 %", "value"),
    Measure("srcc", "rank correlation", "value", greater_is_better=True),
    Measure("rps", "RPS", "grades"),
    Measure("mae", "MAE", "grades"),
    Measure("qwk", "QWK", "grades", greater_is_better=True),
    Measure("accuracy", "accuracy", "grades", greater_is_better=True),
)
TASKS = ("value", "grades")


# Cells.


def latest_cells(lines: Iterable[Line]) -> Cells:
    """One line for each data set, method and seed: the last that went well, else the last.

    >>> failed = {"dataset": "a", "method": "b", "seed": 0, "status": "failed"}
    >>> latest_cells([failed, failed | {"status": "ok"}, failed])["a", "b", 0]["status"]
    'ok'
    """
    cells: Cells = {}
    for line in lines:
        place = line["dataset"], line["method"], line["seed"]
        if line["status"] == "ok" or place not in cells or cells[place]["status"] != "ok":
            cells[place] = line
    return cells


def of_task(cells: Cells, task: str) -> Cells:
    """The cells of one task."""
    return {place: line for place, line in cells.items() if line["task"] == task}


def names_in(cells: Cells, part: int) -> list[str]:
    """Names of data sets (part 0) or methods (part 1), in the order of the lines."""
    return list(dict.fromkeys(str(place[part]) for place in cells))


def missing_cells(cells: Cells) -> dict[str, list[str]]:
    """For each method the data sets of its tasks where some seed has no line, with those seeds."""
    found: dict[str, list[str]] = {}
    for task in TASKS:
        own = of_task(cells, task)
        pooled = {dataset for (dataset, _, _), line in own.items() if line.get("n_left_out")}
        seeds = sorted({seed for dataset, _, seed in own if dataset not in pooled})
        for method in names_in(own, 1):
            for dataset in names_in(own, 0):
                wanted = [0] if dataset in pooled else seeds
                absent = [str(seed) for seed in wanted if (dataset, method, seed) not in own]
                if absent:
                    found.setdefault(method, []).append(f"{dataset} (seed {', '.join(absent)})")
    return found


def common_seeds(cells: Cells, dataset: str, methods: Sequence[str]) -> list[int]:
    """Seeds at which all methods have results on a data set."""
    known = [
        {seed for (name, other, seed), line in cells.items()
         if (name, other) == (dataset, method) and line["status"] == "ok"}
        for method in methods
    ]  # fmt: skip
    return sorted(set.intersection(*known)) if known else []


def ranked_methods(cells: Cells) -> list[str]:
    """Methods that have results on enough data sets to be ranked."""
    n_datasets = len(names_in(cells, 0))
    known: dict[str, set[str]] = {}
    for (dataset, method, _), line in cells.items():
        if line["status"] == "ok":
            known.setdefault(method, set()).add(dataset)
    return [method for method in names_in(cells, 1) if len(known.get(method, ())) >= RANKED_SHARE * n_datasets]


# Comparing.


@dataclass(frozen=True)
class Pair:
    """Two methods: on how many data sets the first is better, equal or worse, and how sure the difference is."""

    first: str
    second: str
    wins: int
    ties: int
    losses: int
    p: float
    """Of the Wilcoxon signed-rank test over data sets."""
    p_holm: float = 1.0
    """The same, corrected for the number of pairs."""


@dataclass(frozen=True)
class Comparison:
    """Methods by one measure. **Shape:** means, spreads and ranks ``(datasets, methods)``, best mean rank first."""

    measure: Measure
    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    seeds: Mapping[str, tuple[int, ...]]
    """Seeds over which the means of a data set are taken."""
    means: Array
    spreads: Array
    """Standard deviations over the seeds, 0 where there is one."""
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Data sets that are not compared on, with the methods that have no results there."""

    @cached_property
    def ranks(self) -> Array:
        """Ranks on each data set, 1 is best; equals share the mean of their ranks."""
        return rank(self.means, self.measure.greater_is_better)

    @property
    def mean_ranks(self) -> Array:
        """Mean over data sets. **Shape:** ``(methods,)``."""
        return np.asarray(self.ranks.mean(axis=0))

    @property
    def best(self) -> NDArray[np.bool_]:
        """Which methods reach the best mean of a data set. **Shape:** ``(datasets, methods)``."""
        sign = -1 if self.measure.greater_is_better else 1
        return np.asarray(sign * self.means == (sign * self.means).min(axis=1, keepdims=True))

    @property
    def wins(self) -> NDArray[np.int64]:
        """Number of data sets on which a method is the best, or one of several. **Shape:** ``(methods,)``."""
        return np.asarray(self.best.sum(axis=0))

    @property
    def relative(self) -> Array:
        """How far from the best, mean over data sets: score / best, or best - score where greater is better.

        **Shape:** ``(methods,)``.
        """
        if self.measure.greater_is_better:
            return np.asarray((self.means.max(axis=1, keepdims=True) - self.means).mean(axis=0))
        lowest = self.means.min(axis=1, keepdims=True)
        known = lowest[:, 0] > 0
        if not known.any():
            return np.full(len(self.methods), np.nan)
        return np.asarray((self.means[known] / lowest[known]).mean(axis=0))

    def column(self, method: str) -> Array:
        """Means of one method. **Shape:** ``(datasets,)``."""
        return np.asarray(self.means[:, self.methods.index(method)])


def compare(cells: Cells, measure: Measure, methods: Sequence[str] | None = None) -> Comparison | None:
    """Methods by a measure, on the data sets of its task where all have results; None where nothing can be compared."""
    cells = of_task(cells, measure.task)
    measured = {place[0] for place, line in cells.items() if measure.name in line.get("metrics", {})}
    if not measured:
        return None
    cells = {place: line for place, line in cells.items() if place[0] in measured}  # some measures are of few data sets
    scores = _score_table(cells, measure)
    wanted = ranked_methods(cells) if methods is None else methods
    scores = scores[[name for name in names_in(cells, 1) if name in wanted and scores[name].notna().any()]]
    common = scores.dropna()
    if scores.empty or common.empty:
        return None
    by_dataset = {str(name): found for name, found in common.groupby(level="dataset", sort=False)}
    means = np.array([found.to_numpy().mean(axis=0) for found in by_dataset.values()])
    spreads = np.array([found.std().fillna(0.0).to_numpy() for found in by_dataset.values()])
    order = np.argsort(rank(means, measure.greater_is_better).mean(axis=0), kind="stable")
    left_out = {
        str(name): tuple(found.columns[found.isna().all()]) or tuple(scores)
        for name, found in scores.groupby(level="dataset", sort=False)
        if name not in by_dataset
    }
    seeds = {name: tuple(found.index.get_level_values("seed")) for name, found in by_dataset.items()}
    methods = tuple(scores.columns[order])
    return Comparison(measure, methods, tuple(by_dataset), seeds, means[:, order], spreads[:, order], left_out)


def _score_table(cells: Cells, measure: Measure) -> pd.DataFrame:
    """Scores by data set and seed, a column for each method; NaN where a cell has none."""
    rows = [
        (*place, line["metrics"].get(measure.name, np.nan) if line["status"] == "ok" else np.nan)
        for place, line in cells.items()
    ]
    frame = pd.DataFrame(rows, columns=["dataset", "method", "seed", "score"])
    table = frame.pivot(index=["dataset", "seed"], columns="method", values="score")
    ordered: pd.DataFrame = table.reindex(names_in(cells, 0), level="dataset")
    return ordered


def rank(values: Array, greater_is_better: bool = False) -> Array:
    """Ranks along the last axis from 1, the best; equal values share the mean of their ranks. **Shape:** kept.

    >>> rank(np.array([3.0, 1.0, 3.0, 2.0])).tolist(), rank(np.array([3.0, 1.0]), greater_is_better=True).tolist()
    ([3.5, 1.0, 3.5, 2.0], [1.0, 2.0])
    """
    from scipy.stats import rankdata  # here, since importing scipy.stats takes long

    return np.asarray(rankdata(-values if greater_is_better else values, axis=-1))


# Testing.


def compare_pairs(comparison: Comparison) -> list[Pair]:
    """All pairs of methods, each with the better-ranked one first; the tests are corrected for their number."""
    methods = comparison.methods
    pairs = [
        _pair(comparison, first, second)
        for place, first in enumerate(methods)
        for second in methods[place + 1 :]
    ]  # fmt: skip
    corrected = holm([pair.p for pair in pairs])
    return [replace(pair, p_holm=p_holm) for pair, p_holm in zip(pairs, corrected, strict=True)]


def _pair(comparison: Comparison, first: str, second: str) -> Pair:
    ours, theirs = comparison.column(first), comparison.column(second)
    gain = ours - theirs if comparison.measure.greater_is_better else theirs - ours
    wins, losses = int((gain > 0).sum()), int((gain < 0).sum())
    p = signed_rank_p(differences(ours, theirs, comparison.measure.greater_is_better))
    return Pair(first, second, wins, len(gain) - wins - losses, losses, p)


def differences(first: Array, second: Array, greater_is_better: bool) -> Array:
    """What the signed-rank test orders by size: logarithms of ratios for errors, whose units differ between data sets.

    Scores that are better when greater, as correlations are, have no units and are subtracted. **Shape:** ``(d,)``.
    """
    if greater_is_better or min(first.min(), second.min()) <= 0:
        return np.asarray(first - second)
    return np.asarray(np.log(first / second))


def signed_rank_p(values: Array) -> float:
    """Two-sided p of the Wilcoxon signed-rank test; zeros are left out, and nothing but zeros gives 1.

    >>> round(signed_rank_p(np.array([1.0, 2.0, 3.0, 4.0, 5.0])), 4), signed_rank_p(np.zeros(3))
    (0.0625, 1.0)
    """
    from scipy.stats import wilcoxon

    values = values[values != 0]
    return float(wilcoxon(values).pvalue) if len(values) else 1.0


def holm(values: Sequence[float]) -> list[float]:
    """Holm's correction of several p, in their order.

    By hand: statsmodels is no package that a report needs, and imports for a second; scipy has no correction of Holm.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order, p = np.argsort(values, kind="stable"), np.asarray(values, dtype=np.float64)
    reached = np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order])
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(reached, 1.0)
    return [float(value) for value in corrected]


@dataclass(frozen=True)
class CriticalDifference:
    """Friedman's test of whether the methods differ at all, and Nemenyi's difference of mean ranks that counts."""

    statistic: float
    p: float
    difference: float


def critical_difference(comparison: Comparison) -> CriticalDifference | None:
    """The critical difference at 0.05, or None where methods or data sets are too few."""
    n_datasets, n_methods = comparison.ranks.shape
    if n_datasets < FEWEST_DATASETS or n_methods < 3:
        return None
    from scipy.stats import friedmanchisquare, studentized_range

    test = friedmanchisquare(*comparison.ranks.T)
    quantile = float(studentized_range.ppf(1 - SIGNIFICANT, n_methods, np.inf)) / np.sqrt(2)
    difference = quantile * np.sqrt(n_methods * (n_methods + 1) / (6 * n_datasets))
    return CriticalDifference(float(test.statistic), float(test.pvalue), float(difference))


# Time, calibration.


def table_of(cells: Cells, comparison: Comparison, of: Callable[[Line], Any]) -> Array:
    """What ``of`` reads from a line, mean over seeds. **Shape:** ``(datasets, methods, ...)``."""
    return np.array([
        [np.mean([of(cells[dataset, method, seed]) for seed in seeds], axis=0) for method in comparison.methods]
        for dataset, seeds in comparison.seeds.items()
    ])  # fmt: skip


def seconds_by_method(cells: Cells, comparison: Comparison, of: Callable[[Line], float]) -> dict[str, float]:
    """Geometric mean over the compared data sets of what ``of`` reads from a line, for each method."""
    means = np.exp(np.log(np.maximum(1e-6, table_of(cells, comparison, of))).mean(axis=0))
    return dict(zip(comparison.methods, means.tolist(), strict=True))


def fit_seconds(line: Line) -> float:
    """Seconds to fit."""
    return float(line["fit_seconds"])


def predict_seconds(line: Line) -> float:
    """Seconds to predict a thousand rows."""
    return 1000 * float(line["predict_seconds"]) / float(line["n_test"])


def mean_calibration(cells: Cells, comparison: Comparison) -> tuple[list[float], dict[str, list[float]]]:
    """Levels, and for each method the coverage at them, averaged over seeds and then over the compared data sets."""
    dataset, seeds = next(iter(comparison.seeds.items()))
    levels: list[float] = cells[dataset, comparison.methods[0], seeds[0]]["calibration"]["levels"]
    curves = table_of(cells, comparison, lambda line: line["calibration"]["coverage"]).mean(axis=0)
    return levels, dict(zip(comparison.methods, curves.tolist(), strict=True))


def middle_share(line: Line) -> float:
    """Share of the truths in the middle 90 % of their distributions.

    For continuous distributions that is the coverage of the 90 % interval. Where one of its two quantiles is a point
    mass, a grade or a zero, all between them is too much; here a truth at the mass counts by the part of it that
    belongs to the middle.
    """
    shares = line["calibration"].get("pit", [])
    if len(shares) != N_PIT_BINS:
        return float(line["metrics"]["coverage_90"])
    return float(sum(shares[1:-1]))


def coverage_table(cells: Cells, comparison: Comparison) -> Array:
    """Truths in the middle 90 % of their distributions, mean over seeds. **Shape:** ``(datasets, methods)``."""
    return table_of(cells, comparison, middle_share)


# As JSON.


def leaderboard_numbers(cells: Cells, methods: Sequence[str] | None = None) -> dict[str, Any]:
    """All numbers of the leaderboards: task, then measure."""
    numbers: dict[str, Any] = {}
    for measure in MEASURES:
        comparison = compare(cells, measure, methods)
        if comparison is not None:
            numbers.setdefault(measure.task, {})[measure.name] = _comparison_numbers(cells, comparison)
    return numbers


def _comparison_numbers(cells: Cells, comparison: Comparison) -> dict[str, Any]:
    critical = critical_difference(comparison)
    fit = seconds_by_method(cells, comparison, fit_seconds)
    predict = seconds_by_method(cells, comparison, predict_seconds)
    relative = [None if np.isnan(value) else float(value) for value in comparison.relative]
    coverage = coverage_table(cells, comparison).mean(axis=0)
    return {
        "greater_is_better": comparison.measure.greater_is_better,
        "datasets": list(comparison.datasets),
        "left_out": {name: list(methods) for name, methods in comparison.left_out.items()},
        "seeds": {name: list(seeds) for name, seeds in comparison.seeds.items()},
        "methods": {
            method: {
                "mean_rank": float(comparison.mean_ranks[place]),
                "wins": int(comparison.wins[place]),
                "relative": relative[place],
                "coverage_90": float(coverage[place]),
                "fit_seconds": fit[method],
                "predict_seconds_per_1000_rows": predict[method],
                "means": dict(zip(comparison.datasets, comparison.means[:, place].tolist(), strict=True)),
                "spreads": dict(zip(comparison.datasets, comparison.spreads[:, place].tolist(), strict=True)),
            }
            for place, method in enumerate(comparison.methods)
        },
        "pairs": [vars(pair) for pair in compare_pairs(comparison)],
        "critical_difference": None if critical is None else vars(critical),
    }
