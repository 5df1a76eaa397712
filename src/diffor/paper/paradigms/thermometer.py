"""Bits of a thermometer: what they tell about each other, and what becomes of them when each is drawn by itself.

Bit m says whether the target passes threshold m. Of K ranks there are K - 1 bits, and only K of their patterns occur:
all bits below some threshold are set, all others are not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, rel_entr

from diffor.paper.paradigms.fitting import Values

BEGUN, FULL_ENOUGH = 0.1, 0.9
"""An increment has begun above the one share of its width, and is full above the other."""


def passing(ranks: ArrayLike) -> Values:
    """Probability of passing each threshold from those of the ranks. **Shape:** ``(..., K)`` -> ``(..., K - 1)``."""
    return np.asarray(np.cumsum(np.asarray(ranks, dtype=np.float64)[..., ::-1], axis=-1)[..., -2::-1])


def entropy(probabilities: Values) -> Values:
    """Entropy over the last axis, in bits. **Shape:** ``(..., K)`` -> ``(...)``."""
    return np.asarray(entr(probabilities).sum(axis=-1) / np.log(2))


def bit_entropy(chances: Values) -> Values:
    """Entropy of a bit, in bits. **Shape:** any, kept."""
    return entropy(np.stack([chances, 1 - chances], axis=-1).clip(0, 1))


def total_correlation(ranks: ArrayLike) -> Values:
    """KL divergence from the thermometer bits of ranks to independent bits of the same chances, in bits.

    Bits and ranks tell each other, so it is the sum of the bits' entropies less the entropy of the ranks.

    **Shape:** ``(..., K)`` -> ``(...)``.
    """
    probabilities = np.asarray(ranks, dtype=np.float64)
    return np.asarray(bit_entropy(passing(probabilities)).sum(axis=-1) - entropy(probabilities))


def information_of_bits(ranks: ArrayLike) -> Values:
    """What the bits before each bit tell about it, in bits: the terms of the paper's sum.

    Only the last of them matters, and only where it is set.

    **Shape:** ``(..., K)`` -> ``(..., K - 1)``.
    """
    chances = passing(ranks)
    before = np.concatenate([np.ones_like(chances[..., :1]), chances[..., :-1]], axis=-1)
    following = np.divide(chances, before, out=np.zeros_like(chances), where=before > 0)
    return np.asarray(bit_entropy(chances) - before * bit_entropy(following))


def impossible_share(chances: ArrayLike) -> Values:
    """Probability that independent bits of these chances are no thermometer: one is set above one that is not.

    **Shape:** ``(..., M)`` -> ``(...)``.
    """
    above = np.asarray(chances, dtype=np.float64)
    ones = np.ones_like(above[..., :1])
    set_so_far = np.concatenate([ones, np.cumprod(above, axis=-1)], axis=-1)
    unset_from_here = np.concatenate([np.cumprod((1 - above)[..., ::-1], axis=-1)[..., ::-1], ones], axis=-1)
    return np.asarray(1 - (set_so_far * unset_from_here).sum(axis=-1))


def divergence(truth: Values, model: Values) -> Values:
    """KL divergence over the last axis, in bits. **Shape:** ``(..., K)``, ``(..., K)`` -> ``(...)``."""
    return np.asarray(rel_entr(truth, model).sum(axis=-1) / np.log(2))


def independent_divergence(ranks: ArrayLike, chances: ArrayLike) -> Values:
    """KL divergence from the thermometer bits of ranks to independent bits of a model's chances, in bits.

    It is the total correlation, which no chances can lessen, and the divergence of each bit by itself.

    **Shape:** ``(..., K)``, ``(..., K - 1)`` -> ``(...)``.
    """
    truth, model = passing(ranks), np.asarray(chances, dtype=np.float64).clip(1e-9, 1 - 1e-9)
    each = divergence(np.stack([truth, 1 - truth], axis=-1), np.stack([model, 1 - model], axis=-1))
    return np.asarray(total_correlation(ranks) + each.sum(axis=-1))


def count_spread(ranks: Values) -> Values:
    """Standard deviation of the number of the rank. **Shape:** ``(..., K)`` -> ``(...)``."""
    numbers = np.arange(ranks.shape[-1])
    mean = (ranks * numbers).sum(axis=-1, keepdims=True)
    return np.asarray(np.sqrt((ranks * (numbers - mean) ** 2).sum(axis=-1)))


def broken_share(increments: Values) -> float:
    """Share of increment vectors that are no thermometer: one has begun although the one before is not full.

    **Shape:** ``(..., S)`` filled shares in [0, 1].
    """
    return float(((increments[..., 1:] > BEGUN) & (increments[..., :-1] < FULL_ENOUGH)).any(axis=-1).mean())
