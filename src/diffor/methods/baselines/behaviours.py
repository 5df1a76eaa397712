"""Watch time from how people watch: SWaT for viewers who wander about a video and for viewers who follow it."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from diffor.core.distribution import Bins, Distribution, DistributionMethod
from diffor.core.method import weighted_mean
from diffor.methods.baselines.binning import Binning
from diffor.methods.baselines.duration_groups import completed, required_duration

MAX_OUTLASTING = 0.01
"""Where more than this share of the training views outlasts its video, watch time is not bounded by the duration."""
LEAST_STAY = 1e-3
"""Part of a bucket that a viewer is taken to stay in it at least: leaving at once would have no finite likelihood."""


class SWaT(DistributionMethod):
    """Cuts the progress bar into buckets that hold equally many training rows, each with a chance of being watched.

    ``duration`` may be given. With ``bounded=None`` it ends the progress bar of each row where it came with the
    training rows and hardly any of them outlasts it; ``True`` demands it, ``False`` passes it over.
    """

    family, paper, evidence = "watch time", "Yang et al., KDD 2025", "notes"
    tasks = ("value",)
    accepts = ("duration",)
    ends: Tensor

    def __init__(self, n_features: int, *, n_buckets: int = 40, bounded: bool | None = None) -> None:
        super().__init__()
        self.bounded = bounded
        self.buckets = Binning(n_buckets, "quantile")
        self.output = nn.Linear(n_features, n_buckets)
        self.register_buffer("ends", torch.tensor(False))

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Cut the progress bar, and decide whether it ends with the video."""
        self.buckets.fit(y)
        self.edges[0] = 0
        self.ends.fill_(self._ends(y, side))
        self.start(y, self.limits(y, side))

    @property
    def edges(self) -> Tensor:
        """Where the buckets begin and end. **Shape:** ``(n_buckets + 1,)``."""
        return self.buckets.edges

    def _ends(self, y: Tensor, side: dict[str, Tensor]) -> bool:
        if self.bounded is False or (self.bounded is None and "duration" not in side):
            return False
        outlasts = ~completed(required_duration(side, self.title), y)
        return self.bounded is True or float(outlasts.float().mean()) <= MAX_OUTLASTING

    @abstractmethod
    def start(self, y: Tensor, limits: Tensor) -> None:
        """Set what training starts with, so that the first answer is that of all training rows."""

    def limits(self, rows: Tensor, side: dict[str, Tensor]) -> Tensor:
        """Where the progress bar of each row ends. **Shape:** ``(n, ...)`` -> ``(n,)``."""
        last = self.edges[-1]
        if not bool(self.ends):
            return last.expand(len(rows))
        return required_duration(side, self.title).clamp(min=0).clamp(max=last)

    def watched(self, ends: Tensor) -> Tensor:
        """The part of each bucket before an end, as a length. **Shape:** ``(n,)`` -> ``(n, n_buckets)``."""
        return torch.minimum((ends[:, None] - self.edges[:-1]).clamp(min=0), self.edges.diff())


class BinomialSWaT(SWaT):
    """A reconstruction: viewers wander, and watch each moment of a bucket with the bucket's probability.

    Known, from the abstract and summaries of Yang et al. (KDD 2025): the progress bar is cut into buckets with a
    probability of watching each; a wandering viewer watches every moment by itself; losses are those of classifiers,
    and the expected watch time has a closed form. Guessed: the target of a bucket is its watched part, each bucket
    counts by its length, and where buckets end. A distribution is ours: a bucket's probability is read as that of still
    watching in its middle, and what is left after the last one watches to the end.

    **Shape:** features ``(n, d)``, optionally duration ``(n,)`` -> n distributions.
    """

    title = "SWaT (binomial)"
    native_statistic = "own"

    def start(self, y: Tensor, limits: Tensor) -> None:
        """Start at the mean watched part of each bucket."""
        parts, lengths = self.watched(torch.minimum(y, limits)).sum(dim=0), self.watched(limits).sum(dim=0)
        share = (parts / lengths.clamp(min=torch.finfo(y.dtype).tiny)).clamp(0.001, 0.999)
        with torch.no_grad():
            self.output.bias.copy_(share.logit())

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Cross-entropy of the watched parts, each bucket counted by its length."""
        limits, tiny = self.limits(features, side), torch.finfo(y.dtype).tiny
        parts, lengths = self.watched(torch.minimum(y, limits)), self.watched(limits)
        shares = parts / lengths.clamp(min=tiny)
        each = functional.binary_cross_entropy_with_logits(self.output(features), shares, reduction="none")
        rows = (each * lengths).sum(dim=1) / lengths.sum(dim=1).clamp(min=tiny)
        return {"parts": weighted_mean(rows, weights)}

    def distribution(self, features: Tensor, **side: Tensor) -> WanderingViews:
        """Probabilities of still watching in the middle of the buckets."""
        limits = self.limits(features, side)
        return WanderingViews(self.output(features).sigmoid(), self.edges, self.watched(limits), limits)

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """Sum of the expected watched parts."""
        return cast(WanderingViews, distribution).expected


class WanderingViews(Bins):
    """Watch time that falls from bucket to bucket. **Shape:** chances, lengths ``(n, N)``, edges ``(N + 1,)``."""

    def __init__(self, chances: Tensor, edges: Tensor, lengths: Tensor, limits: Tensor) -> None:
        self.expected = (chances * lengths).sum(dim=1)
        end = limits[:, None]
        centres = torch.minimum(edges[:-1] + lengths / 2, end)
        # A bucket behind the end of the video says nothing: whoever got there has watched it all.
        staying = torch.where(lengths > 0, chances, 1.0).cummin(dim=1).values
        falling = functional.pad(staying, (1, 0), value=1.0)
        masses = torch.cat([falling[:, :-1] - falling[:, 1:], torch.zeros_like(end), falling[:, -1:]], dim=1)
        super().__init__(masses, torch.cat([torch.zeros_like(end), centres, end, end], dim=1))


class GeometricSWaT(SWaT):
    """A reconstruction: viewers follow the video, and may leave at each moment with the rate of its bucket.

    Known, from the abstract and summaries of Yang et al. (KDD 2025): a focused viewer watches in order and may quit at
    each moment, with a probability of the moment's bucket; the expected watch time has a closed form. Guessed: the
    limit of short moments, in which watch time is piecewise exponential; that who watches to the end only says that
    they had not left before; where buckets end.

    **Shape:** features ``(n, d)``, optionally duration ``(n,)`` -> n distributions.
    """

    title = "SWaT (geometric)"
    native_statistic = "mean"
    START: ClassVar[float] = math.log(math.e - 1)
    """Where softplus is 1."""
    typical: Tensor

    def __init__(self, n_features: int, *, n_buckets: int = 40, bounded: bool | None = None) -> None:
        super().__init__(n_features, n_buckets=n_buckets, bounded=bounded)
        self.register_buffer("typical", torch.ones(n_buckets))

    def start(self, y: Tensor, limits: Tensor) -> None:
        """Learn the typical rate of leaving each bucket: leavings per time in it."""
        leaves = self._leaves(y, limits).to(y)
        left = torch.bincount(self.bucket(y), leaves.double(), minlength=len(self.typical))
        stayed = self.watched(torch.minimum(y, limits)).double().sum(dim=0)
        overall = (left.sum() + 1) / stayed.sum().clamp(min=1e-6)
        self.typical.copy_((left + 1) / (stayed + 1 / overall))
        with torch.no_grad():
            self.output.bias.zero_()

    def bucket(self, y: Tensor) -> Tensor:
        """The bucket in which each view ends; it holds its upper edge. **Shape:** ``(n,)`` -> ``(n,)``, int64."""
        return torch.searchsorted(self.edges[1:-1].contiguous(), y.contiguous())

    def _leaves(self, y: Tensor, limits: Tensor) -> Tensor:
        """Whether each viewer left before the end; without durations, everyone did."""
        return ~completed(y, limits) if bool(self.ends) else torch.ones_like(y, dtype=torch.bool)

    def rates(self, features: Tensor) -> Tensor:
        """Rates of leaving. **Shape:** ``(n, d)`` -> ``(n, n_buckets)``, positive."""
        return self.typical * functional.softplus(self.output(features) + self.START).clamp(min=1e-6)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Negative log-likelihood of leaving when the viewer did, or of not having left by the end."""
        limits = self.limits(features, side)
        stays = self.watched(torch.minimum(y, limits))
        leaves, bucket = self._leaves(y, limits), self.bucket(y)
        # NOTE[DIFF] leaving at once, as in many logs, would push the rate to infinity.
        least = functional.one_hot(bucket, stays.shape[1]) * leaves[:, None] * LEAST_STAY * self.edges.diff()
        rates = self.rates(features)
        at_leaving = rates.gather(1, bucket[:, None]).squeeze(1).log()
        each = (rates * torch.maximum(stays, least)).sum(dim=1) - torch.where(leaves, at_leaving, 0.0)
        return {"likelihood": weighted_mean(each, weights)}

    def distribution(self, features: Tensor, **side: Tensor) -> PiecewiseExponential:
        """Piecewise exponential up to the end."""
        return PiecewiseExponential(self.rates(features), self.edges, self.limits(features, side))


class PiecewiseExponential(Distribution):
    """Leaving at a constant rate in each bucket, up to a limit.

    **Shape:** rates ``(n, N)``, edges ``(N + 1,)``, limits ``(n,)``.
    """

    def __init__(self, rates: Tensor, edges: Tensor, limits: Tensor) -> None:
        self.rates, self.edges, self.limits = rates, edges, limits[:, None]
        self.reached = functional.pad((rates * edges.diff()).cumsum(dim=1), (1, 0))

    def cdf(self, values: Tensor) -> Tensor:
        """Exponential inside each bucket; all that is left stands at the limit."""
        asked = values.expand(len(self.rates), -1).contiguous()
        bucket = (torch.searchsorted(self.edges, asked) - 1).clamp(0, self.rates.shape[1] - 1)
        inside = (asked - self.edges[bucket]).clamp(min=0)
        hazard = self.reached.gather(1, bucket) + self.rates.gather(1, bucket) * inside
        return torch.where(asked < 0, 0.0, torch.where(asked >= self.limits, 1.0, -torch.expm1(-hazard)))

    def quantile(self, levels: Tensor) -> Tensor:
        """In closed form."""
        hazard = -torch.log1p(-levels.expand(len(self.rates), -1))
        place = torch.searchsorted(self.reached.contiguous(), hazard.contiguous())
        bucket = (place - 1).clamp(0, self.rates.shape[1] - 1)
        inside = (hazard - self.reached.gather(1, bucket)) / self.rates.gather(1, bucket)
        return torch.minimum(self.edges[bucket] + inside.clamp(min=0), self.limits)

    @property
    def mean(self) -> Tensor:
        """Expected time before leaving or the limit."""
        lengths = torch.minimum((self.limits - self.edges[:-1]).clamp(min=0), self.edges.diff())
        return ((-self.reached[:, :-1]).exp() * -torch.expm1(-self.rates * lengths) / self.rates).sum(dim=1)
