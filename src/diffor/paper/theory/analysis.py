"""What the paper proves about one estimate, measured: noise errors as value errors, value errors as wrong grades.

The other measurements of its theory stand beside this file: :mod:`~diffor.paper.theory.fusion` (several times),
:mod:`~diffor.paper.theory.representation` (subspaces), :mod:`~diffor.paper.theory.interference` (gradients),
:mod:`~diffor.paper.theory.contraction` (the chain) and :mod:`~diffor.paper.theory.scale_information` (the increments).
The ``numbers`` of every result are plain values, ready for JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from diffor.errors import UserError
from diffor.methods.diffor.increments import split_increments, stretch
from diffor.methods.diffor.paper import IncrementDiffusion

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Corrupted:
    """Rows with known targets, corrupted at one time, and what the denoiser made of them, in double precision.

    **Shape:** clean, noise, noisy and output ``(n, S)``.
    """

    t: int
    clean: Tensor
    noise: Tensor
    noisy: Tensor
    output: Tensor

    def denoised(self, method: IncrementDiffusion) -> Tensor:
        """The denoiser's estimate of the clean vectors. **Shape:** -> ``(n, S)``."""
        return method.process.denoised(self.output, self.noisy, torch.tensor(self.t, device=self.noisy.device))

    def predicted_noise(self, method: IncrementDiffusion) -> Tensor:
        """The denoiser's estimate of the noise. **Shape:** -> ``(n, S)``."""
        return method.process.predicted_noise(self.output, self.noisy, torch.tensor(self.t, device=self.noisy.device))


@torch.no_grad()
def corrupt_rows(
    method: IncrementDiffusion, features: Tensor, y: Tensor, times: Sequence[int], seed: int = 0
) -> Iterator[Corrupted]:
    """Corrupt the true increments of rows at each time, all with the same noise, and run the denoiser on them.

    This is the estimate of the paper's theorems: it starts from the truth, which a prediction does not have.

    **Shape:** features ``(n, d)``, y ``(n,)``.
    """
    clean = stretch(split_increments(y, method.n_increments))
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(clean.shape, generator=generator).to(clean)
    for time in times:
        t = torch.tensor(time, device=y.device)
        noisy = method.process.corrupt(clean.double(), noise.double(), t)
        output = method.denoiser(noisy.float(), features, t).double()
        yield Corrupted(time, clean.double(), noise.double(), noisy, output)


@dataclass(frozen=True)
class NoiseIdentity:
    """Both sides of ``E |estimate - clean|^2 = (spread / signal)^2 E |noise estimate - noise|^2``, at several times.

    **Shape:** all arrays ``(M,)``, one entry per time; errors are means over rows and increments.
    """

    times: tuple[int, ...]
    amplification: Array
    """``(spread / signal)^2``: how much an error of the noise counts in the estimate."""
    noise_mse: Array
    clean_mse: Array
    left_out: tuple[int, ...]
    """Times without any signal, where the factor does not exist."""

    @property
    def deviations(self) -> Array:
        """Difference of the two sides, as a share of the left one. **Shape:** ``(M,)``."""
        difference = np.abs(self.amplification * self.noise_mse - self.clean_mse)
        return np.asarray(difference / np.maximum(self.clean_mse, np.finfo(np.float64).tiny))

    @property
    def max_deviation(self) -> float:
        """The largest deviation over the times."""
        return float(self.deviations.max())

    @property
    def numbers(self) -> dict[str, Any]:
        """The measurement as plain values."""
        return {
            "times": list(self.times), "amplification": self.amplification.tolist(),
            "noise_mse": self.noise_mse.tolist(), "clean_mse": self.clean_mse.tolist(),
            "max_deviation": self.max_deviation, "left_out": list(self.left_out),
        }  # fmt: skip


def noise_identity(
    method: IncrementDiffusion, features: Tensor, y: Tensor, times: Sequence[int] | None = None, seed: int = 0
) -> NoiseIdentity:
    """Measure both sides of the paper's identity between noise error and estimate error, at times of the chain.

    The paper's proof asks for an unbiased predictor. None is needed: the two errors are proportional draw by draw, for
    every predictor and for flow matching as well, so this checks the code and not the model. Each side is read off
    the denoiser's output by its own formula.

    **Shape:** features ``(n, d)``, y ``(n,)`` in [0, 1].
    """
    asked = method.chain_times if times is None else tuple(times)
    signals, spreads = method.process.signals.cpu().double(), method.process.spreads.cpu().double()
    known = [t for t in asked if signals[t] > 0]
    if not known:
        raise UserError(f"times must hold one with some signal, but got times={list(asked)}; ask for smaller ones")
    noise_mse, clean_mse = [], []
    for rows in corrupt_rows(method, features, y, known, seed):
        noise_mse.append(float((rows.predicted_noise(method) - rows.noise).square().mean()))
        clean_mse.append(float((rows.denoised(method) - rows.clean).square().mean()))
    return NoiseIdentity(
        times=tuple(known),
        amplification=(spreads[known] / signals[known]).square().numpy(),
        noise_mse=np.array(noise_mse),
        clean_mse=np.array(clean_mse),
        left_out=tuple(t for t in asked if t not in known),
    )


@dataclass(frozen=True)
class OrdinalBound:
    """The measured share of wrong grades beside the paper's bound on it, ``4 / gamma^2`` times the squared error."""

    n_grades: int
    gamma: float
    """Twice the smallest distance between a true position and a threshold at which its grade would change."""
    mse: float
    error_rate: float

    @property
    def bound(self) -> float:
        """The most that the share of wrong grades can be; infinite where a true position lies on a threshold."""
        return 4 * self.mse / self.gamma**2 if self.gamma > 0 else float("inf")


def ordinal_bound(estimates: ArrayLike, positions: ArrayLike, thresholds: ArrayLike) -> OrdinalBound:
    """Measure how often estimates lie in another grade than the true positions, and the paper's bound on it.

    The theorem wants every true position at least ``gamma / 2`` away from the thresholds of its interval and takes the
    narrowest interval for gamma; both fit together only for even grades with positions in their middles. For targets
    that may lie anywhere the assumption fails, so they are put into the middle of their grade first
    (:func:`even_grades`).

    NOTE[DIFF]: gamma is here the largest number with which the proof works, twice the smallest such distance. The ends
    0 and 1 do not count, since no estimate can cross them. For even grades it is the paper's gamma.

    **Shape:** estimates and positions ``(n,)`` in [0, 1], thresholds ``(K - 1,)`` rising, inside (0, 1).

    >>> ordinal_bound([0.25, 0.6], [0.25, 0.25], [0.5]).error_rate
    0.5
    """
    estimated, true = np.asarray(estimates, dtype=np.float64), np.asarray(positions, dtype=np.float64)
    borders = np.asarray(thresholds, dtype=np.float64)
    if estimated.shape != true.shape or true.ndim != 1 or not len(true):
        raise UserError(
            f"estimates and positions must be equally many, at least one, but shapes {estimated.shape} and {true.shape}"
        )
    if not len(borders) or not (np.diff(np.r_[0.0, borders, 1.0]) > 0).all():
        raise UserError(f"thresholds must rise strictly inside (0, 1), but got {borders.tolist()}")
    wrong = np.digitize(estimated, borders) != np.digitize(true, borders)
    distance = float(np.abs(true[:, None] - borders).min())
    return OrdinalBound(len(borders) + 1, 2 * distance, float(((estimated - true) ** 2).mean()), float(wrong.mean()))


def even_grades(y: ArrayLike, count: int) -> tuple[Array, Array]:
    """Cut [0, 1] into even grades and put each target into the middle of its own; also gives the thresholds.

    **Shape:** y ``(n,)`` -> positions ``(n,)``, thresholds ``(count - 1,)``.

    >>> positions, thresholds = even_grades([0.1, 0.9, 1.0], 2)
    >>> positions.tolist(), thresholds.tolist()
    ([0.25, 0.75, 0.75], [0.5])
    """
    if count < 2:
        raise UserError(f"count must be at least 2, but got count={count}")
    thresholds = np.arange(1, count) / count
    return (np.digitize(np.asarray(y, dtype=np.float64), thresholds) + 0.5) / count, thresholds


@dataclass(frozen=True)
class OrdinalBounds:
    """Bounds beside measured error rates for several cases: numbers of grades, or times of the chain."""

    cases: tuple[int, ...]
    bounds: tuple[OrdinalBound, ...]
    case_name: str

    @property
    def numbers(self) -> dict[str, Any]:
        """The measurement as plain values."""
        rows = [
            {self.case_name: case, "n_grades": one.n_grades, "gamma": one.gamma, "mse": one.mse,
             "error_rate": one.error_rate, "bound": one.bound}
            for case, one in zip(self.cases, self.bounds, strict=True)
        ]  # fmt: skip
        return {"by": self.case_name, "cases": rows}


def bounds_by_count(estimates: ArrayLike, y: ArrayLike, counts: Sequence[int]) -> OrdinalBounds:
    """The bound for estimates of values, cut into several numbers of even grades. **Shape:** ``(n,)``, ``(n,)``."""
    bounds = tuple(ordinal_bound(estimates, *even_grades(y, count)) for count in counts)
    return OrdinalBounds(tuple(counts), bounds, "number of grades")


def bounds_by_time(values: ArrayLike, y: ArrayLike, times: Sequence[int], n_grades: int) -> OrdinalBounds:
    """The bound at each time of the chain, for grades that stand evenly on [0, 1] with the outer ones on its ends.

    **Shape:** values ``(n, M)``, y ``(n,)``, times ``(M,)``.
    """
    thresholds = (np.arange(1, n_grades) - 0.5) / (n_grades - 1)
    along = np.asarray(values, dtype=np.float64).T
    return OrdinalBounds(tuple(times), tuple(ordinal_bound(part, y, thresholds) for part in along), "time")
