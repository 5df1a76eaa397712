"""Methods that answer with a density: a mixture of Gaussians, and one of an exponential and Gaussians."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from diffor.core.distribution import Distribution, DistributionMethod
from diffor.core.method import weighted_mean
from diffor.methods.baselines.point import StandardScale
from diffor.methods.baselines.settings import check_counts, check_not_negative

DEVIATION_FLOOR = 1e-3
"""Smallest standard deviation of a component of the mixture density network, in standard deviations of the target."""
TINY = 1e-6
"""What the exponential-Gaussian mixture adds to rates, deviations and normalisers."""
HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


# --- what several modules need ---


def inverse_softplus(value: Tensor) -> Tensor:
    """The number whose softplus is a value above 0. **Shape:** kept."""
    return value + torch.log(-torch.expm1(-value))


def training_quantiles(y: Tensor, levels: Tensor) -> Tensor:
    """Quantiles of training targets, also of more of them than ``torch.quantile`` takes. **Shape:** -> as levels."""
    quantiles = np.quantile(y.detach().cpu().double().numpy(), levels.cpu().double().numpy())
    return torch.as_tensor(quantiles, dtype=torch.float32, device=y.device)


def hold_at_ends(reached: Tensor, values: Tensor) -> Tensor:
    """A cdf whose probability beyond [0, 1] stands at the nearer end. **Shape:** both ``(n, c)``."""
    return torch.where(values < 0, 0.0, torch.where(values >= 1, 1.0, reached.clamp(0, 1)))


def clipped_normal_below(means: Tensor, deviations: Tensor) -> Tensor:
    """Integral of a normal cdf over [0, 1]. **Shape:** kept."""

    def integral(z: Tensor) -> Tensor:  # of the standard normal cdf, from minus infinity to z
        below: Tensor = torch.special.ndtr(z)
        return (z * below + torch.exp(-0.5 * z.square() - HALF_LOG_TWO_PI)).clamp(min=0)

    return deviations * (integral((1 - means) / deviations) - integral(-means / deviations))


def log_normal_density(y: Tensor, means: Tensor, deviations: Tensor) -> Tensor:
    """Log density of normal components. **Shape:** ``(n,)``, ``(n, M)``, ``(n, M)`` -> ``(n, M)``."""
    z = (y[:, None] - means) / deviations
    return -0.5 * z.square() - deviations.log() - HALF_LOG_TWO_PI


# --- mixture density network ---


class GaussianMixture(Distribution):
    """A mixture of Gaussians. **Shape:** weights, means, deviations ``(n, M)``.

    >>> mixture = GaussianMixture(torch.ones(1, 1), torch.tensor([[0.5]]), torch.tensor([[0.1]]))
    >>> [round(value, 3) for value in mixture.quantile(torch.tensor([0.1, 0.5, 0.9]))[0].tolist()]
    [0.372, 0.5, 0.628]
    """

    def __init__(self, weights: Tensor, means: Tensor, deviations: Tensor) -> None:
        self.weights, self.means, self.deviations = weights, means, deviations

    def cdf(self, values: Tensor) -> Tensor:
        """Weighted sum of the components' cdfs."""
        z = (values.unsqueeze(-1) - self.means[:, None]) / self.deviations[:, None]  # (n, c, M)
        reached = (self.weights[:, None] * torch.special.ndtr(z)).sum(dim=-1)
        return hold_at_ends(reached, values)

    @property
    def mean(self) -> Tensor:
        """Expected target, where what lies beyond an end stands at that end."""
        return 1 - (self.weights * clipped_normal_below(self.means, self.deviations)).sum(dim=1)

    @property
    def free_mean(self) -> Tensor:
        """Weighted mean of the components, wherever they stand. **Shape:** ``(n,)``."""
        return (self.weights * self.means).sum(dim=1)


def mixture_nll(logits: Tensor, means: Tensor, deviations: Tensor, y: Tensor) -> Tensor:
    """Negative log density of a mixture of Gaussians. **Shape:** three of ``(n, M)``, ``(n,)`` -> ``(n,)``."""
    return -torch.logsumexp(logits.log_softmax(dim=1) + log_normal_density(y, means, deviations), dim=1)


class MixtureDensity(DistributionMethod):
    """Mixture density network (Bishop, 1994): the weights, means and deviations of M Gaussians.

    Components start at the training quantiles, each as wide as an M-th of the range.

    **Shape:** features ``(n, d)`` -> three numbers for each of M components.
    """

    family, title = "densities", "Mixture density network"
    paper, evidence, native_statistic = "Bishop, 1994", "standard", "own"

    def __init__(self, n_features: int, *, n_components: int = 5) -> None:
        super().__init__()
        check_counts(n_components=n_components)
        self.n_components = n_components
        self.head = nn.Linear(n_features, 3 * n_components)
        self.scale = StandardScale()

    @torch.no_grad()
    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Standardise the target and put the components where the targets are."""
        self.scale.fit(y)
        levels = (torch.arange(self.n_components) + 0.5) / self.n_components
        extent = (y.max() - y.min()) / self.scale.spread / self.n_components
        _, means, deviations = self.head.bias.chunk(3)
        means.copy_(self.scale(training_quantiles(y, levels)))
        # A few extreme targets make the range long: no component needs to start wider than all targets together.
        deviations.copy_(inverse_softplus(extent.clamp(0.01, 1.0)))

    def components(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits of the weights, means and deviations on the standardised scale. **Shape:** each ``(n, M)``."""
        logits, means, raw = self.head(features).chunk(3, dim=1)
        return logits, means, softplus(raw) + DEVIATION_FLOOR

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Negative log likelihood of the standardised target."""
        return {"likelihood": weighted_mean(mixture_nll(*self.components(features), self.scale(y)), weights)}

    def distribution(self, features: Tensor, **side: Tensor) -> GaussianMixture:
        """The mixture on the scale of the target."""
        logits, means, deviations = self.components(features)
        return GaussianMixture(logits.softmax(dim=1), self.scale.back(means), self.scale.spread * deviations)

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """Weighted mean of the components."""
        assert isinstance(distribution, GaussianMixture)
        return distribution.free_mean


# --- exponential-Gaussian mixture ---


class ExponentialGaussianMixture(Distribution):
    """One exponential and K Gaussians that are cut off at 0.

    **Shape:** weights ``(n, 1 + K)``, the exponential first; rate ``(n,)``; means, deviations ``(n, K)``.
    """

    def __init__(self, weights: Tensor, rate: Tensor, means: Tensor, deviations: Tensor) -> None:
        self.weights, self.rate, self.means, self.deviations = weights, rate, means, deviations
        self.cut_off: Tensor = torch.special.ndtr(-means / deviations)  # what the Gaussians would have had below 0

    def cdf(self, values: Tensor) -> Tensor:
        """Weighted sum of the components' cdfs."""
        inside = values.clamp(min=0)
        exponential = -torch.expm1(-self.rate[:, None] * inside)  # (n, c)
        z = (inside.unsqueeze(-1) - self.means[:, None]) / self.deviations[:, None]  # (n, c, K)
        cut_off = self.cut_off[:, None]
        gaussians = (torch.special.ndtr(z) - cut_off) / (1 - cut_off)
        reached = self.weights[:, :1] * exponential + (self.weights[:, None, 1:] * gaussians).sum(dim=-1)
        return hold_at_ends(reached, values)

    @property
    def mean(self) -> Tensor:
        """Expected target, where what lies beyond 1 stands at 1."""
        exponential = -torch.expm1(-self.rate) / self.rate
        below = clipped_normal_below(self.means, self.deviations) - self.cut_off
        gaussians = 1 - below / (1 - self.cut_off)
        return self.weights[:, 0] * exponential + (self.weights[:, 1:] * gaussians).sum(dim=1)

    @property
    def free_mean(self) -> Tensor:
        """The authors' expectation, which forgets that the Gaussians are cut off. **Shape:** ``(n,)``."""
        return self.weights[:, 0] / self.rate + (self.weights[:, 1:] * self.means).sum(dim=1)


def egmn_nll(log_weights: Tensor, rate: Tensor, means: Tensor, deviations: Tensor, y: Tensor) -> Tensor:
    """Negative log density of the exponential-Gaussian mixture.

    **Shape:** ``(n, 1 + K)``, ``(n,)``, ``(n, K)``, ``(n, K)``, ``(n,)`` -> ``(n,)``.
    """
    exponential = rate.log() - rate * y
    kept = (1 - torch.special.ndtr(-means / deviations) + TINY).log()
    gaussians = log_normal_density(y, means, deviations) - kept
    return -torch.logsumexp(log_weights + torch.cat([exponential[:, None], gaussians], dim=1), dim=1)


class ExponentialGaussian(DistributionMethod):
    """EGMN (Zhao et al., 2025): an exponential for those who leave at once and K Gaussians for those who stay.

    The terms are the negative log likelihood, the weights' negative entropy (which keeps all components in use) and
    the absolute error of the expectation.

    **Shape:** features ``(n, d)`` -> a rate, K means, K deviations, 1 + K weights.
    """

    family, title, tasks = "watch time", "EGMN", ("value",)
    paper, evidence, native_statistic = "Zhao et al., RecSys 2025", "code", "own"
    scale: Tensor

    def __init__(
        self, n_features: int, *, n_components: int = 10, entropy_weight: float = 0.1, value_weight: float = 1.0
    ) -> None:
        super().__init__()
        check_counts(n_components=n_components)
        check_not_negative(entropy_weight=entropy_weight, value_weight=value_weight)
        self.entropy_weight, self.value_weight = entropy_weight, value_weight
        self.rate = nn.Linear(n_features, 1)
        self.means, self.deviations = nn.Linear(n_features, n_components), nn.Linear(n_features, n_components)
        self.weights = nn.Linear(n_features, n_components + 1)
        self.register_buffer("scale", torch.ones(()))
        # NOTE[DIFF]: the authors start all components alike; a later study found that the result hangs on
        # the start, and spreads them over the scale like this.
        exponential_mean = 0.05
        places = torch.arange(1, n_components + 1) / (n_components + 1)
        with torch.no_grad():
            self.rate.bias.fill_(1 / exponential_mean)  # where softplus is the identity
            self.means.bias.copy_(inverse_softplus((places - exponential_mean).clamp(min=0.01)))
            self.deviations.bias.copy_(inverse_softplus(torch.tensor(1.5 / n_components)))

    def fit_targets(self, y: Tensor, **side: Tensor) -> None:
        """Find the scale of the targets."""
        # NOTE[DIFF]: the authors divide by the largest target, which a single extreme one can move anywhere.
        high = training_quantiles(y, torch.tensor(0.99))
        self.scale.copy_(high if float(high) > 0 else torch.ones(()))

    def components(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Log weights, rate, means, deviations in units of ``scale``. **Shape:** as in :func:`egmn_nll`."""
        rate = softplus(self.rate(features), beta=0.5) + TINY  # (n, 1)
        means = softplus(self.means(features)) + 1 / rate  # no Gaussian stands before the exponential's mean
        deviations = softplus(self.deviations(features)) + TINY
        return self.weights(features).log_softmax(dim=1), rate.squeeze(1), means, deviations

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        """Likelihood, negative entropy of the weights, and absolute error of the expectation."""
        log_weights, rate, means, deviations = self.components(features)
        scaled, shares = y / self.scale, log_weights.exp()
        expected = ExponentialGaussianMixture(shares, rate, means, deviations).free_mean
        return {
            "likelihood": weighted_mean(egmn_nll(log_weights, rate, means, deviations, scaled), weights),
            "entropy": self.entropy_weight * weighted_mean((shares * log_weights).sum(dim=1), weights),
            "value": self.value_weight * weighted_mean((expected - scaled).abs(), weights),
        }

    def distribution(self, features: Tensor, **side: Tensor) -> ExponentialGaussianMixture:
        """The mixture on the scale of the target."""
        log_weights, rate, means, deviations = self.components(features)
        return ExponentialGaussianMixture(
            log_weights.exp(), rate / self.scale, self.scale * means, self.scale * deviations
        )

    def native(self, distribution: Distribution, **side: Tensor) -> Tensor:
        """The authors' expectation."""
        assert isinstance(distribution, ExponentialGaussianMixture)
        return distribution.free_mean
