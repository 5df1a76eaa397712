"""Prediction: the one answer of every method, a distribution for each row and all that is read off it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.errors import UserError
from diffor.metrics import crps_each, pit_values

Array = NDArray[np.floating]
ROUNDING = 1e-9
"""Of a share of samples: 1 - 0.9 is a little less than 0.1."""


class Prediction:
    """The predictive distribution of each row, held as samples in the user's units.

    Every statistic comes from the same samples, so they agree with each other: quantiles never cross, the median is
    the 0.5 quantile, intervals are nested, and nothing leaves the range of the samples.

    Parameters
    ----------
    samples : array
        Values as likely as each other, a row for each row; one for each row is a point prediction. **Shape:**
        ``(n, m)``.
    point : array or None, default None
        What a method that has its own way to decide on one value decides on, its ``native`` statistic. **Shape:**
        ``(n,)``.

    Examples
    --------
    >>> prediction = Prediction([[1.0, 2.0, 3.0, 10.0]])
    >>> prediction.mean, prediction.median
    (array([4.]), array([2.5]))
    >>> prediction.interval(0.5)
    array([[1.5, 6.5]])
    """

    def __init__(self, samples: ArrayLike, point: ArrayLike | None = None) -> None:
        values = np.asarray(samples)
        if values.ndim != 2 or values.shape[1] < 1:
            raise UserError(f"samples must have shape (rows, at least one sample), but got shape={values.shape}")
        self._samples: Array = values
        self.point: Array | None = None if point is None else np.asarray(point)
        if self.point is not None and self.point.shape != values.shape[:1]:
            raise UserError(f"point must have one value per row, {values.shape[:1]}, but got {self.point.shape}")

    @property
    def samples(self) -> Array:
        """Values as likely as each other. **Shape:** ``(n, m)``."""
        return self._samples

    @cached_property
    def ordered(self) -> Array:
        """The samples of each row from smallest to largest. **Shape:** ``(n, m)``."""
        return np.sort(self.samples, axis=1)

    def __len__(self) -> int:
        return len(self.samples)

    def __repr__(self) -> str:
        return f"Prediction(rows={len(self)}, samples={self.samples.shape[1]})"

    def __getitem__(self, rows: slice | NDArray[Any]) -> Prediction:
        return Prediction(self.samples[rows], None if self.point is None else self.point[rows])

    @staticmethod
    def concatenate(parts: Sequence[Prediction]) -> Prediction:
        """Put the rows of several predictions one below the other: in closed form if all of them are."""
        if len(parts) == 1:
            return parts[0]
        points = [part.point for part in parts if part.point is not None]
        joined = np.concatenate(points) if points and len(points) == len(parts) else None
        return parts[0]._with_rows_of(parts, joined)

    def _with_rows_of(self, parts: Sequence[Prediction], point: Array | None) -> Prediction:
        m = self.samples.shape[1]
        levels = (np.arange(m) + 0.5) / m
        tables = [part.samples if part.samples.shape[1] == m else part.quantile(levels) for part in parts]
        return Prediction(np.concatenate(tables), point)

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

    def given(self, lower: ArrayLike | None = None, upper: ArrayLike | None = None) -> Prediction:
        """What remains of each row once its value is known to lie from ``lower`` to ``upper``, ends included.

        Samples outside are rejected; those inside are repeated evenly, so that each row has as many as before. Where
        none is inside, all are at the place in the range next to the median. Limits are numbers or ``(n,)``; None, NaN
        and infinity are no limit.

        >>> Prediction([[1.0, 2.0, 3.0, 9.0], [7.0, 7.0, 8.0, 9.0]]).given(upper=2).samples.tolist()
        [[1.0, 1.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0]]
        """
        from diffor.core.given import kept_samples  # here, since it builds on this class

        return self if lower is None and upper is None else kept_samples(self, lower, upper)

    def times(self, factors: ArrayLike) -> Prediction:
        """The distribution of each row's value times a positive number of its own. **Shape:** ``(n,)``.

        >>> Prediction([[0.5, 1.0], [0.5, 1.0]]).times([10, 60]).samples.tolist()
        [[5.0, 10.0], [30.0, 60.0]]
        """
        by = np.asarray(factors, dtype=np.float64)
        return Prediction(self.samples * by[:, None], None if self.point is None else self.point * by)

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
        wanted = checked_levels(levels)
        m = self.samples.shape[1]
        return self._at(np.clip(wanted * m - 0.5, 0, m - 1)[None])

    def _at(self, place: Array) -> Array:
        """Values at and between places, from 0, of the ordered samples. **Shape:** ``(n or 1, q)`` -> ``(n, q)``."""
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, self.samples.shape[1] - 1)
        low, high = (np.take_along_axis(self.ordered, at, axis=1).astype(np.float64) for at in (below, above))
        # Written so that the result is monotone and never rounds past either neighbour.
        return np.asarray(np.clip(low + (place - below) * (high - low), low, high))

    def interval(self, coverage: float = 0.9) -> Array:
        """Central interval that holds ``coverage`` of the probability, its ends included. **Shape:** ``(n, 2)``.

        Its ends are equally deep in the distribution on either side. Where an end is a value that several samples have,
        as the zero of a customer who may buy nothing, it holds all of them and leaves out less on that side than half
        of the rest; so both ends are deeper than the quantiles at ``(1 - coverage) / 2`` and ``(1 + coverage) / 2``.

        >>> visits = Prediction([[0.0] * 5 + [1.0, 2.0, 3.0, 4.0, 5.0]])
        >>> visits.quantile([0.1, 0.9]), visits.interval(0.8)
        (array([[0. , 4.5]]), array([[0., 4.]]))
        """
        check_open_share(coverage)
        place = depth_of_interval(self.ordered, coverage)[:, None]  # (n, 1)
        return self._at(np.concatenate([place, self.samples.shape[1] - 1 - place], axis=1))

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
        raise UserError(f"statistic must be {known}, but got {name!r}")

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
            raise UserError(f"cuts must be finite numbers that strictly rise, but got {np.asarray(cuts).tolist()}")
        cumulative = self.cdf(edges[None, :])
        ends = np.zeros((len(self), 1)), np.ones((len(self), 1))
        return np.asarray(np.diff(np.concatenate([ends[0], cumulative, ends[1]], axis=1), axis=1))

    def grade_probabilities(self, n_grades: int) -> Array:
        """Probability of each of the grades 0, 1, ..., where these are the values. **Shape:** -> ``(n, n_grades)``.

        >>> Prediction([[0.0, 2.0, 2.0, 2.0]]).grade_probabilities(3)
        array([[0.25, 0.  , 0.75]])
        """
        counts = [(self.samples == grade).sum(axis=1) for grade in range(n_grades)]
        return np.asarray(np.stack(counts, axis=1) / self.samples.shape[1])

    def mass(self, values: ArrayLike) -> Array:
        """Probability of exactly each value. **Shape:** a number or ``(n,)``, one for each row -> ``(n,)``."""
        asked = np.broadcast_to(np.asarray(values), (len(self),)).astype(self.samples.dtype)
        return np.asarray((self.samples == asked[:, None]).mean(axis=1))

    def crps(self, y: ArrayLike) -> Array:
        """Continuous ranked probability score of each row, in the target's units. **Shape:** ``(n,)`` -> ``(n,)``."""
        return crps_each(np.asarray(y, dtype=np.float64), self.samples)

    def pit(self, y: ArrayLike, random_state: int = 0) -> Array:
        """Where each truth stands in its row's distribution, at random inside a probability of its own.

        **Shape:** ``(n,)`` -> ``(n,)``.
        """
        return pit_values(y, self.samples, random_state)

    def increments(self, n_increments: int, low: float, high: float) -> Array:
        """Expected increments: how far the value fills each of equal intervals from ``low`` to ``high``.

        They are the probabilities of exceeding each place, averaged over the interval and times its width. Where the
        whole distribution lies in the range, ``low`` and the increments add up to the mean.

        **Shape:** -> ``(n, n_increments)``.

        >>> Prediction([[0.0, 1.0, 4.0, 3.0]]).increments(2, low=0, high=4)
        array([[1.25, 0.75]])
        """
        edges = even_edges(n_increments, low, high)
        parts = [np.clip(self.samples, start, end) - start for start, end in pairwise(edges)]
        return np.stack([part.mean(axis=1, dtype=np.float64) for part in parts], axis=1)


def checked_levels(levels: ArrayLike) -> Array:
    """Levels of quantiles as an array; refuse those that are no probability. **Shape:** a number or ``(q,)``."""
    wanted = np.atleast_1d(np.asarray(levels, dtype=np.float64))
    if wanted.ndim != 1 or not ((wanted >= 0) & (wanted <= 1)).all():
        raise UserError(f"quantile levels must lie in [0, 1], but got {np.asarray(levels).tolist()}")
    return wanted


def check_open_share(coverage: float) -> None:
    """Refuse a coverage that no interval has."""
    if not 0 < coverage < 1:
        raise UserError(f"coverage must lie strictly between 0 and 1, but got coverage={coverage}; ask for 0.9, say")


def even_edges(n_increments: int, low: float, high: float) -> Array:
    """Ends of equal intervals. **Shape:** ``(n_increments + 1,)``."""
    if n_increments < 1 or not low < high:
        given = f"n_increments={n_increments}, low={low}, high={high}"
        raise UserError(f"increments need at least one interval and low below high, but got {given}")
    return np.linspace(low, high, n_increments + 1)


def depth_of_interval(ordered: Array, coverage: float) -> Array:
    """How many samples, counted in part, stand before an interval's end on either side.

    It is the largest depth with which at most ``1 - coverage`` of the probability is left out. Sample i of m, from 0,
    stands at level ``(i + 0.5) / m``, which an end there leaves out; where it has equals, that of the outermost does.
    Without equal samples, ends are the quantiles at ``(1 - coverage) / 2`` and ``(1 + coverage) / 2``.

    **Shape:** rising samples ``(n, m)`` -> ``(n,)``.
    """
    spare = (1 - coverage) * ordered.shape[1] - 1  # samples that may be left out on both sides together
    depth = np.full(len(ordered), max(spare / 2, 0.0))
    repeats = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    depth[repeats] = _depth_among_equals(ordered[repeats], spare)
    return depth


def _depth_among_equals(ordered: Array, spare: float) -> Array:
    """The depth for so many samples to leave out, whether or not some are equal. **Shape:** ``(n, m)`` -> ``(n,)``."""
    every, last_place = np.arange(len(ordered)), ordered.shape[1] - 1
    sides = ordered, ordered[:, ::-1]
    outside = np.stack([_left_out(side) for side in sides])  # (2, n, half of m)
    # The deepest pair of samples that leaves out few enough, and from there a part of the way to the next pair: an end
    # that has its equal there leaves out no more.
    pair = np.maximum((outside.sum(axis=0) <= spare + ROUNDING).sum(axis=1) - 1, 0)
    following = np.minimum(pair + 1, last_place)
    stays = np.stack([side[every, pair] == side[every, following] for side in sides])  # (2, n)
    moving = (~stays).sum(axis=0)
    reached = (spare - (outside[:, every, pair] * stays).sum(axis=0)) / np.maximum(moving, 1)
    return np.asarray(np.clip(np.where(moving > 0, reached, pair), pair, np.minimum(pair + 1, last_place / 2)))


def _left_out(ordered: Array) -> Array:
    """Samples outside each of the outer half: those before it that differ from it. **Shape:** ``(n, m)``."""
    half = (ordered.shape[1] + 1) // 2
    is_first = np.ones((len(ordered), half), dtype=bool)
    is_first[:, 1:] = ordered[:, 1:half] != ordered[:, : half - 1]
    return np.asarray(np.maximum.accumulate(np.where(is_first, np.arange(half), 0), axis=1))
