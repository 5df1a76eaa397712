"""A guide for networks: what boosted trees say about the target's place and spread, cross-fitted.

Trees find steps and corners of a table in seconds that a network needs minutes for; networks find smooth structure and
draw the distribution. So the trees' answer is one more input. Each row is answered by trees that have not seen it,
while training as in use; otherwise the network would learn to trust them more than they deserve.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.method import Inputs

Floats = NDArray[np.floating]

MIN_ROWS = 100
"""Fewer rows cannot teach trees anything that a network would not see by itself."""
PRIOR_ROWS = 20.0
"""A category's mean target counts as if this many rows of the overall mean had been seen before."""
PLACE_ROUNDS, SPREAD_ROUNDS = 500, 60
MAX_DEPTH = 10
MAX_FIT_ROWS = 100_000
PIECE = 1 << 19
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

    def predict(self, columns: Tensor) -> Tensor:
        """Answer rows. **Shape:** ``(n, p)`` -> ``(n,)``."""
        size = max(1, PIECE // max(len(self.roots), 1))
        return torch.cat([self._follow(columns[first : first + size]) for first in range(0, len(columns), size)])

    def _follow(self, columns: Tensor) -> Tensor:
        node = self.roots.expand(len(columns), -1)
        for _ in range(MAX_DEPTH):
            above = columns.gather(1, self.feature[node]) > self.limit[node]
            node = self.child[node] + above
        return self.start + self.value[node].sum(dim=1)


class Guide:
    """Cross-fitted boosted trees for a table: the expected place of the target in [0, 1] and its spread around it.

    >>> import torch
    >>> numbers, codes = torch.rand(300, 2), torch.zeros(300, 0, dtype=torch.int64)
    >>> guide, seen = Guide.fit((numbers, codes), numbers[:, 0], None, seed=0)
    >>> seen.shape, guide.transform((numbers, codes)).shape
    (torch.Size([300, 2]), torch.Size([300, 2]))
    """

    def __init__(self, folds: list[tuple[Trees, Trees, list[Tensor]]]) -> None:
        self.folds = folds
        """Trees for place and spread and the mean target of each category's levels, one triple for each fold."""

    @classmethod
    def fit(cls, inputs: Inputs, y: Tensor, weights: Tensor | None, seed: int) -> tuple[Guide, Tensor]:
        """Fit trees on training rows; also what they say about these rows, each fold answered by the others' trees.

        **Shape:** numbers ``(n, p)``, codes ``(n, c)``, y ``(n,)`` in [0, 1] -> guide, ``(n, 2)``.
        """
        target = y.double().numpy()
        importance = None if weights is None else weights.double().numpy()
        folds = list(split_folds(len(target), seed))
        levels = [level_means(inputs[1], target, rest) for rest, _ in folds]
        seen = np.zeros((len(target), 2))
        trees = []
        for kind, rounds in enumerate((PLACE_ROUNDS, SPREAD_ROUNDS)):
            wanted = target if kind == 0 else np.abs(target - seen[:, 0])
            trees.append([
                fit_trees(inputs, means, wanted, importance, fold, rounds, seed)
                for means, fold in zip(levels, folds, strict=True)
            ])  # fmt: skip
            for fitted, means, (_, held) in zip(trees[kind], levels, folds, strict=True):
                seen[held, kind] = answer(fitted, inputs, means, held)
        return cls(list(zip(*trees, levels, strict=True))), torch.from_numpy(seen).float()

    def transform(self, inputs: Inputs) -> Tensor:
        """What the trees say about rows that none of them has seen: the folds' mean. **Shape:** -> ``(n, 2)``."""
        answers = []
        for place, spread, levels in self.folds:
            columns = as_columns(inputs, levels)
            answers.append(torch.stack([place.predict(columns), spread.predict(columns)], dim=1))
        return torch.stack(answers).mean(dim=0)

    def to_tensors(self) -> dict[str, Tensor]:
        """Everything needed to rebuild the guide, by name."""
        tensors: dict[str, Tensor] = {}
        for fold, (place, spread, levels) in enumerate(self.folds):
            for kind, trees in (("place", place), ("spread", spread)):
                tensors |= {f"guide.{fold}.{kind}.{name}": part for name, part in trees._asdict().items()}
            tensors |= {f"guide.{fold}.levels.{column}": means for column, means in enumerate(levels)}
        return tensors

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Guide:
        """Rebuild a guide from :meth:`to_tensors`."""
        folds: list[tuple[Trees, Trees, list[Tensor]]] = []
        while f"guide.{len(folds)}.place.roots" in tensors:
            start = f"guide.{len(folds)}."
            place, spread = (
                Trees(**{name: tensors[f"{start}{kind}.{name}"] for name in Trees._fields})
                for kind in ("place", "spread")
            )
            n_columns = sum(name.startswith(f"{start}levels.") for name in tensors)
            folds.append((place, spread, [tensors[f"{start}levels.{column}"] for column in range(n_columns)]))
        return cls(folds)


def split_folds(n_rows: int, seed: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows to fit on and rows to answer, for each fold; fewer folds where rows abound.

    >>> [len(held) for rest, held in split_folds(1000, seed=0)]
    [200, 200, 200, 200, 200]
    """
    n_folds = 5 if n_rows < 20_000 else 3 if n_rows < 100_000 else 2
    order = np.random.default_rng(seed).permutation(n_rows)
    for part in np.array_split(order, n_folds):
        held = np.zeros(n_rows, dtype=bool)
        held[part] = True
        yield np.flatnonzero(~held), np.flatnonzero(held)


def level_means(codes: Tensor, target: Floats, rows: NDArray[np.int64]) -> list[Tensor]:
    """Mean target of each code of each categorical column in some rows, drawn to the overall mean where they are few.

    **Shape:** codes ``(n, c)``, rows ``(r,)`` -> c tables ``(codes + 1,)``; the last entry stands for other codes.
    """
    overall, means = float(target[rows].mean()), []
    for place in range(codes.shape[1]):
        column = codes[:, place].numpy()[rows]
        size = int(column.max()) + 1
        total = np.bincount(column, weights=target[rows], minlength=size)
        count = np.bincount(column, minlength=size)
        known = (total + PRIOR_ROWS * overall) / (count + PRIOR_ROWS)
        means.append(torch.from_numpy(np.append(known, overall)).float())
    return means


def as_columns(inputs: Inputs, levels: list[Tensor]) -> Tensor:
    """Numbers, and each category as its level's mean target. **Shape:** -> ``(n, p + c)``; at least one column."""
    numbers, codes = inputs[0], inputs[1]
    coded = [means[column.clamp(max=len(means) - 1)] for means, column in zip(levels, codes.T, strict=True)]
    columns = torch.cat([numbers, *(part[:, None] for part in coded)], dim=1)
    return columns if columns.shape[1] else columns.new_zeros(len(columns), 1)


def answer(trees: Trees, inputs: Inputs, levels: list[Tensor], rows: NDArray[np.int64]) -> Floats:
    """What trees say about some rows, a block at a time. **Shape:** rows ``(r,)`` -> ``(r,)``."""
    blocks = np.array_split(rows, max(1, len(rows) // MAX_FIT_ROWS))
    return np.concatenate([trees.predict(as_columns(_take(inputs, block), levels)).numpy() for block in blocks])


def fit_trees(
    inputs: Inputs,
    levels: list[Tensor],
    target: Floats,
    weights: Floats | None,
    fold: tuple[NDArray[np.int64], NDArray[np.int64]],
    rounds: int,
    seed: int,
) -> Trees:
    """Boost trees on one part of the rows until the other part is answered no better.

    At most ``MAX_FIT_ROWS`` rows are drawn from each part, so that neither time nor memory grows beyond.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    draw = np.random.default_rng(seed)
    rest, held = (
        part if len(part) <= MAX_FIT_ROWS else draw.choice(part, MAX_FIT_ROWS, replace=False) for part in fold
    )
    table, check = (as_columns(_take(inputs, part), levels).numpy() for part in (rest, held))
    model = HistGradientBoostingRegressor(
        learning_rate=0.1,
        max_iter=rounds,
        max_depth=MAX_DEPTH,
        max_features=1.0 if table.shape[1] < 5 else 0.5,
        early_stopping=True,
        n_iter_no_change=15,
        random_state=seed % 2**31,
    )
    of_rest, of_held = (None if weights is None else weights[part] for part in (rest, held))
    with threadpool_limits(torch.get_num_threads()):  # threads that wait for each other make it many times slower
        model.fit(table, target[rest], of_rest, X_val=check, y_val=target[held], sample_weight_val=of_held)
    return flatten(model, int(np.argmax(model.validation_score_)))


def _take(inputs: Inputs, rows: NDArray[np.int64]) -> Inputs:
    index = torch.from_numpy(rows)
    return tuple(part[index] for part in inputs)


def flatten(model: Any, n_trees: int) -> Trees:
    """The first trees of a fitted scikit-learn model as flat tables."""
    # scikit-learn offers no public view of its trees; what is read here is compared with its own answers in the tests.
    nodes = [predictor[0].nodes for predictor in model._predictors[:n_trees]]
    sizes = [len(tree) for tree in nodes]
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
        torch.tensor(float(np.ravel(model._baseline_prediction)[0])),
    )


def _renumber(nodes: Any, first: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Number the nodes of one tree from ``first`` so that siblings stand side by side."""
    place = np.zeros(len(nodes), dtype=np.int64)
    free, waiting = 1, [0]
    for node in waiting:  # grows while it is read: breadth first
        if not nodes["is_leaf"][node]:
            pair = [int(nodes["left"][node]), int(nodes["right"][node])]
            place[pair] = free, free + 1
            free += 2
            waiting += pair
    feature, limit, child, value = np.zeros((4, len(nodes)))
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
