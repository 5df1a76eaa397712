"""The three models that the paper's convergence and inclusion theorems compare, small enough to know them exactly.

Its appendix speaks of a noise predictor with a head of its own at each time (MH-MT), of one head for all times (SH-MT)
and of one head that is trained at one time only (SH-1T), all on a fixed encoder. With linear heads each of them is a
least-squares problem: smoothness, the Polyak-Lojasiewicz (PL) constant, minimum and minimiser have closed forms, so
the theorems become checks that can fail (:mod:`~diffor.paper.theory.convergence`, :mod:`~diffor.paper.theory.tiers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike

from diffor.errors import UserError
from diffor.methods.diffor.process import NoiseProcess
from diffor.paper.theory.analysis import Array

TOLERANCE = 1e-10
"""Curvatures below this share of the largest count as zero: there the loss is flat, and the PL constant skips it."""


@dataclass(frozen=True)
class LeastSquares:
    """``F(theta) = sum_i weight_i (target_i - inputs_i theta)^2``, which is smooth and PL with known constants.

    **Shape:** inputs ``(n, D)``, targets and weights ``(n,)``; parameters are ``(D,)``.

    >>> problem = LeastSquares(np.array([[1.0], [2.0]]), np.array([1.0, 2.0]), np.array([0.5, 0.5]))
    >>> problem.smoothness, problem.pl_constant, round(problem.minimum, 9)
    (5.0, 5.0, 0.0)
    """

    inputs: Array
    targets: Array
    weights: Array

    def value(self, theta: Array) -> float:
        """The loss at some parameters. **Shape:** ``(D,)``."""
        return float(self.weights @ (self.targets - self.inputs @ theta) ** 2)

    def gradient(self, theta: Array) -> Array:
        """Its gradient. **Shape:** ``(D,)`` -> ``(D,)``."""
        return np.asarray(-2 * self.inputs.T @ (self.weights * (self.targets - self.inputs @ theta)))

    @property
    def curvatures(self) -> Array:
        """Eigenvalues of the Hessian, the smallest first. **Shape:** ``(D,)``."""
        hessian = 2 * self.inputs.T @ (self.weights[:, None] * self.inputs)
        return np.asarray(np.linalg.eigvalsh(hessian))

    @property
    def smoothness(self) -> float:
        """The smallest L with ``|gradient(a) - gradient(b)| <= L |a - b|``: the largest curvature."""
        return float(self.curvatures[-1])

    @property
    def pl_constant(self) -> float:
        """The largest mu with ``|gradient|^2 / 2 >= mu (F - minimum)``: the smallest curvature above zero."""
        curvatures = self.curvatures
        return float(curvatures[curvatures > TOLERANCE * curvatures[-1]].min())

    @property
    def minimiser(self) -> Array:
        """Parameters of the smallest loss, the shortest of them. **Shape:** ``(D,)``."""
        root = np.sqrt(self.weights)
        return np.asarray(np.linalg.lstsq(self.inputs * root[:, None], self.targets * root, rcond=TOLERANCE)[0])

    @property
    def minimum(self) -> float:
        """The smallest loss."""
        return self.value(self.minimiser)


@dataclass(frozen=True)
class TimeTasks:
    """Noise prediction at several times by heads that are linear in their parameters, on a fixed encoder.

    **Shape:** times, weights, signals and spreads ``(M,)``, clean ``(n,)``, noise ``(M, n)``, inputs ``(M, n, D)``.
    """

    times: tuple[int, ...]
    weights: Array
    """What each time's loss counts: the paper's lambda_m."""
    signals: Array
    spreads: Array
    clean: Array
    noise: Array
    inputs: Array

    @property
    def amplification(self) -> Array:
        """``(1 - abar) / abar``: how much an error of the noise counts in the estimate. **Shape:** ``(M,)``."""
        return (self.spreads / self.signals) ** 2

    def task(self, m: int) -> LeastSquares:
        """The loss at the m-th time alone, f_m, which is also all that the model of one time (SH-1T) trains on."""
        n = len(self.clean)
        return LeastSquares(self.inputs[m], self.noise[m], np.full(n, 1 / n))

    @property
    def tasks(self) -> list[LeastSquares]:
        """The losses of all times, f_1 to f_M."""
        return [self.task(m) for m in range(len(self.times))]

    @property
    def shared(self) -> LeastSquares:
        """One head for all times (SH-MT): ``sum_m lambda_m f_m(theta)``."""
        _, n, width = self.inputs.shape
        return LeastSquares(self.inputs.reshape(-1, width), self.noise.ravel(), np.repeat(self.weights / n, n))

    @property
    def separate(self) -> LeastSquares:
        """A head for each time (MH-MT): ``sum_m lambda_m f_m(theta_m)``; head m has the m-th block of parameters."""
        count, n, width = self.inputs.shape
        blocks = np.zeros((count, n, count, width))
        blocks[np.arange(count), :, np.arange(count)] = self.inputs
        return LeastSquares(blocks.reshape(count * n, -1), self.noise.ravel(), np.repeat(self.weights / n, n))

    def risk_of_separate_heads(self, m: int) -> LeastSquares:
        """The loss at the m-th time alone as a function of all parameters of :attr:`separate`."""
        every, n = self.separate, len(self.clean)
        counted = np.zeros(len(every.weights))
        counted[m * n : (m + 1) * n] = 1 / n
        return LeastSquares(every.inputs, every.targets, counted)

    def heads(self, theta: Array) -> Array:
        """Parameters of each head out of those of :attr:`separate`. **Shape:** ``(M * D,)`` -> ``(M, D)``."""
        return theta.reshape(len(self.times), -1)

    def estimates(self, heads: Array) -> Array:
        """Estimates of the clean target at each time, off the predicted noise. **Shape:** ``(M, D)`` -> ``(n, M)``.

        One head for all times is its parameters M times.
        """
        predicted = np.einsum("mnd,md->nm", self.inputs, heads)
        noisy = self.signals * self.clean[:, None] + self.spreads * self.noise.T
        return np.asarray((noisy - self.spreads * predicted) / self.signals)


def time_tasks(
    features: ArrayLike,
    clean: ArrayLike,
    process: NoiseProcess,
    times: Sequence[int],
    weights: Sequence[float] | None = None,
    seed: int = 0,
) -> TimeTasks:
    """Corrupt targets at several times, each with noise of its own, for linear heads to predict that noise.

    A head reads all products of (1, features) with (1, corrupted target), so that a feature can say where the target
    lies and how far to trust what is left of it. With one noise for all times, two estimates of a row would give its
    target away.

    ``features`` are what a fixed encoder says of each row, ``clean`` the targets in [0, 1]; ``process`` gives signal
    and spread at ``times``; ``weights`` are the paper's lambda_m, all 1 if None; ``seed`` draws the noise.

    **Shape:** features ``(n, d)``, clean ``(n,)``; the heads read ``D = 2 (d + 1)`` inputs.

    >>> from diffor.methods.diffor.process import Diffusion
    >>> tasks = time_tasks(np.eye(4), [0.0, 0.2, 0.7, 1.0], Diffusion(100), times=(90, 50, 10))
    >>> tasks.inputs.shape, tasks.shared.inputs.shape, tasks.separate.inputs.shape
    ((3, 4, 10), (12, 10), (12, 30))
    """
    table, true = np.asarray(features, dtype=np.float64), np.asarray(clean, dtype=np.float64)
    if table.ndim != 2 or true.shape != (len(table),) or len(true) < 2:
        raise UserError(
            "features must have one row for each of at least 2 targets, but got "
            f"features.shape={table.shape}, clean.shape={true.shape}"
        )
    signals, spreads = (part.double().numpy()[list(times)] for part in (process.signals.cpu(), process.spreads.cpu()))
    if not len(signals) or not ((signals > 0) & (spreads > 0)).all():
        raise UserError(f"times must have some signal and some noise, but got times={list(times)}; leave out 0 and T")
    counted = np.ones(len(signals)) if weights is None else np.asarray(weights, dtype=np.float64)
    if counted.shape != signals.shape or not (counted > 0).all():
        raise UserError(f"weights must be one number above 0 for each time, but got weights={counted.tolist()}")
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(signals), len(true), generator=generator, dtype=torch.float64).numpy()
    noisy = signals[:, None] * true + spreads[:, None] * noise  # (M, n)
    fixed = np.column_stack([np.ones(len(true)), table])  # (n, d + 1)
    inputs = np.concatenate([np.broadcast_to(fixed, (len(signals), *fixed.shape)), fixed * noisy[:, :, None]], axis=2)
    return TimeTasks(tuple(times), counted, signals, spreads, true, noise, inputs)
