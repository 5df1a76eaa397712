"""Prediction: the one answer of every method, a distribution for each row and all that is read off it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.metrics import crps_each

Array = NDArray[np.floating]


class Prediction:
    """The predictive distribution of each row, held as samples in the user's units.

    Every statistic comes from the same samples, so they agree with each other: quantiles never cross, the median is
    the 0.5 quantile, intervals are nested, and nothing leaves the range of the samples.

    A method that has its own way to decide on one value gives it as ``point``: that is its ``native`` statistic.

    **Shape:** samples ``(n, m)``; a point prediction is ``m = 1``; point ``(n,)``.

    >>> prediction = Prediction([[1.0, 2.0, 3.0, 10.0]])
    >>> prediction.mean, prediction.median
    (array([4.]), array([2.5]))
    >>> prediction.interval(0.5)
    array([[1.5, 6.5]])
    """

    def __init__(self, samples: ArrayLike, point: ArrayLike | None = None) -> None:
        values = np.asarray(samples)
        if values.ndim != 2 or values.shape[1] < 1:
            raise ValueError(f"samples must have shape (rows, at least one sample), however: shape={values.shape}")
        self.samples: Array = values
        self.point: Array | None = None if point is None else np.asarray(point)
        if self.point is not None and self.point.shape != values.shape[:1]:
            raise ValueError(f"point must have one value per row, {values.shape[:1]}, however: {self.point.shape}")

    @cached_property
    def ordered(self) -> Array:
        """The samples of each row from smallest to largest. **Shape:** ``(n, m)``."""
        return np.sort(self.samples, axis=1)

    def __len__(self) -> int:
        return len(self.samples)

    def __repr__(self) -> str:
        return f"Prediction(rows={len(self)}, samples={self.samples.shape[1]})"

    def __getitem__(self, rows: slice | Array) -> Prediction:
        return Prediction(self.samples[rows], None if self.point is None else self.point[rows])

    @classmethod
    def concatenate(cls, parts: Sequence[Prediction]) -> Prediction:
        """Put the rows of several predictions one below the other."""
        points = [part.point for part in parts if part.point is not None]
        joined = np.concatenate(points) if points and len(points) == len(parts) else None
        return cls(np.concatenate([part.samples for part in parts]), joined)

    def map(self, function: Callable[[Array], Array]) -> Prediction:
        """Apply a rising function to every sample; statistics of the result are those of the mapped values."""
        return Prediction(function(self.samples), None if self.point is None else function(self.point))

    def widen(self, factor: float, low: float, high: float) -> Prediction:
        """Move every sample ``factor`` times as far from its row's median, but not beyond the bounds.

        >>> Prediction([[0.4, 0.5, 0.9]]).widen(2, low=0, high=1).samples.round(1).tolist()
        [[0.3, 0.5, 1.0]]
        """
        centre = self.median[:, None]
        return Prediction(np.clip(centre + factor * (self.samples - centre), low, high), self.point)

    @property
    def mean(self) -> Array:
        """Expected value. **Shape:** ``(n,)``."""
        return np.asarray(self.samples.mean(axis=1, dtype=np.float64))

    @property
    def median(self) -> Array:
        """Value that is as likely exceeded as not. **Shape:** ``(n,)``."""
        return self.quantile([0.5])[:, 0]

    @property
    def mode(self) -> Array:
        """Centre of the densest region (half-sample mode: halve the shortest half until one is left).

        **Shape:** ``(n,)``.
        """
        values = self.ordered.astype(np.float64)
        while values.shape[1] > 2:
            half = (values.shape[1] + 1) // 2
            widths = values[:, half - 1 :] - values[:, : values.shape[1] - half + 1]
            first = widths.argmin(axis=1)
            values = np.take_along_axis(values, first[:, None] + np.arange(half), axis=1)
        return np.asarray(values.mean(axis=1))

    @property
    def std(self) -> Array:
        """Standard deviation. **Shape:** ``(n,)``."""
        return np.asarray(self.samples.std(axis=1, dtype=np.float64))

    def quantile(self, levels: ArrayLike) -> Array:
        """Quantiles at ``levels`` in [0, 1]; sample i of m stands at level (i - 0.5) / m. **Shape:** ``(n, q)``."""
        wanted = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if wanted.ndim != 1 or not ((wanted >= 0) & (wanted <= 1)).all():
            raise ValueError(f"quantile levels must lie in [0, 1], however: {np.asarray(levels).tolist()}")
        m = self.samples.shape[1]
        place = np.clip(wanted * m - 0.5, 0, m - 1)
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, m - 1)
        share = place - below
        low, high = self.ordered[:, below].astype(np.float64), self.ordered[:, above].astype(np.float64)
        # Written so that the result is monotone and never rounds past either neighbour.
        return np.asarray(np.clip(low + share * (high - low), low, high))

    def interval(self, coverage: float = 0.9) -> Array:
        """Central interval that holds ``coverage`` of the probability. **Shape:** ``(n, 2)``."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie strictly between 0 and 1, however: coverage={coverage}")
        return self.quantile([(1 - coverage) / 2, (1 + coverage) / 2])

    def statistic(self, name: str | float) -> Array:
        """One number per row: ``mean``, ``median``, ``mode``, ``native``, or a quantile level. **Shape:** ``(n,)``.

        ``native`` is the value that the method itself decides on, or the median where it has no way of its own.
        """
        if name == "native":
            return self.median if self.point is None else np.asarray(self.point)
        if isinstance(name, (int, float)) and not isinstance(name, bool):
            return self.quantile([name])[:, 0]
        if name in ("mean", "median", "mode"):
            return np.asarray(getattr(self, str(name)))
        known = "'mean', 'median', 'mode', 'native' or a level in [0, 1]"
        raise ValueError(f"statistic must be {known}, however: {name!r}")

    def cdf(self, values: ArrayLike) -> Array:
        """Probability of a value at or below each of ``values``.

        **Shape:** a number or ``(n,)``, one for each row -> ``(n,)``; ``(n or 1, c)`` -> ``(n, c)``.
        """
        asked = np.asarray(values, dtype=np.float64)
        if asked.ndim < 2:
            return self.cdf(np.broadcast_to(asked, (len(self),))[:, None])[:, 0]
        asked = np.broadcast_to(asked, (len(self), asked.shape[1]))
        counts = np.stack([(self.samples <= asked[:, [j]]).sum(axis=1) for j in range(asked.shape[1])], axis=1)
        return np.asarray(counts / self.samples.shape[1])

    def probabilities(self, cuts: ArrayLike) -> Array:
        """Probability of each range between rising ``cuts``: up to and including the first, ..., above the last.

        **Shape:** ``(c,)`` -> ``(n, c + 1)``.
        """
        edges = np.asarray(cuts, dtype=np.float64)
        if edges.ndim != 1 or len(edges) == 0 or not (np.diff(edges) > 0).all() or not np.isfinite(edges).all():
            raise ValueError(f"cuts must be finite numbers that strictly rise, however: {np.asarray(cuts).tolist()}")
        cumulative = self.cdf(edges[None, :])
        ends = np.zeros((len(self), 1)), np.ones((len(self), 1))
        return np.asarray(np.diff(np.concatenate([ends[0], cumulative, ends[1]], axis=1), axis=1))

    def crps(self, y: ArrayLike) -> Array:
        """Continuous ranked probability score of each row, in the target's units. **Shape:** ``(n,)`` -> ``(n,)``."""
        return crps_each(np.asarray(y, dtype=np.float64), self.samples)
