"""Quick baselines beside a fitted model: trained on the same rows, asked about the same others, compared row by row."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from diffor.bench.peers import METHOD, PEERS, Fitted, Problem, find_peer
from diffor.bench.peers.columns import LinearDesign
from diffor.bench.peers.problem import FittedBy, all_rows, by_probabilities, quantile_levels
from diffor.core.prediction import Prediction
from diffor.datasets.samples import random_split
from diffor.encoders.tabular.inputs import CategoryColumn, Column, as_categories
from diffor.errors import UserError, did_you_mean

Array = NDArray[np.float64]

LINEAR = "linear"
NAMES = {("lightgbm", "value"): "lightgbm-quantile", ("lightgbm", "grades"): "lightgbm-classifier"}
"""Short names of peers by task."""
VALID_SHARE, FEWEST_ROWS = 0.1, 30
"""Share of the training rows that baselines stop on, and rows that there must be."""
N_RESAMPLES, MAX_RESAMPLED = 1000, 20_000
_STREAM = 20261119


@dataclass(frozen=True)
class Difference:
    """A mean error of a baseline, what it is more than the model's, and where 95 % of resampled rows have that."""

    value: float
    more: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Compared:
    """A baseline beside the model."""

    name: str
    crps: Difference
    mae: Difference
    fit_seconds: float

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return asdict(self)


def check_baselines(names: Sequence[str], is_graded: bool) -> dict[str, Any]:
    """What fits each named baseline; names that are none, or cannot do the task, are refused."""
    task = "grades" if is_graded else "value"
    found: dict[str, Any] = {}
    for name in names:
        if name == LINEAR:
            found[name] = fit_linear
            continue
        if (name, task) not in NAMES and name not in PEERS and not name.startswith(METHOD):
            raise UserError(
                f"baselines must be among lightgbm, linear and the methods of diffor bench, but got {name!r}"
                + did_you_mean(name, ("lightgbm", LINEAR, *PEERS))
            )
        peer = find_peer(NAMES.get((name, task), name))
        if task not in peer.tasks:
            kind = "grades" if is_graded else "values"
            raise UserError(f"baseline {name!r} predicts no {kind}, which the model does; choose another")
        found[name] = peer.fit
    return found


def plain_columns(table: pd.DataFrame, columns: Sequence[Column]) -> pd.DataFrame:
    """A table as baselines read it: numbers, dates among them, and categories. **Shape:** ``(n, p)``, kept.

    >>> from diffor.encoders import TabularInputs
    >>> table = pd.DataFrame({"size": [1, 2], "city": ["Oslo", "Rome"]})
    >>> plain_columns(table, TabularInputs().fit(table).columns).dtypes.astype(str).tolist()
    ['float64', 'category']
    """
    plain: dict[Any, Any] = {}
    for place, column in enumerate(columns):
        series = table.iloc[:, place]
        is_category = isinstance(column, CategoryColumn)
        plain[column.name] = pd.Categorical(as_categories(series)) if is_category else column.read(series)  # type: ignore[union-attr]
    frame: pd.DataFrame = pd.DataFrame(plain, index=range(len(table)))
    return frame


def make_problem(
    x: pd.DataFrame, y: Array, n_grades: int | None, bounds: tuple[float, float] | None, seed: int = 0
) -> Problem:
    """What baselines are told: rows to learn from and, drawn by the seed, to stop on. **Shape:** y ``(n,)``."""
    if len(y) < FEWEST_ROWS:
        raise UserError(f"baselines need at least {FEWEST_ROWS} training rows, but got {len(y)}; pass more")
    train, valid = random_split(len(y), VALID_SHARE, seed)
    return Problem(x.iloc[train], y[train], x.iloc[valid], y[valid], n_grades, bounds, seed)


def fit_linear(problem: Problem) -> Fitted:
    """Ridge regression with a Gaussian of its errors, or for grades logistic regression, on all training rows."""
    from sklearn.linear_model import LogisticRegression, RidgeCV

    x, y = all_rows(problem)
    design = LinearDesign(x)
    matrix = design.matrix(x)
    if problem.n_grades is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the last of the allowed iterations is an answer too
            logistic = LogisticRegression(max_iter=1000).fit(matrix, y.astype(np.int64))
        return by_probabilities(problem, lambda rows: logistic.predict_proba(design.matrix(rows)), logistic.classes_)
    ridge = RidgeCV(np.logspace(-2, 4, 13)).fit(matrix, y)
    freedom = max(len(y) - matrix.shape[1] - 1, 1)
    spread = float(np.sqrt(np.square(y - ridge.predict(matrix)).sum() / freedom))
    away, ends = spread * ndtri(quantile_levels(problem.n_samples)), problem.bounds or (-np.inf, np.inf)
    return FittedBy(lambda rows: Prediction(np.clip(ridge.predict(design.matrix(rows))[:, None] + away, *ends)))


def compare(
    baselines: Mapping[str, Any], problem: Problem, x: pd.DataFrame, truth: Array, crps: Array, errors: Array
) -> list[Compared]:
    """Each baseline's mean CRPS and absolute error beside those of the model, whose row by row are given.

    **Shape:** x of n rows, truth, crps and errors ``(n,)``; grades are counted from 0.
    """
    found = []
    for name, fit in baselines.items():
        started = time.perf_counter()
        fitted = fit(problem)
        seconds = time.perf_counter() - started
        prediction = fitted.predict(x)
        theirs = np.abs(prediction.median - truth)
        found.append(
            Compared(name, difference(prediction.crps(truth), crps), difference(theirs, errors), round(seconds, 2))
        )
    return found


def difference(theirs: Array, ours: Array) -> Difference:
    """Mean of the baseline's errors, and of what they are more than ours, with a 95 % interval by resampled rows.

    Of long tables fewer rows are drawn, and the interval is narrowed by the root of their share.

    **Shape:** ``(n,)`` each.

    >>> found = difference(np.array([2.0, 2.0, 5.0]), np.array([1.0, 1.0, 4.0]))
    >>> found.value, found.more, found.interval
    (3.0, 1.0, (1.0, 1.0))
    """
    each, draw = theirs - ours, np.random.default_rng([_STREAM, len(ours)])
    size, more = min(len(each), MAX_RESAMPLED), float(each.mean())
    means = [each[draw.integers(len(each), size=size)].mean() for _ in range(N_RESAMPLES)]
    low, high = more + (np.quantile(means, [0.025, 0.975]) - more) * np.sqrt(size / len(each))
    return Difference(float(theirs.mean()), more, (float(low), float(high)))


def graded_crps(codes: NDArray[np.int64], probabilities: Array) -> Array:
    """CRPS of each row's grade, in grades. **Shape:** ``(n,)``, ``(n, K)`` -> ``(n,)``.

    >>> graded_crps(np.array([0, 2]), np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])).tolist()
    [0.25, 0.0]
    """
    reached = probabilities.cumsum(axis=1)[:, :-1]
    passed = codes[:, None] <= np.arange(reached.shape[1])
    return np.asarray(np.square(reached - passed).sum(axis=1))


def as_lines(compared: Sequence[Compared], crps: float, mae: float) -> list[str]:
    """The comparison for a terminal."""
    lines = [f"{'method':<24}{'CRPS':>10}  {'more than the model':<28}{'MAE':>10}  {'more than the model':<28}"]
    lines.append(f"{'the model':<24}{crps:>10.4g}  {'':<28}{mae:>10.4g}")
    for one in compared:
        parts = [f"{one.name:<24}"]
        for found in (one.crps, one.mae):
            low, high = found.interval
            more = f"{found.more:+.3g} ({low:+.3g} to {high:+.3g})"
            parts.append(f"{found.value:>10.4g}  {more:<28}")
        lines.append("".join(parts))
    lines = [line.rstrip() for line in lines]
    return [
        *lines,
        "",
        "in brackets, 95 % of 1,000 resamples of the rows: where both ends are above 0, the model is better",
    ]
