"""Trees as one operator: boosted trees of priors, and numbers of knots that a value has passed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffor.export.graph import FLOAT, LEARNING, Value
from diffor.priors.trees import Trees

Array = NDArray[Any]
LESS_OR_EQUAL, LEAF = "BRANCH_LEQ", "LEAF"


class Forest:
    """Trees that answer together: each answer is the sum of the leaves that a row falls into, in double precision.

    **Shape:** rows ``(n, p)`` float64 -> ``(n, n_answers)`` float32.
    """

    def __init__(self, n_answers: int) -> None:
        self.base = np.zeros(n_answers)
        self.trees: list[dict[str, Array]] = []

    def add_boosted(self, trees: Trees, answer: int, columns: NDArray[np.int64]) -> None:
        """Boosted trees; ``columns`` tells where each of theirs stands. **Shape:** ``(q,)``."""
        self.base[answer] += float(trees.start)
        feature, limit, child, value = (part.cpu().numpy() for part in trees[1:5])
        for first, end in pairwise([*trees.roots.tolist(), len(feature)]):
            own = slice(first, end)
            self._add_tree(columns[feature[own]], limit[own], child[own] - first, value[own], answer)

    def add_steps(self, limits: Array, answer: int) -> None:
        """The number of rising ``limits`` that lie below the column of the same place. **Shape:** ``(k,)``."""
        size = 2 * len(limits) + 1
        limit, child, value = np.zeros(size), np.arange(size), np.zeros(size)
        free, waiting = 1, [(0, 0, len(limits))]
        for node, low, high in waiting:  # grows while it is read: breadth first, so that siblings are neighbours
            if low == high:
                value[node] = low
                continue
            middle = (low + high) // 2
            limit[node], child[node] = limits[middle], free
            waiting += [(free, low, middle), (free + 1, middle + 1, high)]
            free += 2
        self._add_tree(np.full(size, answer), limit, child, value, answer)

    def _add_tree(self, feature: Array, limit: Array, child: Array, value: Array, answer: int) -> None:
        """One tree, its root first; where a column exceeds the limit, the way leads to the node after ``child``."""
        places = np.arange(len(child))
        is_leaf = child == places
        self.trees.append(
            {
                "feature": np.where(is_leaf, 0, feature),
                "limit": np.where(is_leaf, 0.0, limit),
                "child": np.where(is_leaf, 0, child),
                "next": np.where(is_leaf, 0, child + 1),
                "mode": np.where(is_leaf, LEAF, LESS_OR_EQUAL),
                "leaf": places[is_leaf],
                "value": value[is_leaf].astype(np.float64),
                "answer": np.full(is_leaf.sum(), answer),
            }
        )

    def answer(self, columns: Value) -> Value:
        """The operator. **Shape:** ``(n, p)`` float64 -> ``(n, n_answers)`` float32."""
        from onnx import numpy_helper

        if not self.trees:  # nothing was worth a tree: all rows have the same answer
            return (columns.take([0]) * 0.0 + columns.graph.constant(self.base)).cast(FLOAT)
        joined = {name: np.concatenate([tree[name] for tree in self.trees]) for name in self.trees[0]}
        numbers = np.arange(len(self.trees))
        return columns.graph.apply(
            "TreeEnsembleRegressor",
            columns,
            domain=LEARNING,
            dtype=FLOAT,
            n_targets=len(self.base),
            base_values_as_tensor=numpy_helper.from_array(self.base),
            nodes_treeids=np.repeat(numbers, [len(tree["mode"]) for tree in self.trees]).tolist(),
            nodes_nodeids=np.concatenate([np.arange(len(tree["mode"])) for tree in self.trees]).tolist(),
            nodes_featureids=joined["feature"].tolist(),
            nodes_modes=joined["mode"].tolist(),
            nodes_values_as_tensor=numpy_helper.from_array(joined["limit"].astype(np.float64)),
            nodes_truenodeids=joined["child"].tolist(),
            nodes_falsenodeids=joined["next"].tolist(),
            target_treeids=np.repeat(numbers, [len(tree["leaf"]) for tree in self.trees]).tolist(),
            target_nodeids=joined["leaf"].tolist(),
            target_ids=joined["answer"].tolist(),
            target_weights_as_tensor=numpy_helper.from_array(joined["value"]),
        )
