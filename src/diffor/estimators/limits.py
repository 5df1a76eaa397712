"""A limit for each row: what is known of its value beside the model, as the price that no discount exceeds.

Distributions of values are cut to it. Where a model has learned which share of the limit is reached, they are stretched
from 0 to it instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.core.given import row_limits
from diffor.core.prediction import Prediction
from diffor.errors import UserError

Floats = NDArray[np.float64]
TRUNCATE, SHARE = "truncate", "share"
"""What a model may make of the limits of rows."""


@dataclass(frozen=True)
class Limits:
    """The range of each row, infinite where it is open; with ``of_share``, answers are shares of ``high``.

    **Shape:** ``(n,)`` each.
    """

    low: Floats
    high: Floats
    of_share: bool = False

    @classmethod
    def of(cls, lower: ArrayLike | None, upper: ArrayLike | None, n_rows: int, bounds: tuple[float, float]) -> Limits:
        """Limits as numbers or ``(n,)``; refuse those that leave nothing of the target's bounds.

        >>> Limits.of(None, [3, np.nan], 2, (0, 10)).high
        array([ 3., inf])
        """
        return cls(*row_limits(lower, upper, n_rows, bounds))

    @classmethod
    def of_shares(cls, lower: ArrayLike | None, upper: ArrayLike | None, n_rows: int) -> Limits:
        """Limits whose shares a model has learned: ``upper`` must be known and positive in every row.

        >>> Limits.of_shares(None, [30, 60], 2).high
        array([30., 60.])
        """
        high = share_limits(upper, n_rows)
        return cls(row_limits(lower, high, n_rows)[0], high, of_share=True)

    def in_shares(self) -> Limits:
        """The same ranges, as shares of their upper ends."""
        return Limits(self.low / self.high, np.ones_like(self.high))

    def apply(self, prediction: Prediction, first: int = 0) -> Prediction:
        """What a prediction of rows from ``first`` on says within their limits."""
        rows = slice(first, first + len(prediction))
        low, high = self.low[rows], self.high[rows]
        if not self.of_share:
            return prediction.given(low, high)
        stretched = prediction.times(high)
        return stretched.given(lower=low) if (low > 0).any() else stretched

    def cut(self, parts: Iterable[Prediction]) -> Iterator[Prediction]:
        """Predictions of the rows, block by block, each within its limits."""
        first = 0
        for part in parts:
            yield self.apply(part, first)
            first += len(part)

    def clip(self, intervals: Floats) -> Floats:
        """What of each interval lies in the row's range, or the nearest limit where nothing does.

        An interval loses no target that keeps to its limits, so a guarantee of coverage holds as before.
        **Shape:** ``(n, 2)`` -> ``(n, 2)``.

        >>> Limits(np.array([0.0, 0.0]), np.array([5.0, 5.0])).clip(np.array([[3.0, 8.0], [6.0, 9.0]]))
        array([[3., 5.],
               [5., 5.]])
        """
        ends = intervals * self.high[:, None] if self.of_share else intervals
        return np.asarray(np.clip(ends, self.low[:, None], self.high[:, None]))


def share_limits(upper: ArrayLike | None, n_rows: int, name: str = "upper") -> Floats:
    """Upper limits that values can be shares of; refuse those that are not known, or not above 0. **Shape:** ``(n,)``.

    >>> share_limits([30, 0], 2)
    Traceback (most recent call last):
    diffor.errors.UserError: upper must be a number above 0 in every row, but row 1 has upper=0.0; correct or remove it
    """
    if upper is None:
        raise UserError(
            f"limit='share' needs the limit of each row, but {name} is not given; pass {name}=..., one number for each "
            "row, in fit and in all that predicts"
        )
    row_limits(None, upper, n_rows)  # refuses what is no number, and the wrong number of them
    high = np.broadcast_to(np.asarray(upper, dtype=np.float64), (n_rows,))
    wrong = np.flatnonzero(~(np.isfinite(high) & (high > 0)))
    if len(wrong):
        row = wrong[0]
        raise UserError(
            f"{name} must be a number above 0 in every row, but row {row} has {name}={high[row]}; correct or remove it"
        )
    return high


def shares_of(y: Floats, upper: ArrayLike | None, name: str = "y", limit: str = "upper") -> Floats:
    """Targets as shares of their rows' limits; refuse those beyond. **Shape:** ``(n,)``.

    >>> shares_of(np.array([15.0, 60.0]), [30, 60])
    array([0.5, 1. ])
    """
    high = share_limits(upper, len(y), limit)
    wrong = np.flatnonzero((y < 0) | (y > high))
    if len(wrong):
        row = wrong[0]
        raise UserError(
            f"{name} must lie from 0 to its row's limit, but {len(wrong)} of {len(y)} do not, the first is row {row} "
            f"with {name}={y[row]} and {limit}={high[row]}; correct or remove these rows, or cut the "
            f"targets to {limit} if it stops them"
        )
    return np.asarray(y / high)
