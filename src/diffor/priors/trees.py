"""Boosted trees as flat tensors: grown by scikit-learn, LightGBM or CatBoost, followed with torch."""

from __future__ import annotations

import importlib
import itertools
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.core.threads import LINEAR_ALGEBRA
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


class Task(NamedTuple):
    """What trees are fitted to, and the rows that decide how many there are."""

    table: Floats
    target: Floats
    weights: Floats | None
    check: Floats
    check_target: Floats
    check_weights: Floats | None


class Growth(NamedTuple):
    """How trees grow."""

    rounds: int
    patience: int
    rate: float
    leaves: int
    min_leaf: int
    penalty: float = 1.0
    columns: float = 0.5
    """Share of columns that each split may choose from."""
    depth: int = 6


def still(value: float) -> Trees:
    """No trees: the same answer to every row."""
    none = torch.zeros(0, dtype=torch.int64)
    return Trees(none, none, torch.zeros(0), none, torch.zeros(0), torch.tensor(value))


def grow_by_sklearn(task: Task, growth: Growth, seed: int) -> Trees:
    """Trees of scikit-learn's histogram boosting."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    model = HistGradientBoostingRegressor(
        learning_rate=growth.rate,
        max_iter=growth.rounds,
        max_leaf_nodes=growth.leaves,
        max_depth=growth.depth,
        min_samples_leaf=growth.min_leaf,
        l2_regularization=growth.penalty,
        max_features=1.0 if task.table.shape[1] < 5 else growth.columns,
        early_stopping=True,
        n_iter_no_change=growth.patience,
        random_state=seed % 2**31,
    )
    count = torch.get_num_threads()  # threads that wait for each other make it many times slower
    with LINEAR_ALGEBRA.hold(count), threadpool_limits(count, "openmp"):
        model.fit(
            task.table, task.target, task.weights,
            X_val=task.check, y_val=task.check_target, sample_weight_val=task.check_weights,
        )  # fmt: skip
    return flatten(model, int(np.argmax(model.validation_score_)))


def grow_by_lightgbm(task: Task, growth: Growth, seed: int) -> Trees:
    """Trees of LightGBM, where it is installed."""
    lightgbm = _need("lightgbm")
    settings = {
        "objective": "l2", "learning_rate": growth.rate, "num_leaves": growth.leaves, "max_depth": growth.depth,
        "min_data_in_leaf": growth.min_leaf, "lambda_l2": growth.penalty, "feature_fraction": 0.8,
        "bagging_fraction": 0.8, "bagging_freq": 1, "verbosity": -1, "seed": seed % 2**31,
        "num_threads": torch.get_num_threads(), "deterministic": True, "force_col_wise": True,
    }  # fmt: skip
    train = lightgbm.Dataset(task.table, task.target, weight=task.weights)
    check = lightgbm.Dataset(task.check, task.check_target, weight=task.check_weights, reference=train)
    stop = lightgbm.early_stopping(growth.patience, verbose=False)
    model = lightgbm.train(settings, train, growth.rounds, valid_sets=[check], callbacks=[stop])
    dumped = model.dump_model(num_iteration=model.best_iteration or growth.rounds)
    return flatten_nodes([_lightgbm_nodes(tree["tree_structure"]) for tree in dumped["tree_info"]], 0.0)


def grow_by_catboost(task: Task, growth: Growth, seed: int) -> Trees:
    """Trees of CatBoost, where it is installed."""
    catboost = _need("catboost")
    model = catboost.CatBoostRegressor(
        iterations=growth.rounds, learning_rate=growth.rate, depth=growth.depth, random_seed=seed % 2**31, verbose=0,
        thread_count=torch.get_num_threads(), allow_writing_files=False, early_stopping_rounds=growth.patience,
    )  # fmt: skip
    check = catboost.Pool(task.check, task.check_target, weight=task.check_weights)
    model.fit(task.table, task.target, sample_weight=task.weights, eval_set=check)
    with tempfile.TemporaryDirectory() as folder:  # CatBoost writes its trees to files only
        model.save_model(str(Path(folder) / "model.json"), format="json")
        saved = json.loads((Path(folder) / "model.json").read_text())
    scale, (bias,) = saved["scale_and_bias"]
    return flatten_nodes([_catboost_nodes(tree, scale) for tree in saved["oblivious_trees"]], float(bias))


def _lightgbm_nodes(root: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """One tree of LightGBM's dump as arrays."""
    nodes, left, right = [root], [], []
    for node in nodes:  # grows while it is read
        left.append(len(nodes) if "left_child" in node else 0)
        right.append(len(nodes) + 1 if "left_child" in node else 0)
        nodes += [node[side] for side in ("left_child", "right_child") if side in node]
    return {
        "is_leaf": np.array(["left_child" not in node for node in nodes]),
        "left": np.array(left),
        "right": np.array(right),
        "feature_idx": np.array([node.get("split_feature", 0) for node in nodes]),
        "num_threshold": np.array([node.get("threshold", 0.0) for node in nodes], dtype=np.float64),
        "value": np.array([node.get("leaf_value", 0.0) for node in nodes]),
    }


def _catboost_nodes(tree: dict[str, Any], scale: float) -> dict[str, NDArray[Any]]:
    """One tree of CatBoost's file as arrays: a level asks one question, the answers are the bits of a leaf's number."""
    splits, depth = tree["splits"] or [], len(tree["splits"] or [])
    level = np.concatenate([np.full(2**step, step) for step in range(depth + 1)])
    node = np.arange(2 ** (depth + 1) - 1)
    is_leaf = level == depth
    path = node + 1 - 2**level  # answers on the way to a node, the first as the highest bit
    leaf = sum(((path >> (depth - 1 - step)) & 1) << step for step in range(depth)) + np.zeros_like(path)
    features = [split["float_feature_index"] for split in splits] + [0]
    borders = [split["border"] for split in splits] + [0.0]
    return {
        "is_leaf": is_leaf,
        "left": np.where(is_leaf, 0, 2 * node + 1),
        "right": np.where(is_leaf, 0, 2 * node + 2),
        "feature_idx": np.array(features)[level],
        "num_threshold": np.array(borders, dtype=np.float64)[level],
        "value": np.where(is_leaf, scale * np.array(tree["leaf_values"])[np.where(is_leaf, leaf, 0)], 0.0),
    }


def _need(package: str) -> Any:
    """A package that is not always there."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(
            f"the prior {package!r} needs {package}: pip install {package}, or use prior='trees'"
        ) from error
