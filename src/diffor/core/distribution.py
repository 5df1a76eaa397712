"""Distributions in closed form on [0, 1], and the methods that answer with them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from diffor.core.method import Method
from diffor.core.prediction import Prediction
from diffor.core.row_noise import sample_order

N_HALVINGS = 40
"""Halvings of [0, 1] after which single precision cannot tell the ends of a bracket apart."""


class Distribution(ABC):
    """The distribution of each row's target on [0, 1]; what a family has beyond either end stands at that end."""

    @abstractmethod
    def cdf(self, values: Tensor) -> Tensor:
        """Probability of a target at or below each value. **Shape:** ``(n, c)`` or ``(1, c)`` -> ``(n, c)``."""

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """Expected target. **Shape:** ``(n,)``."""

    def quantile(self, levels: Tensor) -> Tensor:
        """Smallest values whose cdf reaches the levels, by bisection.

        **Shape:** ``(c,)`` or ``(n, c)`` -> ``(n, c)``.
        """
        wanted = _for_rows(levels, self.mean)
        low, high = torch.zeros_like(wanted), torch.ones_like(wanted)
        for _ in range(N_HALVINGS):
            middle = (low + high) / 2
            reached = self.cdf(middle) >= wanted
            low, high = torch.where(reached, low, middle), torch.where(reached, middle, high)
        return torch.where(self.cdf(torch.zeros_like(wanted)) >= wanted, torch.zeros_like(high), high)


class Steps(Distribution):
    """Probabilities on fixed places, such as grades. **Shape:** probabilities ``(n, K)``, places ``(K,)`` rising.

    >>> import torch
    >>> steps = Steps(torch.tensor([[0.25, 0.5, 0.25]]), torch.tensor([0.0, 0.5, 1.0]))
    >>> steps.mean.tolist(), steps.quantile(torch.tensor([0.2, 0.5, 0.9])).tolist()
    ([0.5], [[0.0, 0.5, 1.0]])
    """

    def __init__(self, probabilities: Tensor, places: Tensor) -> None:
        self.probabilities, self.places = probabilities, places
        self.reached = _accumulate(probabilities)

    def cdf(self, values: Tensor) -> Tensor:
        """Sum of the probabilities of all places at or below each value."""
        n_below = torch.searchsorted(self.places.contiguous(), values.to(self.places).contiguous(), right=True)
        return self.reached.gather(1, n_below.expand(len(self.reached), -1))

    @property
    def mean(self) -> Tensor:
        """Expected place."""
        return self.probabilities @ self.places

    def quantile(self, levels: Tensor) -> Tensor:
        """First place that reaches each level."""
        place = torch.searchsorted(self.reached[:, 1:].contiguous(), _for_rows(levels, self.reached))
        return self.places[place.clamp(max=len(self.places) - 1)]


class Bins(Distribution):
    """Probabilities of bins, spread evenly inside each. **Shape:** ``(n, K)``, edges ``(K + 1,)`` or ``(n, K + 1)``.

    Where ``places`` are given, ``(K,)`` or ``(n, K)``, they are the means of the bins: each bin is split at its mean
    and spread evenly in either part, in the one proportion that has this mean. A skewed last bin does not then pretend
    to be centred, and a bin whose targets are all alike is an atom. A bin without width is an atom too.

    >>> import torch
    >>> bins = Bins(torch.tensor([[0.5, 0.5]]), torch.tensor([0.0, 0.2, 1.0]))
    >>> [round(value, 2) for value in bins.cdf(torch.tensor([[0.1, 0.2, 0.6]]))[0].tolist()]
    [0.25, 0.5, 0.75]
    >>> round(Bins(torch.tensor([[0.5, 0.5]]), torch.tensor([0.0, 0.2, 1.0]), torch.tensor([0.1, 0.3])).mean.item(), 3)
    0.2
    """

    def __init__(self, probabilities: Tensor, edges: Tensor, places: Tensor | None = None) -> None:
        n = len(probabilities)
        self.probabilities = probabilities
        self.edges = edges.expand(n, -1)
        low, high = self.edges[:, :-1], self.edges[:, 1:]
        self.places = (low + high) / 2 if places is None else places.expand(n, -1)
        self.knots, parts = self.edges, probabilities
        if places is not None:
            left = torch.where(high > low, (high - self.places) / (high - low), 0.5).clamp(0, 1)
            parts = torch.stack([left, 1 - left], dim=2).mul(probabilities[:, :, None]).flatten(1)
            ends = torch.stack([low, self.places], dim=2).flatten(1)
            self.knots = torch.cat([ends, self.edges[:, -1:]], dim=1)
        self.reached = _accumulate(parts)

    def cdf(self, values: Tensor) -> Tensor:
        """Linear between the knots, after the jump where there is one."""
        wanted = _for_rows(values, self.knots)
        place = torch.searchsorted(self.knots.contiguous(), wanted, right=True)
        return _interpolate(wanted, place, self.knots, self.reached)

    @property
    def mean(self) -> Tensor:
        """Expected place of a bin."""
        return (self.probabilities * self.places).sum(dim=1)

    def quantile(self, levels: Tensor) -> Tensor:
        """Linear between the knots."""
        wanted = _for_rows(levels, self.knots)
        place = torch.searchsorted(self.reached.contiguous(), wanted)
        return _interpolate(wanted, place, self.reached, self.knots)


class ClippedNormal(Distribution):
    """Normal, with what lies beyond 0 and 1 standing at the ends. **Shape:** centre and spread ``(n,)``.

    >>> import torch
    >>> normal = ClippedNormal(torch.tensor([0.0]), torch.tensor([1.0]))
    >>> [round(value, 4) for value in normal.cdf(torch.tensor([[-0.1, 0.0, 0.5, 1.0]]))[0].tolist()]
    [0.0, 0.5, 0.6915, 1.0]
    """

    def __init__(self, centre: Tensor, spread: Tensor) -> None:
        self.centre, self.spread = centre, spread

    def cdf(self, values: Tensor) -> Tensor:
        """That of the normal, with jumps at either end."""
        inside = torch.special.ndtr((values - self.centre[:, None]) / self.spread[:, None])
        return torch.where(values < 0, 0.0, torch.where(values >= 1, 1.0, inside))

    @property
    def mean(self) -> Tensor:
        """Expected value after clipping."""
        low, high = -self.centre / self.spread, (1 - self.centre) / self.spread
        below: Tensor = torch.special.ndtr(low)
        above: Tensor = torch.special.ndtr(-high)
        density = (torch.exp(-low.square() / 2) - torch.exp(-high.square() / 2)) / math.sqrt(2 * math.pi)
        return self.centre * (1 - below - above) + self.spread * density + above

    def quantile(self, levels: Tensor) -> Tensor:
        """That of the normal, clipped."""
        standard: Tensor = torch.special.ndtri(levels)
        return (self.centre[:, None] + self.spread[:, None] * standard).clamp(0, 1)


def most_probable_place(distribution: Steps | Bins) -> Tensor:
    """Place of the step or bin with the largest probability. **Shape:** -> ``(n,)``."""
    return _place_of(distribution, distribution.probabilities.argmax(dim=1))


def middle_place(distribution: Steps | Bins) -> Tensor:
    """First place at which half of the probability is reached, so the least absolute error. **Shape:** -> ``(n,)``."""
    reached = _accumulate(distribution.probabilities)[:, 1:]
    return _place_of(distribution, (reached < 0.5).sum(dim=1))


def decide_as_class(distribution: Distribution) -> Tensor:
    """The most probable grade, or the mean of a value: of fifty bins none is much more probable than the next.

    **Shape:** -> ``(n,)``.
    """
    return most_probable_place(distribution) if isinstance(distribution, Steps) else distribution.mean


def _place_of(distribution: Steps | Bins, index: Tensor) -> Tensor:
    places = distribution.places.expand_as(distribution.probabilities)
    return places.gather(1, index[:, None])[:, 0]


def _accumulate(probabilities: Tensor) -> Tensor:
    """Sums of the first 0, 1, ..., K probabilities, ending at exactly 1. **Shape:** ``(n, K)`` -> ``(n, K + 1)``.

    Dividing by the total, rather than setting the last sum, keeps impossible last places impossible.
    """
    sums = probabilities.cumsum(dim=1)
    return torch.nn.functional.pad(sums / sums[:, -1:], (1, 0))


def _for_rows(numbers: Tensor, like: Tensor) -> Tensor:
    """Numbers of each row, the same where only one is given. **Shape:** ``(c,)`` or ``(n or 1, c)`` -> ``(n, c)``."""
    return numbers.to(like).expand(len(like), -1).contiguous()


def _interpolate(values: Tensor, place: Tensor, knots: Tensor, heights: Tensor) -> Tensor:
    """Piecewise linear up to the knot at each ``place``, flat beyond the ends; where knots coincide, the upper height.

    **Shape:** values and place ``(n, c)``, knots and heights ``(n, K)``, rising -> ``(n, c)``.
    """
    right_place = place.clamp(1, knots.shape[1] - 1)
    left, right = knots.gather(1, right_place - 1), knots.gather(1, right_place)
    low, high = heights.gather(1, right_place - 1), heights.gather(1, right_place)
    share = torch.where(right > left, (values - left) / (right - left), (values >= right).to(values)).clamp(0, 1)
    return torch.lerp(low, high, share)


def even_samples(distribution: Distribution, keys: Tensor, n_samples: int) -> Tensor:
    """Quantiles at evenly spread levels, in an order of each row's own. **Shape:** -> ``(n, n_samples)`` in [0, 1]."""
    levels = (torch.arange(n_samples, device=keys.device) + 0.5) / n_samples
    rising = distribution.quantile(levels.to(distribution.mean)).clamp(0, 1)
    return rising.gather(1, sample_order(keys.cpu(), n_samples).to(rising.device))


class DistributionMethod(Method):
    """A method that answers with a distribution in closed form."""

    draws_are_costly: ClassVar[bool] = False

    @abstractmethod
    def distribution(self, features: Tensor, **side: Tensor) -> Distribution:
        """Distribution of each row's target. **Shape:** ``(n, d)`` -> n distributions."""

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """The value that the method's authors decide on; the mean unless they say otherwise. **Shape:** -> ``(n,)``."""
        return distribution.mean

    def predict(self, features: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> Prediction:
        """Evenly spread samples of each row's distribution, and its native value."""
        answer = self.distribution(features, **side)
        point = self.native(answer, **side).clamp(0, 1)
        return Prediction(even_samples(answer, keys, n_samples).cpu().numpy(), point.cpu().numpy())


class PointMethod(Method):
    """A method that answers with one value."""

    has_distribution: ClassVar[bool] = False
    draws_are_costly: ClassVar[bool] = False

    @abstractmethod
    def value(self, features: Tensor, **side: Tensor) -> Tensor:
        """The predicted target of each row. **Shape:** ``(n, d)`` -> ``(n,)``."""

    def predict(self, features: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> Prediction:
        """The value, repeated: a distribution that is sure of itself."""
        value = self.value(features, **side).clamp(0, 1)
        return Prediction(value[:, None].expand(-1, n_samples).cpu().numpy(), value.cpu().numpy())
