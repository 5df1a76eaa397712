"""TargetScale: bounds and transform between the user's target and [0, 1], and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffor.core.grades import AS_THEY_ARE, Spread
from diffor.errors import UserError

Array = NDArray[np.floating]
TRANSFORMS = ("uniform", "quantile", "log")
MAX_KNOTS = 1000
FARTHEST = 1e150
"""Targets beyond have squares that are no numbers any more."""
SINGLE = 1e-7
"""Share of the range that single precision does not tell apart."""


class TargetScale:
    """A rising map from the user's target range onto [0, 1].

    - ``uniform`` (the paper): equal steps stay equal;
    - ``quantile``: equal steps hold equally many training rows, a straight line between up to 1000 quantiles;
    - ``log``: ratios above the lower bound become steps, for heavy right tails.

    Bounds are the smallest and largest training target unless given.

    >>> scale = TargetScale(bounds=(0, 100)).fit([20.0, 30.0])
    >>> scale.to_unit([25.0]), scale.from_unit([0.5])
    (array([0.25]), array([50.]))
    """

    def __init__(self, bounds: tuple[float, float] | None = None, transform: str = "uniform") -> None:
        if transform not in TRANSFORMS:
            raise UserError(f"transform must be one of {', '.join(TRANSFORMS)}, but got transform={transform!r}")
        if bounds is not None:
            check_bounds(bounds)
        self.bounds = bounds
        self.transform = transform
        self.values: Array = np.array([0.0, 1.0])  # knots in the user's units ...
        self.units: Array = np.array([0.0, 1.0])  # ... and where they lie in [0, 1]
        self.log_scale = 1.0
        self.repeated: Array = np.zeros(0)
        """Values that several training targets share: they come back as they are, not as rounding leaves them."""

    def fit(self, y: Any, counts: NDArray[np.int64] | None = None) -> TargetScale:
        """Learn bounds and knots from training targets, each of which may count several times. **Shape:** ``(n,)``."""
        y = np.asarray(y, dtype=np.float64)
        low, high = self.bounds if self.bounds is not None else (float(y.min()), float(y.max()))
        check_inside(y, (low, high))
        check_range(low, high)
        counted = y if counts is None else np.repeat(y, counts)
        if self.transform == "quantile":
            self.values, self.units = _quantile_knots(counted, low, high)
        else:
            self.values, self.units = np.array([low, high]), np.array([0.0, 1.0])
        above = counted[counted > low] - low
        values, counts = np.unique(y, return_counts=True)
        gaps = np.diff(values, prepend=-np.inf, append=np.inf)
        is_apart = np.minimum(gaps[:-1], gaps[1:]) > 2 * SINGLE * (high - low)  # no other target would be drawn to it
        self.repeated = values[(counts > 1) & is_apart]
        # The typical distance from the lower bound is where the log map bends from straight to logarithmic.
        # No less than what the whole range can be divided by.
        self.log_scale = max(float(np.median(above)), (high - low) / FARTHEST) if len(above) else 1.0
        return self

    @property
    def low(self) -> float:
        """Smallest legal value."""
        return float(self.values[0])

    @property
    def high(self) -> float:
        """Largest legal value."""
        return float(self.values[-1])

    def to_unit(self, y: Any) -> Array:
        """Map the user's targets to [0, 1]; what lies outside the bounds is clipped. **Shape:** any."""
        y = np.clip(np.asarray(y, dtype=np.float64), self.low, self.high)
        if self.high == self.low:
            return np.zeros_like(y)
        if self.transform == "log":
            return np.asarray(np.log1p((y - self.low) / self.log_scale) / self.log_range())
        return np.asarray(np.interp(y, self.values, self.units))

    def from_unit(self, unit: Any) -> Array:
        """Map [0, 1] back to the user's targets, never outside the bounds. **Shape:** any."""
        unit = np.clip(np.asarray(unit, dtype=np.float64), 0.0, 1.0)
        if self.transform == "log" and self.high > self.low:
            y = np.where(unit == 1, self.high, self.low + self.log_scale * np.expm1(unit * self.log_range()))
        else:
            y = np.interp(unit, self.units, self.values)
        return np.clip(self._exact(y), self.low, self.high)

    def unrounded(self, unit: Any) -> Array:
        """The same as :meth:`from_unit`. **Shape:** any."""
        return self.from_unit(unit)

    def _exact(self, y: Array) -> Array:
        """Values that repeat in place of what lies as near to them as single precision can tell. **Shape:** any."""
        if not len(self.repeated):
            return y
        above = np.searchsorted(self.repeated, y).clip(max=len(self.repeated) - 1)
        nearest = self.repeated[above]
        below = self.repeated[np.maximum(above - 1, 0)]
        nearest = np.where(np.abs(y - below) < np.abs(y - nearest), below, nearest)
        return np.asarray(np.where(np.abs(y - nearest) <= SINGLE * (self.high - self.low), nearest, y))

    def log_range(self) -> float:
        """The whole range as the log map sees it, before it is stretched to [0, 1]."""
        return float(np.log1p((self.high - self.low) / self.log_scale))

    def to_json(self) -> dict[str, Any]:
        """Everything needed to rebuild the fitted scale, as JSON values."""
        return {
            "bounds": None if self.bounds is None else [float(bound) for bound in self.bounds],
            "transform": self.transform,
            "values": self.values.tolist(),
            "units": self.units.tolist(),
            "log_scale": self.log_scale,
            "repeated": self.repeated.tolist(),
        }

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> TargetScale:
        """Rebuild a fitted scale from :meth:`to_json`."""
        scale = cls(None if state["bounds"] is None else tuple(state["bounds"]), state["transform"])
        scale.values, scale.units = np.array(state["values"]), np.array(state["units"])
        scale.log_scale = float(state["log_scale"])
        scale.repeated = np.array(state["repeated"], dtype=np.float64)
        return scale


class GradeScale:
    """Ordered grades 0 ... K - 1, evenly spaced on [0, 1]; every value in [0, 1] stands for its nearest grade.

    >>> scale = GradeScale(n_grades=5)
    >>> scale.to_unit([0, 2, 4]), scale.from_unit([0.1, 0.49, 1.0])
    (array([0. , 0.5, 1. ]), array([0., 2., 4.]))
    """

    def __init__(self, n_grades: int) -> None:
        self.n_grades = n_grades
        self.low, self.high = 0.0, float(n_grades - 1)
        self.spread = AS_THEY_ARE

    def to_unit(self, grades: Any) -> Array:
        """Map grade numbers to [0, 1]. **Shape:** any."""
        return np.asarray(grades, dtype=np.float64) / max(self.high, 1.0)

    def from_unit(self, unit: Any) -> Array:
        """Map [0, 1] to the nearest grade number. **Shape:** any."""
        return np.clip(np.rint(np.asarray(unit, dtype=np.float64) * self.high), 0.0, self.high)

    def unrounded(self, unit: Any) -> Array:
        """Map [0, 1] to places between grades. **Shape:** any."""
        return np.asarray(np.asarray(unit, dtype=np.float64) * self.high)

    def to_json(self) -> dict[str, Any]:
        """Everything needed to rebuild the scale, as JSON values."""
        return {"n_grades": self.n_grades, "spread": list(self.spread)}

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> GradeScale:
        """Rebuild a scale from :meth:`to_json`."""
        scale = cls(int(state["n_grades"]))
        scale.spread = Spread(*state["spread"])
        return scale


def check_bounds(bounds: Any) -> None:
    """Refuse bounds that are not two finite numbers, the lower first."""
    is_pair = isinstance(bounds, (tuple, list, np.ndarray)) and np.ndim(bounds) == 1 and len(bounds) == 2
    numbers = (int, float, np.integer, np.floating)
    if (
        not is_pair
        or not all(isinstance(bound, numbers) and abs(bound) < np.inf for bound in bounds)
        or not bounds[0] < bounds[1]
    ):
        raise UserError(f"bounds must be two finite numbers (low, high) with low < high, but got bounds={bounds!r}")
    check_range(bounds[0], bounds[1], "bounds")


def check_range(low: float, high: float, name: str = "y") -> None:
    """Refuse a range whose squares, or whose shares, are too large or too small for double precision."""
    if max(abs(low), abs(high)) > FARTHEST:
        raise UserError(
            f"{name} must lie within {-FARTHEST} and {FARTHEST}, but reaches from {low} to {high}; divide by a constant"
        )
    if 0 < high - low < 1 / FARTHEST:
        raise UserError(
            f"{name} must differ by more than {1 / FARTHEST}, but reaches from {low} to {high}; multiply by a constant"
        )


def check_inside(y: Array, bounds: tuple[float, float], name: str = "y") -> None:
    """Refuse targets that are missing, infinite or outside the bounds, saying how many and where."""
    for rule, fault, wrong in (
        ("must not contain NaN", "are NaN", np.isnan(y)),
        ("must not contain infinity", "are infinite", np.isinf(y)),
        (f"must lie inside bounds={bounds}", "lie outside", (y < bounds[0]) | (y > bounds[1])),
    ):
        if wrong.any():
            rows = np.flatnonzero(wrong)
            shown = ", ".join(f"row {row}: {y[row]}" for row in rows[:3])
            more = ", ..." if len(rows) > 3 else ""
            raise UserError(
                f"{name} {rule}, but {len(rows)} of {len(y)} values {fault} ({shown}{more}); "
                "remove or correct these rows" + (", or widen the bounds" if "bounds" in rule else "")
            )


def _quantile_knots(y: Array, low: float, high: float) -> tuple[Array, Array]:
    """Distinct quantiles with their mean ranks, tied together at the bounds."""
    levels = np.linspace(0, 1, min(MAX_KNOTS, len(y)))
    values = np.quantile(y, levels)
    distinct = np.unique(values)
    # A value that many rows share spans several levels: it stands at their middle.
    first, last = np.searchsorted(values, distinct, "left"), np.searchsorted(values, distinct, "right") - 1
    units = ((first + last) / 2 + 0.5) / len(levels)  # inside (0, 1), so that wider bounds keep a part of it
    steps = np.diff(distinct, prepend=-np.inf)  # a step that is next to nothing has no slope that is a number
    inner = (distinct > low) & (distinct < high) & (steps > (high - low) / FARTHEST)
    return np.r_[low, distinct[inner], high], np.r_[0.0, units[inner], 1.0]
