"""The kernel of Gaussian processes over columns, and the likelihood that its settings are learned by."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

MIN_NOISE = 1e-5
LENGTH_PENALTY = 0.1
"""How strongly the logarithm of each length is drawn to that of the square root of the number of columns."""
N_STEPS, N_TRIAL_STEPS, RATE = 45, 10, 0.2
SMOOTH, ROUGH = True, False


class Kernel(NamedTuple):
    """Likeness of rows: nearness, with a length for each column, plus a linear term; targets have noise besides."""

    log_lengths: Tensor
    """**Shape:** ``(p,)``."""
    log_scales: Tensor
    """Variance of the near part, of the linear part, and of the noise. **Shape:** ``(3,)``."""
    is_smooth: Tensor
    """Whether nearness falls as a normal density; otherwise as Matern's function of order 5/2. **Shape:** ``()``."""

    @property
    def noise(self) -> Tensor:
        """Variance of the noise. **Shape:** ``()``."""
        return self.log_scales[2].exp() + MIN_NOISE

    def between(self, first: Tensor, second: Tensor) -> Tensor:
        """Likeness of each row to each other. **Shape:** ``(n, p)``, ``(m, p)`` -> ``(n, m)``."""
        near, linear, _ = self.log_scales.exp().tolist()
        distances = squared_distances(first * (-self.log_lengths).exp(), second * (-self.log_lengths).exp())
        likeness = nearness(distances, bool(self.is_smooth)).mul_(near)
        return likeness.addmm_(first, second.T, alpha=linear / max(first.shape[1], 1))

    def with_itself(self, rows: Tensor) -> Tensor:
        """Likeness of each row to itself. **Shape:** ``(n, p)`` -> ``(n,)``."""
        near, linear, _ = self.log_scales.exp().tolist()
        return rows.square().sum(dim=1).mul_(linear / max(rows.shape[1], 1)).add_(near)


def squared_distances(first: Tensor, second: Tensor) -> Tensor:
    """Squared distance of each row to each other. **Shape:** ``(n, p)``, ``(m, p)`` -> ``(n, m)``."""
    lengths = first.square().sum(dim=1, keepdim=True) + second.square().sum(dim=1)
    return lengths.addmm_(first, second.T, alpha=-2).clamp_(min=0)


def nearness(distances: Tensor, is_smooth: bool) -> Tensor:
    """From 1 at no distance down to 0. **Shape:** squared distances ``(n, m)`` -> ``(n, m)``.

    >>> nearness(torch.tensor([[0.0]]), is_smooth=False).item()
    1.0
    """
    if is_smooth:
        return torch.exp(-0.5 * distances)
    root = distances.mul(5).sqrt_()
    return distances.mul(5 / 3).add_(root).add_(1).mul_(torch.exp(root.neg_()))


def nearness_slope(distances: Tensor, is_smooth: bool) -> Tensor:
    """The derivative of nearness by the squared distance. **Shape:** ``(n, m)`` -> ``(n, m)``."""
    if is_smooth:
        return -0.5 * torch.exp(-0.5 * distances)
    root = distances.mul(5).sqrt_()
    return (1 + root).mul_(torch.exp(-root)).mul_(-5 / 6)


def start_kernel(n_columns: int, is_smooth: bool) -> Kernel:
    """Settings to begin with: long lengths, some noise."""
    length = math.log(math.sqrt(max(n_columns, 1))) + 0.3
    scales = torch.tensor([0.0, -1.0, -1.0], dtype=torch.float64)
    return Kernel(torch.full((n_columns,), length, dtype=torch.float64), scales, torch.tensor(is_smooth))


def negative_likelihood(kernel: Kernel, rows: Tensor, target: Tensor, weights: Tensor) -> tuple[float, Tensor]:
    """Minus the penalised logarithm of the marginal likelihood, up to a constant, and its gradient.

    A row of weight w has 1 / w of the noise.

    **Shape:** rows ``(n, p)``, target and weights ``(n,)`` -> gradient by lengths and scales ``(p + 3,)``.
    """
    n_columns = rows.shape[1]
    near, linear, noise = kernel.log_scales.exp().tolist()
    scaled = rows * (-kernel.log_lengths).exp()
    distances = squared_distances(scaled, scaled)
    close = nearness(distances, bool(kernel.is_smooth))
    straight = rows @ rows.T / max(n_columns, 1)
    covariance = close * near + straight * linear
    covariance.diagonal().add_((noise + MIN_NOISE) / weights)
    factor = torch.linalg.cholesky(covariance)
    inverse = inverse_triangle(factor)
    inverse = inverse.tril() + inverse.tril(-1).T
    along = inverse @ target
    apart = kernel.log_lengths - math.log(math.sqrt(max(n_columns, 1)))
    loss = target @ along / 2 + factor.diagonal().log().sum() + LENGTH_PENALTY / 2 * apart.square().sum()
    slope = inverse.addr_(along, along, alpha=-1)  # twice the derivative by the covariance
    by_scales = torch.stack(
        [(slope * close).sum() * near, (slope * straight).sum() * linear, (slope.diagonal() / weights).sum() * noise]
    )
    pull = nearness_slope(distances, bool(kernel.is_smooth)).mul_(slope)
    moved = 2 * (pull.sum(dim=1) @ scaled.square() - (scaled * (pull @ scaled)).sum(dim=0))
    by_lengths = -near * moved + LENGTH_PENALTY * apart
    return float(loss), torch.cat([by_lengths, by_scales / 2])


def inverse_triangle(factor: Tensor) -> Tensor:
    """The lower triangle of the inverse of a matrix whose lower factor is given; above it stands anything.

    scipy's takes half the time of torch's. **Shape:** ``(n, n)`` float64 -> ``(n, n)``.
    """
    from scipy.linalg.lapack import dpotri

    inverse, failed = dpotri(factor.contiguous().numpy().T, lower=0)  # transposed, it is what Fortran expects
    if failed:
        raise FloatingPointError("the covariance of a process must have an inverse: look for extreme values in X")
    return torch.from_numpy(inverse.T)


class Descent:
    """Adam's steps of a kernel towards the best likelihood; the best kernel met on the way is kept."""

    def __init__(self, kernel: Kernel, rows: Tensor, target: Tensor, weights: Tensor) -> None:
        self.kernel, self.data = kernel, (rows, target, weights)
        self.settings = torch.cat([kernel.log_lengths, kernel.log_scales])
        self.mean, self.square = torch.zeros_like(self.settings), torch.zeros_like(self.settings)
        self.best, self.best_kernel, self.step = math.inf, kernel, 0

    def run(self, n_steps: int) -> Descent:
        """Take some steps; a step into settings that cannot be solved ends them."""
        n_columns = len(self.kernel.log_lengths)
        for _ in range(n_steps):
            kernel = self.kernel._replace(
                log_lengths=self.settings[:n_columns].clone(), log_scales=self.settings[n_columns:].clone()
            )
            try:
                loss, gradient = negative_likelihood(kernel, *self.data)
            except (RuntimeError, FloatingPointError):  # torch's LinAlgError is the former
                break
            if not (math.isfinite(loss) and bool(torch.isfinite(gradient).all())):
                break
            if loss < self.best:
                self.best, self.best_kernel = loss, kernel
            self.step += 1
            self.mean = 0.9 * self.mean + 0.1 * gradient
            self.square = 0.999 * self.square + 0.001 * gradient.square()
            size = (self.square / (1 - 0.999**self.step)).sqrt() + 1e-8
            self.settings = self.settings - RATE * self.mean / (1 - 0.9**self.step) / size
        return self


def learn_kernel(rows: Tensor, target: Tensor, weights: Tensor) -> Kernel:
    """The kernel under which the targets are likeliest; smooth or rough is decided after a few steps of both.

    **Shape:** rows ``(n, p)``, target and weights ``(n,)``, in double precision.
    """
    tries = [
        Descent(start_kernel(rows.shape[1], kind), rows, target, weights).run(N_TRIAL_STEPS) for kind in (ROUGH, SMOOTH)
    ]
    better = min(tries, key=lambda descent: descent.best)
    return better.run(N_STEPS - N_TRIAL_STEPS).best_kernel
