"""Conformal prediction: intervals and sets of grades that keep their promised coverage, whatever the model is worth.

Every row has a family of nested answers, from its most central value to the whole range, and the score of a target is
how far the family must be opened until it holds the target. Rows that took no part in training tell how far that
usually is: with n such rows, opening to the ceil((n + 1) * coverage)-th smallest score covers a new exchangeable row
with at least the probability ``coverage``. Nothing is random, so a row's answer depends on the row alone.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.prediction import Prediction, check_open_share
from diffor.errors import UserError

Floats = NDArray[np.float64]

REACH_FLOOR = 1e-3
"""Share of the target's range by which a row's reach beyond its values grows, so that certain rows can open too."""
OUTER_DEPTH = 0.005
"""Probability on either side, in closed form, below which distance counts instead: tails that thin are guesses."""
GRADE_STEP = 1e-3
"""What each further grade adds to its score: it orders the grades that have no probability by their distance."""
_ROUNDING = 1e-9  # answers open by this much more, so that a target at the very edge is not lost to rounding


@dataclass(frozen=True)
class Calibration:
    """What calibration rows have taught: their scores, how many they were, and the widest answer.

    ``scores`` are the finite ones, rising; rows beyond any answer are only counted, in ``n_rows``.

    >>> Calibration.of(np.arange(1.0, 20.0), widest=(0.0, 1.0)).threshold(0.9)
    18.0
    """

    scores: Floats
    n_rows: int
    widest: tuple[float, float]

    @classmethod
    def of(cls, scores: ArrayLike, widest: tuple[float, float]) -> Calibration:
        """Keep the scores of calibration rows; infinity marks a row that no answer holds. **Shape:** ``(n,)``."""
        values = np.asarray(scores, dtype=np.float64)
        if values.ndim != 1 or len(values) == 0 or np.isnan(values).any():
            raise UserError(f"scores must be one number for each of one row or more, but got shape={values.shape}")
        return cls(np.sort(values[np.isfinite(values)]), len(values), widest)

    def threshold(self, coverage: float) -> float:
        """The score up to which answers must be opened; infinite, with a warning, if the rows cannot tell."""
        share = _as_share(coverage)
        rank = math.ceil((self.n_rows + 1) * share)
        if rank <= len(self.scores):
            return float(self.scores[rank - 1])
        if rank > self.n_rows:
            message = (
                f"coverage={coverage} needs at least {rows_needed(coverage)} calibration rows, but there are "
                f"{self.n_rows}; the answer is the whole range: call conformalize with more rows or ask for less"
            )
        else:
            outside = self.n_rows - len(self.scores)
            message = (
                f"coverage={coverage} must be reached inside the range of the training targets, but {outside} of "
                f"{self.n_rows} calibration targets lie outside it; the answer is the whole range: fit with wider "
                "bounds or ask for less"
            )
        warnings.warn(message, stacklevel=3)
        return math.inf

    def to_json(self) -> dict[str, Any]:
        """Everything needed to rebuild the calibration, as JSON values."""
        return {"scores": self.scores.tolist(), "n_rows": self.n_rows, "widest": list(self.widest)}

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Calibration:
        """Rebuild a calibration from :meth:`to_json`."""
        low, high = state["widest"]
        return cls(np.array(state["scores"], dtype=np.float64), int(state["n_rows"]), (float(low), float(high)))


def rows_needed(coverage: float) -> int:
    """How many calibration rows a coverage needs at least."""
    share = _as_share(coverage)
    return math.ceil(share / (1 - share))


def _as_share(coverage: float) -> Fraction:
    """The coverage as the decimal fraction that was written: ranks must not jump because 0.9 is no binary number."""
    check_open_share(coverage)
    return Fraction(repr(float(coverage)))


# --- values in bounds: intervals whose ends are equally deep, and beyond what has any probability ---


def interval_scores(prediction: Prediction, y: ArrayLike, bounds: tuple[float, float] = (0.0, 1.0)) -> Floats:
    """How far each row's interval must be opened until it holds the target; both lie in the bounds.

    Between the samples the score is minus the number of samples that may be left out on either side, so it is 0 if all
    of them must be inside. Beyond them it is the distance to the nearest sample, measured by the distance of that
    sample from the median: it adapts to each row, and to each side of a skewed one. Of a distribution in closed form
    probabilities take the place of numbers of samples, and the quantiles at 0.005 and 0.995 that of the outermost.
    Pass infinity for a target outside the bounds: its score is infinite, as no interval holds it. Scores compare
    between equally many samples only.

    **Shape:** y ``(n,)`` -> ``(n,)``.

    >>> interval_scores(Prediction([[0.1, 0.2, 0.3, 0.4, 0.5]] * 3), [0.3, 0.45, 0.6]).round(2) + 0.0
    array([-2. , -0.5,  0.5])
    >>> interval_scores(CdfPrediction([0, 0.2, 0.6, 1], [[0, 0, 1, 1]] * 3), [0.4, 0.3, 0.1]).round(2)
    array([-0.49, -0.24,  0.51])
    """
    target = np.asarray(y, dtype=np.float64)
    if isinstance(prediction, CdfPrediction):
        return _scores_in_closed_form(prediction, target, bounds)
    ordered, median = _as_floats(prediction)
    # Seen from above, the interval is what it is from below once everything changes its sign.
    floor = REACH_FLOOR * (bounds[1] - bounds[0])
    depth = np.minimum(_depth_of(target, ordered, median, floor), _depth_of(-target, -ordered[:, ::-1], -median, floor))
    return np.asarray(-np.minimum(depth, (ordered.shape[1] - 1) / 2))


def open_intervals(prediction: Prediction, threshold: float, bounds: tuple[float, float] = (0.0, 1.0)) -> Floats:
    """The interval of each row that holds the targets with a score up to ``threshold``, inside the bounds.

    **Shape:** -> ``(n, 2)``.

    >>> open_intervals(Prediction([[0.1, 0.2, 0.3, 0.4, 0.5]]), threshold=-1).round(2)
    array([[0.2, 0.4]])
    >>> open_intervals(Prediction([[0.1, 0.2, 0.3, 0.4, 0.5]]), threshold=0.25).round(2)
    array([[0.05, 0.55]])
    """
    if math.isinf(threshold):
        return np.tile(np.array(bounds, dtype=np.float64), (len(prediction), 1))
    floor = REACH_FLOOR * (bounds[1] - bounds[0])
    if isinstance(prediction, CdfPrediction):
        lower, upper = _opened_in_closed_form(prediction, threshold, floor)
    else:
        ordered, median = _as_floats(prediction)
        depth = depth_for(threshold, ordered.shape[1])
        lower = _value_at(depth, ordered, median, floor)
        upper = -_value_at(depth, -ordered[:, ::-1], -median, floor)
    return np.asarray(np.clip(np.stack([lower, np.maximum(lower, upper)], axis=1), *bounds))


def _scores_in_closed_form(prediction: CdfPrediction, y: Floats, bounds: tuple[float, float]) -> Floats:
    """Minus the depth of the target, an atom's whole probability counted on both sides, or how far it is beyond."""
    (lower, upper), median = prediction.ends_at(OUTER_DEPTH).T, prediction.median
    floor = REACH_FLOOR * (bounds[1] - bounds[0])
    depth = np.minimum(np.minimum(prediction.cdf(y), 1 - prediction.cdf_below(y)), 0.5)
    below, above = (lower - y) / (median - lower + floor), (y - upper) / (upper - median + floor)
    return np.asarray(np.where(depth < OUTER_DEPTH, np.maximum(np.maximum(below, above), 0.0), OUTER_DEPTH - depth))


def _opened_in_closed_form(prediction: CdfPrediction, threshold: float, floor: float) -> tuple[Floats, Floats]:
    """Ends of the depth of a threshold, or beyond the outermost that is measured so. **Shape:** ``(n,)`` each."""
    depth = max(min(OUTER_DEPTH - threshold, 0.5) - _ROUNDING, OUTER_DEPTH)
    lower, upper = prediction.ends_at(depth).T
    opened, median = max(threshold, 0.0) + _ROUNDING, prediction.median
    return lower - opened * (median - lower + floor), upper + opened * (upper - median + floor)


def depth_for(threshold: float, n_samples: int) -> float:
    """How many of so many samples an interval of this threshold leaves out on either side; negative beyond them all."""
    depth = min(-threshold, (n_samples - 1) / 2)
    return depth - _ROUNDING if depth < 0 else max(depth - _ROUNDING, math.floor(depth))  # samples are exact


def _as_floats(prediction: Prediction) -> tuple[Floats, Floats]:
    return prediction.ordered.astype(np.float64), prediction.median.astype(np.float64)


def _depth_of(y: Floats, ordered: Floats, median: Floats, floor: float) -> Floats:
    """How many samples lie below y, the gap to the next one counted in part; negative below all samples."""
    last = np.maximum((ordered <= y[:, None]).sum(axis=1) - 1, 0)  # of several equal samples the innermost
    here, following = _sample_and_next(ordered, last)
    gap = following - here
    inside = last + np.where(gap > 0, (y - here) / np.where(gap > 0, gap, 1.0), 0.0)
    inside = np.minimum(inside, np.nextafter(last + 1.0, 0.0))  # only a target at the next sample is as deep as that
    beyond = (y - ordered[:, 0]) / (median - ordered[:, 0] + floor)
    return np.asarray(np.where(y < ordered[:, 0], beyond, inside))


def _value_at(depth: float, ordered: Floats, median: Floats, floor: float) -> Floats:
    """The smallest value with this depth: the inverse of :func:`_depth_of`."""
    if depth < 0:
        return np.asarray(ordered[:, 0] + depth * (median - ordered[:, 0] + floor))
    place = math.floor(depth)
    here, following = _sample_and_next(ordered, np.full(len(ordered), place))
    return np.asarray(np.clip(here + (depth - place) * (following - here), here, following))


def _sample_and_next(ordered: Floats, place: NDArray[np.int64]) -> tuple[Floats, Floats]:
    rows = np.arange(len(ordered))
    return ordered[rows, place], ordered[rows, np.minimum(place + 1, ordered.shape[1] - 1)]


# --- ordered grades: runs of grades that grow from the most probable one ---


def set_scores(probabilities: ArrayLike) -> Floats:
    """How far each row's set must be opened until it holds each grade.

    The set starts as the most probable grade and takes in the more probable of its two neighbours at a time, the one
    on the side of the mean if they are equal. A grade's score is the probability that the set has gathered before it
    takes that grade in, plus a small step for each grade it has. Sets of grades up to a score are runs without gaps.

    **Shape:** ``(n, K)`` -> ``(n, K)``.

    >>> set_scores([[0.1, 0.6, 0.3, 0.0]]).round(3)
    array([[0.902, 0.   , 0.601, 1.003]])
    """
    gathered, steps = _growth(probabilities)
    return np.asarray(gathered + GRADE_STEP * steps)


def open_sets(probabilities: ArrayLike, threshold: float) -> NDArray[np.bool_]:
    """The grades of each row with a score up to ``threshold``: a run that holds the most probable grade.

    **Shape:** ``(n, K)`` -> ``(n, K)``.
    """
    return np.asarray(set_scores(probabilities) <= max(threshold, 0.0))


def probable_sets(probabilities: ArrayLike, coverage: float) -> NDArray[np.bool_]:
    """The run of grades of each row that gathers ``coverage`` of the model's own probability: no guarantee.

    **Shape:** ``(n, K)`` -> ``(n, K)``.
    """
    check_open_share(coverage)
    gathered, _ = _growth(probabilities)
    return np.asarray(gathered < coverage - _ROUNDING)  # sums of shares may round just below the coverage


def _growth(probabilities: ArrayLike) -> tuple[Floats, NDArray[np.int64]]:
    """The probability and the number of grades that a row's set holds just before it takes in each grade."""
    shares = np.asarray(probabilities, dtype=np.float64)
    rows, n_grades = np.arange(len(shares)), shares.shape[1]
    mean = shares @ np.arange(n_grades)
    walled = np.pad(shares, ((0, 0), (1, 1)), constant_values=-1.0)  # nothing is taken from beyond the ends
    lowest = shares.argmax(axis=1)
    highest, held = lowest, shares[rows, lowest]
    gathered, steps = np.zeros_like(shares), np.zeros(shares.shape, dtype=np.int64)
    for step in range(1, n_grades):
        below, above = walled[rows, lowest], walled[rows, highest + 2]
        upwards = (above > below) | ((above == below) & (2 * mean > lowest + highest))
        taken = np.where(upwards, highest + 1, lowest - 1)
        gathered[rows, taken], steps[rows, taken] = held, step
        held = held + shares[rows, taken]
        lowest, highest = np.minimum(lowest, taken), np.maximum(highest, taken)
    return gathered, steps
