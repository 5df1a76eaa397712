"""Distributions once part is known: each row's value lies in a range of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.core.cdf_prediction import (
    _SAME_PLACE,
    _SLACK,
    CdfPrediction,
    Places,
    _count_leading,
    _knots_at,
)
from diffor.core.prediction import Array, Prediction
from diffor.errors import UserError, UserTypeError

Limits = tuple[NDArray[np.float64], NDArray[np.float64]]


class RowCdf(CdfPrediction):
    """A distribution function whose rows have knots of their own: all that a :class:`CdfPrediction` answers, cut.

    Parameters
    ----------
    knots : array
        Values that do not fall in any row. **Shape:** ``(n, m)``.
    heights : array
        Probability of no more than each knot. **Shape:** ``(n, m)``.
    point : array or None
        The ``native`` statistic. **Shape:** ``(n,)``.
    places : array
        The atoms of the distribution that was cut. **Shape:** ``(a,)``.
    reach : float
        How far a value may be from a knot, by rounding, and still be it.
    """

    def __init__(self, knots: Array, heights: Array, point: Array | None, places: Array, reach: float) -> None:
        self.knots, self.heights, self.point = knots, heights, point
        self.places, self.reach = places, reach

    def __repr__(self) -> str:
        return f"RowCdf(rows={len(self)}, knots={self.heights.shape[1]})"

    def __getitem__(self, rows: slice | NDArray[Any]) -> RowCdf:
        point = None if self.point is None else self.point[rows]
        return RowCdf(self.knots[rows], self.heights[rows], point, self.places, self.reach)

    def map(self, function: Callable[[Array], Array]) -> RowCdf:
        """Apply a rising function to every knot; exact where it is straight between knots."""
        knots = np.asarray(function(self.knots), dtype=np.float64)
        point = None if self.point is None else function(self.point)
        places = np.asarray(function(self.places), dtype=np.float64)
        return RowCdf(knots, self.heights, point, places, _reach_of(knots))

    @property
    def atoms(self) -> tuple[Array, Array]:
        """Values that had a probability of their own before the cut, and what they have now.

        **Shape:** ``(a,)`` and ``(n, a)``.
        """
        return self.places, self.mass(self.places[None])

    @cached_property
    def mirrored(self) -> RowCdf:
        """The distribution of minus the value. **Shape:** ``n`` rows."""
        return RowCdf(-self.knots[:, ::-1], 1 - self.heights[:, ::-1], None, -self.places[::-1], self.reach)

    def _for_each(self, values: ArrayLike, read: Callable[[Array], Array]) -> Array:
        asked = np.asarray(values, dtype=np.float64)
        table = asked if asked.ndim == 2 else np.broadcast_to(asked, (len(self),))[:, None]
        found = read(self._snapped(np.broadcast_to(table, (len(self), table.shape[1]))))
        return found if asked.ndim == 2 else found[:, 0]

    def _is_atom(self, values: Array) -> NDArray[np.bool_]:
        """Of a cut row, also the place that has all of its probability."""
        return np.asarray(np.isin(values, self.places) | (self.mass(values) > 0))

    def _snapped(self, values: Array) -> Array:
        """Move values that differ from a knot of their row by rounding onto it. **Shape:** ``(n, c)``."""
        after = self._count(values, "left")
        before = _knots_at(self.knots, np.maximum(after - 1, 0))
        following = _knots_at(self.knots, np.minimum(after, self.heights.shape[1] - 1))
        nearest = np.where(np.abs(values - before) <= np.abs(values - following), before, following)
        return np.where(np.abs(values - nearest) <= self.reach, nearest, values)

    def _piece(self, values: Array, side: str) -> Places:
        return np.asarray(np.clip(self._count(values, side), 1, self.heights.shape[1] - 1))

    def _count(self, values: Array, side: str) -> Places:
        """How many knots of its row lie before each value, or on the right side at it too. **Shape:** -> ``(n, c)``."""
        asked = np.broadcast_to(values, (len(self), values.shape[1]))

        def lies_before(place: Places) -> NDArray[np.bool_]:
            knots = _knots_at(self.knots, place)
            return np.asarray(knots <= asked if side == "right" else knots < asked)

        return _count_leading(asked.shape, self.heights.shape[1], lies_before)


def conditioned(prediction: CdfPrediction, lower: ArrayLike | None, upper: ArrayLike | None) -> RowCdf:
    """The law of each row on its range: :meth:`CdfPrediction.given`.

    Knots outside move to the nearest limit, where they have no probability any more; so a row has as many as before,
    and memory grows with the rows alone.
    """
    low, high = row_limits(lower, upper, len(prediction))
    before, upto = prediction.cdf_below(low), prediction.cdf(high)
    share = upto - before
    is_empty = share <= _SLACK
    knots = np.clip(prediction.knots, low[:, None], high[:, None])
    rest = np.where(is_empty, 1.0, share)
    heights = np.clip((prediction.heights - before[:, None]) / rest[:, None], 0, 1)
    knots[is_empty] = np.clip(prediction.median, low, high)[is_empty, None]
    heights[is_empty] = np.arange(heights.shape[1]) > 0
    point = None if prediction.point is None else np.clip(prediction.point, low, high)
    if isinstance(prediction, RowCdf):
        return RowCdf(knots, heights, point, prediction.places, prediction.reach)
    return RowCdf(knots, heights, point, prediction.atoms[0], _reach_of(prediction.knots))


def scaled(prediction: CdfPrediction, factors: ArrayLike) -> RowCdf:
    """Each row times a positive number of its own: :meth:`CdfPrediction.times`."""
    by = np.asarray(factors, dtype=np.float64)
    knots = prediction.knots * by[:, None]
    point = None if prediction.point is None else prediction.point * by
    places = prediction.atoms[0]
    return RowCdf(knots, prediction.heights, point, places[places == 0], _reach_of(knots))  # 0 alone stays in place


def kept_samples(prediction: Prediction, lower: ArrayLike | None, upper: ArrayLike | None) -> Prediction:
    """The samples of each row that lie in its range, each as often as any other: :meth:`Prediction.given`."""
    low, high = row_limits(lower, upper, len(prediction))
    ordered = prediction.ordered.astype(np.float64)
    m = ordered.shape[1]
    first = (ordered < low[:, None]).sum(axis=1)
    count = (ordered <= high[:, None]).sum(axis=1) - first
    place = first[:, None] + (2 * np.arange(m) + 1) * count[:, None] // (2 * m)
    samples = np.take_along_axis(ordered, np.minimum(place, m - 1), axis=1)
    is_empty = count <= 0
    samples[is_empty] = np.clip(prediction.median, low, high)[is_empty, None]
    return Prediction(samples, None if prediction.point is None else np.clip(prediction.point, low, high))


def row_limits(
    lower: ArrayLike | None, upper: ArrayLike | None, n_rows: int, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> Limits:
    """Limits of each row, infinite where there is none; refuse those that leave nothing, also of the target's bounds.

    **Shape:** ``(n,)`` each.
    """
    low, high = _limit(lower, "lower", -np.inf, n_rows), _limit(upper, "upper", np.inf, n_rows)
    wrong = np.flatnonzero(low > high)
    if len(wrong):
        row = wrong[0]
        raise UserError(
            f"lower must not be above upper, but row {row} has lower={low[row]} and upper={high[row]}; "
            "correct the row, or pass NaN where there is no limit"
        )
    for name, wrong_side, values in (("upper", high < bounds[0], high), ("lower", low > bounds[1], low)):
        if wrong_side.any():
            row = wrong_side.argmax()
            raise UserError(
                f"{name} must leave some of the model's range from {bounds[0]} to {bounds[1]}, but row {row} has "
                f"{name}={values[row]}; correct the row, or fit with bounds=(low, high) that hold such values"
            )
    return low, high


def _limit(values: ArrayLike | None, name: str, none: float, n_rows: int) -> NDArray[np.float64]:
    if values is None:
        return np.full(n_rows, none)
    try:
        given = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserTypeError(f"{name} must hold numbers, but got {values!r:.80}; NaN stands for no limit") from error
    if given.shape not in ((), (n_rows,)):
        raise UserError(
            f"{name} must be one number, or one for each of the {n_rows} rows, but got shape={given.shape}; "
            "pass the limits of the rows that are asked about"
        )
    limits = np.broadcast_to(np.where(np.isnan(given), none, given), (n_rows,))
    wrong = np.flatnonzero(limits == -none)
    if len(wrong):
        raise UserError(f"{name} must leave something, but row {wrong[0]} has {name}={-none}; NaN stands for no limit")
    return limits


def stacked(parts: Sequence[CdfPrediction], point: Array | None) -> RowCdf:
    """Rows of several one below the other, knots of shorter rows repeated at the end, where all is reached."""
    m = max(part.heights.shape[1] for part in parts)

    def table(values: Array, part: CdfPrediction) -> Array:
        rows = np.broadcast_to(values, part.heights.shape)
        return np.pad(rows, ((0, 0), (0, m - rows.shape[1])), mode="edge")

    knots = np.concatenate([table(part.knots, part) for part in parts])
    heights = np.concatenate([table(part.heights, part) for part in parts])
    places = np.unique(np.concatenate([part.atoms[0] for part in parts]))
    reach = max(part.reach if isinstance(part, RowCdf) else _reach_of(part.knots) for part in parts)
    return RowCdf(knots, heights, point, places, reach)


def _reach_of(knots: Array) -> float:
    return float(_SAME_PLACE * np.abs(knots).max(initial=0))
