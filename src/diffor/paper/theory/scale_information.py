"""Which increments can be told at which noise, and how many bits of each a prediction tells.

The paper calls low increments coarse and high ones fine, and reads the first at high noise and the last at low noise.
Its increments are equally wide, though: increment k says where in the k-th part of the range a target lies, not how
finely. Whether low ones can be told at higher noise than high ones is therefore a question to the data, answered here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from diffor.methods.diffor.increments import split_increments, squeeze
from diffor.methods.diffor.paper import IncrementDiffusion
from diffor.metrics import srcc
from diffor.paper.theory.analysis import Array, Numbers, corrupt_rows

N_BINS = 4
"""Cells of equal width in which an increment is counted: 2 bits at most. More would need more samples of a row."""
HALF = 0.5


def scale_information(
    method: IncrementDiffusion,
    features: Tensor,
    y: Tensor,
    samples: Tensor,
    times: Sequence[int] | None = None,
    n_bins: int = N_BINS,
) -> Numbers:
    """Measure how well each increment can be told at each time, and how many bits of it the chain's samples tell.

    ``explained`` is the share of each increment's variance that the estimate from its corrupted truth explains: NaN
    where it is constant, negative where the estimate is worse than the mean; ``explained_in_all`` is that of all
    increments together, and ``half_times`` the highest noise at which half is explained. ``entropy`` counts the bits
    of each increment over all rows, ``predictive_entropy`` those left within a row, over the samples of its chains (how
    sure predictions are), ``cross_entropy`` those that the truth still takes, given the samples (how right they are
    to be so sure); ``information`` is what a prediction saves, negative where it misleads.

    ``samples`` are increments that chains of each row ended at, counted in ``n_bins`` cells; few of them leave the bits
    within a row too low, and the bits of the truth too high, by about ``(cells that occur - 1) / (1.4 m)``.

    **Shape:** features ``(n, d)``, y ``(n,)`` in [0, 1], samples ``(n, m, S)``.
    """
    asked = method.chain_times if times is None else tuple(times)
    increments = split_increments(y.double(), method.n_increments).cpu().numpy()
    estimates = (squeeze(rows.denoised).cpu().numpy() for rows in corrupt_rows(method, features, y, asked))
    explained = np.stack([explained_variance(estimate, increments) for estimate in estimates])  # (M, S)
    drawn, filled = samples.cpu().double().numpy() * method.n_increments, increments * method.n_increments
    entropy, cross_entropy = entropy_in_bits(filled[None], n_bins)[0], cross_entropy_in_bits(drawn, filled, n_bins)
    variance, halves, aligned = increments.var(axis=0), half_times(explained, asked), method.aligned_times
    at_heads = [explained[asked.index(t), k] if t in asked else np.nan for k, t in enumerate(aligned)]
    known = np.isfinite(explained).all(axis=0)
    in_all = np.average(explained[:, known], axis=1, weights=variance[known]) if known.any() else [np.nan] * len(asked)
    return {
        "times": list(asked),
        "explained_in_all": in_all,
        "explained": explained,
        "increments": list(range(1, method.n_increments + 1)),
        "aligned_times": list(aligned),
        "variance": variance,
        "half_times": halves,
        "explained_at_heads": at_heads,
        "order_agreement": order_agreement(aligned, halves),
        "entropy": entropy,
        "predictive_entropy": entropy_in_bits(drawn, n_bins).mean(axis=0),
        "cross_entropy": cross_entropy,
        "information": entropy - cross_entropy,
    }


def half_times(explained: ArrayLike, times: Sequence[int]) -> Array:
    """The highest noise at which half of the variance is explained, or NaN. **Shape:** ``(M, S)`` -> ``(S,)``."""
    highest = np.where(np.asarray(explained) >= HALF, np.array(times)[:, None], -1).max(axis=0)
    return np.where(highest > 0, highest, np.nan)


def order_agreement(aligned: Sequence[int], halves: Array) -> float:
    """Rank correlation of the heads' times with the noise at which half is explained; NaN if there is none."""
    known = np.isfinite(halves)
    of_heads, of_variance = np.array(aligned)[known], halves[known]
    if known.sum() < 2 or np.ptp(of_heads) == 0 or np.ptp(of_variance) == 0:
        return float("nan")
    return srcc(of_heads, of_variance)


def explained_variance(estimates: ArrayLike, truth: ArrayLike) -> Array:
    """Share of each column's variance that is explained; NaN where it has none. **Shape:** ``(n, S)`` -> ``(S,)``."""
    guess, true = np.asarray(estimates, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    variance = true.var(axis=0)
    rest = ((guess - true) ** 2).mean(axis=0)
    left = np.divide(rest, variance, out=np.full_like(rest, np.nan), where=variance > 1e-12)
    return np.asarray(1 - left)


def entropy_in_bits(filled: ArrayLike, n_bins: int = N_BINS) -> Array:
    """Entropy of values in [0, 1] over the second axis, by counting in equal cells; what lies outside is clipped.

    **Shape:** ``(n, m, S)`` -> ``(n, S)``.
    """
    shares = _cell_shares(filled, n_bins)
    bits = -(shares * np.log2(np.where(shares > 0, shares, 1.0))).sum(axis=0)
    return np.asarray(bits + 0.0)  # no negative zero


def cross_entropy_in_bits(samples: ArrayLike, truth: ArrayLike, n_bins: int = N_BINS) -> Array:
    """Mean bits that the truth's cell takes, given the shares of each row's samples in the cells.

    The shares of all rows count as one more sample of each, so that a cell that no sample hit is not impossible.

    **Shape:** samples ``(n, m, S)``, truth ``(n, S)``, both in [0, 1] -> ``(S,)``.
    """
    drawn, true = np.asarray(samples, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    count = drawn.shape[1]
    hit = _cell_shares(true[:, None], n_bins)  # (bins, n, S), 1 in the cell of the truth
    shares = (count * _cell_shares(drawn, n_bins) + hit.mean(axis=1, keepdims=True)) / (count + 1)
    return np.asarray(-np.log2((shares * hit).sum(axis=0)).mean(axis=0))


def _cell_shares(filled: ArrayLike, n_bins: int) -> Array:
    """Share of the second axis in each cell. **Shape:** ``(n, m, S)`` -> ``(bins, n, S)``."""
    cells = np.clip((np.asarray(filled, dtype=np.float64) * n_bins).astype(np.int64), 0, n_bins - 1)
    return np.stack([(cells == cell).mean(axis=1) for cell in range(n_bins)])
