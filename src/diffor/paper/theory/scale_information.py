"""Which increments can be told at which noise, and how many bits of each a prediction tells.

The paper calls low increments coarse and high ones fine, and reads the first at high noise and the last at low noise.
Its increments are equally wide, though: increment k says where in the k-th part of the range a target lies, not how
finely. Whether low ones can be told at higher noise than high ones is therefore a question to the data, answered here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from diffor.methods.diffor.increments import split_increments, squeeze
from diffor.methods.diffor.paper import IncrementDiffusion
from diffor.metrics import srcc
from diffor.paper.theory.analysis import corrupt_rows

Array = NDArray[np.floating]
N_BINS = 4
"""Cells of equal width in which an increment is counted: 2 bits at most. More would need more samples of a row."""
HALF = 0.5


@dataclass(frozen=True)
class ScaleInformation:
    """What is known about each increment at each noise level, and what a prediction knows in the end.

    **Shape:** times ``(M,)``, explained ``(M, S)``, variance and entropies ``(S,)``, aligned times ``(S,)``.
    """

    times: tuple[int, ...]
    aligned_times: tuple[int, ...]
    explained: Array
    """Share of each increment's variance that the estimate from its corrupted truth explains; NaN where it is
    constant, negative where the estimate is worse than the mean."""
    variance: Array
    """Variance of each increment over the rows."""
    entropy: Array
    """Bits of each increment over all rows, by counting in cells."""
    predictive_entropy: Array
    """Bits that are left of it within a row, over the samples of its chains: how sure predictions are."""
    cross_entropy: Array
    """Bits that the truth still takes, given the samples of its row: how right they are to be so sure."""

    @property
    def information(self) -> Array:
        """Bits of each increment that a prediction saves; negative where it misleads. **Shape:** ``(S,)``."""
        return self.entropy - self.cross_entropy

    @property
    def explained_in_all(self) -> Array:
        """Share of the variance of all increments together that is explained at each time. **Shape:** ``(M,)``."""
        known = np.isfinite(self.explained).all(axis=0)
        if not known.any():
            return np.full(len(self.times), np.nan)
        return np.asarray(np.average(self.explained[:, known], axis=1, weights=self.variance[known]))

    @property
    def explained_at_heads(self) -> Array:
        """Share of each increment's variance that is explained at the time of its own head. **Shape:** ``(S,)``."""
        places = [self.times.index(t) if t in self.times else None for t in self.aligned_times]
        shares = [np.nan if place is None else self.explained[place, k] for k, place in enumerate(places)]
        return np.array(shares)

    @property
    def half_times(self) -> Array:
        """The highest noise at which half of the variance is explained; NaN if at none. **Shape:** ``(S,)``."""
        enough = self.explained >= HALF
        highest = np.where(enough, np.array(self.times)[:, None], -1).max(axis=0)
        return np.where(highest > 0, highest, np.nan)

    @property
    def order_agreement(self) -> float:
        """Rank correlation of the heads' times with the noise at which half is explained; NaN if there is none."""
        known = np.isfinite(self.half_times)
        aligned, halves = np.array(self.aligned_times)[known], self.half_times[known]
        if known.sum() < 2 or np.ptp(aligned) == 0 or np.ptp(halves) == 0:
            return float("nan")
        return srcc(aligned, halves)

    @property
    def numbers(self) -> dict[str, Any]:
        """The measurement as plain values."""
        return {
            "times": list(self.times), "explained_in_all": self.explained_in_all.tolist(),
            "explained": self.explained.tolist(), "increments": list(range(1, len(self.entropy) + 1)),
            "aligned_times": list(self.aligned_times), "variance": self.variance.tolist(),
            "half_times": self.half_times.tolist(),
            "explained_at_heads": self.explained_at_heads.tolist(),
            "order_agreement": self.order_agreement, "entropy": self.entropy.tolist(),
            "predictive_entropy": self.predictive_entropy.tolist(), "cross_entropy": self.cross_entropy.tolist(),
            "information": self.information.tolist(),
        }  # fmt: skip


def scale_information(
    method: IncrementDiffusion,
    features: Tensor,
    y: Tensor,
    samples: Tensor,
    times: Sequence[int] | None = None,
    seed: int = 0,
    n_bins: int = N_BINS,
) -> ScaleInformation:
    """Measure how well each increment can be told at each time, and how many bits of it the chain's samples tell.

    ``samples`` are increments that chains of each row ended at, counted in ``n_bins`` cells; few of them leave the bits
    within a row too low, and the bits of the truth too high, by about ``(cells that occur - 1) / (1.4 m)``.

    **Shape:** features ``(n, d)``, y ``(n,)`` in [0, 1], samples ``(n, m, S)``.
    """
    asked = method.chain_times if times is None else tuple(times)
    increments = split_increments(y.double(), method.n_increments).cpu().numpy()
    estimates = (squeeze(rows.denoised(method)) for rows in corrupt_rows(method, features, y, asked, seed))
    explained = [explained_variance(estimate.cpu().numpy(), increments) for estimate in estimates]
    drawn, filled = samples.cpu().double().numpy() * method.n_increments, increments * method.n_increments
    return ScaleInformation(
        times=asked,
        aligned_times=method.aligned_times,
        explained=np.stack(explained),
        variance=increments.var(axis=0),
        entropy=entropy_in_bits(filled[None], n_bins)[0],
        predictive_entropy=entropy_in_bits(drawn, n_bins).mean(axis=0),
        cross_entropy=cross_entropy_in_bits(drawn, filled, n_bins),
    )


def explained_variance(estimates: ArrayLike, truth: ArrayLike) -> Array:
    """Share of each column's variance that estimates explain; NaN where it has none. **Shape:** ``(n, S)`` -> ``(S,)``.

    >>> explained_variance([[1.0, 0.0], [2.0, 0.0]], [[1.0, 5.0], [3.0, 5.0]]).tolist()
    [0.5, nan]
    """
    guess, true = np.asarray(estimates, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    variance = true.var(axis=0)
    rest = ((guess - true) ** 2).mean(axis=0)
    left = np.divide(rest, variance, out=np.full_like(rest, np.nan), where=variance > 1e-12)
    return np.asarray(1 - left)


def entropy_in_bits(filled: ArrayLike, n_bins: int = N_BINS) -> Array:
    """Entropy of values in [0, 1] over the second axis, by counting in equal cells; what lies outside is clipped.

    **Shape:** ``(n, m, S)`` -> ``(n, S)``.

    >>> entropy_in_bits([[[0.0], [1.0], [0.0], [1.0]]]).tolist()
    [[1.0]]
    """
    shares = _cell_shares(filled, n_bins)
    bits = -(shares * np.log2(np.where(shares > 0, shares, 1.0))).sum(axis=0)
    return np.asarray(bits + 0.0)  # no negative zero


def cross_entropy_in_bits(samples: ArrayLike, truth: ArrayLike, n_bins: int = N_BINS) -> Array:
    """Mean bits that the truth's cell takes, given the shares of each row's samples in the cells.

    The shares of all rows count as one more sample of each, so that a cell that no sample hit is not impossible.

    **Shape:** samples ``(n, m, S)``, truth ``(n, S)``, both in [0, 1] -> ``(S,)``.

    >>> cross_entropy_in_bits([[[0.0]], [[1.0]]], [[0.0], [1.0]]).round(3).tolist()
    [0.415]
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
