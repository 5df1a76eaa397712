"""A limit for each row: what is known of its value beside the model, as the price that no discount exceeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.core.given import row_limits
from diffor.core.prediction import Prediction
from diffor.errors import UserError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Limits:
    """The range of each row, infinite where it is open. **Shape:** ``(n,)`` each."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, lower: ArrayLike | None, upper: ArrayLike | None, n_rows: int, bounds: tuple[float, float]) -> Limits:
        """Limits as numbers or ``(n,)``; refuse those that leave nothing of the target's bounds.

        >>> Limits.of(None, [3, np.nan], 2, (0, 10)).high
        array([ 3., inf])
        """
        low, high = row_limits(lower, upper, n_rows)
        for name, wrong, values in (("upper", high < bounds[0], high), ("lower", low > bounds[1], low)):
            if wrong.any():
                row = int(wrong.argmax())
                raise UserError(
                    f"{name} must leave some of the model's range from {bounds[0]} to {bounds[1]}, but row {row} has "
                    f"{name}={values[row]}; correct the row, or fit with bounds=(low, high) that hold such values"
                )
        return cls(low, high)

    def cut(self, parts: Iterable[Prediction]) -> Iterator[Prediction]:
        """Predictions of the rows, block by block, each cut to its range."""
        first = 0
        for part in parts:
            rows = slice(first, first + len(part))
            yield part.given(self.low[rows], self.high[rows])
            first += len(part)

    def clip(self, intervals: Floats) -> Floats:
        """What of each interval lies in the row's range, or the nearest limit where nothing does.

        An interval loses no target that keeps to its limits, so a guarantee of coverage holds as before.
        **Shape:** ``(n, 2)`` -> ``(n, 2)``.

        >>> Limits(np.array([0.0, 0.0]), np.array([5.0, 5.0])).clip(np.array([[3.0, 8.0], [6.0, 9.0]]))
        array([[3., 5.],
               [5., 5.]])
        """
        return np.asarray(np.clip(intervals, self.low[:, None], self.high[:, None]))
