"""Estimators of values: a number in a range for each row, with its whole distribution."""

from __future__ import annotations

import datetime
import decimal
import fractions
import warnings
from collections.abc import Iterator
from dataclasses import KW_ONLY
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from diffor.core.prediction import Prediction
from diffor.core.table import check_weights, row_counts
from diffor.core.target import TargetScale, check_bounds, check_inside
from diffor.errors import UserError, UserTypeError
from diffor.estimators.base import Array, OrdinalEstimator
from diffor.estimators.conformal import Calibration, interval_scores, open_intervals
from diffor.estimators.fitting import check_method, fit_rows, settle_settings, unchanged_by_failure
from diffor.estimators.limits import SHARE, TRUNCATE, Limits, shares_of
from diffor.estimators.settings import Instance, Word, parameter, shown, with_parameters
from diffor.files.schema import ListOf, Number
from diffor.methods import METHODS

Self = TypeVar("Self", bound="ValueEstimator")

N_RANGES = 8
DATES = "turn times into numbers, such as days since the first"
FEW = 0.01
"""Share of the targets that may be called outliers, ..."""
FAR = 1e4
"""... where they lie this many ranges of all others away from these."""
ZERO_BASED = ("watch time", "lifetime value")
"""Families whose targets count from zero, whatever the smallest training target is."""


@with_parameters
class ValueEstimator(RegressorMixin, OrdinalEstimator):
    """What every estimator of values can do; ``side`` are columns that a method needs beside X (``duration``)."""

    _: KW_ONLY
    bounds: tuple[float, float] | None = parameter(
        "The legal range of the target (low, high); that of the training targets if None.",
        None,
        Instance(object, "two finite numbers (low, high)", check_bounds, ListOf(Number(), 2, 2)),
    )

    limit: str = parameter(
        "What ``upper``, a limit of each row's own, means. ``truncate``: it is known when predicting, and cuts the "
        "distribution. ``share``: it stops the value, as a video's end stops watching; ``fit`` takes ``upper`` too and "
        "learns the share of it that is reached, from 0 to 1.",
        TRUNCATE,
        Word((TRUNCATE, SHARE)),
    )

    def fit(
        self: Self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        groups: Any = None,
        *,
        upper: ArrayLike | None = None,
        upper_val: ArrayLike | None = None,
        **side: Any,
    ) -> Self:
        """Train on a table and its targets; rows to stop on are held out in turn, or split off, unless given.

        Rows of one of the ``groups`` are held out together. With ``limit="share"``, ``upper`` is the limit of each row,
        and what the fitted model says of held-out rows counts in shares of it; answers are in the target's units.

        **Shape:** X ``(n, p)``, y ``(n,)``, sample_weight, groups and upper ``(n,)``, side columns ``(n,)`` (``_val``
        for X_val).
        """
        with unchanged_by_failure(self):
            settle_settings(self, X_val, y_val)
            self._check_limit(side)
            y = self.learned_values(as_values(y, "y"), upper)
            if y_val is not None:
                y_val = self.learned_values(as_values(y_val, "y_val"), upper_val, "y_val", "upper_val")
            target, target_val = self._settle_targets(y, sample_weight, y_val)
            fit_rows(self, X, target, sample_weight, X_val, target_val, groups, side)
            if self.learns_share and self.data_summary_ is not None:
                self.data_summary_["largest_limit"] = float(np.max(np.asarray(upper, dtype=np.float64)))
        return self

    def _settle_targets(self, y: Any, sample_weight: Any, y_val: Any) -> tuple[Array, Array | None]:
        target = as_values(y, "y")
        self.settle_scale(target, check_weights(sample_weight, len(target)))
        target_val = None if y_val is None else as_values(y_val, "y_val")
        if target_val is not None:
            check_inside(target_val, self.bounds or (-np.inf, np.inf), "y_val")
        return target, target_val

    @property
    def learns_share(self) -> bool:
        """Whether the model learns which share of each row's limit is reached: ``limit="share"``."""
        return self.limit == SHARE

    def _check_limit(self, side: dict[str, Any]) -> None:
        """Refuse what has no meaning for shares of limits."""
        if not self.learns_share:
            return
        if self.bounds is not None:
            raise UserError(
                f"limit='share' has bounds of its own, 0 and the limit of each row, but got bounds={self.bounds}; "
                "leave bounds out"
            )
        if "duration" in (*METHODS[self.settings_.method].requires, *side):
            raise UserError(
                f"limit='share' is for methods that know of no duration, but method {self.settings_.method!r} takes "
                "it itself; use limit='truncate', or another method"
            )

    def learned_values(
        self, y: NDArray[np.float64], upper: ArrayLike | None, name: str = "y", limit: str = "upper"
    ) -> NDArray[np.float64]:
        """Targets as they are learned: as they are, or as shares of their limits. **Shape:** ``(n,)``, kept."""
        if self.learns_share:
            return shares_of(y, upper, name, limit)
        if upper is not None:
            raise UserError(
                f"{limit} is learned from with limit='share' only, but limit={self.limit!r}; pass limit='share' to the "
                f"estimator, or leave {limit} out and pass upper when predicting"
            )
        return y

    def settle_scale(
        self, target: NDArray[np.float64], weights: Array | None, ends: tuple[float, float] | None = None
    ) -> None:
        """Check the method and fit the target's scale; ``ends`` are those of all targets where these are a sample."""
        check_method(self, "value")
        counted = np.arange(len(target)) if weights is None else np.flatnonzero(weights > 0)
        target = target[counted]
        bounds = self._known_bounds(target if ends is None else np.array(ends))
        if bounds is None and ends is not None and ends[0] < ends[1]:
            bounds = ends
        counts = None if weights is None else row_counts(weights[counted])
        self.scale_: TargetScale = TargetScale(bounds, self.settings_.transform).fit(target, counts)
        warn_of_outliers(target, counted)

    def _known_bounds(self, target: NDArray[np.float64]) -> tuple[float, float] | None:
        """The bounds as given; where the method counts from zero and there are none, zero and the largest target."""
        if self.learns_share:
            return 0.0, 1.0
        method = METHODS[self.settings_.method]
        counts_from_zero = method.family in ZERO_BASED and len(target) and 0 <= target.min() < target.max() < np.inf
        return (0.0, float(target.max())) if self.bounds is None and counts_from_zero else self.bounds

    def predict(
        self,
        X: Any,
        statistic: str | float | None = None,
        *,
        n_samples: int | None = None,
        n_steps: int | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        **side: Any,
    ) -> Array:
        """One value per row: ``median``, ``mean``, ``mode``, ``native`` or a quantile level. **Shape:** -> ``(rows,)``.

        ``native`` is the value that the method's authors decide on. ``lower`` and ``upper`` are limits of the rows, a
        number or ``(rows,)``, here and in all that predicts values: answers are those of the distribution cut to them
        (:meth:`predict_distribution`), and none lies outside. Where ``limit="share"``, ``upper`` must be given.
        """
        wanted = self.default_statistic if statistic is None else statistic
        parts = self._cut_predictions(X, n_samples, side, n_steps, self._limits(X, lower, upper))
        return np.concatenate([part.statistic(wanted) for part in parts])

    def predict_distribution(
        self,
        X: Any,
        n_samples: int | None = None,
        *,
        n_steps: int | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        **side: Any,
    ) -> Prediction:
        """The whole predictive distribution of each row, as a :class:`~diffor.core.prediction.Prediction`.

        Here and in all that predicts, ``n_samples`` is the number of samples of each row and ``n_steps`` that of the
        denoiser calls of DiffoR's chain, both as fitted if None. Less of either is quicker and less exact
        (docs/latency.md has figures). ``lower`` and ``upper`` are what is known of each row's value beside the model,
        such as the price that a discount cannot exceed: the distribution is cut to the range from one to the other and
        its probability divided by that of the range (:meth:`Prediction.given`). NaN stands for no limit. Where the
        limit stops values, so that they pile up at it as watch times do at a video's end, a cut distribution has no
        such pile, and its intervals hold too few: fit with ``limit="share"`` there. Then the distribution of the share
        that is reached is stretched from 0 to ``upper``, and cut to what lies above ``lower`` if that is given.

        **Shape:** lower and upper a number or ``(rows,)``.
        """
        limits = self._limits(X, lower, upper)
        return Prediction.concatenate(list(self._cut_predictions(X, n_samples, side, n_steps, limits)))

    def _limits(self, X: Any, lower: ArrayLike | None, upper: ArrayLike | None) -> Limits | None:
        """The rows' limits, if there are any; wrong ones are refused before anything is predicted."""
        check_is_fitted(self, "model_")
        if lower is None and upper is None and not self.learns_share:
            return None
        return self.row_limits(self._count_rows(X), lower, upper)

    def row_limits(self, n_rows: int, lower: ArrayLike | None, upper: ArrayLike | None) -> Limits:
        """The limits of so many rows as the fitted model takes them, or a refusal."""
        if self.learns_share:
            return Limits.of_shares(lower, upper, n_rows)
        return Limits.of(lower, upper, n_rows, (self.scale_.low, self.scale_.high))

    def _cut_predictions(
        self, X: Any, n_samples: int | None, side: dict[str, Any], n_steps: int | None, limits: Limits | None
    ) -> Iterator[Prediction]:
        """Predictions of the rows, block by block, each row within its limits."""
        parts = self._predictions(X, side, n_samples, n_steps)
        return parts if limits is None else limits.cut(parts)

    def predict_quantiles(
        self,
        X: Any,
        q: ArrayLike = (0.05, 0.25, 0.5, 0.75, 0.95),
        *,
        n_samples: int | None = None,
        n_steps: int | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        **side: Any,
    ) -> Array:
        """Quantiles at the levels ``q``; they never cross. **Shape:** -> ``(rows, len(q))``."""
        self._check_distribution("quantiles", "use predict, or a method with a distribution")
        parts = self._cut_predictions(X, n_samples, side, n_steps, self._limits(X, lower, upper))
        return np.concatenate([part.quantile(q) for part in parts])

    def sample(
        self,
        X: Any,
        n: int = 100,
        *,
        n_steps: int | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        **side: Any,
    ) -> Array:
        """Draws from each row's distribution, within its limits if there are any. **Shape:** -> ``(rows, n)``."""
        return self._draws(X, n, n_steps, side, self._limits(X, lower, upper))

    def predict_increments(
        self,
        X: Any,
        n_increments: int = 8,
        *,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        **side: Any,
    ) -> Array:
        """Expected increments of equal intervals of the range, in the target's units: how far each is filled.

        ``lower bound + increments.sum(axis=1)`` is the mean. With ``limit="share"`` the range is that up to the row's
        limit. **Shape:** -> ``(rows, n_increments)``.
        """
        limits, units = self._limits(X, lower, upper), self._unit_predictions(X, side)
        if limits is None:
            return self._increments(units, n_increments)
        ranges = limits.in_shares() if limits.of_share else limits
        low, high = (np.asarray(self.scale_.to_unit(end), np.float64) for end in (ranges.low, ranges.high))
        increments = self._increments(Limits(low, high).cut(units), n_increments)
        return increments * limits.high[:, None] if limits.of_share else increments

    def conformalize(self: Self, X_cal: Any, y_cal: Any, *, upper: ArrayLike | None = None, **side: Any) -> Self:
        """Learn from rows kept out of training how wide the intervals of :meth:`predict_interval` must be.

        The rows must be exchangeable with those to come and be neither training nor validation rows. Every coverage
        may be asked for later; fitting again forgets them. With ``limit="share"``, ``upper`` is the limit of each row.

        **Shape:** X_cal ``(n, p)``, y_cal and upper ``(n,)``.
        """
        self._check_conformalize(X_cal, y_cal)
        y = self.learned_values(as_values(y_cal, "y_cal"), upper, "y_cal")
        check_inside(y, self.bounds or (-np.inf, np.inf), "y_cal")
        low, high = self.scale_.low, self.scale_.high
        # Bounds that were found in training rows need not hold for others; no interval reaches those targets.
        known = np.where((y < low) | (y > high), np.inf, y)
        scores, first = [], 0
        for part in self._predictions(X_cal, side):
            scores.append(interval_scores(part, known[first : first + len(part)], (low, high)))
            first += len(part)
        self.conformal_ = Calibration.of(np.concatenate(scores), (min(low, float(y.min())), max(high, float(y.max()))))
        return self

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        n_samples: int | None = None,
        n_steps: int | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        **side: Any,
    ) -> Array:
        """Interval that holds the target with probability ``coverage``, inside the bounds.

        After :meth:`conformalize`, at least the share ``coverage`` of exchangeable rows is covered, on average over
        rows and calibration sets. Before, it is the central interval of the model's own distribution
        (:meth:`Prediction.interval`): no guarantee.
        A method that predicts a point has none, so its intervals need :meth:`conformalize`.

        With ``lower`` and ``upper``, the interval is that of the cut distribution; after :meth:`conformalize`, it is
        what of the guaranteed interval lies between them, so no target that keeps to its limits is lost.

        **Shape:** -> ``(rows, 2)``.
        """
        limits = self._limits(X, lower, upper)
        if self.conformal_ is None:
            self._check_distribution("intervals", "call conformalize with rows kept out of training first")
            parts = self._cut_predictions(X, n_samples, side, n_steps, limits)
            return np.concatenate([part.interval(coverage) for part in parts])
        self._check_as_calibrated(n_samples, n_steps)
        threshold = self.conformal_.threshold(coverage)
        opened = np.concatenate([self._guaranteed(part, threshold) for part in self._predictions(X, side)])
        return opened if limits is None else limits.clip(opened)

    def predict_opened(
        self,
        X: Any,
        threshold: float | None,
        n_samples: int | None = None,
        *,
        n_steps: int | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        **side: Any,
    ) -> tuple[Prediction, Array | None]:
        """Distributions, and from the same samples the intervals that a calibration's threshold opens.

        ``threshold`` is ``conformal_.threshold(coverage)``; without one there are no such intervals. For rows that come
        in pieces: what the threshold warns of is said once. Limits are as in :meth:`predict_interval`.

        **Shape:** -> n predictions, ``(n, 2)``.
        """
        if threshold is not None:
            self._check_as_calibrated(n_samples, n_steps)
        limits = self._limits(X, lower, upper)
        prediction = Prediction.concatenate(list(self._predictions(X, side, n_samples, n_steps)))
        opened = None if threshold is None else self._guaranteed(prediction, threshold)
        if limits is None:
            return prediction, opened
        return limits.apply(prediction), None if opened is None else limits.clip(opened)

    def _guaranteed(self, prediction: Prediction, threshold: float) -> Array:
        """Intervals opened as far as the calibration asks. **Shape:** -> ``(rows, 2)``."""
        if self.conformal_ is not None and np.isinf(threshold):
            return np.tile(self.conformal_.widest, (len(prediction), 1))
        return open_intervals(prediction, threshold, (self.scale_.low, self.scale_.high))

    def predict_proba(
        self,
        X: Any,
        cuts: ArrayLike | None = None,
        *,
        n_samples: int | None = None,
        n_steps: int | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        **side: Any,
    ) -> Array:
        """Probability of each range between the rising ``cuts``, which may be chosen after training.

        Without cuts, the ranges are eight equal parts of the whole, or of each row's own with ``limit="share"``.

        **Shape:** -> ``(rows, len(cuts) + 1)``: at or below the first cut, between the cuts, above the last.
        """
        limits = self._limits(X, lower, upper)
        if cuts is None:
            if limits is not None and limits.of_share:
                limits = limits.in_shares()
            levels = np.arange(1, N_RANGES) / N_RANGES
            cuts = self.scale_.from_unit(levels)
            if (np.diff(cuts) <= 0).any():  # the range is one value, or few that doubles can tell apart
                if limits is not None:
                    raise UserError(
                        f"lower and upper need cuts where the range is as narrow as that from {self.scale_.low} to "
                        f"{self.scale_.high}, but cuts=None; pass cuts, or leave the limits out"
                    )
                units = self._unit_predictions(X, side, n_samples, n_steps)
                return np.concatenate([part.probabilities(levels) for part in units])
        parts = self._cut_predictions(X, n_samples, side, n_steps, limits)
        return np.concatenate([part.probabilities(cuts) for part in parts])


def warn_of_outliers(target: NDArray[np.float64], rows: NDArray[np.int64]) -> None:
    """Name targets that are so far from all others that the range is theirs alone. **Shape:** ``(n,)`` each.

    A rising map of the whole range leaves the others next to no room in it: ``bounds`` or a transform help.
    """
    order = np.argsort(np.abs(target - np.median(target)), kind="stable")
    n_few = max(int(FEW * len(target)), 1)
    others = target[order[: len(target) - n_few]]
    if len(others) < 2 or others.min() == others.max():
        return
    low, high = float(others.min()), float(others.max())
    away = np.maximum(low - target, target - high)
    wrong = np.flatnonzero(away > FAR * (high - low))
    if len(wrong):
        named = ", ".join(f"row {rows[row]}: {target[row]}" for row in wrong[:3])
        warnings.warn(
            f"{len(wrong)} of {len(target)} targets lie far from all others, which reach from {low} to {high} "
            f"({named}{', ...' if len(wrong) > 3 else ''}): correct or remove these rows if they are errors",
            stacklevel=5,
        )


def as_values(y: Any, name: str) -> NDArray[np.float64]:
    """Targets as float64. **Shape:** ``(n,)``."""
    if y is None:
        raise UserError("requires y to be passed, but the target y is None")
    try:
        column = column_or_1d(y, warn=True)
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{name} must have one number for each row, but {reason}") from error
    if not len(column):
        raise UserError(f"{name} must hold at least one target, but it is empty; pass one for each row of X")
    wrong, cure = _not_number(column)
    if cure:
        raise UserTypeError(f"{name} must hold numbers, but got {shown(wrong)}; {cure}")
    if column.dtype == object:
        column = np.array([np.nan if pd.isna(value) else value for value in column], dtype=object)
    try:
        return np.asarray(column, dtype=np.float64)
    except OverflowError as error:
        raise UserError(f"{name} must hold numbers below 1e308, but some are larger; divide them all") from error


def _not_number(column: NDArray[Any]) -> tuple[Any, str]:
    """The first target that is no number, with what to do about it; a cure of no words where all are.

    >>> _not_number(np.array([1.5, None, "3"], dtype=object))
    ('3', 'turn text into numbers, as by pandas.to_numeric; grades belong to DiffoRClassifier')
    """
    if column.dtype.kind in "biuf" or not len(column):
        return None, ""
    if column.dtype.kind in "mM":
        return column[0], DATES
    for value in column:
        if isinstance(value, (datetime.date, datetime.timedelta, datetime.time, np.datetime64, np.timedelta64)):
            return value, DATES
        if isinstance(value, (str, bytes)):
            return value, "turn text into numbers, as by pandas.to_numeric; grades belong to DiffoRClassifier"
        is_number = isinstance(value, (bool, int, float, np.number, np.bool_, decimal.Decimal, fractions.Fraction))
        if not (is_number and not isinstance(value, np.complexfloating)) and not _is_missing(value):
            return value, "pass one number for each row"
    return None, ""


def _is_missing(value: Any) -> bool:
    return np.ndim(value) == 0 and bool(pd.isna(value))
