"""Watch time compared with the video's duration: D2Q, D2Co and CWM."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from diffor.core.distribution import Distribution, DistributionMethod, PointMethod
from diffor.core.method import subset_mean, weighted_mean
from diffor.errors import check_choice
from diffor.methods.baselines.duration_groups import (
    DurationGroups,
    completed,
    even_bins,
    learned_seconds,
    mid_rank,
    moving_average,
    required_duration,
    two_levels,
)
from diffor.methods.baselines.settings import check_counts, check_not_negative, check_positive

LIKELIHOODS = ("code", "paper")
EPSILON = 1e-6
"""What keeps the log-odds of CWM finite."""
MIN_GAP = 1e-4
"""The least distance between the two levels of D2Co, as a share of the target's range."""


class D2Q(PointMethod):
    """Predicts which share of the views of equally long videos was shorter.

    Zhan et al., KDD 2022, from the paper and two ports. Views are grouped by duration; the target is the mid-rank in
    the group and the answer is the group's quantile at the predicted rank. The encoder should see the duration, too.

    **Shape:** features ``(n, d)``, duration ``(n,)`` -> ``(n,)``.
    """

    family, tasks, native_statistic, requires = "watch time", ("value",), "own", ("duration",)
    title, paper, evidence = "D2Q", "Zhan et al., KDD 2022", "paper"
    grids: Tensor

    def __init__(self, n_features: int, *, n_groups: int = 30, n_levels: int = 100, clip: bool = False) -> None:
        super().__init__()
        # NOTE[DIFF] a group holds at least MIN_GROUP_ROWS rows: of fewer, no ranks can be learned on small data.
        self.groups = DurationGroups(n_groups)
        check_counts(n_levels=n_levels)
        self.clip = clip
        self.output = nn.Linear(n_features, 1)
        self.register_buffer("grids", torch.linspace(0, 1, n_levels + 1).repeat(n_groups, 1))

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Learn the groups and the quantiles of watch time in each."""
        duration = required_duration(side, self.title)
        self.groups.fit(duration)
        member, watched = self.groups(duration).cpu().numpy(), y.detach().cpu().numpy()
        levels = np.linspace(0, 1, self.grids.shape[1])
        for group in range(self.groups.n_used):
            grid = np.quantile(watched[member == group], levels, method="hazen")
            self.grids[group] = torch.from_numpy(np.maximum.accumulate(grid)).to(self.grids)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Squared error of the rank."""
        grid = self.grids[self.groups(required_duration(side, self.title))]
        rank = self.output(features).squeeze(1).sigmoid()
        return {"rank": weighted_mean((rank - mid_rank(y, grid)).square(), weights)}

    def value(self, features: Tensor, **side: Tensor) -> Tensor:
        """The quantile of the row's group at the predicted rank."""
        duration = required_duration(side, self.title)
        rank = self.output(features).sigmoid()
        watched = even_bins(self.grids[self.groups(duration)]).quantile(rank).squeeze(1)
        return torch.minimum(watched, duration) if self.clip else watched


class D2Co(PointMethod):
    """Predicts where a view lies between careless and interested views of equally long videos.

    Zhao et al., RecSys 2023, after the authors' code. A mixture of two Gaussians per duration gives the two levels; the
    target rises from the lower to the higher one, straight or exponentially. Views above the higher level cannot be
    told apart, so predictions end there.

    ``sensitivity`` is per second of the source, which ranks with 0.3; ``range_seconds`` says how many seconds the
    target's range has.

    **Shape:** features ``(n, d)``, duration ``(n,)`` -> ``(n,)``.
    """

    family, tasks, native_statistic, requires = "watch time", ("value",), "own", ("duration",)
    title, paper, evidence = "D2Co", "Zhao et al., RecSys 2023", "code"
    low: Tensor
    high: Tensor
    seconds: Tensor

    def __init__(
        self, n_features: int, *, n_groups: int = 60, window: int = 3, sensitivity: float = 0.0,
        range_seconds: float | None = None, clip: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        # NOTE[DIFF] straight by default, as where the same authors predict watch time itself: the exponential share of
        # most views is next to 0, and its inverse turns small errors of the share into large ones of time.
        # NOTE[DIFF] groups of similar duration where the source has one mixture per second: seconds are unknown here,
        # and rare durations would have no mixture.
        self.groups = DurationGroups(n_groups)
        check_counts(window=window)
        check_not_negative(sensitivity=sensitivity)
        check_positive(range_seconds=range_seconds)
        self.window, self.sensitivity, self.range_seconds, self.clip = window, sensitivity, range_seconds, clip
        self.output = nn.Linear(n_features, 1)
        self.register_buffer("low", torch.zeros(n_groups))
        self.register_buffer("high", torch.ones(n_groups))
        self.register_buffer("seconds", torch.ones(()))

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Learn the two levels of each duration, and the scale of time."""
        duration = required_duration(side, self.title)
        # NOTE[DIFF] the median target counts as TYPICAL_SECONDS unless the range is told: y has no seconds.
        self.seconds.fill_(learned_seconds(y, self.range_seconds))
        self.groups.fit(duration)
        member, watched = self.groups(duration).cpu().numpy(), y.detach().cpu().numpy().astype(np.float64)
        n_used = self.groups.n_used
        levels = np.stack([two_levels(watched[member == group]) for group in range(n_used)])
        counts = np.bincount(member, minlength=n_used).astype(np.float64)
        low, high = (moving_average(levels[:, column], counts, self.window) for column in (0, 1))
        self.low[:n_used] = torch.from_numpy(low).to(self.low)
        self.high[:n_used] = torch.from_numpy(np.maximum(high, low + MIN_GAP)).to(self.high)
        with torch.no_grad():
            share = float(self._share(y, duration).mean())
            self.output.bias.fill_(math.log((share + 0.01) / (1 - share + 0.01)))

    def _share(self, y: Tensor, duration: Tensor) -> Tensor:
        group = self.groups(duration)
        return interest_share(y, self.low[group], self.high[group], self.sensitivity * self.seconds)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Cross-entropy with the share as a soft label."""
        share = self._share(y, required_duration(side, self.title))
        logit = self.output(features).squeeze(1)
        each = functional.binary_cross_entropy_with_logits(logit, share, reduction="none")
        return {"share": weighted_mean(each, weights)}

    def value(self, features: Tensor, **side: Tensor) -> Tensor:
        """The watch time that the predicted share stands for."""
        duration = required_duration(side, self.title)
        group, share = self.groups(duration), self.output(features).squeeze(1).sigmoid()
        watched = watch_of_share(share, self.low[group], self.high[group], self.sensitivity * self.seconds)
        return torch.minimum(watched, duration) if self.clip else watched


def interest_share(watch: Tensor, low: Tensor, high: Tensor, sensitivity: Tensor | float) -> Tensor:
    """``(e^aw - e^al) / (e^ah - e^al)`` within [0, 1], straight where a is 0. **Shape:** ``(n,)`` each -> ``(n,)``."""
    inside = torch.minimum(torch.maximum(watch, low), high)
    rate = torch.as_tensor(sensitivity).to(watch)
    straight = (inside - low) / (high - low)
    # Exponents relative to the higher level are never positive, so nothing overflows.
    bent = (rate * (inside - high)).exp() * torch.expm1(rate * (low - inside)) / torch.expm1(rate * (low - high))
    return torch.where(rate == 0, straight, bent)


def watch_of_share(share: Tensor, low: Tensor, high: Tensor, sensitivity: Tensor | float) -> Tensor:
    """The inverse of :func:`interest_share`. **Shape:** ``(n,)`` each -> ``(n,)``."""
    rate = torch.as_tensor(sensitivity).to(share)
    straight = low + share * (high - low)
    rest = share + (1 - share) * (rate * (low - high)).exp()
    bent = high + rest.clamp(min=torch.finfo(share.dtype).tiny).log() / rate
    return torch.where(rate == 0, straight, torch.maximum(bent, low))


class CensoredInterest(Distribution):
    """A Gaussian interest, seen as a watch time that ends with the video. **Shape:** location, limit ``(n,)``."""

    N_LEVELS: ClassVar[int] = 256

    def __init__(self, location: Tensor, spread: float, limit: Tensor, constant: float, seconds: Tensor) -> None:
        self.location, self.spread, self.limit = location[:, None], spread, limit[:, None]
        self.constant, self.seconds = constant, seconds

    def cdf(self, values: Tensor) -> Tensor:
        """Gaussian up to the end of the video, where all the rest stands."""
        effort = self.constant / (values.clamp(min=0) * self.seconds + 1) - EPSILON
        effort = effort.clamp(min=torch.finfo(effort.dtype).tiny)  # beyond the longest watch time there is
        interest = -effort - torch.log(-torch.expm1(-effort))
        reached = torch.special.ndtr((interest - self.location) / self.spread)
        return torch.where(values < 0, 0.0, torch.where(values >= self.limit, 1.0, reached))

    def quantile(self, levels: Tensor) -> Tensor:
        """In closed form."""
        interest = self.location + self.spread * torch.special.ndtri(levels)
        watched = watch_of_interest(interest, self.constant) / self.seconds
        return torch.minimum(watched.clamp(min=0), self.limit)

    @property
    def mean(self) -> Tensor:
        """Expected watch time, from quantiles at evenly spread levels."""
        levels = (torch.arange(self.N_LEVELS).to(self.location) + 0.5) / self.N_LEVELS
        return self.quantile(levels).mean(dim=1)


class CWM(DistributionMethod):
    """Predicts the interest behind a view, which the end of the video hides where it was reached.

    Zhao et al., KDD 2024, after the authors' code and the paper. Interest is a rising function of watch time; views to
    the end only say that it was at least so large. ``likelihood="code"`` takes the means over unfinished and over
    finished views apart and a logistic tail for the latter, ``"paper"`` is the likelihood of a censored Gaussian.

    ``constant`` is in seconds of the source; ``range_seconds`` says how many seconds the target's range has. Where
    views may outlast the video, as with replays, ``clip=False`` lets predictions do so.

    **Shape:** features ``(n, d)``, duration ``(n,)`` -> n distributions.
    """

    family, tasks, requires = "watch time", ("value",), ("duration",)
    title, paper, evidence = "CWM", "Zhao et al., KDD 2024", "code"
    seconds: Tensor

    def __init__(
        self, n_features: int, *, constant: float = 40.0, spread: float = 2.0, range_seconds: float | None = None,
        likelihood: str = "code", clip: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        check_choice("likelihood", likelihood, LIKELIHOODS)
        check_positive(constant=constant, spread=spread, range_seconds=range_seconds)
        self.constant, self.spread, self.range_seconds = constant, spread, range_seconds
        self.likelihood, self.clip = likelihood, clip
        self.output = nn.Linear(n_features, 1)
        self.register_buffer("seconds", torch.ones(()))

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Learn the scale of time, and start at the typical interest."""
        watched = torch.minimum(y, required_duration(side, self.title))
        # NOTE[DIFF] the median target counts as TYPICAL_SECONDS unless the range is told: y has no seconds.
        self.seconds.fill_(learned_seconds(y, self.range_seconds))
        with torch.no_grad():
            self.output.bias.copy_(interest_of_watch(watched * self.seconds, self.constant).median())

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Squared error of the interest behind unfinished views, and how far it falls short behind finished ones."""
        duration = required_duration(side, self.title)
        finished = completed(y, duration)
        interest = interest_of_watch(torch.minimum(y, duration) * self.seconds, self.constant)
        location = self.output(features).squeeze(1)
        off = (location - interest).square() / (2 * self.spread**2)  # of views that ended before the video did
        ahead = (location - interest) / self.spread  # of others: interest was at least so large
        if self.likelihood == "paper":
            return {
                "unfinished": weighted_mean(torch.where(finished, 0.0, off), weights),
                "finished": weighted_mean(torch.where(finished, -torch.special.log_ndtr(ahead), 0.0), weights),
            }
        return {
            "unfinished": subset_mean(off, ~finished, weights),
            "finished": subset_mean(-functional.logsigmoid(ahead), finished, weights),
        }

    def distribution(self, features: Tensor, **side: Tensor) -> CensoredInterest:
        """A Gaussian of fixed spread in the interest, cut off at the duration."""
        duration = required_duration(side, self.title)
        limit = duration.clamp(0, 1) if self.clip else torch.ones_like(duration)
        location = self.output(features).squeeze(1)
        return CensoredInterest(location, self.spread, limit, self.constant, self.seconds)

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """The watch time of the predicted interest, which is the median."""
        return distribution.quantile(self.seconds.new_full((1,), 0.5)).squeeze(1)


def interest_of_watch(watch: Tensor, constant: float) -> Tensor:
    """Log-odds of ``exp(-constant / (watch + 1))``, cut at one in a million. **Shape:** any, in seconds."""
    return torch.logit(torch.exp(-constant / (watch + 1)), eps=EPSILON)


def watch_of_interest(interest: Tensor, constant: float) -> Tensor:
    """Seconds watched at an interest, below 0 where there is none. **Shape:** any."""
    return constant / (functional.softplus(-interest) + EPSILON) - 1
