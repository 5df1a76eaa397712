"""Estimators of ordered grades: one of a few for each row, with the probability of each."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from diffor.core.grades import (
    ALL_DECISIONS,
    check_decision,
    decide_grades,
    find_grades,
    grade_codes,
    grade_probabilities,
)
from diffor.core.prediction import Prediction
from diffor.core.target import GradeScale
from diffor.estimators.base import Array, OrdinalEstimator
from diffor.estimators.conformal import Calibration, open_sets, probable_sets, set_scores
from diffor.estimators.fitting import check_method, fit_rows, settle_settings, unchanged_by_failure
from diffor.estimators.settings import parameter, with_parameters

Self = TypeVar("Self", bound="GradeEstimator")


DECISION = (
    "What ``predict`` answers with: the ``median`` grade (fewest steps off), the ``mode`` (most often exactly right) "
    "or ``qwk`` (means moved apart as far as grades are, for quadratic weighted kappa)."
)


@with_parameters
class GradeEstimator(ClassifierMixin, OrdinalEstimator):
    """What every estimator of grades can do; ``side`` are columns that a method needs beside X."""

    _: KW_ONLY
    grades: Any = parameter(
        "The grades from lowest to highest; without it the order is that of an ordered pandas category, or of sorting."
    )
    decision: str = parameter(DECISION, "median")

    def fit(
        self: Self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        groups: Any = None,
        **side: Any,
    ) -> Self:
        """Train on a table and its grades; rows to stop on are held out in turn, or split off, unless given.

        Rows of one of the ``groups`` are held out together.

        **Shape:** X ``(n, p)``, y ``(n,)``, sample_weight and groups ``(n,)``, side columns ``(n,)`` (``_val`` for
        X_val).
        """
        with unchanged_by_failure(self):
            settle_settings(self, X_val, y_val)
            self.settle_grades(y)
            codes = grade_codes(y, self.classes_, "y")
            codes_val = None if y_val is None else grade_codes(y_val, self.classes_, "y_val")
            fit_rows(self, X, codes, sample_weight, X_val, codes_val, groups, side)
        return self

    def settle_grades(self, y: Any) -> None:
        """Find the grades among targets and settle what depends on their number. **Shape:** ``(n,)``."""
        check_decision(self.decision, ALL_DECISIONS)
        self.classes_: Array = find_grades(y, self.grades)
        check_method(self, "grades", len(self.classes_))
        self.scale_: GradeScale = GradeScale(len(self.classes_))

    def predict(
        self,
        X: Any,
        decision: str | None = None,
        *,
        n_samples: int | None = None,
        n_steps: int | None = None,
        **side: Any,
    ) -> Array:
        """One grade per row, by the constructor's ``decision`` or the one given here. **Shape:** -> ``(n,)``."""
        check_is_fitted(self, "model_")
        decision = self.decision if decision is None else decision
        check_decision(decision, ALL_DECISIONS)
        if decision == "native":
            parts = self._predictions(X, n_samples, side, n_steps)
            codes = np.concatenate([part.statistic("native") for part in parts])
            return np.asarray(self.classes_[np.rint(codes).astype(np.int64)])
        probabilities = self.predict_proba(X, n_samples=n_samples, n_steps=n_steps, **side)
        return np.asarray(self.classes_[decide_grades(probabilities, decision, self.scale_.spread)])

    def predict_proba(self, X: Any, *, n_samples: int | None = None, n_steps: int | None = None, **side: Any) -> Array:
        """Probability of each grade, in the order of ``classes_``. **Shape:** -> ``(rows, grades)``."""
        check_is_fitted(self, "model_")
        predictions = self._predictions(X, n_samples, side, n_steps)
        return np.concatenate([grade_probabilities(part, len(self.classes_)) for part in predictions])

    def decide(self, prediction: Prediction, probabilities: Array, decision: str | None = None) -> NDArray[np.int64]:
        """Places, in ``classes_``, of the grades that distributions are answered with.

        **Shape:** n rows, ``(n, grades)`` -> ``(n,)``.
        """
        decision = self.decision if decision is None else decision
        if decision == "native":
            return np.rint(prediction.statistic("native")).astype(np.int64)
        return decide_grades(probabilities, decision, self.scale_.spread)

    def predict_cumproba(
        self, X: Any, *, n_samples: int | None = None, n_steps: int | None = None, **side: Any
    ) -> Array:
        """Probability of each grade or a lower one, in the order of ``classes_``. **Shape:** -> ``(rows, grades)``."""
        probabilities = self.predict_proba(X, n_samples=n_samples, n_steps=n_steps, **side)
        return np.asarray(np.minimum(probabilities.cumsum(axis=1), 1.0))

    def conformalize(self: Self, X_cal: Any, y_cal: Any, **side: Any) -> Self:
        """Learn from rows kept out of training how large the sets of :meth:`predict_set` must be.

        The rows must be exchangeable with those to come and be neither training nor validation rows. Every coverage
        may be asked for later; fitting again forgets them.

        **Shape:** X_cal ``(n, p)``, y_cal ``(n,)``.
        """
        self._check_conformalize(X_cal, y_cal)
        codes = grade_codes(y_cal, self.classes_, "y_cal")
        scores = set_scores(self.predict_proba(X_cal, **side))[np.arange(len(codes)), codes]
        self.conformal_ = Calibration.of(scores, (self.scale_.low, self.scale_.high))
        return self

    def predict_set(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        n_samples: int | None = None,
        n_steps: int | None = None,
        **side: Any,
    ) -> NDArray[np.bool_]:
        """Grades that hold the true one with probability ``coverage``, as a run of ``classes_`` without gaps.

        After :meth:`conformalize`, at least the share ``coverage`` of exchangeable rows is covered, on average over
        rows and calibration sets. Before, the set holds that much of the model's own probability: no guarantee. A set
        always holds the most probable grade, which need not be what ``predict`` answers with. A method that predicts a
        point has no probabilities, so its sets need :meth:`conformalize`.

        **Shape:** -> ``(rows, grades)``.
        """
        if self.conformal_ is None:
            self._check_distribution("sets of grades", "call conformalize with rows kept out of training first")
            return probable_sets(self.predict_proba(X, n_samples=n_samples, n_steps=n_steps, **side), coverage)
        self._check_as_calibrated(n_samples, n_steps)
        threshold = self.conformal_.threshold(coverage)
        return open_sets(self.predict_proba(X, **side), threshold)
