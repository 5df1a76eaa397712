"""The table of metrics that need only the truth and one prediction."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from numpy.typing import ArrayLike

from diffor.metrics.distributions import crps_samples, picp, qice
from diffor.metrics.grades import accuracy_off_by, qwk
from diffor.metrics.rankings import lcc, normalized_gini, srcc, xauc
from diffor.metrics.values import coverage, cs, interval_width, mae, rmse

Kind = Literal["point", "samples", "interval", "grade"]


@dataclass(frozen=True)
class Metric:
    """A metric of the table: what it is called with, and which way is better.

    After the truth, `function` takes predictions (n,) for the kinds "point" and "grade", samples (n, m) for "samples",
    and two arrays (n,), low and high, for "interval".

    >>> METRICS["mae"].function([1, 2], [1, 4])
    1.0
    """

    name: str
    function: Callable[..., float]
    kind: Kind
    greater_is_better: bool
    description: str

    @property
    def takes_weight(self) -> bool:
        """Whether `function` accepts ``sample_weight``.

        >>> METRICS["mae"].takes_weight, METRICS["qice"].takes_weight
        (True, False)
        """
        return "sample_weight" in inspect.signature(self.function).parameters


def _width_of_interval(
    y_true: ArrayLike, low: ArrayLike, high: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """`interval_width` with the arguments that all interval metrics of the table take."""
    return interval_width(low, high, sample_weight=sample_weight)


_STRICT, _CORRECT = partial(xauc, ties="strict"), partial(xauc, ties="correct")
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("mae", mae, "point", False, "Mean absolute error."),
        Metric("rmse", rmse, "point", False, "Root mean squared error."),
        Metric("cs", cs, "point", True, "Share of rows at most 5 units off."),
        Metric("xauc", xauc, "point", True, "Share of pairs in right order, pairs with tied labels left out."),
        Metric("xauc_strict", _STRICT, "point", True, "Share of pairs in right order, tied labels counted as wrong."),
        Metric("xauc_correct", _CORRECT, "point", True, "Share of pairs in right order, tied labels counted as right."),
        Metric("lcc", lcc, "point", True, "Linear (Pearson) correlation."),
        Metric("srcc", srcc, "point", True, "Rank (Spearman) correlation."),
        Metric("normalized_gini", normalized_gini, "point", True, "Gini coefficient as a share of the best possible."),
        Metric("qwk", qwk, "grade", True, "Quadratic weighted kappa of whole-number grades."),
        Metric("accuracy_off_by", accuracy_off_by, "grade", True, "Share of rows at most one grade off."),
        Metric("crps", crps_samples, "samples", False, "Continuous ranked probability score of the samples."),
        Metric(
            "crps_fair", partial(crps_samples, fair=True), "samples", False, "CRPS without the bias of few samples."
        ),
        Metric("qice", qice, "samples", False, "Unevenness of y over ten equally likely intervals."),
        Metric("picp", picp, "samples", True, "Share of rows inside the central 95 percent of their samples."),
        Metric("coverage", coverage, "interval", True, "Share of rows inside their interval."),
        Metric("interval_width", _width_of_interval, "interval", False, "Mean width of the intervals."),
    )
}
