"""Single against multiple embeddings: how many directions they use, and how well a straight line reads the target."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from diffor.errors import UserError
from diffor.methods.diffor.paper import IncrementDiffusion
from diffor.paper.theory.analysis import Array, Numbers

TOLERANCE = 1e-5
"""Singular values below this share of the largest count as zero: embeddings are made in single precision."""


class EffectiveRank(NamedTuple):
    """Three counts of the directions that a matrix uses, from the plain one to the most sceptical."""

    rank: int
    entropy: float
    """``exp`` of the entropy of the singular values as shares of their sum."""
    nuclear: float
    """The paper's: squared sum of the singular values over the sum of their squares."""


def effective_rank(matrix: ArrayLike, tolerance: float = TOLERANCE) -> EffectiveRank:
    """Count the directions that the rows of a matrix use. **Shape:** ``(n, D)``; 0 for a matrix of zeros."""
    values = np.linalg.svd(np.asarray(matrix, dtype=np.float64), compute_uv=False)
    values = values[values > tolerance * max(values[0], np.finfo(np.float64).tiny)] if len(values) else values
    if not len(values):
        return EffectiveRank(0, 0.0, 0.0)
    shares = values / values.sum()
    entropy = float(-(shares * np.log(shares)).sum())
    return EffectiveRank(len(values), float(np.exp(entropy)), float(values.sum() ** 2 / (values**2).sum()))


def linear_readout_risks(fitted: tuple[ArrayLike, ArrayLike], others: tuple[ArrayLike, ArrayLike]) -> list[float]:
    """Mean squared error of the best linear function of an embedding, on the rows that fit it and on other rows.

    NOTE[DIFF]: the paper's readout has no constant term; here both sides are centred, which adds one to every readout.

    **Shape:** embedding ``(n, D)`` with y ``(n,)``, others ``(m, D)`` with ``(m,)``.
    """
    table, true = (np.asarray(part, dtype=np.float64) for part in fitted)
    if table.ndim != 2 or len(table) != len(true) or not len(true):
        raise UserError(
            "an embedding must have one row for each target, but got "
            f"embedding.shape={table.shape}, y.shape={true.shape}"
        )
    means, level = table.mean(axis=0), true.mean()
    weights = np.linalg.lstsq(table - means, true - level, rcond=TOLERANCE)[0]
    return [
        float((((np.asarray(rows) - means) @ weights + level - np.asarray(targets)) ** 2).mean())
        for rows, targets in (fitted, others)
    ]


class Subspaces(NamedTuple):
    """The paper's theorem on one embedding and several: their column spaces, and the risks of the best readouts."""

    n_single: int
    n_multiple: int
    """Columns of each; the paper speaks of equally many."""
    rank_single: int
    rank_multiple: int
    contained: bool
    """Whether the several span all that the single one spans: the theorem's premise."""
    risk_single: float
    risk_multiple: float

    @property
    def holds(self) -> bool:
        """Whether the risk does not rise where the premise is met; nothing is claimed where it is not."""
        return not self.contained or self.risk_multiple <= self.risk_single + TOLERANCE

    @property
    def collapsed(self) -> bool:
        """Whether the single embedding spans less than it has columns for."""
        return self.rank_single < self.n_single


def compare_subspaces(single: ArrayLike, multiple: ArrayLike, y: ArrayLike) -> Subspaces:
    """Check the paper's theorem, by projections and without constant terms, as it stands there.

    With equally many columns, several embeddings can span more than a single one only where that one has collapsed: one
    of full rank is contained in another of its size only if both span the same, and their risks are equal.

    **Shape:** single ``(n, D)``, multiple ``(n, E)``, y ``(n,)``.
    """
    one, many, true = (np.asarray(part, dtype=np.float64) for part in (single, multiple, y))
    if one.ndim != 2 or many.ndim != 2 or not len(one) == len(many) == len(true):
        raise UserError(
            f"embeddings must have a row for each target, but shapes are {one.shape}, {many.shape}, {true.shape}"
        )
    ranks = [effective_rank(part).rank for part in (one, many, np.hstack([one, many]))]
    risks = [
        float(np.square(true - part @ np.linalg.pinv(part, rcond=TOLERANCE) @ true).mean()) for part in (one, many)
    ]
    return Subspaces(one.shape[1], many.shape[1], ranks[0], ranks[1], ranks[2] == ranks[1], risks[0], risks[1])


def compare_embeddings(single: ArrayLike, multiple: ArrayLike, hidden: ArrayLike, y: ArrayLike) -> Numbers:
    """Ranks and readout risks of three embeddings; the first half of the rows fits, the second judges.

    The paper compares embeddings of the same total dimension and assumes that one column space holds the other. Both
    together hold only where the smaller one has collapsed; here the inclusion holds because ``single`` is a part of
    ``multiple``, and the dimensions differ. ``hidden`` is what the heads make of it.

    **Shape:** ``(n, D)`` of any D each, y ``(n,)``.
    """
    true, found = np.asarray(y, dtype=np.float64), {}
    half = len(true) // 2
    for name, given in (("one time", single), ("all times", multiple), ("hidden layers", hidden)):
        table = np.asarray(given, dtype=np.float64)
        rank = effective_rank(table - table.mean(axis=0))
        risk, held_out = linear_readout_risks((table[:half], true[:half]), (table[half:], true[half:]))
        found[name] = {
            "rows": half,
            "dimensions": table.shape[1],
            "rank": rank.rank,
            "entropy_rank": rank.entropy,
            "nuclear_rank": rank.nuclear,
            "risk": risk,
            "held_out_risk": held_out,
        }
    return found


@torch.no_grad()
def embeddings(method: IncrementDiffusion, estimates: Tensor) -> tuple[Array, Array, Array]:
    """What a row is to the heads: the estimate at the last head's time, those of all heads, and their hidden layers.

    Means over the chains of each row are taken, so that their noise is not counted as directions.

    **Shape:** estimates ``(n, m, M, S)`` of the chain -> ``(n, S)``, ``(n, S * S)``, ``(n, S * hidden)``.
    """
    places = [method.chain_times.index(t) for t in method.aligned_times]
    aligned = estimates[:, :, places]  # (n, m, S, S)
    means = aligned.mean(dim=1)  # (n, S, S)
    parts = means[:, -1], means, method.heads.hidden(aligned).mean(dim=1)
    single, multiple, of_heads = (part.flatten(1).cpu().double().numpy() for part in parts)
    return single, multiple, of_heads
