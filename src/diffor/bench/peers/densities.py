"""Networks that answer with a density: an ensemble of Gaussians, and one mixture of Gaussians."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from diffor.bench.peers.gradient_loop import (
    Batch,
    NetworkSettings,
    StandardTarget,
    TableNetwork,
    reproducible,
    train_table_network,
)
from diffor.bench.peers.problem import Peer, Problem, Values, quantile_levels
from diffor.core.prediction import Prediction
from diffor.encoders import TabularInputs
from diffor.training.loop import limit_threads

VARIANCE_FLOOR = 1e-6
SCALE_FLOOR = 1e-3
"""Smallest scale of a mixture's component, in standard deviations of the target, so that none shrinks to a point."""
BISECTIONS = 26
"""Halvings of the bracket: after these it is as narrow as single precision can tell apart."""
BLOCK_VALUES = 65_536
"""Quantiles that one bisection handles at a time, so that its intermediate results stay in the cache."""
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


# --- an ensemble of Gaussians ---


def mean_and_variance(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """A Gaussian of two free numbers. **Shape:** ``(n, 2)`` -> ``(n,)``, ``(n,)``."""
    return outputs[:, 0], softplus(outputs[:, 1]) + VARIANCE_FLOOR


def gaussian_loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Mean negative log-likelihood of targets. **Shape:** ``(n, 2)``, ``(n,)`` -> scalar.

    >>> unit = torch.tensor([[0.0, math.log(math.e - 1)]])  # mean 0, variance 1
    >>> round(gaussian_loss(unit, torch.tensor([0.0])).item(), 4)
    0.9189
    """
    mean, variance = mean_and_variance(outputs)
    return (0.5 * (variance.log() + (y - mean).square() / variance)).mean() + HALF_LOG_TAU


@dataclass(frozen=True)
class GaussianEnsemble:
    """Fitted members whose Gaussians are mixed in equal shares."""

    inputs: TabularInputs
    members: tuple[TableNetwork, ...]
    scale: StandardTarget
    n_samples: int
    n_threads: int

    def predict(self, x: pd.DataFrame) -> Prediction:
        """The mixture of each row: as many quantiles of every member as its share of the samples."""
        rows, count, parts = self.inputs.transform(x), len(self.members), []
        with limit_threads(self.n_threads):
            for place, member in enumerate(self.members):
                mean, variance = mean_and_variance(member.outputs(*rows))
                levels = torch.from_numpy(quantile_levels((self.n_samples + count - 1 - place) // count))
                normal = torch.special.ndtri(levels)
                parts.append(mean[:, None] + variance.sqrt()[:, None] * normal)
        return Prediction(self.scale.restore(torch.cat(parts, dim=1).numpy()))


def fit_deep_ensemble(problem: Problem, *, n_members: int = 5, **settings: object) -> GaussianEnsemble:
    """Train members that differ in their random start alone, each with a mean and a variance by likelihood.

    With ``encoder="auto"`` the first member tries each encoder, and the others take the better one.
    """
    chosen = NetworkSettings(**settings)  # type: ignore[arg-type]
    scale, inputs = StandardTarget.of(problem), TabularInputs().fit(problem.x)
    train, valid = _standard_rows(problem, inputs, scale)
    members = []
    for place in range(n_members):
        with reproducible(problem.seed * 1000 + place, problem.n_threads):
            members.append(
                train_table_network(inputs, lambda width: nn.Linear(width, 2), gaussian_loss, train, valid, chosen)
            )
        chosen = replace(chosen, encoder=members[0].encoder_name)
    return GaussianEnsemble(inputs, tuple(members), scale, problem.n_samples, problem.n_threads)


def _standard_rows(problem: Problem, inputs: TabularInputs, scale: StandardTarget) -> tuple[Batch, Batch]:
    train = (*inputs.transform(problem.x), scale.to_tensor(problem.y))
    return train, (*inputs.transform(problem.x_valid), scale.to_tensor(problem.y_valid))


# --- a mixture density network ---


def mixture(outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-shares, means and scales of the components. **Shape:** ``(n, 3 k)`` -> three of ``(n, k)``."""
    logits, means, raw = outputs.chunk(3, dim=1)
    return logits.log_softmax(dim=1), means, softplus(raw) + SCALE_FLOOR


def mixture_loss(outputs: Tensor, y: Tensor) -> Tensor:
    """Mean negative log-likelihood of targets. **Shape:** ``(n, 3 k)``, ``(n,)`` -> scalar."""
    log_shares, means, scales = mixture(outputs)
    log_densities = -0.5 * ((y[:, None] - means) / scales).square() - scales.log() - HALF_LOG_TAU
    return -torch.logsumexp(log_shares + log_densities, dim=1).mean()


def mixture_quantiles(shares: Tensor, means: Tensor, scales: Tensor, levels: Tensor) -> Tensor:
    """Quantiles of mixtures of Gaussians by bisection. **Shape:** three of ``(n, k)``, ``(q,)`` -> ``(n, q)``.

    >>> half, none = torch.full((1, 2), 0.5), torch.zeros(1, 2)
    >>> mixture_quantiles(half, torch.tensor([[-3.0, 3.0]]), none + 0.1, torch.tensor([0.25, 0.75])).round(decimals=3)
    tensor([[-3.,  3.]])
    """
    size = max(1, BLOCK_VALUES // len(levels))
    places = (slice(first, first + size) for first in range(0, len(means), size))
    return torch.cat([_bisect(shares[rows], means[rows], scales[rows], levels) for rows in places])


def _bisect(shares: Tensor, means: Tensor, scales: Tensor, levels: Tensor) -> Tensor:
    # A mixture's quantile lies between the smallest and the largest of its components' quantiles at the same level.
    normal = torch.special.ndtri(levels.double()).to(means.dtype)
    ends = means[:, :, None] + scales[:, :, None] * normal
    low, high = ends.amin(dim=1), ends.amax(dim=1)
    slopes = 1 / (scales * math.sqrt(2))
    # With the error function, P(Y <= y) = 1/2 + 1/2 sum of shares * erf(...): one comparison with 2 * level - 1.
    wanted, part, middle, total = 2 * levels.to(means.dtype) - 1, low.clone(), low.clone(), low.clone()
    for _ in range(BISECTIONS):
        torch.add(low, high, out=middle).mul_(0.5)
        total.zero_()
        for place in range(means.shape[1]):
            torch.sub(middle, means[:, place, None], out=part).mul_(slopes[:, place, None]).erf_()
            total.addcmul_(part, shares[:, place, None])
        below = total < wanted
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return torch.add(low, high).mul_(0.5)


@dataclass(frozen=True)
class MixtureDensity:
    """A fitted mixture density network."""

    inputs: TabularInputs
    network: TableNetwork
    scale: StandardTarget
    n_samples: int
    n_threads: int

    def predict(self, x: pd.DataFrame) -> Prediction:
        """Quantiles of each row's mixture."""
        with limit_threads(self.n_threads):
            log_shares, means, scales = mixture(self.network.outputs(*self.inputs.transform(x)))
            levels = torch.from_numpy(quantile_levels(self.n_samples).astype(np.float32))
            quantiles = mixture_quantiles(log_shares.exp(), means, scales, levels)
        return Prediction(self.scale.restore(quantiles.numpy()))


def fit_mdn(problem: Problem, *, n_components: int = 5, **settings: object) -> MixtureDensity:
    """Train a network whose outputs are the shares, means and scales of ``n_components`` Gaussians, by likelihood."""
    chosen = NetworkSettings(**settings)  # type: ignore[arg-type]
    scale, inputs = StandardTarget.of(problem), TabularInputs().fit(problem.x)
    train, valid = _standard_rows(problem, inputs, scale)

    def make_head(width: int) -> nn.Module:
        # The components start spread over the targets: from one and the same place they would hardly part.
        head = nn.Linear(width, 3 * n_components)
        start: Values = np.quantile(train[-1].numpy(), quantile_levels(n_components))
        with torch.no_grad():
            head.bias[:n_components] = 0
            head.bias[n_components : 2 * n_components] = torch.from_numpy(start)
        return head

    with reproducible(problem.seed, problem.n_threads):
        network = train_table_network(inputs, make_head, mixture_loss, train, valid, chosen)
    return MixtureDensity(inputs, network, scale, problem.n_samples, problem.n_threads)


DENSITIES: tuple[Peer, ...] = (
    Peer(
        "deep-ensemble",
        "Five networks on our encoder, each with a Gaussian by likelihood; the answer is their mixture",
        ("value",),
        fit_deep_ensemble,
    ),
    Peer(
        "mdn",
        "Mixture density network on our encoder: five Gaussians by likelihood",
        ("value",),
        fit_mdn,
    ),
)
"""Networks that answer with a density."""
