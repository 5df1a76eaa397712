"""What the paper proves about one estimate, measured: noise errors as value errors, value errors as wrong grades.

The other measurements of its theory stand beside this file: :mod:`~diffor.paper.theory.fusion` (several times),
:mod:`~diffor.paper.theory.representation` (subspaces), :mod:`~diffor.paper.theory.interference` (gradients),
:mod:`~diffor.paper.theory.contraction` (the chain) and :mod:`~diffor.paper.theory.scale_information` (the increments).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from diffor.errors import UserError
from diffor.methods.diffor.increments import split_increments, stretch
from diffor.methods.diffor.paper import IncrementDiffusion

Array = NDArray[np.floating]
Numbers = dict[str, Any]
"""What a measurement found, under the names that JSON, tables and figures have for it."""


class Corrupted(NamedTuple):
    """Rows with known targets, corrupted at one time, and what the denoiser made of them, in double precision.

    **Shape:** all ``(n, S)``.
    """

    clean: Tensor
    noise: Tensor
    noisy: Tensor
    denoised: Tensor
    predicted_noise: Tensor


@torch.no_grad()
def corrupt_rows(
    method: IncrementDiffusion, features: Tensor, y: Tensor, times: Sequence[int], seed: int = 0
) -> Iterator[Corrupted]:
    """Corrupt the true increments of rows at each time, all with the same noise, and run the denoiser on them.

    This is the estimate of the paper's theorems: it starts from the truth, which a prediction does not have.

    **Shape:** features ``(n, d)``, y ``(n,)``.
    """
    clean, process = stretch(split_increments(y, method.n_increments)).double(), method.process
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(clean.shape, generator=generator).to(clean)
    for time in times:
        t = torch.tensor(time, device=y.device)
        noisy = process.corrupt(clean, noise, t)
        output = method.denoiser(noisy.float(), features, t).double()
        denoised, predicted = process.denoised(output, noisy, t), process.predicted_noise(output, noisy, t)
        yield Corrupted(clean, noise, noisy, denoised, predicted)


def noise_identity(
    method: IncrementDiffusion, features: Tensor, y: Tensor, times: Sequence[int] | None = None
) -> Numbers:
    """Measure both sides of ``E |estimate - clean|^2 = (spread / signal)^2 E |noise estimate - noise|^2`` at times.

    The paper's proof asks for an unbiased predictor. None is needed: the two errors are proportional draw by draw, for
    every predictor and for flow matching as well, so this checks the code and not the model. Each side is read off
    the denoiser's output by its own formula; ``max_deviation`` is their largest difference as a share of the left one.
    Times without any signal, where the factor (``amplification``) does not exist, are ``left_out``; None means those of
    the chain.

    **Shape:** features ``(n, d)``, y ``(n,)`` in [0, 1].
    """
    asked = method.chain_times if times is None else tuple(times)
    signals, spreads = method.process.signals.cpu().double(), method.process.spreads.cpu().double()
    known = [t for t in asked if signals[t] > 0]
    if not known:
        raise UserError(f"times must hold one with some signal, but got times={list(asked)}; ask for smaller ones")
    rows = list(corrupt_rows(method, features, y, known))
    noise_mse = np.array([float((one.predicted_noise - one.noise).square().mean()) for one in rows])
    clean_mse = np.array([float((one.denoised - one.clean).square().mean()) for one in rows])
    amplification = (spreads[known] / signals[known]).square().numpy()
    return {
        "times": known,
        "amplification": amplification,
        "noise_mse": noise_mse,
        "clean_mse": clean_mse,
        "max_deviation": deviation(amplification * noise_mse, clean_mse),
        "left_out": [t for t in asked if t not in known],
    }


def deviation(found: Array, expected: Array) -> float:
    """The largest difference of two rows of numbers, as a share of the second."""
    return float((np.abs(found - expected) / np.maximum(expected, np.finfo(np.float64).tiny)).max())


def ordinal_bound(estimates: ArrayLike, positions: ArrayLike, thresholds: ArrayLike) -> Numbers:
    """Measure how often estimates lie in another grade than the true positions, and ``4 / gamma^2`` times the error.

    The theorem wants every true position at least ``gamma / 2`` away from the thresholds of its interval and takes the
    narrowest interval for gamma; both fit together only for even grades with positions in their middles. For targets
    that may lie anywhere the assumption fails, so they are put into the middle of their grade first
    (:func:`even_grades`). Where a true position lies on a threshold the bound is infinite.

    NOTE[DIFF]: gamma is here the largest number with which the proof works, twice the smallest such distance. The ends
    0 and 1 do not count, since no estimate can cross them. For even grades it is the paper's gamma.

    **Shape:** estimates and positions ``(n,)`` in [0, 1], thresholds ``(K - 1,)`` rising, inside (0, 1).
    """
    estimated, true = np.asarray(estimates, dtype=np.float64), np.asarray(positions, dtype=np.float64)
    borders = np.asarray(thresholds, dtype=np.float64)
    if estimated.shape != true.shape or true.ndim != 1 or not len(true):
        raise UserError(
            f"estimates and positions must be equally many, at least one, but shapes {estimated.shape} and {true.shape}"
        )
    if not len(borders) or not (np.diff(np.r_[0.0, borders, 1.0]) > 0).all():
        raise UserError(f"thresholds must rise strictly inside (0, 1), but got {borders.tolist()}")
    gamma, mse = 2 * float(np.abs(true[:, None] - borders).min()), float(((estimated - true) ** 2).mean())
    return {
        "n_grades": len(borders) + 1,
        "gamma": gamma,
        "mse": mse,
        "error_rate": float((np.digitize(estimated, borders) != np.digitize(true, borders)).mean()),
        "bound": 4 * mse / gamma**2 if gamma > 0 else float("inf"),
    }


def even_grades(y: ArrayLike, count: int) -> tuple[Array, Array]:
    """Cut [0, 1] into even grades and put each target into the middle of its own; also gives the thresholds.

    **Shape:** y ``(n,)`` -> positions ``(n,)``, thresholds ``(count - 1,)``.
    """
    if count < 2:
        raise UserError(f"count must be at least 2, but got count={count}")
    thresholds = np.arange(1, count) / count
    return (np.digitize(np.asarray(y, dtype=np.float64), thresholds) + 0.5) / count, thresholds


def bounds_by_count(estimates: ArrayLike, y: ArrayLike, counts: Sequence[int]) -> Numbers:
    """The bound for estimates of values, cut into several numbers of even grades. **Shape:** ``(n,)``, ``(n,)``."""
    by = "number of grades"
    return {"by": by, "cases": [{by: one, **ordinal_bound(estimates, *even_grades(y, one))} for one in counts]}


def bounds_by_time(values: ArrayLike, y: ArrayLike, times: Sequence[int], n_grades: int) -> Numbers:
    """The bound at each time of the chain, for grades that stand evenly on [0, 1] with the outer ones on its ends.

    **Shape:** values ``(n, M)``, y ``(n,)``, times ``(M,)``.
    """
    thresholds = (np.arange(1, n_grades) - 0.5) / (n_grades - 1)
    along = zip(times, np.asarray(values, dtype=np.float64).T, strict=True)
    return {"by": "time", "cases": [{"time": t, **ordinal_bound(part, y, thresholds)} for t, part in along]}
