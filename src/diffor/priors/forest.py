"""A forest as a prior: each training row answered by the trees that were grown without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from diffor.priors.contract import (
    Floats,
    Read,
    counted_rows,
    means_of_others,
    under_prefix,
    with_prefix,
)
from diffor.priors.design import take
from diffor.priors.folds import MIN_FIT_ROWS, Lesson, PlacePrior, SpreadModel
from diffor.priors.trees import Trees, flatten_nodes

N_TREES = 100
MIN_LEAF = 3
MAX_FOREST_ROWS = 10_000
MAX_TREE_DEPTH = 20


class Forest(PlacePrior):
    """Extremely random trees on drawn rows; those that did not draw a row answer it.

    Categories are read as their codes, since means of their levels would carry the row's own target into trees that did
    not draw it. Of more rows than ``MAX_FOREST_ROWS`` some are drawn for all trees; the others are new to it.

    >>> from diffor.priors import PriorRows
    >>> rows = PriorRows((torch.rand(100, 2), torch.zeros(100, 0, dtype=torch.int64)))
    >>> u, folds = rows.inputs[0][:, 0].numpy(), np.arange(100) % 5
    >>> prior = Forest()
    >>> prior.fit(rows, u, None, folds, seed=0).shape, prior.predict(rows).shape
    ((100, 2), (100, 2))
    """

    name = "forest"

    def __init__(self) -> None:
        self.trees: Trees | None = None

    def fit_place(self, lesson: Lesson, target: Floats) -> Floats:
        """Grow the forest; also each row's place by trees without it. **Shape:** -> ``(n,)``."""
        inputs, weights, seed = lesson.inputs, lesson.weights, lesson.seed
        counted = counted_rows(len(target), weights)
        of_rows = np.ones(len(target)) if weights is None else weights
        others = means_of_others(target, of_rows, counted)
        if len(counted) > MAX_FOREST_ROWS:
            counted = np.sort(np.random.default_rng(seed).choice(counted, MAX_FOREST_ROWS, replace=False))
        if len(counted) < MIN_FIT_ROWS or float(np.ptp(target[counted])) == 0:
            self.trees = flatten_nodes([], float(np.average(target, weights=of_rows)))
            return others
        model = grow_forest(read(take(inputs, counted)).numpy(), target[counted], of_rows[counted], seed)
        self.trees = flatten_nodes([_nodes(tree.tree_) for tree in model.estimators_], 0.0)
        place = np.zeros(len(target))
        unseen = np.ones(len(target), dtype=bool)
        unseen[counted] = False
        rest = np.flatnonzero(unseen)
        place[rest] = self.trees.predict(read(take(inputs, rest)), MAX_TREE_DEPTH).numpy()
        answers = np.ravel(model.oob_prediction_)
        drawn_by_all = np.asarray(out_of_bag_counts(model, len(counted))) == 0
        place[counted] = np.where(drawn_by_all, others[counted], answers)
        return place

    def predict_place(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """The mean of the trees. **Shape:** -> ``(n,)``."""
        assert self.trees is not None
        return self.trees.predict(read(inputs), MAX_TREE_DEPTH)

    def check(self, read: Read) -> None:
        """Refuse what was not learned from such rows."""
        super().check(read)
        assert self.trees is not None
        self.trees.check(f"{self.name}.trees", read.n_columns)

    def place_tensors(self) -> dict[str, Tensor]:
        """The trees, by name."""
        assert self.trees is not None
        return with_prefix(self.trees._asdict(), "trees.")

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Forest:
        """Rebuild the prior from :meth:`to_tensors`."""
        prior = cls()
        prior.trees = Trees(**under_prefix(tensors, "trees."))
        prior.spread = SpreadModel.from_tensors(under_prefix(tensors, "spread."))
        return prior


def read(inputs: tuple[Tensor, ...]) -> Tensor:
    """Numbers and codes as the columns of a forest. **Shape:** -> ``(n, p + c)``; at least one column."""
    columns = torch.cat([inputs[0], inputs[1].float()], dim=1)
    return columns if columns.shape[1] else columns.new_zeros(len(columns), 1)


def grow_forest(table: Floats, target: Floats, weights: Floats, seed: int) -> Any:
    """A fitted forest of scikit-learn with its out-of-bag answers. **Shape:** ``(n, p)``, ``(n,)``, ``(n,)``."""
    import warnings

    from sklearn.ensemble import ExtraTreesRegressor

    model = ExtraTreesRegressor(
        n_estimators=N_TREES,
        min_samples_leaf=MIN_LEAF,
        max_depth=MAX_TREE_DEPTH,
        max_features=1.0 if table.shape[1] < 5 else 0.6,
        bootstrap=True,
        oob_score=True,
        n_jobs=1,
        random_state=seed % 2**31,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Some inputs do not have OOB scores")  # they have the others' mean
        return model.fit(table, target, weights)


def out_of_bag_counts(model: Any, n_rows: int) -> Floats:
    """How many trees have not drawn each row. **Shape:** -> ``(n,)``."""
    drawn = [np.bincount(rows, minlength=n_rows) > 0 for rows in model.estimators_samples_]
    return np.asarray(len(drawn) - np.sum(drawn, axis=0), dtype=np.float64)


def _nodes(tree: Any) -> dict[str, Any]:
    """One tree of a forest as arrays."""
    is_leaf = tree.children_left < 0
    return {
        "is_leaf": is_leaf,
        "left": np.where(is_leaf, 0, tree.children_left),
        "right": np.where(is_leaf, 0, tree.children_right),
        "feature_idx": np.where(is_leaf, 0, tree.feature),
        "num_threshold": tree.threshold,
        "value": tree.value[:, 0, 0] / N_TREES,
    }
