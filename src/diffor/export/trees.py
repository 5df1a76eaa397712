"""Trees as one operator: the boosted trees of a guide, and numbers of knots that a value has passed."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffor.encoders.boosted_trees import Trees
from diffor.export.graph import FLOAT, LEARNING, WHOLE, Value

LESS_OR_EQUAL, LEAF = "BRANCH_LEQ", "LEAF"


@dataclass
class Forest:
    """Trees that answer together: each answer is the sum of the leaves that a row falls into.

    **Shape:** rows ``(n, p)`` -> ``(n, n_answers)``.
    """

    n_answers: int
    base: list[float] = field(default_factory=list)
    """What each answer starts from."""
    nodes: dict[str, list[Any]] = field(default_factory=dict)
    leaves: dict[str, list[Any]] = field(default_factory=dict)
    n_trees: int = 0

    def __post_init__(self) -> None:
        self.base = [0.0] * self.n_answers
        names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
        self.nodes = {name: [] for name in names}
        self.leaves = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def add_boosted(self, trees: Trees, answer: int, share: float, first_column: int) -> None:
        """Boosted trees whose columns stand from ``first_column`` on; ``share`` of what they say is added."""
        self.base[answer] += share * float(trees.start)
        feature, limit, child, value = (
            getattr(trees, name).cpu().numpy() for name in ("feature", "limit", "child", "value")
        )
        roots = [*trees.roots.tolist(), len(feature)]
        for first, end in pairwise(roots):
            places = np.arange(first, end)
            is_leaf = child[first:end] == places
            self._add_tree(
                np.where(is_leaf, 0, first_column + feature[first:end]),
                np.where(is_leaf, 0.0, limit[first:end]),
                np.where(is_leaf, 0, child[first:end] - first),
                is_leaf,
                share * value[first:end],
                answer,
            )

    def add_steps(self, limits: NDArray[Any], answer: int = 0, column: int = 0) -> None:
        """The number of rising ``limits`` that lie below a column. **Shape:** ``(k,)``."""
        n_inner = len(limits)
        feature, limit, child = np.full(2 * n_inner + 1, column), np.zeros(2 * n_inner + 1), np.zeros(2 * n_inner + 1)
        is_leaf, value = np.ones(2 * n_inner + 1, dtype=bool), np.zeros(2 * n_inner + 1)
        free, waiting = 1, [(0, 0, n_inner)]
        for node, low, high in waiting:  # grows while it is read: breadth first, so that siblings are neighbours
            if low == high:
                value[node] = low
                continue
            middle = (low + high) // 2
            is_leaf[node], limit[node], child[node] = False, limits[middle], free
            waiting += [(free, low, middle), (free + 1, middle + 1, high)]
            free += 2
        self._add_tree(feature, limit, child, is_leaf, value, answer)

    def _add_tree(
        self,
        feature: NDArray[Any],
        limit: NDArray[Any],
        child: NDArray[Any],
        is_leaf: NDArray[np.bool_],
        value: NDArray[Any],
        answer: int,
    ) -> None:
        """One tree, its root first; where a column exceeds the limit, the way leads to the node after ``child``."""
        places = np.arange(len(feature))
        parts = {
            "treeids": np.full(len(feature), self.n_trees),
            "nodeids": places,
            "featureids": feature,
            "modes": np.where(is_leaf, LEAF, LESS_OR_EQUAL),
            "values": limit.astype(np.float32),
            "truenodeids": child.astype(np.int64),
            "falsenodeids": np.where(is_leaf, 0, child + 1).astype(np.int64),
        }
        for name, part in parts.items():
            self.nodes[name] += part.tolist()
        ends = places[is_leaf]
        self.leaves["treeids"] += [self.n_trees] * len(ends)
        self.leaves["nodeids"] += ends.tolist()
        self.leaves["ids"] += [answer] * len(ends)
        self.leaves["weights"] += value[is_leaf].astype(np.float32).tolist()
        self.n_trees += 1

    def answer(self, columns: Value) -> Value:
        """The operator. **Shape:** ``(n, p)`` float32 -> ``(n, n_answers)``."""
        if self.n_trees == 0:  # nothing was worth a tree: all rows have the same answer
            none = columns.take([0]) * 0.0
            return none + columns.graph.constant(np.array(self.base, dtype=np.float32))
        attributes: dict[str, Any] = {f"nodes_{name}": part for name, part in self.nodes.items()}
        attributes |= {f"target_{name}": part for name, part in self.leaves.items()}
        return columns.graph.apply(
            "TreeEnsembleRegressor",
            columns,
            domain=LEARNING,
            dtype=FLOAT,
            n_targets=self.n_answers,
            base_values=self.base,
            post_transform="NONE",
            aggregate_function="SUM",
            **attributes,
        )


def count_below(values: Value, limits: NDArray[Any], width: int) -> Value:
    """How many rising limits lie below each value, compared in single precision. **Shape:** ``(n, width)``, kept."""
    forest = Forest(n_answers=1)
    forest.add_steps(limits)
    return forest.answer(values.cast(FLOAT).reshape(-1, 1)).reshape(-1, width).cast(WHOLE)
