"""A cell of a benchmark: one method on one split of one data set, from the rows to the figures.

Everything that is drawn here is drawn by the seed of the cell, so every method sees the same rows.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from diffor import metrics
from diffor.bench.image_features import ImageFeatures, with_features
from diffor.bench.peers import Fitted, Peer, Problem, find_peer
from diffor.core.grades import Spread, decide_grades
from diffor.core.prediction import Prediction
from diffor.datasets import Dataset, Samples, find_dataset
from diffor.errors import UserError

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Nominal coverages at which calibration is measured."""
N_PIT_BINS = 20
"""Equal parts of a distribution in which a line counts the truths."""
COVERAGE = 0.9
GRID_METRIC = "crps_grid"
OF_ERRORS = ("cs",)
"""Further metrics that look at absolute errors, as MAE does."""

# Streams of random numbers: what is drawn for one purpose says nothing about what is drawn for another.
_LIMIT, _VALID, _TEST, _TUNING, _PIT = range(20261101, 20261106)


@dataclass(frozen=True)
class Cell:
    """What identifies a cell: two cells that are equal give the same figures."""

    dataset: str
    method: str
    seed: int
    peer: str
    """The peer that does the work; the method's own name where it has no other."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    n_samples: int = 100
    valid_share: float = 0.1
    max_train_rows: int | None = None
    max_test_rows: int | None = None
    trials: int | None = None
    """Number of settings that are tried on the validation rows; None where nothing is tuned."""
    search: Mapping[str, list[Any]] = field(default_factory=dict)
    images: ImageFeatures | None = None
    """How pictures become features; None where the inputs are no pictures."""


@dataclass(frozen=True)
class Parts:
    """The rows of a cell: to learn from, to stop and tune on, to be scored on. **Shape:** row numbers ``(n,)``."""

    train: Rows
    valid: Rows
    test: Rows


def run_cell(cell: Cell, root: str | None = None) -> dict[str, Any]:
    """Fit, predict and score; the answer is the part of a result line that the cell itself can know."""
    dataset, peer = find_dataset(cell.dataset), find_peer(cell.peer)
    samples = dataset.read(root)
    if cell.images is not None:
        samples = with_features(samples, dataset, cell.images, root)
    parts = choose_rows(dataset, samples, cell, root)
    if dataset.standardised:
        samples = standardised(samples, np.concatenate([parts.train, parts.valid]))
    problem = make_problem(dataset, samples, parts, cell)
    import_seconds = warm_up(peer)
    started = time.perf_counter()
    fitted, tuning = fit_tuned(peer, problem, cell) if cell.trials else (peer.fit(problem, **cell.settings), None)
    fit_seconds = time.perf_counter() - started
    x_test, y_test = samples.x.iloc[parts.test], samples.y[parts.test]
    side = {name: column[parts.test] for name, column in samples.side.items()}
    started = time.perf_counter()
    prediction = ask(fitted, x_test, side)
    predict_seconds = time.perf_counter() - started
    measured = own_measurements(fitted)
    check_prediction(prediction, len(y_test), dataset.n_grades)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of correlations with a constant, which are given as 0
        scores = score(dataset, prediction, x_test, y_test, cell)
    if GRID_METRIC in dataset.metrics:  # the grid lies over the targets of all rows to learn from
        grid = metrics.training_grid(np.concatenate([problem.y, problem.y_valid]))
        scores[GRID_METRIC] = float(metrics.crps_grid(y_test, prediction.cdf(grid[None]), grid))
    return {
        "tuning": tuning,
        "n_splits": None if dataset.count_splits is None else dataset.count_splits(root),
        "n_train": len(parts.train),
        "n_valid": len(parts.valid),
        "n_test": len(parts.test),
        "n_columns": samples.x.shape[1],
        "n_grades": dataset.n_grades,
        "n_samples_given": prediction.samples.shape[1],
        "metrics": scores,
        "calibration": calibration(prediction, y_test, cell.seed),
        "fit_seconds": round(fit_seconds if tuning else measured.get("fit_seconds", fit_seconds), 4),
        "predict_seconds": round(measured.get("predict_seconds", predict_seconds), 4),
        "import_seconds": round(import_seconds, 4),
        "peak_mib": measured.get("peak_bytes", 0) / 2**20,
        "facts": dict(getattr(fitted, "facts", {})),
    }


def warm_up(peer: Peer) -> float:
    """Import what the peer needs before it is timed: a process made for one cell pays for that, a user does so once.

    The seconds that it took are returned; a missing package is left for the peer to name.
    """
    started = time.perf_counter()
    for module in peer.imports:
        with suppress(ImportError):
            importlib.import_module(module)
    return time.perf_counter() - started


def ask(fitted: Fitted, x: pd.DataFrame, side: Mapping[str, Array]) -> Prediction:
    """Predict rows; their side columns go to methods that can use them."""
    if hasattr(fitted, "predict_beside"):
        prediction: Prediction = fitted.predict_beside(x, side)
        return prediction
    return fitted.predict(x)


def own_measurements(fitted: Any) -> dict[str, float]:
    """What a method that works in another process says about it, where it does; that process is ended."""
    found = {name: getattr(fitted, name, None) for name in ("fit_seconds", "predict_seconds", "peak_bytes")}
    if hasattr(fitted, "close"):
        fitted.close()
    return {name: float(value) for name, value in found.items() if value is not None}


# Rows.


def choose_rows(dataset: Dataset, samples: Samples, cell: Cell, root: str | None = None) -> Parts:
    """The rows of a cell; split, limits and validation rows depend on the seed and not on the method.

    Where the protocol of a set names validation rows, these are they, and the limit holds for both parts together.
    """
    valid, limit, of_valid = np.arange(0), cell.max_train_rows, None
    if dataset.parts is None:
        train, test = dataset.split(root, cell.seed)
    else:
        train, valid, test = dataset.parts(root, cell.seed)
        if limit is not None and len(valid):  # divided as the parts are, one row of each at least
            of_valid = min(max(round(limit * len(valid) / (len(train) + len(valid))), 1), max(limit - 1, 1))
            limit = max(limit - of_valid, 1)
    train = draw_rows(train, limit, [_LIMIT, cell.seed])
    test = draw_rows(test, cell.max_test_rows, [_TEST, cell.seed])
    if len(valid):
        return Parts(train, draw_rows(valid, of_valid, [_VALID, cell.seed]), test)
    groups = None if samples.groups is None else samples.groups[train]
    chosen = choose_valid(len(train), cell.valid_share, [_VALID, cell.seed], groups)
    return Parts(train[~chosen], train[chosen], test)


def draw_rows(rows: Rows, limit: int | None, seed: list[int]) -> Rows:
    """At most ``limit`` of the rows, in their order. **Shape:** ``(n,)`` -> ``(at most limit,)``.

    >>> len(draw_rows(np.arange(10), 4, [0])), draw_rows(np.arange(3), 4, [0]).tolist()
    (4, [0, 1, 2])
    """
    found = np.asarray(rows, dtype=np.int64)
    if limit is None or len(found) <= limit:
        return found
    return found[np.sort(np.random.default_rng(seed).permutation(len(found))[:limit])]


def choose_valid(n_rows: int, share: float, seed: list[int], groups: Rows | None = None) -> NDArray[np.bool_]:
    """Which rows are set apart for validation, at least one; groups stay whole. **Shape:** -> ``(n_rows,)``.

    >>> choose_valid(10, 0.3, [0]).sum(), choose_valid(4, 0.5, [0], groups=np.array([7, 7, 8, 8])).sum()
    (np.int64(3), np.int64(2))
    """
    groups = np.arange(n_rows) if groups is None else groups
    names, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(names))
    n_groups = int(np.searchsorted(np.cumsum(sizes[order]), max(1, round(share * n_rows)))) + 1
    taken = np.zeros(len(names), dtype=bool)
    taken[order[:n_groups]] = True
    return np.asarray(taken[codes])


def standardised(samples: Samples, rows: Rows) -> Samples:
    """The samples with columns of mean 0 and standard deviation 1 in some of the rows; constant ones are centred.

    >>> samples = Samples(pd.DataFrame({"a": [1.0, 3.0, 9.0]}), np.zeros(3))
    >>> standardised(samples, np.array([0, 1])).x["a"].tolist()
    [-1.0, 1.0, 7.0]
    """
    from sklearn.preprocessing import StandardScaler

    scaled = StandardScaler().fit(samples.x.iloc[rows]).transform(samples.x)
    return replace(samples, x=pd.DataFrame(scaled, columns=samples.x.columns, index=samples.x.index))


def make_problem(dataset: Dataset, samples: Samples, parts: Parts, cell: Cell) -> Problem:
    """What the method is told."""
    x, y, side, groups = samples.x, samples.y, samples.side, samples.groups
    return Problem(
        x=x.iloc[parts.train],
        y=y[parts.train],
        x_valid=x.iloc[parts.valid],
        y_valid=y[parts.valid],
        n_grades=dataset.n_grades,
        bounds=dataset.bounds,
        seed=cell.seed,
        n_samples=cell.n_samples,
        side={name: column[parts.train] for name, column in side.items()},
        side_valid={name: column[parts.valid] for name, column in side.items()},
        groups=None if groups is None else groups[parts.train],
        groups_valid=None if groups is None else groups[parts.valid],
        keeps_validation=dataset.parts is not None,
    )


# Tuning.


def fit_tuned(peer: Peer, problem: Problem, cell: Cell) -> tuple[Fitted, dict[str, Any]]:
    """Random search over different settings: the fit with the best CRPS on the validation rows, and what was tried."""
    from sklearn.model_selection import ParameterGrid, ParameterSampler

    best: tuple[float, Fitted, dict[str, Any]] | None = None
    tried: list[dict[str, Any]] = []
    n_trials = min(cell.trials or 0, len(ParameterGrid(cell.search)))
    for drawn in ParameterSampler(cell.search, n_trials, random_state=_TUNING + cell.seed):
        started = time.perf_counter()
        record: dict[str, Any] = {"settings": drawn}
        try:
            fitted = peer.fit(problem, **{**cell.settings, **drawn})
            crps = float(ask(fitted, problem.x_valid, problem.side_valid).crps(problem.y_valid).mean())
            record["valid_crps"] = crps
            if best is None or crps < best[0]:
                best = crps, fitted, drawn
        except Exception as error:  # one bad combination is not the end of the search
            record["error"] = f"{type(error).__name__}: {error}"[:300]
        tried.append({**record, "seconds": round(time.perf_counter() - started, 4)})
    if best is None:
        raise RuntimeError(f"at least one trial must succeed, but all {len(tried)} failed; the last with "
                           f"{tried[-1]['error']}")  # fmt: skip
    return best[1], {"trials": tried, "chosen": best[2], "valid_crps": best[0]}


# Scores.


def check_prediction(prediction: Prediction, n_rows: int, n_grades: int | None) -> None:
    """Raise on a wrong number of rows, samples that are not finite, and codes that are no grades."""
    samples = np.asarray(prediction.samples)
    if len(samples) != n_rows:
        raise UserError(f"a prediction must have one row for each of {n_rows} test rows, but got {len(samples)}")
    wrong = ~np.isfinite(samples)
    if n_grades is not None:
        wrong |= (samples != np.rint(samples)) | (samples < 0) | (samples >= n_grades)
    if wrong.any():
        rule = "finite numbers" if n_grades is None else f"grade codes 0 to {n_grades - 1}"
        raise UserError(f"samples must be {rule}, but {wrong.sum()} of {wrong.size} are not, the first is "
                         f"{samples[wrong][0]!r}")  # fmt: skip


def score(dataset: Dataset, prediction: Prediction, x: pd.DataFrame, y: Array, cell: Cell) -> dict[str, float]:
    """All metrics by name. Errors take the median, squares and orders the mean, intervals lie between two quantiles.

    ``held_90`` and ``held_width_90`` are of the intervals that a user gets, which are shorter where an end is a value
    that many samples have.

    Grades are decided as each metric likes it best: accuracy by the most probable grade, MAE by the median grade, QWK
    by the mean, moved as far from the others as the method's own distributions say, and rounded to a grade.
    """
    tail = (1 - COVERAGE) / 2
    low, high = prediction.quantile([tail, 1 - tail]).T
    interval = prediction.interval(COVERAGE).T
    scores = {
        "mae": metrics.mae(y, prediction.median),
        "rmse": metrics.rmse(y, prediction.mean),
        "crps": prediction.crps(y).mean(),
        "coverage_90": metrics.coverage(y, low, high),
        "width_90": metrics.interval_width(low, high),
        "interval_score_90": (metrics.pinball(y, low, tail) + metrics.pinball(y, high, 1 - tail)) / tail,
        "held_90": metrics.coverage(y, *interval),
        "held_width_90": metrics.interval_width(*interval),
        "srcc": metrics.srcc(y, prediction.mean),
    }
    for name in dataset.metrics:
        if name not in scores and name in metrics.METRICS and metrics.METRICS[name].kind == "point":
            point = prediction.median if name in OF_ERRORS else prediction.mean
            scores[name] = metrics.METRICS[name].function(y, point)
    if prediction.point is not None:  # as the method's authors decide, where they have a way of their own
        scores["mae_native"] = metrics.mae(y, prediction.point)
    if dataset.n_grades is not None:
        scores |= score_grades(prediction, y, dataset.n_grades)
    if dataset.truth is not None:
        drawn = dataset.truth(x, cell.n_samples, cell.seed)
        scores["crps_truth"] = metrics.crps_samples(y, drawn)
    return {name: float(value) for name, value in scores.items()}


def score_grades(prediction: Prediction, y: Array, n_grades: int) -> dict[str, float]:
    """Metrics of decided grades and of their probabilities."""
    shares = prediction.grade_probabilities(n_grades)
    return {
        "mae": metrics.mae(y, decide_grades(shares, "median")),
        "accuracy": metrics.accuracy_off_by(y, decide_grades(shares, "mode"), 0),
        "qwk": metrics.qwk(y, decide_grades(shares, "qwk", Spread.of(shares)), n_grades),
        "rps": metrics.rps(y, shares),
    }


def calibration(prediction: Prediction, y: Array, seed: int) -> dict[str, list[float]]:
    """Share of rows inside the central interval of each level, and how evenly the truth falls into the distribution.

    The place of the truth in its row's distribution is drawn at random inside a probability of its own, so that point
    masses and grades are treated fairly: for a calibrated method each of the twenty ``pit`` shares is near 0.05, so
    that the inner eighteen hold nine tenths of the rows, also where an interval cannot because of its point masses.
    """
    levels = np.asarray(LEVELS)
    ends = prediction.quantile(np.concatenate([(1 - levels) / 2, (1 + levels) / 2]))
    low, high = ends[:, : len(levels)], ends[:, len(levels) :]
    inside = ((low <= y[:, None]) & (y[:, None] <= high)).mean(axis=0)
    probability = prediction.pit(y, _PIT + seed)
    bins = np.minimum((probability * N_PIT_BINS).astype(np.int64), N_PIT_BINS - 1)
    shares = np.bincount(bins, minlength=N_PIT_BINS) / len(y)
    return {"levels": list(LEVELS), "coverage": inside.round(6).tolist(), "pit": shares.round(6).tolist()}
