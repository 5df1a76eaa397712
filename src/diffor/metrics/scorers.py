"""Scorers for scikit-learn, made of the metrics of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.errors import UserError, UserTypeError, did_you_mean
from diffor.metrics.checks import checked_rows, require_fraction, weighted_mean
from diffor.metrics.table import METRICS, Metric


def scorer(name: str, coverage: float = 0.9) -> MetricScorer:
    """Make a scikit-learn scorer of a metric of `METRICS`; of its values, greater is better (errors are negated).

    Point and grade metrics ask the estimator for ``predict(X)``, sample metrics for ``predict_distribution(X).samples``
    (n, m), interval metrics for ``predict_interval(X, coverage)``: a pair (low, high) or an array (n, 2). The CRPS of
    distributions in closed form is exact.

    >>> from sklearn.dummy import DummyRegressor
    >>> model = DummyRegressor().fit([[0], [0]], [1, 3])
    >>> scorer("mae")(model, [[0]], [5])
    -3.0
    """
    if name not in METRICS:
        hint = did_you_mean(name, METRICS)
        raise UserError(f"name must be one of {', '.join(METRICS)}, but got name={name!r}{hint}")
    require_fraction(coverage, "coverage")
    return MetricScorer(METRICS[name], coverage)


@dataclass
class MetricScorer:
    """A callable (estimator, X, y) for the `scoring` of scikit-learn; made by `scorer`.

    >>> scorer("mae").metric.description
    'Mean absolute error.'
    """

    metric: Metric
    coverage: float
    weight_request: bool | str | None = None

    def __call__(self, estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Score the estimator on rows X with labels y; greater is better."""
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        if options and not self.metric.takes_weight:
            raise UserError(f"sample_weight must be None for {self.metric.name}, but it was given; leave it out")
        asked = self._ask(estimator, X)
        y, asked = self._as_places(estimator, y, asked)
        if self.metric.name in ("crps", "crps_fair") and hasattr(asked[0], "knots"):
            weights, (scores,) = checked_rows(sample_weight, scores=asked[0].crps(y))  # exact, by its closed form
            value = weighted_mean(scores, weights)
        else:
            predicted = (asked[0].samples,) if self.metric.kind == "samples" else asked
            value = self.metric.function(y, *predicted, **options)
        return value if self.metric.greater_is_better else -value

    def _ask(self, estimator: Any, X: Any) -> tuple[Any, ...]:
        """The prediction that this kind of metric needs."""
        method = {"samples": "predict_distribution", "interval": "predict_interval"}.get(self.metric.kind, "predict")
        if not hasattr(estimator, method):
            given = type(estimator).__name__
            raise UserTypeError(f"{self.metric.name} needs {method}, but {given} has none; choose another metric")
        if method != "predict_interval":
            return (getattr(estimator, method)(X),)
        interval = estimator.predict_interval(X, self.coverage)
        # An array has one row per row of X, a pair one entry per end.
        low, high = interval if isinstance(interval, (tuple, list)) else np.asarray(interval).T
        return low, high

    def _as_places(self, estimator: Any, y: ArrayLike, asked: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Grades as their places in the order of an estimator that knows one, where they are text or are sampled."""
        steps = getattr(estimator, "steps", None)  # of a pipeline the last one predicts
        grades = getattr(steps[-1][1] if steps else estimator, "grades_", None)
        if grades is None or (self.metric.kind != "samples" and np.asarray(grades).dtype.kind not in "OU"):
            return y, asked
        place_of = {grade: place for place, grade in enumerate(np.asarray(grades).tolist())}
        predicted = asked if self.metric.kind == "samples" else (_places(asked[0], place_of, "predict(X)"),)
        return _places(y, place_of, "y"), predicted

    def set_score_request(self, *, sample_weight: bool | str | None) -> MetricScorer:
        """Say whether scikit-learn's metadata routing, where enabled, passes ``sample_weight`` on to this scorer.

        >>> scorer("mae").set_score_request(sample_weight=True).weight_request
        True
        """
        self.weight_request = sample_weight
        return self

    def get_metadata_routing(self) -> Any:
        """Tell scikit-learn's metadata routing what this scorer asked for.

        >>> scorer("mae").set_score_request(sample_weight=True).get_metadata_routing()
        {'score': {'sample_weight': True}}
        """
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=type(self).__name__)
        if self.metric.takes_weight:
            request.score.add_request(param="sample_weight", alias=self.weight_request)
        return request

    def _accept_sample_weight(self) -> bool:
        """Asked by scikit-learn where several scorers share one call that has weights."""
        return self.metric.takes_weight


def _places(values: ArrayLike, place_of: dict[Any, int], name: str) -> NDArray[np.int64]:
    """Places of grades in their order. **Shape:** ``(n,)``."""
    listed = np.asarray(values).ravel().tolist()
    unknown = next((value for value in listed if value not in place_of), None)
    if unknown is not None:
        raise UserError(f"{name} must hold the model's grades {', '.join(map(str, place_of))}, but got {unknown!r}")
    return np.array([place_of[value] for value in listed], dtype=np.int64)
