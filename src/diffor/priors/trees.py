"""Boosted trees as flat tensors: fitted with scikit-learn, followed with torch."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.files.schema import MisfitError
from diffor.priors.contract import check_tensor

Floats = NDArray[np.floating]

MAX_DEPTH = 10
INFINITE = float("inf")
PIECE = 1 << 15
"""Pairs of row and tree that are followed at a time: what they need stays in the processor's cache."""


class Trees(NamedTuple):
    """Boosted trees as flat tables: a row at ``node`` moves on to ``child[node] + (column[feature[node]] > limit)``.

    A leaf is its own child and has an infinite limit, so that all rows can take the same number of moves.
    """

    roots: Tensor
    """Where each tree starts. **Shape:** ``(trees,)``."""
    feature: Tensor
    limit: Tensor
    child: Tensor
    value: Tensor
    """What stands at each node. **Shape:** ``(nodes,)``."""
    start: Tensor
    """What is predicted before the first tree. **Shape:** ``()``."""

    def check(self, name: str, n_columns: int) -> None:
        """Refuse tables that are no trees over so many columns: no row may leave them or walk in circles."""
        n_nodes = len(self.value)
        for part, dtype in (("limit", torch.float32), ("value", torch.float32)):
            check_tensor(f"{name}.{part}", getattr(self, part), dtype, (n_nodes,), -INFINITE, INFINITE)
        check_tensor(f"{name}.value", self.value, torch.float32, (n_nodes,))
        check_tensor(f"{name}.start", self.start, torch.float32, ())
        check_tensor(f"{name}.feature", self.feature, torch.int64, (n_nodes,), 0, n_columns - 1)
        check_tensor(f"{name}.child", self.child, torch.int64, (n_nodes,), 0, n_nodes - 1)
        check_tensor(f"{name}.roots", self.roots, torch.int64, (None,), 0, n_nodes - 1)
        own, roots = torch.arange(n_nodes), self.roots
        is_leaf = self.child == own
        if not bool((self.limit[is_leaf] == INFINITE).all()):
            raise MisfitError(f"{name}.limit must be infinite at leaves, but is finite at some")
        left = self.child[~is_leaf]
        # Every node but the roots is the child of one other, which stands before it in the same tree.
        reached = torch.cat([roots, left, left + 1]).sort().values
        tree = torch.bucketize(own, roots, right=True)
        is_sound = (
            bool((roots[:1] == 0).all()) and bool((roots.diff() > 0).all()) and bool((left > own[~is_leaf]).all())
        )
        if not (is_sound and torch.equal(reached, own)) or not torch.equal(tree[left], tree[~is_leaf]):
            raise MisfitError(
                f"{name}.child must lead from each root to all nodes of its tree, once each, but does not"
            )
        if not torch.equal(tree[left + 1], tree[~is_leaf]):
            raise MisfitError(f"{name}.child must stay in its tree, but leads out of it")

    def predict(self, columns: Tensor, n_moves: int = MAX_DEPTH) -> Tensor:
        """Answer rows by so many moves from the roots. **Shape:** ``(n, p)`` -> ``(n,)``."""
        size = max(1, PIECE // max(len(self.roots), 1))
        tables = self.feature.int(), self.child.int()  # half as much to fetch as of whole numbers of 64 bits
        pieces = [
            self._follow(columns[first : first + size], *tables, n_moves) for first in range(0, len(columns), size)
        ]
        return torch.cat(pieces) if pieces else columns.new_zeros(0)

    def _follow(self, columns: Tensor, feature: Tensor, child: Tensor, n_moves: int) -> Tensor:
        n_rows, n_columns = columns.shape
        numbers = columns.flatten()
        first = (torch.arange(n_rows, dtype=torch.int32) * n_columns).repeat_interleave(len(self.roots))
        node = self.roots.int().repeat(n_rows)
        for _ in range(n_moves):
            seen = numbers.index_select(0, feature.index_select(0, node) + first)
            node = child.index_select(0, node) + (seen > self.limit.index_select(0, node))
        return self.start + self.value.index_select(0, node).view(n_rows, -1).sum(dim=1)


def flatten(model: Any, n_trees: int) -> Trees:
    """The first trees of a fitted scikit-learn model as flat tables."""
    # scikit-learn offers no public view of its trees; what is read here is compared with its own answers in the tests.
    nodes = [predictor[0].nodes for predictor in model._predictors[:n_trees]]
    return flatten_nodes(nodes, float(np.ravel(model._baseline_prediction)[0]))


def flatten_nodes(nodes: Sequence[Any], start: float) -> Trees:
    """Trees as flat tables; each is given by arrays named as in scikit-learn, its root first."""
    sizes = [len(tree["is_leaf"]) for tree in nodes]
    parts = [_renumber(tree, first) for tree, first in zip(nodes, np.cumsum([0, *sizes])[:-1], strict=True)]
    roots = torch.from_numpy(np.cumsum([0, *sizes])[:-1].astype(np.int64))
    joined = [np.concatenate([part[place] for part in parts]) if parts else np.zeros(0) for place in range(4)]
    feature, limit, child, value = joined
    return Trees(
        roots,
        torch.from_numpy(feature.astype(np.int64)),
        torch.from_numpy(limit.astype(np.float32)),
        torch.from_numpy(child.astype(np.int64)),
        torch.from_numpy(value.astype(np.float32)),
        torch.tensor(start),
    )


def _renumber(nodes: Any, first: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Number the nodes of one tree from ``first`` so that siblings stand side by side."""
    place = np.zeros(len(nodes["is_leaf"]), dtype=np.int64)
    free, waiting = 1, [0]
    for node in waiting:  # grows while it is read: breadth first
        if not nodes["is_leaf"][node]:
            pair = [int(nodes["left"][node]), int(nodes["right"][node])]
            place[pair] = free, free + 1
            free += 2
            waiting += pair
    feature, limit, child, value = np.zeros((4, len(place)))
    is_leaf = nodes["is_leaf"].astype(bool)
    feature[place] = np.where(is_leaf, 0, nodes["feature_idx"])
    limit[place] = np.where(is_leaf, np.inf, _not_above(nodes["num_threshold"]))
    child[place] = first + np.where(is_leaf, place, place[nodes["left"].astype(np.int64) * ~is_leaf])
    value[place] = np.where(is_leaf, nodes["value"], 0.0)
    return feature, limit, child, value


def _not_above(limits: Floats) -> NDArray[np.float32]:
    """The largest single-precision numbers not above these, so that comparisons come out as in double precision."""
    rounded = limits.astype(np.float32)
    return np.where(rounded > limits, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def join_trees(parts: list[Trees], starts: list[int], width: int, n_columns: int) -> Trees:
    """The mean of several sets of trees as one set.

    Columns of a set begin at its entry of ``starts``, ``width`` of them; a column beyond them is one that all sets
    share, behind the ``n_columns`` others.
    """
    first_nodes = np.cumsum([0, *(len(part.value) for part in parts)]).tolist()
    features = [
        torch.where(part.feature < width, part.feature + start, part.feature - width + n_columns)
        for part, start in zip(parts, starts, strict=True)
    ]
    return Trees(
        torch.cat([part.roots + first for part, first in zip(parts, first_nodes, strict=False)]),
        torch.cat(features),
        torch.cat([part.limit for part in parts]),
        torch.cat([part.child + first for part, first in zip(parts, first_nodes, strict=False)]),
        torch.cat([part.value for part in parts]) / len(parts),
        torch.stack([part.start for part in parts]).mean(),
    )


def split_trees(trees: Trees, n_parts: int) -> list[Trees]:
    """Several sets of trees whose answers add up to those of one; fewer where there are not so many trees."""
    bounds = np.linspace(0, len(trees.roots), min(n_parts, max(len(trees.roots), 1)) + 1).astype(int).tolist()
    ends = [*trees.roots.tolist(), len(trees.value)]
    parts = []
    for low, high in itertools.pairwise(bounds):
        nodes = slice(ends[low], ends[high])
        start = trees.start if low == 0 else torch.zeros_like(trees.start)
        feature, limit, child, value = (table[nodes] for table in trees[1:5])
        parts.append(Trees(trees.roots[low:high] - ends[low], feature, limit, child - ends[low], value, start))
    return parts
