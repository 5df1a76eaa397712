"""The kernel of Gaussian processes over columns, and the likelihood that its settings are learned by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from diffor.priors.contract import check_tensor

MIN_NOISE = 1e-5
FAR = 300.0
"""Logarithms beyond this, up or down, are of no kernel that rows were answered with."""
LENGTH_PENALTY = 0.1
"""How strongly the logarithm of each length is drawn to that of the square root of the number of columns."""
SUM_PENALTY, FIRST_SUMS = 8.0, 0.05
"""How strongly sums of columns are drawn to nothing, and how large they are at first."""
N_STEPS, N_TRIAL_STEPS, N_LAST_STEPS, RATE = 35, 5, 15, 0.2
SUM_STEPS = ((20, 0.1), (10, 0.03))
"""Numbers of steps, and their rates, in which sums of columns are learned."""
NEAR = math.log(6)
"""By how much lengths are shorter at first where rows are to be alike only when near."""
N_FEW_ROWS = 300
"""Rows that all but the last steps look at: a step takes n^3 operations."""
SMOOTH, ROUGH = True, False


class Kernel(NamedTuple):
    """Likeness of rows: nearness, with a length for each column, plus a linear term; targets have noise besides.

    Sums of columns may count as further columns: where a law follows a direction that no column has, rows that are far
    apart in columns may be near along it.
    """

    log_lengths: Tensor
    """**Shape:** ``(p,)``."""
    log_scales: Tensor
    """Variance of the near part, of the linear part, and of the noise. **Shape:** ``(3,)``."""
    is_smooth: Tensor
    """Whether nearness falls as a normal density; otherwise as Matern's function of order 5/2. **Shape:** ``()``."""
    sums: Tensor
    """Weights of each column in each sum. **Shape:** ``(p, r)``, r may be 0."""

    @property
    def noise(self) -> Tensor:
        """Variance of the noise. **Shape:** ``()``."""
        return self.log_scales[2].exp() + MIN_NOISE

    def check(self, name: str, n_columns: int) -> None:
        """Refuse settings that are none of a kernel of so many columns."""
        check_tensor(f"{name}.log_lengths", self.log_lengths, torch.float64, (n_columns,), -FAR, FAR)
        check_tensor(f"{name}.log_scales", self.log_scales, torch.float64, (3,), -FAR, FAR)
        check_tensor(f"{name}.is_smooth", self.is_smooth, torch.bool, ())
        check_tensor(f"{name}.sums", self.sums, torch.float64, (n_columns, None))

    def scaled(self, rows: Tensor) -> Tensor:
        """Columns by their lengths, and the sums beside them. **Shape:** ``(n, p)`` -> ``(n, p + r)``."""
        return torch.cat([rows * (-self.log_lengths).exp(), rows @ self.sums], dim=1)

    def between(self, first: Tensor, second: Tensor) -> Tensor:
        """Likeness of each row to each other. **Shape:** ``(n, p)``, ``(m, p)`` -> ``(n, m)``."""
        near, linear, _ = self.log_scales.exp().tolist()
        distances = squared_distances(self.scaled(first), self.scaled(second))
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


def start_kernel(n_columns: int, is_smooth: bool) -> Kernel:
    """Settings to begin with: long lengths, some noise."""
    length = math.log(math.sqrt(max(n_columns, 1))) + 0.3
    scales = torch.tensor([0.0, -1.0, -1.0], dtype=torch.float64)
    sums = torch.zeros(n_columns, 0, dtype=torch.float64)
    return Kernel(torch.full((n_columns,), length, dtype=torch.float64), scales, torch.tensor(is_smooth), sums)


class Likelihood:
    """Minus the penalised logarithm of the marginal likelihood of kernels, up to a constant, and its gradient.

    A row of weight w has 1 / w of the noise. What all kernels share is made once, and large arrays are used again: to
    ask the system for new ones would take as long as the arithmetic.

    **Shape:** rows ``(n, p)``, target and weights ``(n,)``, in double precision.
    """

    def __init__(self, rows: Tensor, target: Tensor, weights: Tensor) -> None:
        self.rows, self.target, self.weights = rows, target, weights
        self.straight = rows @ rows.T / max(rows.shape[1], 1)
        self.close, self.slope, self.covariance, self.spare = (torch.empty_like(self.straight) for _ in range(4))

    def __call__(self, kernel: Kernel) -> tuple[float, Tensor]:
        """Value and gradient by :func:`as_vector`. **Shape:** -> ``()``, ``(p + 3 + p r,)``."""
        n_columns = self.rows.shape[1]
        near, linear, noise = kernel.log_scales.exp().tolist()
        scaled = kernel.scaled(self.rows)
        self._compare(scaled, bool(kernel.is_smooth))
        torch.mul(self.close, near, out=self.covariance).add_(self.straight, alpha=linear)
        self.covariance.diagonal().add_((noise + MIN_NOISE) / self.weights)
        factor = torch.linalg.cholesky(self.covariance, out=self.spare)
        half_log = factor.diagonal().log().sum()
        inverse = torch.cholesky_inverse(factor, out=self.covariance)
        along = inverse @ self.target
        apart = kernel.log_lengths - math.log(math.sqrt(max(n_columns, 1)))
        loss = self.target @ along / 2 + half_log + LENGTH_PENALTY / 2 * apart.square().sum()
        loss += SUM_PENALTY / 2 * kernel.sums.square().sum()
        by_covariance = inverse.addr_(along, along, alpha=-1)  # twice the derivative
        flat = by_covariance.view(-1)
        by_near, by_linear = (
            near * torch.dot(flat, self.close.view(-1)),
            linear * torch.dot(flat, self.straight.view(-1)),
        )
        by_noise = noise * (by_covariance.diagonal() / self.weights).sum()
        pull = self.slope.mul_(by_covariance)
        by_scaled = 2 * near * (pull.sum(dim=1, keepdim=True) * scaled - pull @ scaled)
        by_lengths = LENGTH_PENALTY * apart - (scaled * by_scaled)[:, :n_columns].sum(dim=0)
        by_sums = self.rows.T @ by_scaled[:, n_columns:] + SUM_PENALTY * kernel.sums
        return float(loss), torch.cat([by_lengths, torch.stack([by_near, by_linear, by_noise]) / 2, by_sums.flatten()])

    def _compare(self, scaled: Tensor, is_smooth: bool) -> None:
        """Fill in nearness, and its derivative by the squared distance. **Shape:** ``(n, p + r)``."""
        squares = scaled.square().sum(dim=1)
        distances = (
            torch.mm(scaled, scaled.T, out=self.spare).mul_(-2).add_(squares[:, None]).add_(squares).clamp_(min=0)
        )
        if is_smooth:
            torch.exp(distances.mul_(-0.5), out=self.close)
            torch.mul(self.close, -0.5, out=self.slope)
            return
        root = distances.mul_(5).sqrt_()
        falling = torch.neg(root, out=self.covariance).exp_()
        torch.mul(root, 1 / 3, out=self.close).add_(1).mul_(root).add_(1).mul_(falling)
        torch.add(root, 1, out=self.slope).mul_(falling).mul_(-5 / 6)


def as_vector(kernel: Kernel) -> Tensor:
    """All that is learned of a kernel. **Shape:** ``(p + 3 + p r,)``."""
    return torch.cat([kernel.log_lengths, kernel.log_scales, kernel.sums.flatten()])


def from_vector(kernel: Kernel, settings: Tensor) -> Kernel:
    """The same kernel with other settings. **Shape:** as of :func:`as_vector`."""
    n_columns, own = len(kernel.log_lengths), settings.clone()
    sums = own[n_columns + 3 :].view(kernel.sums.shape)
    return kernel._replace(log_lengths=own[:n_columns], log_scales=own[n_columns : n_columns + 3], sums=sums)


def inverse_factor(factor: Tensor) -> Tensor:
    """The inverse of a lower triangle. **Shape:** ``(n, n)`` float64, kept."""
    from scipy.linalg.lapack import dtrtri

    inverse, failed = dtrtri(factor.contiguous().numpy().T, lower=0)  # transposed, it is what Fortran expects
    if failed:
        raise FloatingPointError("the covariance of a process must have an inverse: look for extreme values in X")
    return torch.from_numpy(inverse.T)


class Descent:
    """Adam's steps of a kernel towards the best likelihood; the best kernel met on the way is kept."""

    def __init__(self, kernel: Kernel, rows: Tensor, target: Tensor, weights: Tensor) -> None:
        self.kernel, self.likelihood = kernel, Likelihood(rows, target, weights)
        self.settings = as_vector(kernel)
        self.mean, self.square = torch.zeros_like(self.settings), torch.zeros_like(self.settings)
        self.best, self.best_kernel, self.step = math.inf, kernel, 0

    def on(self, rows: Tensor, target: Tensor, weights: Tensor) -> Descent:
        """Go on from here on other rows, whose likelihoods are not to be compared with those before."""
        self.likelihood, self.best = Likelihood(rows, target, weights), math.inf
        return self

    def run(self, n_steps: int, rate: float = RATE) -> Descent:
        """Take some steps; a step into settings that cannot be solved ends them."""
        for _ in range(n_steps):
            kernel = from_vector(self.kernel, self.settings)
            try:
                loss, gradient = self.likelihood(kernel)
            except RuntimeError:  # torch's LinAlgError is one
                break
            if not (math.isfinite(loss) and bool(torch.isfinite(gradient).all())):
                break
            if loss < self.best:
                self.best, self.best_kernel = loss, kernel
            self.step += 1
            self.mean = 0.9 * self.mean + 0.1 * gradient
            self.square = 0.999 * self.square + 0.001 * gradient.square()
            size = (self.square / (1 - 0.999**self.step)).sqrt() + 1e-8
            self.settings = self.settings - rate * self.mean / (1 - 0.9**self.step) / size
        return self


class Start(NamedTuple):
    """Where learning a kernel begins: its kind, and lengths that let rows be alike from afar, or only when near.

    Few rows are hardly ever near each other, so the latter is tried on many only.
    """

    is_smooth: bool
    is_near: bool = False


STARTS = Start(ROUGH), Start(SMOOTH), Start(ROUGH, is_near=True)


def learn_kernel(
    rows: Tensor, target: Tensor, weights: Tensor, starts: Sequence[Start] = STARTS
) -> tuple[Kernel, Start]:
    """The kernel under which the targets are likeliest, and the start that led to it.

    Rows come in an order of no meaning: of many, the first ones are looked at until the last steps. Only all rows tell
    rough laws from smooth ones, and whether the nearest are worth most: among few, those are too far apart.

    **Shape:** rows ``(n, p)``, target and weights ``(n,)``, in double precision.
    """
    data, few = (rows, target, weights), (rows[:N_FEW_ROWS], target[:N_FEW_ROWS], weights[:N_FEW_ROWS])
    is_many, n_trial = len(rows) > N_FEW_ROWS, N_TRIAL_STEPS if len(starts) > 1 else 0
    if not is_many and len(starts) > 1:
        starts = [start for start in starts if not start.is_near]
    tries = []
    for start in starts:
        kernel = start_kernel(rows.shape[1], start.is_smooth)
        if start.is_near:
            kernel = kernel._replace(log_lengths=kernel.log_lengths - NEAR)
            tries.append(Descent(kernel, *data).run(2 * N_TRIAL_STEPS if is_many else N_STEPS))
        else:
            descent = Descent(kernel, *few).run(N_STEPS)
            tries.append(descent.on(*data).run(n_trial) if is_many else descent)
    best = min(range(len(starts)), key=lambda place: tries[place].best)
    if is_many:
        tries[best].run(N_LAST_STEPS - n_trial)
    return tries[best].best_kernel, starts[best]


def learn_sums(kernel: Kernel, n_sums: int, rows: Tensor, target: Tensor, weights: Tensor) -> Kernel:
    """A kernel that goes on from another with sums of columns beside them. **Shape:** as :func:`learn_kernel`."""
    draw = torch.Generator().manual_seed(0)
    sums = FIRST_SUMS * torch.randn(rows.shape[1], n_sums, generator=draw, dtype=torch.float64)
    descent = Descent(kernel._replace(sums=sums), rows, target, weights)
    for n_steps, rate in SUM_STEPS:
        descent.run(n_steps, rate)
    return descent.best_kernel
