"""Cumulative link models: one hidden score for each row, and thresholds that cut it into ranks."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad

from diffor.core.distribution import Distribution, decide_as_class
from diffor.core.method import weighted_mean
from diffor.methods.baselines.binning import BinnedMethod
from diffor.methods.baselines.settings import check_not_negative

LINKS = ("logit", "probit", "cloglog")
FARTHEST = 1e3
"""Stands for an infinite threshold: finite, so that gradients are."""
CLOGLOG_BOUNDS = (-60.0, 15.0)
"""Where the double exponential of the complementary log-log is finite in single precision, with its gradient."""


def rank_log_probabilities(score: Tensor, thresholds: Tensor, link: str) -> Tensor:
    """Logarithm of the probability of each rank, by terms that do not cancel. **Shape:** ``(n,)``, ``(K - 1,)``."""
    borders = thresholds - score[:, None]
    low, high = pad(borders, (1, 0), value=-FARTHEST), pad(borders, (0, 1), value=FARTHEST)
    if link == "logit":
        return logsigmoid(high) + logsigmoid(-low) + _log_complement(low - high)
    if link == "probit":
        # The logarithm is exact in the lower tail only, so an interval in the upper is mirrored.
        is_upper = low + high > 0
        low, high = torch.where(is_upper, -high, low), torch.where(is_upper, -low, high)
        log_high: Tensor = torch.special.log_ndtr(high)
        return log_high + _log_complement(torch.special.log_ndtr(low) - log_high)
    low, high = low.clamp(*CLOGLOG_BOUNDS), high.clamp(*CLOGLOG_BOUNDS)
    return -low.exp() + _log_complement(-low.exp() * torch.expm1(high - low))


def _log_complement(log_probability: Tensor) -> Tensor:
    """Logarithm of one minus a probability, given by its logarithm. **Shape:** kept."""
    return torch.log(-torch.expm1(log_probability.clamp(max=-1e-30)))


def inverse_link(shares: Tensor, link: str) -> Tensor:
    """Threshold below which each share lies. **Shape:** kept."""
    if link == "cloglog":
        return (-torch.log1p(-shares)).log()
    threshold: Tensor = shares.logit() if link == "logit" else torch.special.ndtri(shares)
    return threshold


class OrderedLogit(BinnedMethod):
    """Proportional odds (McCullagh, 1980), as a cumulative link model on features (Vargas et al., 2020).

    Thresholds are a first one and squared steps, so they rise. ``min_distance`` is added to each step.

    NOTE[DIFF]: the thresholds start where they fit the training shares of the ranks, and the loss is exact in the
    tails where the source clips probabilities.
    """

    family, title = "ranks", "cumulative link, logit"
    paper, evidence = "McCullagh, JRSS B 1980; Vargas et al., Neurocomputing 2020", "code"
    native_statistic = "own"
    link: ClassVar[str] = "logit"

    def __init__(
        self, n_features: int, *, min_distance: float = 0.0, n_grades: int | None = None, n_bins: int = 50,
        policy: str = "quantile",
    ) -> None:  # fmt: skip
        super().__init__(n_grades, n_bins, policy)
        check_not_negative(min_distance=min_distance)
        self.min_distance = min_distance
        self.score = nn.Linear(n_features, 1, bias=False)  # the first threshold is the bias
        self.first = nn.Parameter(torch.zeros(1))
        self.steps = nn.Parameter(torch.ones(self.binning.n_bins - 2))

    def start(self, shares: Tensor) -> None:
        """Thresholds are those of the shares."""
        thresholds = inverse_link(shares.double().cumsum(dim=0)[:-1], self.link)
        self.first.copy_(thresholds[:1])
        self.steps.copy_((thresholds.diff() - self.min_distance).clamp(min=1e-6).sqrt())

    @property
    def thresholds(self) -> Tensor:
        """Rising thresholds. **Shape:** ``(K - 1,)``."""
        return torch.cat([self.first, self.first + (self.steps.square() + self.min_distance).cumsum(dim=0)])

    def log_probabilities(self, features: Tensor) -> Tensor:
        """Logarithm of the probability of each rank. **Shape:** ``(n, d)`` -> ``(n, K)``."""
        return rank_log_probabilities(torch.squeeze(self.score(features), 1), self.thresholds, self.link)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Negative log-likelihood of the rank. **Shape:** ``(n, d)``, ``(n,)``, ``(n,)`` -> a scalar."""
        chosen = self.log_probabilities(features).gather(1, self.binning.index(y)[:, None])[:, 0]
        return {"likelihood": weighted_mean(-chosen, weights)}

    def probabilities(self, features: Tensor) -> Tensor:
        """Those of the ranks, summing to 1 whatever was rounded."""
        return self.log_probabilities(features).softmax(dim=1)

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """The most probable grade, or the mean of a value. **Shape:** -> ``(n,)``."""
        return decide_as_class(distribution)


class OrderedProbit(OrderedLogit):
    """Cumulative link model with a normal link (Vargas et al., 2020)."""

    title, link = "cumulative link, probit", "probit"


class OrderedCloglog(OrderedLogit):
    """Cumulative link model with the complementary log-log (Vargas et al., 2020)."""

    title, link = "cumulative link, complementary log-log", "cloglog"
