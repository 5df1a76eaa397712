"""Metrics of predictions: points, grades, intervals and distributions.

Every metric takes the truth first and returns a float. Where a metric takes ``sample_weight``, a whole-number weight
is the same as repeating the row that often, and weight 0 the same as leaving it out.

| predicted thing | metrics |
|---|---|
| a number | `mae`, `rmse`, `cs`, `pinball`, `xauc`, `lcc`, `srcc`, `normalized_gini` |
| a grade | `qwk`, `accuracy_off_by`, `rps` (grade probabilities) |
| an interval | `coverage`, `interval_width` |
| a distribution | `crps_samples`, `crps_grid`, `qice`, `picp` |

`METRICS` lists those that need only the truth and one prediction; `scorer` makes scikit-learn scorers of them.
`crps_each` and `pit_values` give a number for each row.
"""

from __future__ import annotations

from diffor.metrics.checks import FloatArray, IndexArray
from diffor.metrics.distributions import (
    crps_each,
    crps_grid,
    crps_samples,
    picp,
    pit_values,
    qice,
    training_grid,
)
from diffor.metrics.grades import accuracy_off_by, qwk, rps
from diffor.metrics.rankings import Ties, lcc, normalized_gini, srcc, xauc
from diffor.metrics.scorers import MetricScorer, scorer
from diffor.metrics.table import METRICS, Kind, Metric
from diffor.metrics.values import coverage, cs, interval_width, mae, pinball, rmse

__all__ = [
    "METRICS",
    "FloatArray",
    "IndexArray",
    "Kind",
    "Metric",
    "MetricScorer",
    "Ties",
    "accuracy_off_by",
    "coverage",
    "crps_each",
    "crps_grid",
    "crps_samples",
    "cs",
    "interval_width",
    "lcc",
    "mae",
    "normalized_gini",
    "picp",
    "pinball",
    "pit_values",
    "qice",
    "qwk",
    "rmse",
    "rps",
    "scorer",
    "srcc",
    "training_grid",
    "xauc",
]
