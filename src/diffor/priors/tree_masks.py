"""Many trees answered at once: every column says which leaves its value rules out, and one leaf of each tree is left.

Leaves are bits of one number for each tree. For each column and each interval between its limits there is a table of
what the column leaves of every tree, so that a row needs one line of the table for each column, joined by a bitwise
"and", whatever the depth. That is ten times as quick as following each tree from its root.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.priors.trees import Trees, split_trees

MAX_BYTES = 1 << 26
"""Larger tables are not made: trees are followed from their roots instead."""
PIECE = 1 << 17
"""Pairs of row and tree that are answered at a time: what they need stays in the processor's cache."""
FEW_ROWS = 8
FIRST_EXPONENT = 127
"""What single precision keeps as the exponent of 1."""
SIGNED = {16: np.int16, 32: np.int32, 64: np.int64}


class TreeMasks(NamedTuple):
    """What each column leaves of the leaves of each tree."""

    columns: Tensor
    """Columns that trees read. **Shape:** ``(k,)``."""
    edges: Tensor
    """Their limits in order, filled up with infinity. **Shape:** ``(k, e)``."""
    starts: Tensor
    """Where each column's lines begin. **Shape:** ``(k, 1)``."""
    lines: Tensor
    """Bits of the leaves that are left, for each interval of each column. **Shape:** ``(lines, trees)``."""
    values: Tensor
    """What each leaf adds, ``bits`` for each tree. **Shape:** ``(trees * bits,)``."""
    first_leaf: Tensor
    """Where the values of each tree begin, less what exponents of numbers begin with. **Shape:** ``(trees,)``."""
    start: Tensor

    @classmethod
    def of(cls, trees: Trees) -> TreeMasks | None:
        """The tables of trees, or nothing where they would be too large or a tree has more than 64 leaves."""
        shape = _leaf_ranges(trees)
        if shape is None:
            return None
        first, count, owner = shape
        n_trees, limit = len(trees.roots), trees.limit.numpy()
        is_leaf = trees.child.numpy() == np.arange(len(limit))
        bits = next(size for size in SIGNED if size >= int(count.max()))
        inner = np.flatnonzero(~is_leaf)
        columns, place = np.unique(trees.feature.numpy()[inner], return_inverse=True)
        edges = [np.unique(limit[inner[place == number]]) for number in range(len(columns))]
        starts = np.cumsum([0, *(len(part) + 1 for part in edges)])
        if not len(inner) or int(starts[-1]) * n_trees * bits // 8 > MAX_BYTES:
            return None
        left = trees.child.numpy()[inner]
        kept = ~_bits(first[left], count[left], bits)
        lines = np.full((int(starts[-1]), n_trees), -1, dtype=SIGNED[bits])
        for number, part in enumerate(edges):
            mine = np.flatnonzero(place == number)
            own = lines[starts[number] : starts[number + 1]]
            line = 1 + np.searchsorted(part, limit[inner[mine]])  # a value above the limit does not go to the left
            np.bitwise_and.at(own, (line, owner[inner[mine]]), kept[mine])
            np.bitwise_and.accumulate(own, axis=0, out=own)
        values = np.zeros((n_trees, bits), dtype=np.float32)
        values[owner[is_leaf], first[is_leaf]] = trees.value.numpy()[is_leaf]
        return cls(
            torch.from_numpy(columns.astype(np.int64)),
            torch.from_numpy(_pad(edges)),
            torch.from_numpy(starts[:-1, None].astype(np.int64)),
            torch.from_numpy(lines),
            torch.from_numpy(values).flatten(),
            (torch.arange(n_trees) * bits - FIRST_EXPONENT).int(),
            trees.start,
        )

    def predict(self, columns: Tensor) -> Tensor:
        """Answer rows. **Shape:** ``(n, p)`` -> ``(n,)``."""
        chosen = columns.index_select(1, self.columns).T.contiguous()
        wanted = torch.searchsorted(self.edges, chosen).add_(self.starts)
        size = max(1, PIECE // self.lines.shape[1])
        pieces = [self._answer(wanted[:, first : first + size]) for first in range(0, len(columns), size)]
        return torch.cat(pieces) if pieces else columns.new_zeros(0)

    def _answer(self, wanted: Tensor) -> Tensor:
        """**Shape:** lines of each column ``(k, n)`` -> ``(n,)``."""
        n_rows = wanted.shape[1]
        if n_rows <= FEW_ROWS:
            joined = self.lines.index_select(0, wanted.flatten()).view(*wanted.shape, -1).numpy()
            left = torch.from_numpy(np.bitwise_and.reduce(joined, axis=0))
        else:
            left = self.lines.index_select(0, wanted[0])
            for line in wanted[1:]:
                left.bitwise_and_(self.lines.index_select(0, line))
        lowest = left.bitwise_and_(left.neg())  # the first leaf that no column has ruled out
        leaf = lowest.float().view(torch.int32).bitwise_right_shift_(23).bitwise_and_(255)
        return (
            self.values.index_select(0, leaf.add_(self.first_leaf).flatten()).view(n_rows, -1).sum(dim=1) + self.start
        )


def mask_trees(trees: Trees) -> list[TreeMasks] | None:
    """The tables of trees, in several parts where one would be too large: fewer trees share fewer limits.

    Nothing where even that does not help, or where there are no trees.
    """
    for n_parts in (1, 2, 4, 8):
        parts = [TreeMasks.of(part) for part in split_trees(trees, n_parts)]
        tables = [part for part in parts if part is not None]
        if tables and len(tables) == len(parts) and sum(part.lines.nbytes for part in tables) <= MAX_BYTES:
            return tables
    return None


def _leaf_ranges(trees: Trees) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None:
    """Of each node its first leaf, its number of leaves and its tree, where leaves are counted from left to right."""
    child, roots = trees.child.numpy(), trees.roots.numpy()
    first, count, owner = np.zeros((3, len(child)), dtype=np.int64)
    owner[roots] = np.arange(len(roots))
    levels, level = [], roots
    while len(level):
        levels.append(level)
        inner = level[child[level] != level]
        for pair in (child[inner], child[inner] + 1):
            owner[pair] = owner[inner]
        level = np.concatenate([child[inner], child[inner] + 1])
    for level in reversed(levels):
        is_leaf = child[level] == level
        count[level] = np.where(is_leaf, 1, count[child[level]] + count[np.where(is_leaf, level, child[level] + 1)])
    if not levels or int(count.max()) > max(SIGNED):
        return None
    for level in levels:
        inner = level[child[level] != level]
        first[child[inner]] = first[inner]
        first[child[inner] + 1] = first[inner] + count[child[inner]]
    return first, count, owner


def _bits(first: NDArray[np.int64], count: NDArray[np.int64], bits: int) -> NDArray[Any]:
    """Numbers in which ``count`` bits from the ``first`` on are set; at least one bit of each stays unset."""
    ones = (np.uint64(1) << count.astype(np.uint64)) - np.uint64(1)
    return np.asarray((ones << first.astype(np.uint64)).astype(f"u{bits // 8}").view(SIGNED[bits]))


def _pad(edges: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    padded = np.full((len(edges), max(len(part) for part in edges)), np.inf, dtype=np.float32)
    for number, part in enumerate(edges):
        padded[number, : len(part)] = part
    return padded
