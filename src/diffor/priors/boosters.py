"""Boosted trees by scikit-learn, LightGBM or CatBoost, each as the same flat tables."""

from __future__ import annotations

import importlib
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from diffor.core.threads import LINEAR_ALGEBRA
from diffor.priors.trees import Trees, flatten, flatten_nodes

Floats = NDArray[np.floating]


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
