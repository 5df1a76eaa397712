"""CdfPrediction: the answer in closed form, a piecewise linear distribution function with steps for each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.core.prediction import Array, Prediction, check_open_share, checked_levels, even_edges
from diffor.errors import UserError, UserTypeError

if TYPE_CHECKING:
    from torch import Tensor

Places = NDArray[np.intp]

N_SAMPLES = 100
"""Even quantiles that stand for the distribution where a reader knows samples only."""
LIKELIHOOD_FLOOR = 1e-12
"""Least probability of a value, and least density on the range of the knots scaled to 1: logarithms stay finite."""
ATOM_WIDTH = 0.1
"""For the mode, a probability of its own counts as if it were spread over this share of the standard deviation."""
_SLACK = 1e-12  # sums of probabilities may round just below or above a level
_SAME_PLACE = 64 * np.finfo(np.float64).eps  # of the largest knot: an atom's value after a scale and back
_HEIGHT_ERROR = 1e-5  # heights in single precision may fall, or miss their ends, by as much
_BLOCK = 2**17  # answers looked up at a time: their working copies stay in the cache
_PIT_STREAM = 20260728


class CdfPrediction(Prediction):
    """The predictive distribution of each row, held as a distribution function in the user's units.

    Between knots the function is linear. A value that has a probability of its own, an atom, is a knot that occurs
    twice: its first height is the probability of less, its second that of no more. Everything is exact, nothing is
    drawn, and a row's answer moves as continuously as its heights; ``samples`` are even quantiles.

    Parameters
    ----------
    knots : array
        Values that do not fall, shared by all rows. **Shape:** ``(m,)``.
    heights : array
        Probability of no more than each knot, rising from 0 to 1 in each row. **Shape:** ``(n, m)``.
    point : array or None, default None
        What a method that has its own way to decide on one value decides on, its ``native`` statistic. **Shape:**
        ``(n,)``.

    Examples
    --------
    >>> spend = CdfPrediction([0, 0, 10, 20], [[0, 0.5, 0.75, 1]])
    >>> spend.mean, spend.median, spend.quantile([0.5, 0.75, 0.9])
    (array([5.]), array([0.]), array([[ 0., 10., 16.]]))
    >>> spend.interval(0.8)
    array([[ 0., 12.]])
    """

    def __init__(self, knots: ArrayLike, heights: ArrayLike, point: ArrayLike | None = None) -> None:
        self.knots, self.heights = _checked(knots, heights)
        self.point: Array | None = None if point is None else np.asarray(point)
        if self.point is not None and self.point.shape != self.heights.shape[:1]:
            raise UserError(f"point must have one value per row, {len(self)}, but got shape={self.point.shape}")

    @cached_property
    def samples(self) -> Array:
        """Even quantiles from smallest to largest. **Shape:** ``(n, 100)``."""
        return self.quantile((np.arange(N_SAMPLES) + 0.5) / N_SAMPLES)

    def __len__(self) -> int:
        return len(self.heights)

    def __repr__(self) -> str:
        return f"CdfPrediction(rows={len(self)}, knots={len(self.knots)})"

    def __getitem__(self, rows: slice | NDArray[Any]) -> CdfPrediction:
        return CdfPrediction(self.knots, self.heights[rows], None if self.point is None else self.point[rows])

    def _with_rows_of(self, parts: Sequence[Prediction], point: Array | None) -> Prediction:
        exact = [part for part in parts if isinstance(part, CdfPrediction)]
        if len(exact) < len(parts):
            return super()._with_rows_of(parts, point)
        if any(part.knots.ndim == 2 for part in exact):
            from diffor.core.given import stacked

            return stacked(exact, point)
        knots = _joined_knots([part.knots for part in exact])
        return CdfPrediction(knots, np.concatenate([part.heights_on(knots) for part in exact]), point)

    @staticmethod
    def pool(parts: Sequence[CdfPrediction], weights: Sequence[float] | Array | None = None) -> CdfPrediction:
        """What several say about the same rows, mixed in equal parts or by weights that sum to 1.

        >>> mixed = CdfPrediction.pool([CdfPrediction([0, 2], [[0, 1]]), CdfPrediction([1, 1], [[0, 1]])])
        >>> mixed.knots, mixed.heights
        (array([0., 1., 1., 2.]), array([[0.  , 0.25, 0.75, 1.  ]]))
        """
        if any(part.knots.ndim == 2 for part in parts):
            raise UserTypeError("predictions that were cut by given cannot be mixed; mix them first, then cut")
        knots = _joined_knots([part.knots for part in parts])
        heights = np.stack([part.heights_on(knots) for part in parts])
        points = [part.point for part in parts if part.point is not None]
        point = np.average(points, axis=0, weights=weights) if len(points) == len(parts) else None
        return CdfPrediction(knots, np.average(heights, axis=0, weights=weights), point)

    def map(self, function: Callable[[Array], Array]) -> CdfPrediction:
        """Apply a rising function to every knot; exact where it is straight between knots."""
        knots = np.asarray(function(self.knots), dtype=np.float64)
        return CdfPrediction(knots, self.heights, None if self.point is None else function(self.point))

    def widen(self, factor: float, low: float, high: float) -> Prediction:
        """Refused: what is needed is a recalibration of the heights."""
        raise UserTypeError("only samples can be widened, but this is a CdfPrediction; change its heights instead")

    def given(self, lower: ArrayLike | None = None, upper: ArrayLike | None = None) -> CdfPrediction:
        """What remains of each row's distribution once its value is known to lie from ``lower`` to ``upper``.

        It is cut to the range, ends included, and its probability divided by that of the range: the conditional
        distribution, in closed form, with every statistic of it. No answer lies outside. Where a range has less
        probability than rounding can tell from none, all of it is at the place in the range next to the median.

        Parameters
        ----------
        lower : number, array or None, default None
            Least value of each row; None, NaN or minus infinity for no limit. **Shape:** a number or ``(n,)``.
        upper : number, array or None, default None
            Greatest value of each row; None, NaN or infinity for no limit. **Shape:** a number or ``(n,)``.

        Examples
        --------
        >>> seconds = CdfPrediction([0, 100], [[0, 1], [0, 1]])
        >>> seconds.given(upper=[60, np.nan]).median, seconds.given(lower=30).median
        (array([30., 50.]), array([65., 65.]))
        """
        from diffor.core.given import conditioned  # here, since it builds on this class

        return self if lower is None and upper is None else conditioned(self, lower, upper)

    def times(self, factors: ArrayLike) -> CdfPrediction:
        """The distribution of each row's value times a positive number of its own. **Shape:** ``(n,)``.

        >>> shares = CdfPrediction([0, 1, 1], [[0, 0.8, 1], [0, 0.8, 1]])
        >>> shares.times([10, 60]).quantile([0.4, 0.9])
        array([[ 5., 10.],
               [30., 60.]])
        """
        from diffor.core.given import scaled  # here, since it builds on this class

        return scaled(self, factors)

    # --- the pieces between neighbouring knots ---

    @property
    def widths(self) -> Array:
        """Lengths of the pieces; an atom's is 0. **Shape:** ``(m - 1,)``."""
        return np.diff(self.knots)

    @property
    def masses(self) -> Array:
        """Probabilities of the pieces. **Shape:** ``(n, m - 1)``."""
        return np.diff(self.heights, axis=1)

    @property
    def atoms(self) -> tuple[Array, Array]:
        """Values that may have a probability of their own, and these. **Shape:** ``(a,)`` and ``(n, a)``."""
        at = np.flatnonzero(self.widths == 0)
        return self.knots[at], self.heights[:, at + 1] - self.heights[:, at]

    @property
    def _centres(self) -> Array:
        return np.asarray(self.knots[..., :-1] + self.widths / 2)

    # --- statistics ---

    @property
    def mean(self) -> Array:
        """Expected value. **Shape:** ``(n,)``."""
        first, last = self.knots[..., 0], self.knots[..., -1]
        away = self._centres - self.knots[..., :1]
        return np.asarray(np.clip(first + (self.masses * away).sum(axis=1), first, last))

    @property
    def std(self) -> Array:
        """Standard deviation. **Shape:** ``(n,)``."""
        squares = (self._centres - self.mean[:, None]) ** 2 + self.widths**2 / 12
        return np.asarray(np.sqrt((self.masses * squares).sum(axis=1)))

    @property
    def mode(self) -> Array:
        """Place of the greatest probability: the centre of the densest piece, or an atom. **Shape:** ``(n,)``.

        An atom counts as if it were spread over a tenth of the row's standard deviation, so that a value with little
        probability of its own does not win against a smooth peak.
        """
        is_atom = self.widths == 0
        per_width = self.masses / np.where(is_atom, 1.0, self.widths)
        spread = np.where(is_atom, 1.0, ATOM_WIDTH * self.std[:, None])
        densest = (per_width * spread).argmax(axis=1)
        return np.asarray(_knots_at(self._centres, densest[:, None])[:, 0])

    def quantile(self, levels: ArrayLike) -> Array:
        """Smallest values whose cdf reaches ``levels`` in [0, 1]. **Shape:** ``(q,)`` -> ``(n, q)``.

        At 0 and 1 these are the ends of what has any probability.
        """
        wanted = checked_levels(levels)
        return self._values_at(np.broadcast_to(wanted, (len(self), len(wanted))))

    def _values_at(self, levels: Array) -> Array:
        """Quantiles at levels of each row's own. **Shape:** ``(n, q)`` -> ``(n, q)``."""
        answer = np.empty(levels.shape)
        step = max(1, _BLOCK // max(1, levels.shape[1]))
        for start in range(0, len(levels), step):
            rows = slice(start, start + step)
            knots = self.knots if self.knots.ndim == 1 else self.knots[rows]
            answer[rows] = _invert(knots, self.heights[rows], levels[rows])
        return answer

    def interval(self, coverage: float = 0.9) -> Array:
        """Central interval that holds ``coverage`` of the probability, its ends included. **Shape:** ``(n, 2)``.

        Its ends are equally deep in the distribution on either side. An end that is an atom is held whole, so less is
        left out on that side, and both ends are deeper than the quantiles at ``(1 - coverage) / 2`` and
        ``(1 + coverage) / 2``.

        >>> grades = CdfPrediction([0, 0, 1, 1, 2, 2], [[0, 0.6, 0.6, 0.9, 0.9, 1]])
        >>> grades.interval(0.8), grades.interval(0.95)
        (array([[0., 1.]]), array([[0., 2.]]))
        """
        check_open_share(coverage)
        return self.ends_at(self._depth_of_interval(1 - coverage))

    def ends_at(self, depth: ArrayLike) -> Array:
        """Values with this much probability at or below the lower, and at or above the upper. **Shape:** ``(n, 2)``."""
        wanted = np.broadcast_to(np.asarray(depth, dtype=np.float64), (len(self),))[:, None]
        return np.concatenate([self._values_at(wanted), -self.mirrored._values_at(wanted)], axis=1)

    @cached_property
    def mirrored(self) -> CdfPrediction:
        """The distribution of minus the value. **Shape:** ``n`` rows."""
        return CdfPrediction(-self.knots[::-1], 1 - self.heights[:, ::-1])

    def _depth_of_interval(self, spare: float) -> Array:
        """Largest depth of both ends with which at most ``spare`` of the probability is left out. **Shape:** ``(n,)``.

        The probability outside grows with the depth, straight between heights of either side and by a jump where an
        end leaves an atom: so the deepest height that leaves out little enough is searched on both sides, and from
        there the rest of the way is divided.
        """
        depth = np.full(len(self), spare / 2)
        if (self.widths > 0).all():
            return depth
        sides = self, self.mirrored
        for side in sides:

            def allowed(place: Places, side: CdfPrediction = side) -> NDArray[np.bool_]:
                tried = _heights_at(side.heights, place)
                outside = sides[0]._outside(tried[:, 0]) + sides[1]._outside(tried[:, 0])
                return np.asarray((tried <= 0.5) & (outside[:, None] <= spare + _SLACK))

            reached = _count_leading((len(self), 1), self.heights.shape[1], allowed) - 1
            depth = np.maximum(depth, _heights_at(side.heights, np.maximum(reached, 0))[:, 0])
        fixed, moving = np.sum([side._outside_beyond(depth) for side in sides], axis=0)
        further = np.where(moving > 0, (spare - fixed) / np.maximum(moving, 1), np.where(fixed <= spare, 0.5, 0.0))
        return np.asarray(np.clip(further, depth, np.maximum(depth, 0.5)))

    def _outside(self, depth: Array) -> Array:
        """Probability below the quantile at each depth: less than it inside an atom. **Shape:** ``(n,)`` each."""
        place = np.maximum(_first_reaching(self.heights, depth[:, None] - _SLACK), 1)
        before = _heights_at(self.heights, place - 1)[:, 0]
        return np.where(_knots_at(self.widths, place - 1)[:, 0] == 0, before, depth)

    def _outside_beyond(self, depth: Array) -> tuple[Array, Array]:
        """The same just beyond each depth: a fixed part, and how fast it grows with the depth. **Shape:** ``(n,)``."""
        place = np.clip(_first_reaching(self.heights, depth[:, None] + 2 * _SLACK), 1, self.heights.shape[1] - 1)
        before = _heights_at(self.heights, place - 1)[:, 0]
        is_atom = _knots_at(self.widths, place - 1)[:, 0] == 0
        return np.where(is_atom, before, 0.0), np.where(is_atom, 0.0, 1.0)

    # --- values ---

    def cdf(self, values: ArrayLike) -> Array:
        """Probability of a value at or below each of ``values``.

        **Shape:** a number or ``(n,)``, one for each row -> ``(n,)``; ``(n or 1, c)`` -> ``(n, c)``.
        """
        return self._for_each(values, lambda asked: self._read(asked, "right"))

    def cdf_below(self, values: ArrayLike) -> Array:
        """Probability of a value below each of ``values``; less than :meth:`cdf` at an atom. **Shape:** as there."""
        return self._for_each(values, lambda asked: self._read(asked, "left"))

    def mass(self, values: ArrayLike) -> Array:
        """Probability of exactly each of ``values``; 0 but at an atom. **Shape:** as :meth:`cdf`."""
        return np.asarray(self.cdf(values) - self.cdf_below(values))

    def grade_probabilities(self, n_grades: int) -> Array:
        """Probability of each of the grades 0, 1, ..., where these are the atoms. **Shape:** -> ``(n, n_grades)``.

        What lies between two grades, if anything, counts for the nearer one.

        >>> CdfPrediction([0, 0, 2, 2], [[0, 0.25, 0.25, 1]]).grade_probabilities(3)
        array([[0.25, 0.  , 0.75]])
        """
        return self.probabilities(np.arange(n_grades - 1) + 0.5) if n_grades > 1 else np.ones((len(self), 1))

    def density(self, values: ArrayLike) -> Array:
        """Probability per unit at each of ``values``, without that of atoms. **Shape:** as :meth:`cdf`."""
        return self._for_each(values, self._slope)

    def log_likelihood(self, y: ArrayLike) -> Array:
        """Logarithm of the density at each truth, or of the probability where it is an atom. **Shape:** as :meth:`cdf`.

        It is never below that of ``LIKELIHOOD_FLOOR``, as a probability or, times the range of the knots, a density.
        """
        asked = np.asarray(y, dtype=np.float64)
        at_atom = self._is_atom(asked)
        span = (self.knots[..., -1:] - self.knots[..., :1])[..., 0 if asked.ndim < 2 else slice(None)]
        density = np.maximum(self.density(asked), LIKELIHOOD_FLOOR / np.where(span > 0, span, 1.0))
        return np.asarray(np.log(np.where(at_atom, np.maximum(self.mass(asked), LIKELIHOOD_FLOOR), density)))

    def crps(self, y: ArrayLike) -> Array:
        """Continuous ranked probability score of each row, in the target's units. **Shape:** ``(n,)`` -> ``(n,)``.

        >>> CdfPrediction([0, 1], [[0, 1]]).crps([0.5]), CdfPrediction([3, 3], [[0, 1]]).crps([5.0])
        (array([0.08333333]), array([2.]))
        """
        truth = np.broadcast_to(np.asarray(y, dtype=np.float64), (len(self),))
        first, last = (np.broadcast_to(end, (len(self),)) for end in (self.knots[..., 0], self.knots[..., -1]))
        inside = np.clip(truth, first, last)
        low, high = self.heights[:, :-1], self.heights[:, 1:]
        squares = (self.widths * (low * low + low * high + high * high)).sum(axis=1) / 3
        above = np.diff(self._integral(np.stack([inside, last], axis=1)))[:, 0]
        return np.asarray(np.maximum(last - inside - 2 * above + squares, 0) + np.abs(truth - inside))

    def pit(self, y: ArrayLike, random_state: int = 0) -> Array:
        """Where each truth stands in its row's distribution, at random inside an atom. **Shape:** ``(n,)``."""
        below, upto = self.cdf_below(y), self.cdf(y)
        return np.asarray(below + np.random.default_rng([_PIT_STREAM, random_state]).random(len(self)) * (upto - below))

    def increments(self, n_increments: int, low: float, high: float) -> Array:
        """Expected increments: how far the value fills each of equal intervals. **Shape:** -> ``(n, n_increments)``.

        >>> CdfPrediction([0, 4], [[0, 1]]).increments(2, low=0, high=4)
        array([[1.5, 0.5]])
        """
        edges = even_edges(n_increments, low, high)
        return np.asarray(np.clip(np.diff(edges) - np.diff(self._integral(edges[None]), axis=1), 0, None))

    def heights_on(self, knots: ArrayLike) -> Array:
        """The distribution function at other knots; where one occurs twice, before and after its jump.

        It is the same distribution if all knots of this one, as often as here, are among them.

        **Shape:** ``(k,)`` not falling -> ``(n, k)``.
        """
        asked = np.asarray(knots, dtype=np.float64)
        if np.array_equal(asked, self.knots):
            return self.heights
        before_jump = np.append(asked[1:] == asked[:-1], False)
        return np.where(before_jump, self.cdf_below(asked[None]), self.cdf(asked[None]))

    def draw(self, n_samples: int, keys: Tensor) -> Array:
        """Samples by inversion, one from each of even layers of probability, in an order of each row's own.

        They are a function of the row's key. **Shape:** keys ``(n,)`` -> ``(n, n_samples)``.
        """
        import torch  # here, since a prediction needs nothing else of it

        from diffor.core.row_noise import key_uniforms, sample_order

        place = key_uniforms(keys, torch.arange(n_samples)).double().numpy()
        return self._values_at((sample_order(keys, n_samples).numpy() + place) / n_samples)

    # --- reading the function ---

    def _for_each(self, values: ArrayLike, read: Callable[[Array], Array]) -> Array:
        """Ask about numbers of any accepted shape in the shape ``(n or 1, c)``."""
        asked = self._snapped(np.asarray(values, dtype=np.float64))
        if asked.ndim == 2:
            return np.broadcast_to(read(asked), (len(self), asked.shape[1]))
        return read(np.broadcast_to(asked, (len(self),))[:, None])[:, 0]

    def _is_atom(self, values: Array) -> NDArray[np.bool_]:
        """Whether each value is one that may have a probability of its own. **Shape:** as :meth:`cdf`."""
        return np.isin(self._snapped(values), self.atoms[0])

    def _snapped(self, values: Array) -> Array:
        """Move values that differ from an atom by rounding onto it. **Shape:** any."""
        places = self.knots[1:][self.widths == 0]
        if len(places) == 0:
            return values
        after = np.clip(np.searchsorted(places, values), 1, max(len(places) - 1, 1))
        before, after = places[after - 1], places[np.minimum(after, len(places) - 1)]
        nearest = np.where(np.abs(values - before) <= np.abs(values - after), before, after)
        reach = _SAME_PLACE * max(abs(self.knots[0]), abs(self.knots[-1]))
        return np.where(np.abs(values - nearest) <= reach, nearest, values)

    def _piece(self, values: Array, side: str) -> Places:
        """The piece in which, or at whose end on the named side, each value lies. **Shape:** ``(n or 1, c)``."""
        found = np.searchsorted(self.knots, values, side="right" if side == "right" else "left")
        return np.asarray(np.clip(found, 1, len(self.knots) - 1))

    def _ends(self, upper: Places) -> tuple[Array, Array]:
        """Heights at both ends of pieces. **Shape:** ``(n or 1, c)`` -> two of ``(n, c)``."""
        if len(upper) == len(self):
            return _heights_at(self.heights, upper - 1), _heights_at(self.heights, upper)
        return self.heights[:, upper[0] - 1], self.heights[:, upper[0]]

    def _read(self, values: Array, side: str) -> Array:
        """The function at each value, or just before it. **Shape:** ``(n or 1, c)`` -> ``(n, c)``."""
        upper = self._piece(values, side)
        (low, high), left, right = self._ends(upper), _knots_at(self.knots, upper - 1), _knots_at(self.knots, upper)
        at_jump = values >= right if side == "right" else values > right
        width = np.where(right > left, right - left, 1.0)
        share = np.where(right > left, np.clip((values - left) / width, 0, 1), at_jump)
        return np.asarray(low + share * (high - low))

    def _slope(self, values: Array) -> Array:
        """Density at each value, that of the right piece at a knot. **Shape:** ``(n or 1, c)`` -> ``(n, c)``."""
        upper = self._piece(values, "right")
        last_wide = self.heights.shape[1] - 1 - (self.widths[..., ::-1] > 0).argmax(axis=-1, keepdims=True)
        upper = np.where(values == self.knots[..., -1:], last_wide, upper)
        (low, high), width = self._ends(upper), _knots_at(self.widths, upper - 1)
        inside = (values >= self.knots[..., :1]) & (values <= self.knots[..., -1:]) & (width > 0)
        return np.asarray(np.where(inside, (high - low) / np.where(width > 0, width, 1.0), 0.0))

    def _integral(self, values: Array) -> Array:
        """Integral of the function from the first knot up to each value. **Shape:** ``(n or 1, c)`` -> ``(n, c)``."""
        inside = np.clip(values, self.knots[..., :1], self.knots[..., -1:])
        areas = self.widths * (self.heights[:, 1:] + self.heights[:, :-1]) / 2
        sums = np.concatenate([np.zeros((len(self), 1)), np.cumsum(areas, axis=1)], axis=1)
        upper = self._piece(inside, "right")
        before = _heights_at(sums, upper - 1) if len(upper) == len(self) else sums[:, upper[0] - 1]
        start = self._ends(upper)[0]
        part = (inside - _knots_at(self.knots, upper - 1)) * (start + self._read(inside, "left")) / 2
        return np.asarray(before + part + np.maximum(values - self.knots[..., -1:], 0))


def _checked(knots: ArrayLike, heights: ArrayLike) -> tuple[Array, Array]:
    """Knots, none more than twice, and clean heights on them; refuse what is no distribution."""
    places, levels = np.asarray(knots, dtype=np.float64), np.asarray(heights, dtype=np.float64)
    if places.ndim != 1 or len(places) < 2 or levels.ndim != 2 or levels.shape[1] != len(places):
        given = f"knots.shape={places.shape}, heights.shape={levels.shape}"
        raise UserError(f"knots must have shape (m,), m at least 2, and heights (rows, m), but got {given}")
    if not np.isfinite(places).all() or (np.diff(places) < 0).any():
        raise UserError(f"knots must be finite numbers that do not fall, but got {places.tolist()}")
    steps = np.diff(levels, axis=1)
    ends = np.abs(levels[:, 0]) <= _HEIGHT_ERROR, np.abs(levels[:, -1] - 1) <= _HEIGHT_ERROR
    wrong = ~((steps >= -_HEIGHT_ERROR).all(axis=1) & ends[0] & ends[1])
    if wrong.any():
        row = int(wrong.argmax())
        raise UserError(f"heights must rise from 0 to 1, but those of row {row} are {levels[row].tolist()}")
    outer = np.ones(len(places), dtype=bool)  # of a knot that occurs more than twice only the outer heights count
    outer[1:-1] = (places[1:-1] != places[:-2]) | (places[1:-1] != places[2:])
    if not outer.all():
        places, levels = places[outer], levels[:, outer]
    if (steps < 0).any() or (levels[:, 0] != 0).any() or (levels[:, -1] != 1).any():
        levels = np.maximum.accumulate(np.clip(levels, 0, 1), axis=1)
        levels[:, 0], levels[:, -1] = 0, 1
    return places, np.ascontiguousarray(levels)


def _joined_knots(tables: Sequence[Array]) -> Array:
    """All knots, each as often as where it occurs most. **Shape:** several ``(m,)`` -> ``(k,)``."""
    if all(np.array_equal(table, tables[0]) for table in tables):
        return tables[0]
    distinct = np.unique(np.concatenate(tables))
    twice = np.unique(np.concatenate([table[1:][np.diff(table) == 0] for table in tables]))
    return np.sort(np.concatenate([distinct, twice]))


def _heights_at(table: Array, place: Places) -> Array:
    """Entries of each row at places of its own. **Shape:** ``(n, m)`` and ``(n, c)`` -> ``(n, c)``."""
    rows = np.arange(len(table))[:, None] * table.shape[1]
    return np.asarray(table.reshape(-1).take(rows + place))


def _knots_at(table: Array, place: Places) -> Array:
    """Knots at places, of those that all rows share or of each row's own. **Shape:** ``(n or 1, c)`` -> the same."""
    return np.asarray(table[place]) if table.ndim == 1 else _heights_at(table, place)


def _count_leading(shape: tuple[int, int], m: int, holds: Callable[[Places], NDArray[np.bool_]]) -> Places:
    """How many of places 0, 1, ..., m - 1 a condition holds for, which once broken stays so, by halving."""
    count = np.zeros(shape, dtype=np.intp)
    step = 1 << (m.bit_length() - 1)
    while step:
        tried = count + step
        count += step * ((tried <= m) & holds(np.minimum(tried, m) - 1))
        step //= 2
    return count


def _first_reaching(heights: Array, levels: Array) -> Places:
    """How many heights of each row are below each level. **Shape:** ``(n, m)`` and ``(n, q)`` -> ``(n, q)``."""
    if len(heights) == 1:  # what a service is asked most
        return np.asarray(np.searchsorted(heights[0], levels[0])[None])
    return _count_leading(
        (len(levels), levels.shape[1]), heights.shape[1], lambda place: _heights_at(heights, place) < levels
    )


def _invert(knots: Array, heights: Array, levels: Array) -> Array:
    """Smallest values that reach the levels, give or take rounding. **Shape:** ``(n, m)``, ``(n, q)`` -> ``(n, q)``."""
    least = np.clip(levels - _SLACK, _SLACK, 1 - _SLACK)  # a height this near counts as the level
    upper = np.clip(_first_reaching(heights, least), 1, heights.shape[1] - 1)
    low, high = _heights_at(heights, upper - 1), _heights_at(heights, upper)
    share = np.clip((levels - low) / np.where(high > low, high - low, 1.0), 0, 1)
    left, right = _knots_at(knots, upper - 1), _knots_at(knots, upper)
    # Written so that the result is monotone and never rounds past either neighbour.
    return np.asarray(np.clip(left + share * (right - left), left, right))
