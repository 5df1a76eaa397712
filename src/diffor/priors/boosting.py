"""Boosted trees as a prior: one model a fold for the place, and a smaller one for the spread."""

from __future__ import annotations

from torch import Tensor

from diffor.priors.contract import (
    Floats,
    Read,
    under_prefix,
    with_prefix,
)
from diffor.priors.folds import FoldModels, Lesson, PlacePrior, SpreadModel, grow_folds
from diffor.priors.trees import Growth, Task, Trees, grow_by_catboost, grow_by_lightgbm, grow_by_sklearn

MANY_ROWS, VERY_MANY_ROWS = 2000, 10_000
"""From here on trees have more leaves, with more rows in each; and there may be more trees."""


class BoostedTrees(PlacePrior):
    """Boosted trees of scikit-learn, squared error, each fold's rows answered by trees of the others.

    New rows are answered by the mean of the folds' trees.

    >>> import numpy as np, torch
    >>> from diffor.priors import PriorRows
    >>> rows = PriorRows((torch.rand(200, 2), torch.zeros(200, 0, dtype=torch.int64)))
    >>> u, folds = rows.inputs[0][:, 0].numpy(), np.arange(200) % 5
    >>> prior = BoostedTrees()
    >>> prior.fit(rows, u, None, folds, seed=0).shape, prior.predict(rows).shape
    ((200, 2), (200, 2))
    """

    name = "trees"

    @staticmethod
    def grow(task: Task, growth: Growth, seed: int) -> Trees:
        """Grow the trees of the place."""
        return grow_by_sklearn(task, growth, seed)

    def __init__(self) -> None:
        self.place: FoldModels | None = None

    def growth(self, n_rows: int) -> Growth:
        """How the trees of the place grow, by the number of rows."""
        few = n_rows < MANY_ROWS
        return Growth(
            rounds=300 if n_rows < VERY_MANY_ROWS else 600,
            patience=15,
            rate=0.1,
            leaves=15 if few else 31,
            min_leaf=5 if few else 10,
            columns=0.7 if few else 0.5,
            depth=10,
        )

    def fit_place(self, lesson: Lesson, target: Floats) -> Floats:
        """Fit the folds' trees; also each row's place by the trees of other folds. **Shape:** -> ``(n,)``."""
        self.place, place = grow_folds(lesson, target, self.grow, self.growth(len(target)))
        return place

    def predict_place(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """The mean of the folds' trees. **Shape:** -> ``(n,)``."""
        assert self.place is not None
        return self.place.predict(inputs)

    def check(self, read: Read) -> None:
        """Refuse what was not learned from such rows."""
        super().check(read)
        assert self.place is not None
        self.place.check(f"{self.name}.place", read)

    def place_tensors(self) -> dict[str, Tensor]:
        """The folds' trees and codings, by name."""
        assert self.place is not None
        return with_prefix(self.place.to_tensors(), "place.")

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> BoostedTrees:
        """Rebuild the prior from :meth:`to_tensors`."""
        prior = cls()
        prior.place = FoldModels.from_tensors(under_prefix(tensors, "place."))
        prior.spread = SpreadModel.from_tensors(under_prefix(tensors, "spread."))
        return prior


class LightGBMTrees(BoostedTrees):
    """The same by LightGBM; a saved model needs it no more."""

    name = "lightgbm"

    @staticmethod
    def grow(task: Task, growth: Growth, seed: int) -> Trees:
        """Grow the trees of the place."""
        return grow_by_lightgbm(task, growth, seed)

    def growth(self, n_rows: int) -> Growth:
        """How the trees of the place grow, by the number of rows."""
        return Growth(rounds=600, patience=30, rate=0.05, leaves=31, min_leaf=max(5, min(20, n_rows // 100)), depth=10)


class CatBoostTrees(BoostedTrees):
    """The same by CatBoost; a saved model needs it no more."""

    name = "catboost"

    @staticmethod
    def grow(task: Task, growth: Growth, seed: int) -> Trees:
        """Grow the trees of the place."""
        return grow_by_catboost(task, growth, seed)

    def growth(self, n_rows: int) -> Growth:
        """How the trees of the place grow, by the number of rows."""
        return Growth(rounds=1500, patience=60, rate=0.06, leaves=64, min_leaf=1)
