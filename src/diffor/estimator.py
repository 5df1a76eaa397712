"""The scikit-learn face: ``DiffoRRegressor`` for values in a range, ``DiffoRClassifier`` for ordered grades."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from diffor.checkpoint import CheckpointError, load_folder
from diffor.conformal import (
    Calibration,
    interval_scores,
    open_intervals,
    open_sets,
    probable_sets,
    set_scores,
)
from diffor.grades import check_decision, decide_grades, find_grades, grade_codes, grade_shares
from diffor.ordinal_estimator import BLOCK_ROWS, Array, OrdinalEstimator, UnlistedArgument
from diffor.prediction import Prediction
from diffor.presets import adapt_to_grades
from diffor.target import GradeScale, TargetScale, check_inside


class DiffoRRegressor(RegressorMixin, OrdinalEstimator):
    """Predict a value in a range, with its whole distribution.

    Parameters left at None come from the preset (``fast``, ``balanced``, ``accurate`` or ``paper``); after ``fit``,
    ``settings_`` holds what was used. ``bounds`` are the legal range of the target (found in the data if None) and
    ``transform`` spreads it over [0, 1]: ``uniform``, ``quantile``, ``log``, or ``auto`` (``log`` for heavy right
    tails). ``guide`` lets boosted trees advise the networks. ``n_jobs`` is the number of CPU threads: one if None, all
    if -1, which pays for large tables on an idle machine.

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = 10 * X[:, 0]
    >>> model = DiffoRRegressor("fast", bounds=(0, 10), max_steps=50, random_state=0, verbose=0).fit(X, y)
    >>> model.predict(X[:5]).shape, model.predict_interval(X[:5], coverage=0.9).shape
    ((5,), (5, 2))
    """

    scale_: TargetScale
    bounds: tuple[float, float] | None
    transform = UnlistedArgument()

    def __init__(
        self,
        preset: str = "balanced",
        *,
        encoder: str = "auto",
        guide: bool | None = None,
        n_increments: int | None = None,
        process: str | None = None,
        denoiser: str | None = None,
        parameterization: str | None = None,
        spacing: str | None = None,
        bounds: tuple[float, float] | None = None,
        transform: str | None = None,
        n_samples: int | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        time_limit: float | None = None,
        checkpoint_dir: str | Path | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 1,
        schedule: str | None = None,
        n_times: int | None = None,
        width: int | None = None,
        n_layers: int | None = None,
        n_attention_heads: int | None = None,
        dropout: float | None = None,
        aligned_share: float | None = None,
        increment_weight: float | None = None,
        increment_loss: str | None = None,
        objective: str | None = None,
        n_draws: int | None = None,
        decoding: str | None = None,
        eta: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        evaluate_every: int | None = None,
        n_members: int | str | None = None,
        calibrate: bool | None = None,
        validation_fraction: float = 0.1,
    ) -> None:
        self._remember(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None, X_val: Any = None, y_val: Any = None) -> DiffoRRegressor:
        """Train on a table and its targets; validation rows for early stopping are split off unless given.

        **Shape:** X ``(n, p)``, y ``(n,)``, sample_weight ``(n,)``.
        """
        self._resolve(X_val, y_val)
        if self.settings_.decoding == "cumulative":
            raise ValueError(
                "decoding='cumulative' reads grades, however: this is DiffoRRegressor; use DiffoRClassifier, "
                "or decoding='chain'"
            )
        target = _as_values(y, "y")
        self.scale_ = TargetScale(self.bounds, self.settings_.transform).fit(target)
        target_val = None if y_val is None else _as_values(y_val, "y_val")
        if target_val is not None:
            check_inside(target_val, self.bounds or (-np.inf, np.inf), "y_val")
        return self._fit(X, target, sample_weight, X_val, target_val)

    def predict(self, X: Any, statistic: str | float = "median") -> Array:
        """One value per row: ``median``, ``mean``, ``mode`` or a quantile level. **Shape:** -> ``(rows,)``."""
        return np.concatenate([part.statistic(statistic) for part in self._predictions(X)])

    def predict_quantiles(self, X: Any, q: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95)) -> Array:
        """Quantiles at the levels ``q``; they never cross. **Shape:** -> ``(rows, len(q))``."""
        return np.concatenate([part.quantile(q) for part in self._predictions(X)])

    def conformalize(self, X_cal: Any, y_cal: Any) -> DiffoRRegressor:
        """Learn from rows kept out of training how wide the intervals of :meth:`predict_interval` must be.

        The rows must be exchangeable with those to come and be neither training nor validation rows. Every coverage
        may be asked for later; fitting again forgets them.

        **Shape:** X_cal ``(n, p)``, y_cal ``(n,)``.
        """
        self._check_conformalize(X_cal, y_cal)
        y = _as_values(y_cal, "y_cal")
        check_inside(y, self.scale_.bounds or (-np.inf, np.inf), "y_cal")
        low, high = self.scale_.low, self.scale_.high
        # Bounds that were found in training rows need not hold for others; no interval reaches those targets.
        unit = np.where((y < low) | (y > high), np.inf, self.scale_.to_unit(y))
        blocks = zip(range(0, len(y), BLOCK_ROWS), self._unit_predictions(X_cal), strict=True)
        scores = [interval_scores(part, unit[first : first + BLOCK_ROWS]) for first, part in blocks]
        self.conformal_ = Calibration.of(np.concatenate(scores), (min(low, float(y.min())), max(high, float(y.max()))))
        return self

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Interval that holds the target with probability ``coverage``, inside the bounds.

        After :meth:`conformalize`, at least the share ``coverage`` of exchangeable rows is covered, on average over
        rows and calibration sets. Before, it is the central interval of the model's own distribution: no guarantee.

        **Shape:** -> ``(rows, 2)``.
        """
        if self.conformal_ is None:
            return np.concatenate([part.interval(coverage) for part in self._predictions(X)])
        threshold = self.conformal_.threshold(coverage)
        return np.concatenate([self._guaranteed(part, threshold) for part in self._unit_predictions(X)])

    def _guaranteed(self, unit: Prediction, threshold: float) -> Array:
        """Intervals opened as far as the calibration asks, from samples in [0, 1]. **Shape:** -> ``(rows, 2)``."""
        if self.conformal_ is not None and np.isinf(threshold):
            return np.tile(self.conformal_.widest, (len(unit), 1))
        return self.scale_.from_unit(open_intervals(unit, threshold))

    def predict_proba(self, X: Any, cuts: ArrayLike | None = None) -> Array:
        """Probability of each range between the rising ``cuts``, which may be chosen after training.

        Without cuts, the ranges are the intervals of the increments.

        **Shape:** -> ``(rows, len(cuts) + 1)``: at or below the first cut, between the cuts, above the last.
        """
        check_is_fitted(self, "model_")
        if cuts is None:
            count = max(self.settings_.n_increments, 2)  # one increment has no inner edge: halve the range
            cuts = self.scale_.from_unit(np.arange(1, count) / count)
        return np.concatenate([part.probabilities(cuts) for part in self._predictions(X)])


class DiffoRClassifier(ClassifierMixin, OrdinalEstimator):
    """Predict an ordered grade, with the probability of each.

    ``grades`` lists the grades from lowest to highest; without it the order is that of an ordered pandas category, or
    of sorting. ``decision`` is what ``predict`` answers with: the ``median`` grade (fewest steps off), the ``mode``
    (most often exactly right) or ``qwk`` (smallest squared distance, for quadratic weighted kappa).

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> y = np.array(["low", "mid", "high"])[(X[:, 0] * 2.99).astype(int)]
    >>> model = DiffoRClassifier("fast", grades=["low", "mid", "high"], max_steps=50, random_state=0, verbose=0)
    >>> model.fit(X, y).classes_.tolist(), model.predict_proba(X[:5]).shape
    (['low', 'mid', 'high'], (5, 3))
    """

    scale_: GradeScale
    classes_: Array
    grades: Any
    decision: str

    def __init__(
        self,
        preset: str = "balanced",
        *,
        encoder: str = "auto",
        guide: bool | None = None,
        n_increments: int | None = None,
        process: str | None = None,
        denoiser: str | None = None,
        parameterization: str | None = None,
        spacing: str | None = None,
        grades: Any = None,
        decision: str = "median",
        n_samples: int | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        time_limit: float | None = None,
        checkpoint_dir: str | Path | None = None,
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 1,
        schedule: str | None = None,
        n_times: int | None = None,
        width: int | None = None,
        n_layers: int | None = None,
        n_attention_heads: int | None = None,
        dropout: float | None = None,
        aligned_share: float | None = None,
        increment_weight: float | None = None,
        increment_loss: str | None = None,
        objective: str | None = None,
        n_draws: int | None = None,
        decoding: str | None = None,
        eta: float | None = None,
        weight_decay: float | None = None,
        patience: int | None = None,
        evaluate_every: int | None = None,
        n_members: int | str | None = None,
        calibrate: bool | None = None,
        validation_fraction: float = 0.1,
    ) -> None:
        self._remember(locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None, X_val: Any = None, y_val: Any = None) -> DiffoRClassifier:
        """Train on a table and its grades; validation rows for early stopping are split off unless given.

        **Shape:** X ``(n, p)``, y ``(n,)``, sample_weight ``(n,)``.
        """
        self._resolve(X_val, y_val)
        check_decision(self.decision)
        self.classes_ = find_grades(y, self.grades)
        self.settings_ = adapt_to_grades(self.settings_, len(self.classes_), self.get_params(deep=False))
        self.scale_ = GradeScale(len(self.classes_))
        codes = grade_codes(y, self.classes_, "y")
        codes_val = None if y_val is None else grade_codes(y_val, self.classes_, "y_val")
        return self._fit(X, codes, sample_weight, X_val, codes_val)

    def predict(self, X: Any, decision: str | None = None) -> Array:
        """One grade per row, by the constructor's ``decision`` or the one given here. **Shape:** -> ``(n,)``."""
        check_is_fitted(self, "model_")
        decision = self.decision if decision is None else decision
        return np.asarray(self.classes_[decide_grades(self.predict_proba(X), decision)])

    def predict_proba(self, X: Any) -> Array:
        """Probability of each grade, in the order of ``classes_``. **Shape:** -> ``(rows, grades)``."""
        check_is_fitted(self, "model_")
        return np.concatenate([grade_shares(part.samples, len(self.classes_)) for part in self._predictions(X)])

    def predict_cumproba(self, X: Any) -> Array:
        """Probability of each grade or a lower one, in the order of ``classes_``. **Shape:** -> ``(rows, grades)``."""
        return np.asarray(np.minimum(self.predict_proba(X).cumsum(axis=1), 1.0))

    def conformalize(self, X_cal: Any, y_cal: Any) -> DiffoRClassifier:
        """Learn from rows kept out of training how large the sets of :meth:`predict_set` must be.

        The rows must be exchangeable with those to come and be neither training nor validation rows. Every coverage
        may be asked for later; fitting again forgets them.

        **Shape:** X_cal ``(n, p)``, y_cal ``(n,)``.
        """
        self._check_conformalize(X_cal, y_cal)
        codes = grade_codes(y_cal, self.classes_, "y_cal")
        scores = set_scores(self.predict_proba(X_cal))[np.arange(len(codes)), codes]
        self.conformal_ = Calibration.of(scores, (self.scale_.low, self.scale_.high))
        return self

    def predict_set(self, X: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Grades that hold the true one with probability ``coverage``, as a run of ``classes_`` without gaps.

        After :meth:`conformalize`, at least the share ``coverage`` of exchangeable rows is covered, on average over
        rows and calibration sets. Before, the set holds that much of the model's own probability: no guarantee. A set
        always holds the most probable grade, which need not be what ``predict`` answers with.

        **Shape:** -> ``(rows, grades)``.
        """
        if self.conformal_ is None:
            return probable_sets(self.predict_proba(X), coverage)
        threshold = self.conformal_.threshold(coverage)
        return open_sets(self.predict_proba(X), threshold)

    def _value_of_unit(self, unit: Array) -> Array:
        # Increments are parts of grades, so they are not rounded to whole ones.
        return np.asarray(unit * self.scale_.high)

    def _extra_state(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), "classes_dtype": self.classes_.dtype.str}

    def _restore_extra(self, config: dict[str, Any]) -> None:
        self.scale_ = GradeScale.from_json(config["scale"])
        self.classes_ = np.array(config["classes"], dtype=np.dtype(config["classes_dtype"]))


ESTIMATORS: dict[str, type[DiffoRRegressor] | type[DiffoRClassifier]] = {
    "DiffoRRegressor": DiffoRRegressor,
    "DiffoRClassifier": DiffoRClassifier,
}


def load(folder: str | Path) -> DiffoRRegressor | DiffoRClassifier:
    """Read whichever estimator a folder holds."""
    config, tensors = load_folder(Path(folder))
    name = config.get("estimator")
    if name not in ESTIMATORS:
        raise CheckpointError(f"{folder} holds an unknown estimator, {name!r}: a newer DiffoR may have written it")
    return ESTIMATORS[name]._restore(Path(folder), config, tensors)


def _as_values(y: Any, name: str) -> NDArray[np.float64]:
    """Targets as float64. **Shape:** ``(n,)``."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    column = column_or_1d(y, warn=True)
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers, however: {error}; grades belong to DiffoRClassifier") from error
