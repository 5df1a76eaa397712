"""Borders where the data are: increments of any width, and steps at values that occur again and again.

The paper cuts [0, 1] into S equal intervals. Here an interval may have any width, ``b_k = clip(y - e_k, 0, e_{k+1} -
e_k)``, and a value that many rows share (zero spend, a whole age, a grade) is passed in one step, so that long tails,
zeros, counts, grades and smooth values are one mechanism.

NOTE[DIFF]: the paper's intervals are equal and it has no steps; :meth:`Borders.even` is that case.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.errors import UserError

Floats = NDArray[np.float64]

ATOM_SHARE = 0.02
"""Share of the rows from which on a value counts as one that occurs again and again."""
QUANTILE_SHARE = 0.75
"""How much of the spacing follows the data's quantiles; the rest is even, so that no range is left without borders."""
ROWS_PER_VALUE = 2
"""Rows per distinct value from which on a target counts as discrete."""
STEP_WEIGHT = 1e-3
"""What a step counts in a score beside intervals, in their mean width: a step has none, yet shall be learned."""


class Layout(NamedTuple):
    """Increments from low to high, and the knots of a distribution function with the increment that stands at each."""

    lower: Floats
    upper: Floats
    """Ends of each increment, equal where it is a step. **Shape:** ``(S,)``."""
    is_beyond: NDArray[np.bool_]
    """Of a step whether it asks for more than its value, rather than for at least it. **Shape:** ``(S,)``."""
    knots: Floats
    source: NDArray[np.int64]
    """Index of each knot's survival among (1, S increments, 0). **Shape:** ``(m,)``."""


@dataclass(frozen=True)
class Borders:
    """Edges in [0, 1] and what lies at and between them.

    ``edges (m,)`` rise; ``is_atom (m,)`` names those that are values with a probability of their own. Where a target
    ``is_discrete`` nothing lies between them. An increment is the share of an interval that the target has filled, or a
    step: whether the target has reached a value, or has gone beyond it.

    >>> borders = Borders.place([0.0, 0.0, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0], n_increments=1, atom_share=0.3)
    >>> borders.fill(torch.tensor([0.0, 0.25, 1.0]))
    tensor([[0.0000, 0.0000],
            [1.0000, 0.2500],
            [1.0000, 1.0000]])
    """

    edges: Floats
    is_atom: NDArray[np.bool_]
    is_discrete: bool = False

    @classmethod
    def even(cls, n_increments: int) -> Borders:
        """The paper's equal intervals of [0, 1]."""
        return cls(np.linspace(0, 1, n_increments + 1), np.zeros(n_increments + 1, dtype=bool))

    @classmethod
    def at_values(cls, values: Any) -> Borders:
        """One step for each of the rising values but the first: grades, or a target with few values.

        >>> Borders.at_values([0.0, 0.5, 1.0]).fill(torch.tensor([0.5]))
        tensor([[1., 0.]])
        """
        edges = np.asarray(values, dtype=np.float64)
        return cls(edges, np.ones(len(edges), dtype=bool), is_discrete=True)

    @classmethod
    def place(cls, y: Any, n_increments: int = 64, weights: Any = None, atom_share: float = ATOM_SHARE) -> Borders:
        """Borders where targets are: between their quantiles and even spacing, with steps at values that repeat.

        **Shape:** ``(n,)``.
        """
        target = np.asarray(y, dtype=np.float64)
        counts = np.ones(len(target)) if weights is None else np.asarray(weights, dtype=np.float64)
        target, counts = target[counts > 0], counts[counts > 0]
        values, code = np.unique(target, return_inverse=True)
        if len(values) <= min(2 * n_increments, max(len(target) / ROWS_PER_VALUE, 2)):
            return cls.at_values(values)
        shares = np.bincount(code, counts) / counts.sum()
        atoms = values[shares >= atom_share]
        free = np.where(shares >= atom_share, 0.0, shares)  # atoms need no intervals
        rank = np.cumsum(free) - free / 2
        rank = (rank - rank[0]) / (rank[-1] - rank[0]) if rank[-1] > rank[0] else np.linspace(0, 1, len(values))
        even = (values - values[0]) / (values[-1] - values[0])
        blend = QUANTILE_SHARE * rank + (1 - QUANTILE_SHARE) * even
        edges = np.interp(np.linspace(0, 1, n_increments + 1), blend, values)
        edges = np.unique(np.concatenate([edges[1:-1], values[[0, -1]], atoms]))
        return cls(edges, np.isin(edges, atoms))

    @cached_property
    def layout(self) -> Layout:
        """Increments and knots in their order."""
        edges, last = self.edges, len(self.edges) - 1
        if self.is_discrete:
            source = np.repeat(np.arange(last + 2), 2)[1:-1]
            return Layout(edges[1:], edges[1:], np.zeros(last, dtype=bool), np.repeat(edges, 2), source)
        increments = []
        for index, (edge, is_atom) in enumerate(zip(edges, self.is_atom.tolist(), strict=True)):
            increments += [(edge, edge, False)] * (is_atom and index > 0)  # has the target reached the atom ...
            increments += [(edge, edge, True)] * (is_atom and index < last)  # ... and gone beyond it?
            increments += [(edge, upper, False) for upper in edges[index + 1 : index + 2]]
        lower, upper, is_beyond = (np.array(part) for part in zip(*increments, strict=True))
        # The mean of an interval's survival is that in its middle, so each increment is a knot, between the two ends.
        knots = np.concatenate([edges[:1], (lower + upper) / 2, edges[-1:]])
        return Layout(lower, upper, is_beyond, knots, np.arange(len(knots)))

    def __len__(self) -> int:
        return len(self.layout.lower)

    @cached_property
    def widths(self) -> Floats:
        """What an error of each increment counts in the CRPS, summing to about 1. **Shape:** ``(S,)``."""
        if self.is_discrete:
            return np.asarray(np.diff(self.edges) / max(self.edges[-1] - self.edges[0], np.finfo(float).tiny))
        width = self.layout.upper - self.layout.lower
        return np.asarray(np.where(width > 0, width, STEP_WEIGHT * width.mean()) / (self.edges[-1] - self.edges[0]))

    def fill(self, y: Tensor) -> Tensor:
        """The share of each increment that targets have filled. **Shape:** ``(...)`` -> ``(..., S)`` in [0, 1]."""
        lower, upper, is_beyond = (torch.from_numpy(part).to(y.device) for part in self.layout[:3])
        lower, upper, y = lower.to(y.dtype), upper.to(y.dtype), y.unsqueeze(-1)
        step = torch.where(is_beyond, y > lower, y >= lower).to(y.dtype)
        share = ((y - lower) / (upper - lower).clamp(min=torch.finfo(y.dtype).tiny)).clamp(0, 1)
        return torch.where(upper > lower, share, step)

    def coordinate(self, y: Tensor) -> Tensor:
        """Where targets stand along the increments: a long tail is short there. **Shape:** kept, in [0, 1]."""
        return self.fill(y.double()).sum(dim=-1) / max(len(self), 1)

    @property
    def middles(self) -> Floats:
        """Where increments stand in [0, 1]: a step between values alone, halfway from the one before. ``(S,)``.

        >>> Borders.at_values([0.0, 0.5, 1.0]).middles
        array([0.25, 0.75])
        """
        if self.is_discrete:
            return np.asarray((self.edges[1:] + self.edges[:-1]) / 2)
        return np.asarray((self.layout.lower + self.layout.upper) / 2)

    def positions(self, of: Borders) -> Floats:
        """Where the increments of other borders stand along these. **Shape:** ``(S,)`` of the others, in [0, 1]."""
        lower, upper, is_beyond = of.layout[:3]
        middle = self.coordinate(torch.from_numpy((lower + upper) / 2)).numpy()
        half_step = np.where(upper > lower, 0.0, np.where(is_beyond, 0.5, -0.5)) / max(len(self), 1)
        return np.asarray(middle + half_step)

    def heights(self, survival: Floats) -> Floats:
        """The distribution function at the knots, of survival functions. **Shape:** ``(n, S)`` -> ``(n, m)``."""
        padded = np.zeros((len(survival), survival.shape[1] + 2), dtype=survival.dtype)
        padded[:, 0], padded[:, 1:-1] = 1.0, survival
        return 1.0 - padded[:, self.layout.source]

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {"edges": self.edges.tolist(), "is_atom": self.is_atom.tolist(), "is_discrete": self.is_discrete}

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Borders:
        """Rebuild borders from :meth:`to_json`."""
        edges = np.array(state["edges"], dtype=np.float64)
        return cls(edges, np.array(state["is_atom"], dtype=bool), bool(state["is_discrete"]))

    def check(self) -> None:
        """Refuse what no targets have: edges that do not rise within [0, 1], or too few of them."""
        edges, fewest = self.edges, 1 if self.is_discrete else 2
        rises = bool((np.diff(edges) > 0).all()) and bool(np.isfinite(edges).all())
        if len(edges) < fewest or not rises or edges[0] < 0 or edges[-1] > 1 or len(self.is_atom) != len(edges):
            raise UserError(
                f"borders must be {fewest} or more edges that rise within [0, 1], but got {len(edges)} others"
            )
