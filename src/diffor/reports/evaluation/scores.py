"""Metrics of a model's answers, beside the best constant and with intervals from resampled rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from diffor import metrics

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

N_RESAMPLES = 1000
MAX_RESAMPLED = 20_000
"""Rows of a resample: of longer tables fewer are drawn, and the interval is narrowed by the root of their share."""
MAX_PAIRED = 1000
"""The same for metrics that compare pairs of rows."""
_STREAM = 20260911


class Amounts(NamedTuple):
    """What was answered for rows with known values. **Shape:** each ``(n,)``."""

    truth: Array
    answered: Array
    low: Array
    high: Array
    crps: Array

    def take(self, rows: Rows) -> Amounts:
        """Some of the rows. **Shape:** ``(r,)``, numbers below n."""
        return Amounts(*(column[rows] for column in self))


class Graded(NamedTuple):
    """What was answered for rows with known grades. **Shape:** ``(n,)``, ``(n,)``, ``(n, K)``."""

    truth: NDArray[np.int64]
    chosen: NDArray[np.int64]
    probabilities: Array

    def take(self, rows: Rows) -> Graded:
        """Some of the rows. **Shape:** ``(r,)``, numbers below n."""
        return Graded(self.truth[rows], self.chosen[rows], self.probabilities[rows])


Answers = TypeVar("Answers", Amounts, Graded)


@dataclass(frozen=True)
class Measure(Generic[Answers]):
    """One metric of all answers: its name on a page, what it computes, and which side of it is better."""

    title: str
    of: Callable[[Answers], float]
    better: str = "lower"
    """``lower``, ``higher``, or ``nominal`` for what should be neither."""
    max_resampled: int = MAX_RESAMPLED
    of_order: bool = False
    """Whether it says nothing about rows which all have the same truth."""


@dataclass(frozen=True)
class Score:
    """A metric of a model, its 95% interval, and that of the best constant; None where there is none."""

    title: str
    value: float | None
    interval: tuple[float, float] | None
    constant: float | None
    better: str = "lower"

    @property
    def is_clear(self) -> bool:
        """Whether the whole interval is better than the constant."""
        if self.interval is None or self.constant is None or self.better == "nominal":
            return False
        return self.interval[0] > self.constant if self.better == "higher" else self.interval[1] < self.constant


AMOUNT_MEASURES: dict[str, Measure[Amounts]] = {
    "mae": Measure("MAE", lambda rows: metrics.mae(rows.truth, rows.answered)),
    "rmse": Measure("RMSE", lambda rows: metrics.rmse(rows.truth, rows.answered)),
    "srcc": Measure("SRCC", lambda rows: metrics.srcc(rows.truth, rows.answered), "higher", of_order=True),
    "xauc": Measure("XAUC", lambda rows: metrics.xauc(rows.truth, rows.answered), "higher", MAX_PAIRED, True),
    "crps": Measure("CRPS", lambda rows: float(rows.crps.mean())),
    "coverage": Measure("coverage", lambda rows: metrics.coverage(rows.truth, rows.low, rows.high), "nominal"),
    "interval_width": Measure(
        "width of intervals", lambda rows: metrics.interval_width(rows.low, rows.high), "nominal"
    ),  # narrow is good only where coverage is
}
GRADE_MEASURES: dict[str, Measure[Graded]] = {
    "accuracy": Measure("accuracy", lambda rows: metrics.accuracy_off_by(rows.truth, rows.chosen, 0), "higher"),
    "mae": Measure("MAE in grades", lambda rows: metrics.mae(rows.truth, rows.chosen)),
    "qwk": Measure(
        "QWK", lambda rows: metrics.qwk(rows.truth, rows.chosen, len(rows.probabilities[0])), "higher", of_order=True
    ),
    "rps": Measure("RPS", lambda rows: metrics.rps(rows.truth, rows.probabilities)),
}


def calibrated_range(count: int, coverage: float) -> tuple[int, int]:
    """How many of so many rows a calibrated model's intervals hold, 19 times in 20.

    >>> calibrated_range(100, 0.9)
    (84, 95)
    """
    from scipy.stats import binom  # here, since importing scipy.stats takes long

    low, high = binom.ppf([0.025, 0.975], count, coverage)
    return int(low), int(high)


def constant_amounts(truth: Array, level: float) -> dict[str, float]:
    """The best that one answer for all rows could reach in each metric, also one interval or one distribution.

    **Shape:** ``(n,)``.

    >>> {name: float(value) for name, value in constant_amounts(np.array([1.0, 2.0, 6.0]), 0.9).items()}["mae"]
    1.6666666666666667
    """
    ends = np.quantile(truth, [(1 - level) / 2, (1 + level) / 2])
    median, mean, low, high = (np.full(len(truth), value) for value in (np.median(truth), truth.mean(), *ends))
    # The mean distance of two rows is the CRPS of answering every row with the distribution of all.
    ranks = 2 * np.arange(1, len(truth) + 1) - len(truth) - 1
    return {
        "mae": metrics.mae(truth, median),
        "rmse": metrics.rmse(truth, mean),
        "srcc": 0.0,
        "xauc": 0.5,
        "crps": float(np.sort(truth) @ ranks / len(truth) ** 2),
        "coverage": metrics.coverage(truth, low, high),
        "interval_width": float(ends[1] - ends[0]),
    }


def constant_grades(truth: NDArray[np.int64], n_grades: int) -> dict[str, float]:
    """The best that one answer for all rows could reach in each metric. **Shape:** ``(n,)``, places of grades.

    >>> constant_grades(np.array([0, 0, 2]), 3)["mae"]
    0.6666666666666666
    """
    shares = np.bincount(truth, minlength=n_grades) / len(truth)
    middle = np.sort(truth)[len(truth) // 2]
    return {
        "accuracy": float(shares.max()),
        "mae": metrics.mae(truth, np.full(len(truth), middle)),
        "qwk": 0.0,
        "rps": metrics.rps(truth, np.tile(shares, (len(truth), 1))),
    }


def plain_scores(
    answers: Answers, measures: Mapping[str, Measure[Answers]], constants: Mapping[str, float]
) -> dict[str, tuple[float | None, float | None]]:
    """Each metric of the model and of the best constant; None where the truth is too uniform to have one."""
    varies = np.ptp(answers.truth) > 0
    return {
        name: (measure.of(answers), constants[name]) if varies or not measure.of_order else (None, None)
        for name, measure in measures.items()
    }


def with_intervals(
    answers: Answers,
    measures: Mapping[str, Measure[Answers]],
    scores: Mapping[str, tuple[float | None, float | None]],
    n_resamples: int = N_RESAMPLES,
) -> list[Score]:
    """The scores with a 95% interval each."""
    found = []
    for name, measure in measures.items():
        value, constant = scores[name]
        interval = None if value is None else bootstrap_interval(answers, measure, value, n_resamples)
        found.append(Score(measure.title, value, interval, constant, measure.better))
    return found


def bootstrap_interval(
    answers: Answers, measure: Measure[Answers], value: float, n_resamples: int = N_RESAMPLES
) -> tuple[float, float]:
    """Where 95% of the values lie that a metric has on resampled rows; the same rows give the same interval.

    Of long tables fewer rows are drawn than there are. What they vary more than all rows would is then taken back
    (m out of n bootstrap, which ``scipy.stats.bootstrap`` does not do, nor does it leave out resamples of one truth).
    """
    n = len(answers.truth)
    size = min(n, measure.max_resampled)
    generator = np.random.default_rng([_STREAM, n])
    values = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # answers that are all alike have no correlation
        for _ in range(n_resamples):
            drawn = answers.take(generator.integers(n, size=size))
            if not measure.of_order or np.ptp(drawn.truth) > 0:
                values.append(measure.of(drawn))
    ends = np.nanquantile(values or [value], [0.025, 0.975])
    narrowed = value + (ends - value) * np.sqrt(size / n)
    return float(narrowed[0]), float(narrowed[1])
