"""Estimators of ordered grades: one of a few for each row, with the probability of each."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from diffor.core.grades import (
    ALL_DECISIONS,
    check_decision,
    decide_grades,
    find_grades,
    grade_codes,
    list_grades,
)
from diffor.core.prediction import Prediction
from diffor.core.table import check_weights
from diffor.core.target import GradeScale
from diffor.estimators.base import Array, OrdinalEstimator
from diffor.estimators.conformal import Calibration, open_sets, probable_sets, set_scores
from diffor.estimators.fitting import check_method
from diffor.estimators.folder_schema import PLAIN
from diffor.estimators.settings import Instance, Word, parameter, with_parameters
from diffor.files.schema import ListOf

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
        "The grades from lowest to highest; without it the order is that of an ordered pandas category, or of sorting.",
        None,
        Instance(object, "a list of grades, lowest first", list_grades, ListOf(PLAIN, 0, 1_000_000)),
    )
    decision: str = parameter(DECISION, "median", Word(ALL_DECISIONS))

    def _settle_targets(self, y: Any, sample_weight: Any, y_val: Any) -> tuple[Array, Array | None]:
        weights = None if y is None else check_weights(sample_weight, len(column_or_1d(y)))
        counted = None if weights is None else weights > 0
        self.settle_grades(y, counted)
        codes = grade_codes(y, self.grades_, "y", counted)
        return codes, None if y_val is None else grade_codes(y_val, self.grades_, "y_val")

    def settle_grades(self, y: Any, counted: NDArray[np.bool_] | None = None) -> None:
        """Find the grades among targets and settle what depends on their number; rows that do not count are absent.

        **Shape:** ``(n,)`` each.
        """
        self.grades_: Array = find_grades(y, self.grades, counted)
        check_method(self, "grades", len(self.grades_))
        self.scale_: GradeScale = GradeScale(len(self.grades_))

    @property
    def classes_(self) -> Array:
        """The grades as scikit-learn wants classes, sorted; ``grades_`` has them from the lowest to the highest."""
        if "grades_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} has no classes_ before it is fitted; call fit")
        return np.unique(self.grades_)

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
            parts = self._predictions(X, side, n_samples, n_steps)
            codes = np.concatenate([part.statistic("native") for part in parts])
            return np.asarray(self.grades_[np.rint(codes).astype(np.int64)])
        shares = self._shares(X, n_samples, n_steps, side)
        return np.asarray(self.grades_[decide_grades(shares, decision, self.scale_.spread)])

    def predict_proba(self, X: Any, *, n_samples: int | None = None, n_steps: int | None = None, **side: Any) -> Array:
        """Probability of each grade, in the order of ``classes_``, which is sorted as scikit-learn's metrics expect.

        In the order of the grades they are ``predict_proba(X)[:, np.searchsorted(classes_, grades_)]``.

        **Shape:** -> ``(rows, grades)``.
        """
        shares = self._shares(X, n_samples, n_steps, side)
        return shares[:, np.argsort(self.grades_)]

    def _shares(self, X: Any, n_samples: int | None, n_steps: int | None, side: dict[str, Any]) -> Array:
        """Probability of each grade, from the lowest to the highest. **Shape:** -> ``(rows, grades)``."""
        check_is_fitted(self, "model_")
        predictions = self._predictions(X, side, n_samples, n_steps)
        return np.concatenate([part.grade_probabilities(len(self.grades_)) for part in predictions])

    def decide(self, prediction: Prediction, probabilities: Array, decision: str | None = None) -> NDArray[np.int64]:
        """Places, in ``grades_``, of the grades that distributions are answered with.

        **Shape:** n rows, ``(n, grades)`` -> ``(n,)``.
        """
        decision = self.decision if decision is None else decision
        if decision == "native":
            return np.rint(prediction.statistic("native")).astype(np.int64)
        return decide_grades(probabilities, decision, self.scale_.spread)

    def predict_cumproba(
        self, X: Any, *, n_samples: int | None = None, n_steps: int | None = None, **side: Any
    ) -> Array:
        """Probability of each grade or a lower one, in the order of ``grades_``. **Shape:** -> ``(rows, grades)``."""
        return np.asarray(np.minimum(self._shares(X, n_samples, n_steps, side).cumsum(axis=1), 1.0))

    def conformalize(self: Self, X_cal: Any, y_cal: Any, **side: Any) -> Self:
        """Learn from rows kept out of training how large the sets of :meth:`predict_set` must be.

        The rows must be exchangeable with those to come and be neither training nor validation rows. Every coverage
        may be asked for later; fitting again forgets them.

        **Shape:** X_cal ``(n, p)``, y_cal ``(n,)``.
        """
        self._check_conformalize(X_cal, y_cal)
        codes = grade_codes(y_cal, self.grades_, "y_cal")
        scores = set_scores(self._shares(X_cal, None, None, side))[np.arange(len(codes)), codes]
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
        """Grades that hold the true one with probability ``coverage``, as a run of ``grades_`` without gaps.

        After :meth:`conformalize`, at least the share ``coverage`` of exchangeable rows is covered, on average over
        rows and calibration sets. Before, the set holds that much of the model's own probability: no guarantee. A set
        always holds the most probable grade, which need not be what ``predict`` answers with. A method that predicts a
        point has no probabilities, so its sets need :meth:`conformalize`.

        **Shape:** -> ``(rows, grades)``.
        """
        if self.conformal_ is None:
            self._check_distribution("sets of grades", "call conformalize with rows kept out of training first")
            return probable_sets(self._shares(X, n_samples, n_steps, side), coverage)
        self._check_as_calibrated(n_samples, n_steps)
        threshold = self.conformal_.threshold(coverage)
        return open_sets(self._shares(X, None, None, side), threshold)
