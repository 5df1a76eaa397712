"""Leaderboards: what the lines of a benchmark say about which method is better, and how sure that is.

Methods are compared on the means over seeds, data set by data set, and only on data sets where all of them have
results. Values and grades are two competitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor.bench.cell import N_PIT_BINS
from diffor.reports.significance import holm, signed_rank_p

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


def good_cells(cells: Cells) -> Cells:
    """The cells that went well."""
    return {place: line for place, line in cells.items() if line["status"] == "ok"}


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
    places = good_cells(cells).keys()
    known = [{seed for name, other, seed in places if (name, other) == (dataset, method)} for method in methods]
    return sorted(set.intersection(*known)) if known else []


def ranked_methods(cells: Cells) -> list[str]:
    """Methods that have results on enough data sets to be ranked."""
    known = {(dataset, method) for dataset, method, _ in good_cells(cells)}
    datasets = names_in(cells, 0)
    return [
        method
        for method in names_in(cells, 1)
        if sum((dataset, method) in known for dataset in datasets) >= RANKED_SHARE * len(datasets)
    ]


# Comparing.


@dataclass(frozen=True)
class Comparison:
    """Methods by one measure, best mean rank first. **Shape:** means and spreads ``(datasets, methods)``."""

    measure: Measure
    means: pd.DataFrame
    spreads: pd.DataFrame
    """Standard deviations over the seeds, 0 where there is one."""
    seeds: Mapping[str, tuple[int, ...]]
    """Seeds over which the means of a data set are taken."""
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Data sets that are not compared on, with the methods that have no results there."""

    @property
    def methods(self) -> list[str]:
        """Names of the methods, best mean rank first."""
        return list(self.means.columns)

    @property
    def datasets(self) -> list[str]:
        """Names of the data sets."""
        return list(self.means.index)

    @cached_property
    def errors(self) -> pd.DataFrame:
        """The means, turned round where greater is better."""
        return -self.means if self.measure.greater_is_better else self.means

    @cached_property
    def ranks(self) -> pd.DataFrame:
        """Ranks on each data set, 1 is best; equals share the mean of their ranks."""
        ranks: pd.DataFrame = self.errors.rank(axis=1)
        return ranks

    @cached_property
    def is_best(self) -> pd.DataFrame:
        """Which methods reach the best mean of a data set."""
        is_best: pd.DataFrame = self.errors.eq(self.errors.min(axis=1), axis=0)
        return is_best

    @property
    def relative(self) -> pd.Series[float]:
        """How far from the best, mean over data sets: score / best, or best - score where greater is better."""
        best = self.errors.min(axis=1)
        far = self.errors.sub(best, axis=0)
        if not self.measure.greater_is_better:
            far = self.errors[best > 0].div(best[best > 0], axis=0)
        mean: pd.Series[float] = far.mean()
        return mean


def compare(cells: Cells, measure: Measure, methods: Sequence[str] | None = None) -> Comparison | None:
    """Methods by a measure, on the data sets of its task where all have results; None where nothing can be compared."""
    cells = of_task(cells, measure.task)
    measured = {place[0] for place, line in cells.items() if measure.name in line.get("metrics", {})}
    cells = {place: line for place, line in cells.items() if place[0] in measured}  # some measures are of few data sets
    found = {place: line["metrics"].get(measure.name) for place, line in good_cells(cells).items()}
    if not found:
        return None
    scores = pd.Series(found, dtype=float).unstack(1)  # a row for each data set and seed, NaN where a cell has none
    wanted = ranked_methods(cells) if methods is None else methods
    names = [name for name in names_in(cells, 1) if name in wanted and name in scores]
    scores = scores.reindex(names_in(cells, 0), level=0)[names]
    by_dataset = scores.dropna().groupby(level=0, sort=False)
    means = by_dataset.agg(lambda column: np.mean(column.to_numpy()))  # pandas' own mean rounds otherwise
    spreads = by_dataset.std().fillna(0.0)
    if means.empty:
        return None
    everything = scores.groupby(level=0, sort=False).count().reindex(names_in(cells, 0), fill_value=0)
    left_out = {
        name: tuple(counts.index[counts == 0]) or tuple(names)
        for name, counts in everything.iterrows()
        if name not in means.index
    }
    seeds = {str(name): tuple(rows.index.get_level_values(1)) for name, rows in by_dataset}
    order = (-means if measure.greater_is_better else means).rank(axis=1).mean().sort_values(kind="stable").index
    return Comparison(measure, means[order], spreads[order], seeds, left_out)


# Testing.


def compare_pairs(comparison: Comparison) -> list[dict[str, Any]]:
    """All pairs of methods, the better-ranked one ``first``: on how many data sets it wins, ties and loses, and p.

    These are of the Wilcoxon signed-rank test over data sets: ``p`` plain, ``p_holm`` corrected for their number.
    """
    pairs = list(combinations(comparison.methods, 2))
    gains = [differences(comparison, first, second) for first, second in pairs]
    plain = [signed_rank_p(gain) for gain in gains]
    return [
        {"first": first, "second": second, "wins": int((gain > 0).sum()), "ties": int((gain == 0).sum()),
         "losses": int((gain < 0).sum()), "p": p, "p_holm": p_holm}
        for (first, second), gain, p, p_holm in zip(pairs, gains, plain, holm(plain).tolist(), strict=True)
    ]  # fmt: skip


def differences(comparison: Comparison, first: str, second: str) -> Array:
    """By how much the first of two methods is better: the logarithm of the ratio of errors, whose units differ.

    Scores that are better when greater, as correlations are, have no units and are subtracted. **Shape:** ``(d,)``.
    """
    ours, theirs = comparison.errors[first].to_numpy(), comparison.errors[second].to_numpy()
    if comparison.measure.greater_is_better or min(ours.min(), theirs.min()) <= 0:
        return np.asarray(theirs - ours)
    return np.asarray(np.log(theirs / ours))


@dataclass(frozen=True)
class CriticalDifference:
    """Friedman's test of whether the methods differ at all, and Nemenyi's difference of mean ranks that counts."""

    statistic: float
    p: float
    difference: float


def critical_difference(comparison: Comparison) -> CriticalDifference | None:
    """The critical difference at 0.05, or None where methods or data sets are too few."""
    n_datasets, n_methods = comparison.means.shape
    if n_datasets < FEWEST_DATASETS or n_methods < 3:
        return None
    from scipy.stats import friedmanchisquare, studentized_range  # here, since importing scipy.stats takes long

    test = friedmanchisquare(*comparison.ranks.to_numpy().T)
    quantile = float(studentized_range.ppf(1 - SIGNIFICANT, n_methods, np.inf)) / np.sqrt(2)
    difference = quantile * np.sqrt(n_methods * (n_methods + 1) / (6 * n_datasets))
    return CriticalDifference(float(test.statistic), float(test.pvalue), float(difference))


# Time, calibration.


def table_of(cells: Cells, comparison: Comparison, of: Callable[[Line], float]) -> pd.DataFrame:
    """What ``of`` reads from a line, mean over seeds. **Shape:** ``(datasets, methods)``."""
    means = {
        method: [np.mean([of(cells[dataset, method, seed]) for seed in seeds])
                 for dataset, seeds in comparison.seeds.items()]
        for method in comparison.methods
    }  # fmt: skip
    table: pd.DataFrame = pd.DataFrame(means, index=comparison.datasets)
    return table


def seconds_by_method(cells: Cells, comparison: Comparison, of: Callable[[Line], float]) -> pd.Series[float]:
    """Geometric mean over the compared data sets of what ``of`` reads from a line, for each method."""
    seconds: pd.Series[float] = np.exp(np.log(table_of(cells, comparison, of).clip(lower=1e-6)).mean())
    return seconds


def fit_seconds(line: Line) -> float:
    """Seconds to fit."""
    return float(line["fit_seconds"])


def predict_seconds(line: Line) -> float:
    """Seconds to predict a thousand rows."""
    return 1000 * float(line["predict_seconds"]) / float(line["n_test"])


def mean_calibration(cells: Cells, comparison: Comparison) -> pd.DataFrame:
    """Coverage averaged over seeds and then over the compared data sets. **Shape:** ``(levels, methods)``."""
    dataset, seeds = next(iter(comparison.seeds.items()))
    levels: list[float] = cells[dataset, comparison.methods[0], seeds[0]]["calibration"]["levels"]
    means = {
        method: np.mean([
            np.mean([cells[dataset, method, seed]["calibration"]["coverage"] for seed in seeds], axis=0)
            for dataset, seeds in comparison.seeds.items()
        ], axis=0)
        for method in comparison.methods
    }  # fmt: skip
    curves: pd.DataFrame = pd.DataFrame(means, index=levels)
    return curves


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
    by_method = pd.DataFrame({
        "mean_rank": comparison.ranks.mean(),
        "relative": comparison.relative,
        "coverage_90": table_of(cells, comparison, middle_share).mean(),
        "fit_seconds": seconds_by_method(cells, comparison, fit_seconds),
        "predict_seconds_per_1000_rows": seconds_by_method(cells, comparison, predict_seconds),
    })  # fmt: skip
    return {
        "greater_is_better": comparison.measure.greater_is_better,
        "datasets": comparison.datasets,
        "left_out": {name: list(methods) for name, methods in comparison.left_out.items()},
        "seeds": {name: list(seeds) for name, seeds in comparison.seeds.items()},
        "methods": {
            method: {
                **{name: None if np.isnan(value) else value for name, value in by_method.loc[method].to_dict().items()},
                "wins": int(comparison.is_best[method].sum()),
                "means": comparison.means[method].to_dict(),
                "spreads": comparison.spreads[method].to_dict(),
            }
            for method in comparison.methods
        },
        "pairs": compare_pairs(comparison),
        "critical_difference": None if critical is None else vars(critical),
    }
