"""Lifetime value by several sub-distributions: one of them chosen for each row, or all of them mixed."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from diffor.core.distribution import Distribution, DistributionMethod
from diffor.core.method import weighted_mean
from diffor.methods.baselines.densities import hold_at_ends, training_quantiles
from diffor.methods.baselines.lifetime import (
    UNIT_SPREAD,
    LogScaleMethod,
    ZeroInflated,
    log_odds_of_positive,
    tower,
    ziln_nll,
)
from diffor.methods.baselines.point import StandardScale
from diffor.methods.baselines.settings import check_counts, check_not_negative

LOGISTIC_FLOOR = 1e-2
"""Smallest scale of a logistic component, in standard deviations of the positive targets on their log scale."""
N_PIECES = 256
"""Pieces of the log scale over which the expectation of a mixture of logistics is summed."""


# --- one sub-distribution for each row ---


def selection_losses(log_shares: Tensor, losses: Tensor, focus: float) -> tuple[Tensor, Tensor]:
    """Focal cross-entropy to the best head, and divergence from a softmax of all heads' losses.

    The losses of the heads are pseudo-labels here: no gradient reaches them.

    **Shape:** log shares and losses ``(n, L)`` -> two of ``(n,)``.
    """
    losses = losses.detach()
    best = log_shares.gather(1, losses.argmin(dim=1, keepdim=True)).squeeze(1)
    focal = -(-torch.expm1(best)).clamp(min=0).pow(focus) * best
    divergence = (log_shares.exp() * (log_shares - (-losses).log_softmax(dim=1))).sum(dim=1)
    return focal, divergence


class OptimalDistribution(LogScaleMethod):
    """A reconstruction: OptDist, several zero-inflated log-normal heads and a selector that picks one for each row.

    Known, from detailed notes on Weng et al. (2024): four or five heads with losses of their own; a selector whose
    shares are drawn by Gumbel softmax; pseudo-labels of the head that fits a row best, hard for a focal cross-entropy
    and soft for a divergence; the selected head answers. Guessed: the temperature, which falls from 1 to a half over
    ``n_annealing_steps``, ``focus``, ``divergence_weight``, and that in the first ``n_warmup_steps`` a tenth of the
    weight lies on all heads alike, so that none is left behind before it could learn.

    **Shape:** features ``(n, d)`` -> three numbers for each of L heads, L shares.
    """

    title, paper, evidence = "OptDist", "Weng et al., CIKM 2024", "notes"
    # A row that is not a head's own still has a share in it: under a very sharp head its loss would drown all others.
    spread_floor: ClassVar[float] = 0.05
    n_steps: Tensor

    def __init__(
        self, n_features: int, *, n_heads: int = 4, n_hidden: int = 64, focus: float = 2.0,
        divergence_weight: float = 1.0, n_annealing_steps: int = 1000, n_warmup_steps: int = 100,
    ) -> None:  # fmt: skip
        super().__init__()
        check_counts(2, n_heads=n_heads)
        check_counts(n_hidden=n_hidden)
        check_counts(0, n_annealing_steps=n_annealing_steps, n_warmup_steps=n_warmup_steps)
        check_not_negative(focus=focus, divergence_weight=divergence_weight)
        self.heads = nn.ModuleList(tower(n_features, n_hidden, 3) for _ in range(n_heads))
        self.selector = tower(n_features, n_hidden, n_heads)
        self.focus, self.divergence_weight = focus, divergence_weight
        self.n_annealing_steps, self.n_warmup_steps = n_annealing_steps, n_warmup_steps
        self.register_buffer("n_steps", torch.zeros(()))

    @torch.no_grad()
    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Standardise, and let the heads start at locations that share the positive targets evenly."""
        super().fit_targets(y)
        levels = (torch.arange(len(self.heads)) + 0.5) / len(self.heads)
        for head, location in zip(self.heads, torch.special.ndtri(levels).tolist(), strict=True):
            last = head[-1]  # type: ignore[index]
            last.bias.copy_(torch.tensor([log_odds_of_positive(y), location, UNIT_SPREAD]))

    def outputs(self, features: Tensor) -> Tensor:
        """What each head says. **Shape:** ``(n, d)`` -> ``(n, L, 3)``."""
        return torch.stack([head(features) for head in self.heads], dim=1)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Likelihood of the heads by their shares, and two terms that teach the selector which head fits best."""
        losses = torch.stack(ziln_nll(*self.parameters_of(self.outputs(features)), y[:, None])).sum(dim=0)  # (n, L)
        log_shares = self.draw_log_shares(self.selector(features))
        even = 0.1 if float(self.n_steps) <= self.n_warmup_steps else 0.0
        shares = (1 - even) * log_shares.exp() + even / losses.shape[1]
        focal, divergence = selection_losses(log_shares, losses, self.focus)
        return {
            "likelihood": weighted_mean((shares * losses).sum(dim=1), weights),
            "selection": weighted_mean(focal, weights),
            "divergence": self.divergence_weight * weighted_mean(divergence, weights),
        }

    def draw_log_shares(self, logits: Tensor) -> Tensor:
        """Logarithms of Gumbel softmax shares at the temperature of this step. **Shape:** ``(n, L)``, kept."""
        if self.training:
            self.n_steps += 1
        progress = min(float(self.n_steps) / max(self.n_annealing_steps, 1), 1.0)
        uniform = torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)
        return ((logits - (-uniform.log()).log()) / (1 - 0.5 * progress)).log_softmax(dim=1)

    def distribution(self, features: Tensor, **side: Tensor) -> ZeroInflated:
        """The distribution of the head that the selector favours."""
        chosen = self.selector(features).argmax(dim=1)
        return self.zero_inflated(self.outputs(features)[torch.arange(len(chosen)), chosen])


# --- all of them mixed ---


class LogisticMixture(Distribution):
    """A mixture of logistic distributions of ``log1p(target / unit)``, standardised.

    **Shape:** weights, means, scales ``(n, M)``; the unit is a scalar.
    """

    def __init__(self, weights: Tensor, means: Tensor, scales: Tensor, unit: Tensor, standard: StandardScale) -> None:
        self.weights, self.means, self.scales, self.unit, self.standard = weights, means, scales, unit, standard

    def cdf(self, values: Tensor) -> Tensor:
        """Weighted sum of the components' cdfs."""
        place = self.standard(torch.log1p(values.clamp(min=0) / self.unit))
        t = (place.unsqueeze(-1) - self.means[:, None]) / self.scales[:, None]  # (n, c, M)
        reached = (self.weights[:, None] * t.sigmoid()).sum(dim=-1)
        return hold_at_ends(reached, values)

    @property
    def mean(self) -> Tensor:
        """Integral of the probability of more, over pieces that are even on the log scale."""
        top = torch.log1p(1 / self.unit)
        edges = torch.expm1(torch.linspace(0, 1, 2 * N_PIECES + 1, device=top.device) * top) * self.unit
        more = 1 - self.cdf(edges[None, 1::2])
        return (more * edges[::2].diff()).sum(dim=1)


def logistic_mixture_nll(logits: Tensor, means: Tensor, scales: Tensor, place: Tensor) -> Tensor:
    """Negative log density of a mixture of logistics. **Shape:** three of ``(n, M)``, ``(n,)`` -> ``(n,)``."""
    t = (place[:, None] - means) / scales
    density = -t - 2 * softplus(-t) - scales.log()
    return -torch.logsumexp(logits.log_softmax(dim=1) + density, dim=1)


class ZeroInflatedLogistics(DistributionMethod):
    """A reconstruction: HiLTV, the chance of a positive target and a mixture of logistics on a log scale for it.

    Known, from the abstract of Xu et al. (2025) and a summary: who pays comes before how much; fixed prices make
    several peaks, for which the loss is that of a zero-inflated mixture of logistics. Guessed: the mixture lies on a
    log scale, ``log1p`` of the target in units of the median positive one; the number of components; one level of the
    hierarchy. Left out: the calibration of new users, who have no counterpart here.

    **Shape:** features ``(n, d)`` -> a chance and three numbers for each of M components.
    """

    family, tasks, native_statistic = "lifetime value", ("value",), "mean"
    title, paper, evidence = "HiLTV", "Xu et al., SIGIR 2025", "notes"
    unit: Tensor

    def __init__(self, n_features: int, *, n_components: int = 5) -> None:
        super().__init__()
        check_counts(n_components=n_components)
        self.chance, self.head = nn.Linear(n_features, 1), nn.Linear(n_features, 3 * n_components)
        self.scale = StandardScale()
        self.register_buffer("unit", torch.ones(()))

    @torch.no_grad()
    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Find the log scale, and start at the quantiles of the positive targets on it."""
        self.chance.bias.fill_(log_odds_of_positive(y))
        positive = y[y > 0]
        if len(positive) == 0:
            return
        self.unit.copy_(positive.median())
        places = torch.log1p(positive / self.unit)
        self.scale.fit(places)
        _, means, scales = self.head.bias.chunk(3)
        levels = (torch.arange(len(means)) + 0.5) / len(means)
        means.copy_(self.scale(training_quantiles(places, levels)))
        scales.fill_(-1.0)  # a scale of 0.3: wide enough to reach the neighbours

    def components(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of the weights, means and scales on the standardised log scale. **Shape:** each ``(n, M)``."""
        logits, means, raw = self.head(features).chunk(3, dim=1)
        return logits, means, softplus(raw) + LOGISTIC_FLOOR

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Cross-entropy of the chance, and likelihood of the positive targets."""
        positive, logit = (y > 0).to(features), self.chance(features).squeeze(1)
        chance = binary_cross_entropy_with_logits(logit, positive, reduction="none")
        place = self.scale(torch.log1p(y / self.unit))
        # The density of the target itself: that of its place, times the steepness of the log scale.
        stretch = (self.scale.spread * (self.unit + y)).log()
        amount = positive * (logistic_mixture_nll(*self.components(features), place) + stretch)
        return {"chance": weighted_mean(chance, weights), "amount": weighted_mean(amount, weights)}

    def distribution(self, features: Tensor, **side: Tensor) -> ZeroInflated:
        """The zero-inflated mixture."""
        logits, means, scales = self.components(features)
        mixture = LogisticMixture(logits.softmax(dim=1), means, scales, self.unit, self.scale)
        return ZeroInflated(self.chance(features).squeeze(1).sigmoid(), mixture)
