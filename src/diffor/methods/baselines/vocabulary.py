"""Numbers as sequences of tokens: the vocabulary, the greedy serialisation, and the pruning of the vocabulary.

Targets are whole numbers of a unit here. The tokens of a sequence fall from the largest on; their values add up to
the number, as coins add up to a price.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

PADDING, START, END = 0, 1, 2
"""Tokens that have no value: what follows a sequence, what begins it, what ends it."""
N_SPECIAL = 3
FIRST_LEVEL, LOWEST_LEVEL, LEVEL_DECAY = 0.9999, 0.9, 0.99
SMALLEST_RESIDUAL = 1e-6


def dynamic_quantile_values(units: Tensor) -> list[int]:
    """Token values by repeatedly taking a high quantile of what is left of the targets and subtracting it once.

    Each value is listed once, from the largest to 1, which makes every number expressible.

    **Shape:** ``(n,)`` whole numbers.
    """
    targets = units.detach().cpu().numpy().astype(np.int64)
    residual, level, values = targets.copy(), FIRST_LEVEL, {1}
    while True:
        value = int(np.quantile(residual, level))
        if value == 0:
            break
        values.add(value)
        residual = np.where(residual >= value, residual - value, residual)
        if (residual / np.maximum(targets, 1)).max() < SMALLEST_RESIDUAL:
            break
        level = max(LOWEST_LEVEL, LEVEL_DECAY * level)
    return sorted(values, reverse=True)


def with_even_quantiles(values: list[int], units: Tensor, n_quantiles: int) -> list[int]:
    """Values, and beside them the even quantiles of the targets, each once and falling. **Shape:** ``(n,)``."""
    targets = units.detach().cpu().numpy().astype(np.int64)
    levels = np.arange(1, n_quantiles + 1) / n_quantiles
    quantiles = np.quantile(targets, levels, method="higher").astype(int).tolist()
    return sorted({*values, *(value for value in quantiles if value > 0)}, reverse=True)


def thin_out(values: list[int], most: int) -> list[int]:
    """At most so many of the values, evenly chosen, among them the first and the last."""
    if len(values) <= most:
        return values
    return [values[place] for place in np.linspace(0, len(values) - 1, most).round().astype(int)]


def greedy_counts(units: Tensor, values: Tensor, tolerance: float = 0.0) -> Tensor:
    """How often each value is taken when the largest that still fits is taken first.

    A number is left as it is as soon as what remains of it is at most ``tolerance`` of it.

    **Shape:** ``(n,)`` whole numbers, values ``(V,)`` falling -> ``(n, V)`` int64.

    >>> greedy_counts(torch.tensor([0, 7, 30]), torch.tensor([10, 3, 1])).tolist()
    [[0, 0, 0], [0, 2, 1], [3, 0, 0]]
    """
    residual = units.long().clone()
    allowed = (residual.double() * tolerance).floor().long()
    counts = []
    for value in values.tolist():
        needed = torch.div(residual - allowed + value - 1, value, rounding_mode="floor").clamp(min=0)
        count = torch.minimum(torch.div(residual, value, rounding_mode="floor"), needed)
        residual = residual - count * value
        counts.append(count)
    return torch.stack(counts, dim=1)


def serialise(counts: Tensor, n_steps: int) -> Tensor:
    """Sequences of tokens, each closed by END and filled up with PADDING; what does not fit is left out.

    Value j of the vocabulary has the token ``j + N_SPECIAL``.

    **Shape:** ``(n, V)`` -> ``(n, n_steps)`` int64.

    >>> serialise(torch.tensor([[0, 0], [2, 1]]), 5).tolist()
    [[2, 0, 0, 0, 0], [3, 3, 4, 2, 0]]
    """
    reached = counts.cumsum(dim=1)
    lengths = reached[:, -1:].clamp(max=n_steps - 1)
    steps = torch.arange(n_steps, device=counts.device).expand(len(counts), -1).contiguous()
    tokens = torch.searchsorted(reached, steps, right=True) + N_SPECIAL
    tokens = torch.where(steps < lengths, tokens, torch.full_like(tokens, PADDING))
    return torch.where(steps == lengths, torch.full_like(tokens, END), tokens)


def read_back(tokens: Tensor, values: Tensor) -> Tensor:
    """The numbers that sequences stand for. **Shape:** ``(n, s)``, values ``(V,)`` -> ``(n,)``."""
    table = torch.cat([values.new_zeros(N_SPECIAL), values])
    return table[tokens].sum(dim=1)


def largest_residual(units: Tensor, values: Tensor, tolerance: float, n_steps: int) -> float:
    """Largest share of a number that its sequence leaves out. **Shape:** ``(n,)``, ``(V,)``."""
    read = read_back(serialise(greedy_counts(units, values, tolerance), n_steps), values)
    return float(((units - read).double() / units.clamp(min=1)).max())


def codi_scores(counts: Tensor, n_rows: Tensor) -> Tensor:
    """How much each token contributes to sequences, times how much it distinguishes them.

    The first factor is the mean over targets of the token's share of the sequence, the second the logarithm of the
    number of targets over one more than the number of those that use it.

    **Shape:** ``(u, V)`` counts of distinct targets, ``(u,)`` how many rows have each -> ``(V,)``.
    """
    rows = n_rows.double()
    lengths = counts.sum(dim=1).clamp(min=1)
    contribution = (counts / lengths[:, None] * rows[:, None]).sum(dim=0) / rows.sum()
    users = ((counts > 0) * rows[:, None]).sum(dim=0)
    return contribution * (rows.sum() / (1 + users)).log()


def prune(values: list[int], units: Tensor, retention: float, tolerance: float, n_steps: int) -> list[int]:
    """Drop the token of the lowest score, again and again, while enough are left and all targets can be written.

    Ends when a share ``retention`` is left, or when the next one to go would leave more than ``tolerance`` of some
    target unwritten. The value 1 stays.

    **Shape:** falling values, ``(n,)`` whole numbers.
    """
    distinct, n_rows = torch.unique(units.cpu(), return_counts=True)
    fewest, kept = math.ceil(retention * len(values)), list(values)
    while len(kept) > max(fewest, 1):
        scores = codi_scores(greedy_counts(distinct, torch.tensor(kept), tolerance), n_rows)
        scores[kept.index(1)] = math.inf
        lowest = int(scores.argmin())
        shorter = kept[:lowest] + kept[lowest + 1 :]
        if lowest == kept.index(1) or largest_residual(distinct, torch.tensor(shorter), tolerance, n_steps) > tolerance:
            break
        kept = shorter
    return kept
