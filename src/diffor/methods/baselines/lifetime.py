"""Lifetime value: targets of which many are exactly zero, and the others spread over orders of magnitude."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from diffor.core.distribution import Distribution, DistributionMethod, PointMethod
from diffor.core.method import subset_mean, weighted_mean
from diffor.errors import check_choice
from diffor.methods.baselines.densities import HALF_LOG_TWO_PI, hold_at_ends
from diffor.methods.baselines.point import StandardScale
from diffor.methods.baselines.settings import check_counts

LARGEST_SPREAD = 3.0
"""Spread on the log scale beyond which an expectation is no longer believed."""
UNIT_SPREAD = math.log(math.expm1(1.0))
"""Output whose softplus is 1."""
GATES = ("product", "hard")


class LogNormal(Distribution):
    """A log-normal distribution; what lies beyond 1 stands at 1. **Shape:** location, spread ``(n,)``."""

    def __init__(self, location: Tensor, spread: Tensor) -> None:
        self.location, self.spread = location, spread

    def cdf(self, values: Tensor) -> Tensor:
        """Normal cdf of the logarithm."""
        asked = values.expand(len(self.location), -1)
        logs = asked.clamp(min=torch.finfo(asked.dtype).tiny).log()
        reached = torch.special.ndtr((logs - self.location[:, None]) / self.spread[:, None])
        return hold_at_ends(torch.where(asked > 0, reached, torch.zeros_like(reached)), asked)

    @property
    def mean(self) -> Tensor:
        """Expectation below 1, and the probability beyond."""
        kept = torch.special.log_ndtr(-self.location / self.spread - self.spread)
        beyond: Tensor = torch.special.ndtr(self.location / self.spread)
        return torch.exp(self.location + self.spread.square() / 2 + kept) + beyond

    def quantile(self, levels: Tensor) -> Tensor:
        """Exponential of the normal quantile."""
        wanted = levels.expand(len(self.location), -1)
        logs = self.location[:, None] + self.spread[:, None] * torch.special.ndtri(wanted)
        values: Tensor = logs.clamp(max=0).exp()
        return values

    def free_mean(self, largest_location: Tensor) -> Tensor:
        """Expectation without the bound at 1, of a location and spread that are held back. **Shape:** ``(n,)``."""
        spread = self.spread.clamp(max=LARGEST_SPREAD)
        return torch.exp(torch.minimum(self.location, largest_location) + spread.square() / 2)


class ZeroInflated(Distribution):
    """Zero, or with some chance a positive value. **Shape:** chance ``(n,)``, n distributions of positive values."""

    def __init__(self, chance: Tensor, positive: Distribution) -> None:
        self.chance, self.positive = chance, positive

    def cdf(self, values: Tensor) -> Tensor:
        """A jump at zero, then that of the positive values."""
        reached = 1 - self.chance[:, None] * (1 - self.positive.cdf(values))
        return torch.where(values.expand_as(reached) < 0, torch.zeros_like(reached), reached)

    @property
    def mean(self) -> Tensor:
        """Chance times the positive values' mean."""
        return self.chance * self.positive.mean

    def quantile(self, levels: Tensor) -> Tensor:
        """Zero up to the jump."""
        wanted, chance = levels.expand(len(self.chance), -1), self.chance[:, None]
        share = ((wanted - 1 + chance) / chance.clamp(min=torch.finfo(chance.dtype).tiny)).clamp(0, 1)
        return torch.where(wanted <= 1 - chance, torch.zeros_like(share), self.positive.quantile(share))


def log_odds_of_positive(y: Tensor) -> float:
    """Log odds of a training target above zero, kept off the ends. **Shape:** ``(n,)``."""
    return float(torch.logit((y > 0).double().mean(), eps=0.01))


def ziln_nll(chance_logit: Tensor, location: Tensor, spread: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Negative log likelihood of being positive or not, and of the amount, which is 0 for zeros.

    **Shape:** logit of the chance, location, spread, targets, which broadcast -> two of their shape.
    """
    positive = (y > 0).to(location).expand_as(location)
    logs = torch.where(y > 0, y, torch.ones_like(y)).log()  # the logarithm of a zero would poison the gradient
    z = (logs - location) / spread
    amount = logs + spread.log() + HALF_LOG_TWO_PI + 0.5 * z.square()
    return binary_cross_entropy_with_logits(chance_logit, positive, reduction="none"), positive * amount


class LogScaleMethod(DistributionMethod):
    """What the methods on the log scale share: the centre and spread of the positive training targets' logarithms."""

    family, tasks, native_statistic = "lifetime value", ("value",), "own"
    spread_floor: ClassVar[float] = math.sqrt(1e-7)
    """Smallest spread, in logarithms of the target."""

    largest: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.scale = StandardScale()
        self.register_buffer("largest", torch.zeros(()))  # logarithm of the largest target

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Standardise the logarithms of the positive targets."""
        logs = y[y > 0].log()
        self.scale.fit(logs)
        if len(logs):
            self.largest.copy_(logs.max())

    def parameters_of(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logit of the chance, location and spread. **Shape:** ``(..., 3)`` -> three of ``(...)``."""
        chance, location, spread = outputs.unbind(dim=-1)
        return chance, self.scale.back(location), self.scale.spread * softplus(spread) + self.spread_floor

    def zero_inflated(self, outputs: Tensor) -> ZeroInflated:
        """The distribution that three outputs stand for. **Shape:** ``(n, 3)``."""
        chance, location, spread = self.parameters_of(outputs)
        return ZeroInflated(chance.sigmoid(), LogNormal(location, spread))

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """Chance times the expectation of the log-normal, without its bound."""
        assert isinstance(distribution, ZeroInflated)
        assert isinstance(distribution.positive, LogNormal)
        return distribution.chance * distribution.positive.free_mean(self.largest)


class ZeroInflatedLogNormal(LogScaleMethod):
    """ZILN (Wang et al., 2019): the chance of a positive target, and a log-normal distribution of it.

    **Shape:** features ``(n, d)`` -> three numbers for each row.
    """

    title, paper, evidence = "ZILN", "Wang et al., 2019", "code"

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.head = nn.Linear(n_features, 3)

    @torch.no_grad()
    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Standardise, and start at the distribution of all training targets."""
        super().fit_targets(y)
        self.head.bias.copy_(torch.tensor([log_odds_of_positive(y), 0.0, UNIT_SPREAD]))

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Cross-entropy of the chance and log-normal likelihood of the positive targets."""
        chance, amount = ziln_nll(*self.parameters_of(self.head(features)), y)
        return {"chance": weighted_mean(chance, weights), "amount": weighted_mean(amount, weights)}

    def distribution(self, features: Tensor, **side: Tensor) -> ZeroInflated:
        """The zero-inflated log-normal distribution."""
        return self.zero_inflated(self.head(features))


def tower(n_features: int, n_hidden: int, n_outputs: int) -> nn.Sequential:
    """One hidden layer and a linear answer."""
    return nn.Sequential(nn.Linear(n_features, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_outputs))


class TwoStage(PointMethod):
    """A reconstruction: the chance of a positive target, and a regression on positive targets alone.

    Known, from summaries of Drachen et al. (2018): one model tells who pays, a second, fitted to those who do, how
    much; both are ensembles of trees there. Guessed: how the two answers join. ``gate="product"`` gives chance times
    amount, ``"hard"`` the amount where the chance exceeds a half and zero elsewhere.

    NOTE[DIFF]: the two are networks with hidden layers of their own that share the encoder, as all methods here do.

    **Shape:** features ``(n, d)`` -> a chance and an amount for each row.
    """

    family, tasks, native_statistic = "lifetime value", ("value",), "own"
    title, paper, evidence = "Two-stage", "Drachen et al., ACSW 2018", "notes"

    def __init__(self, n_features: int, *, gate: str = "product", n_hidden: int = 64) -> None:
        super().__init__()
        check_choice("gate", gate, GATES)
        check_counts(n_hidden=n_hidden)
        self.gate = gate
        self.chance, self.amount = tower(n_features, n_hidden, 1), tower(n_features, n_hidden, 1)
        self.scale = StandardScale()

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Standardise the positive targets."""
        self.scale.fit(y[y > 0])

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Cross-entropy of the chance on all rows, squared error of the amount on positive ones."""
        positive, logit = y > 0, self.chance(features).squeeze(1)
        chance = binary_cross_entropy_with_logits(logit, positive.to(logit), reduction="none")
        error = self.amount(features).squeeze(1) - self.scale(y)
        return {"chance": weighted_mean(chance, weights), "amount": subset_mean(error.square(), positive, weights)}

    def value(self, features: Tensor, **side: Tensor) -> Tensor:
        """Chance and amount joined by the gate."""
        chance = self.chance(features).squeeze(1).sigmoid()
        amount = self.scale.back(self.amount(features).squeeze(1)).clamp(min=0)
        value: Tensor = amount * (chance if self.gate == "product" else chance > 0.5)
        return value


class MultiTask(PointMethod):
    """A reconstruction: MTL-MSE, a chance and an amount whose product is trained by squared error on all rows.

    Known, from the descriptions in later papers, which take it from ESMM (Ma et al., 2018): conversion and value are
    two tasks on a shared encoder, and the value is learned by squared error. Guessed: as in ESMM it is the product of
    chance and amount that is learned, on all rows; equal weights; the target in units of its standard deviation.

    **Shape:** features ``(n, d)`` -> a chance and an amount for each row.
    """

    family, tasks, native_statistic = "lifetime value", ("value",), "own"
    title, paper, evidence = "MTL-MSE", "Ma et al., SIGIR 2018", "notes"

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.head = nn.Linear(n_features, 2)
        self.scale = StandardScale()

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Find the unit of the amounts."""
        self.scale.fit(y)

    def outputs(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Logit of the chance, and chance times amount in standard deviations. **Shape:** two of ``(n,)``."""
        logit, raw = self.head(features).unbind(dim=1)
        return logit, logit.sigmoid() * softplus(raw)

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Cross-entropy of the chance, and squared error of the product."""
        logit, product = self.outputs(features)
        chance = binary_cross_entropy_with_logits(logit, (y > 0).to(logit), reduction="none")
        error = (product - y / self.scale.spread).square()
        return {"chance": weighted_mean(chance, weights), "value": weighted_mean(error, weights)}

    def value(self, features: Tensor, **side: Tensor) -> Tensor:
        """Chance times amount."""
        return self.scale.spread * self.outputs(features)[1]
