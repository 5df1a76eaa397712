"""A guide for networks: what simple models say about the target's place and spread, cross-fitted.

Boosted trees find steps and corners of a table in seconds that a network needs minutes for, and a smooth curve by ridge
regression is hard to beat where rows are few; networks see both at once and draw the distribution. So the simple
models' answer is one more input. Each row is answered by models that have not seen it, while training as in use;
otherwise the network would learn to trust them more than they deserve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.encoders.boosted_trees import Trees, boost_trees
from diffor.encoders.curve import Curve, fit_curve
from diffor.method import Inputs

Floats = NDArray[np.floating]
RowNumbers = NDArray[np.int64]
Split = tuple[RowNumbers, RowNumbers]
"""Rows to fit on and rows to answer."""

MIN_ROWS = 100
"""Fewer rows cannot teach trees anything that a network would not see by itself."""
PRIOR_ROWS = (2.0, 200.0)
"""A category's mean target counts as if so many rows of the overall mean had been seen before, at least and at most."""
PLACE_ROUNDS, SPREAD_ROUNDS = 500, 60
MAX_FIT_ROWS = 100_000
MAX_COLUMNS = 256
"""Columns that simple models read at most: of thousands they would take longer than the network that they advise."""
N_CODING_PARTS = 5


class Fold(NamedTuple):
    """What was fitted on the rows outside of one fold."""

    place: Trees
    spread: Trees
    curve: Curve
    smooth: Tensor
    """The curve's share of the place; the trees have the rest. **Shape:** ``()``."""
    levels: list[Tensor]
    """Mean target of each category's levels."""
    chosen: Tensor
    """Which columns are read. **Shape:** ``(at most MAX_COLUMNS,)``."""

    def read(self, inputs: Inputs) -> Tensor:
        """The columns that this fold's models read. **Shape:** -> ``(n, k)``."""
        return read_columns(inputs, self.levels, self.chosen)

    def predict_place(self, columns: Tensor) -> Tensor:
        """Expected place of the target. **Shape:** ``(n, k)`` -> ``(n,)``."""
        trees = self.place.predict(columns)
        if not self.smooth:
            return trees
        return trees + self.smooth * (self.curve.predict(columns) - trees)  # torch.lerp rounds by the row's place


class Guide:
    """Cross-fitted boosted trees for a table: the expected place of the target in [0, 1] and its spread around it.

    Beside the trees there is a smooth curve, which small tables are often better answered by; its share in the place is
    what the rows that each has not seen prefer.

    >>> import torch
    >>> numbers, codes = torch.rand(300, 2), torch.zeros(300, 0, dtype=torch.int64)
    >>> guide, seen = Guide.fit((numbers, codes), numbers[:, 0], None, seed=0)
    >>> seen.shape, guide.transform((numbers, codes)).shape
    (torch.Size([300, 2]), torch.Size([300, 2]))
    """

    def __init__(self, folds: list[Fold]) -> None:
        self.folds = folds

    @classmethod
    def fit(cls, inputs: Inputs, y: Tensor, weights: Tensor | None, seed: int) -> tuple[Guide, Tensor]:
        """Fit trees on training rows; also what they say about these rows, each fold answered by the others' trees.

        **Shape:** numbers ``(n, p)``, codes ``(n, c)``, y ``(n,)`` in [0, 1] -> guide, ``(n, 2)``.
        """
        target = y.double().numpy()
        importance = None if weights is None else weights.double().numpy()
        splits = list(split_folds(len(target), seed))
        tables = [FoldTable(inputs, target, importance, split, seed) for split in splits]
        places = [table.fit_trees(target, importance, PLACE_ROUNDS) for table in tables]
        curves = [table.fit_curve(target, importance) for table in tables]
        by_trees = cross_answer(tables, [trees.predict for trees in places], inputs, splits)
        by_curve = cross_answer(tables, [curve.predict for curve in curves], inputs, splits)
        smooth = best_share(by_curve, by_trees, target, importance)
        place = by_trees + smooth * (by_curve - by_trees)
        missed = np.abs(target - place)
        spreads = [table.fit_trees(missed, importance, SPREAD_ROUNDS) for table in tables]
        spread = cross_answer(tables, [trees.predict for trees in spreads], inputs, splits)
        share = torch.tensor(smooth, dtype=torch.float32)
        folds = [
            Fold(trees, beside, curve, share, table.levels, table.chosen)
            for trees, beside, curve, table in zip(places, spreads, curves, tables, strict=True)
        ]
        return cls(folds), torch.from_numpy(np.stack([place, spread], axis=1)).float()

    def transform(self, inputs: Inputs) -> Tensor:
        """What the trees say about rows that none of them has seen: the folds' mean. **Shape:** -> ``(n, 2)``."""
        answers = []
        for fold in self.folds:
            columns = fold.read(inputs)
            answers.append(torch.stack([fold.predict_place(columns), fold.spread.predict(columns)], dim=1))
        total = answers[0]
        for answer in answers[1:]:  # one after another: a mean over a dimension rounds by the number of rows
            total = total + answer
        return total / len(answers)

    def to_tensors(self) -> dict[str, Tensor]:
        """Everything needed to rebuild the guide, by name."""
        tensors: dict[str, Tensor] = {}
        for place, fold in enumerate(self.folds):
            start = f"guide.{place}."
            for kind, trees in (("place", fold.place), ("spread", fold.spread)):
                tensors |= {f"{start}{kind}.{name}": part for name, part in trees._asdict().items()}
            tensors |= {f"{start}curve.{name}": part for name, part in fold.curve._asdict().items()}
            tensors[f"{start}smooth"], tensors[f"{start}chosen"] = fold.smooth, fold.chosen
            tensors |= {f"{start}levels.{column}": means for column, means in enumerate(fold.levels)}
        return tensors

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Guide:
        """Rebuild a guide from :meth:`to_tensors`."""
        folds: list[Fold] = []
        while f"guide.{len(folds)}.smooth" in tensors:
            start = f"guide.{len(folds)}."
            place, spread = (
                Trees(**{name: tensors[f"{start}{kind}.{name}"] for name in Trees._fields})
                for kind in ("place", "spread")
            )
            n_columns = sum(name.startswith(f"{start}levels.") for name in tensors)
            levels = [tensors[f"{start}levels.{column}"] for column in range(n_columns)]
            curve = Curve(**{name: tensors[f"{start}curve.{name}"] for name in Curve._fields})
            every = torch.arange(len(curve.centre))  # folders of older versions have read all columns
            chosen = tensors.get(f"{start}chosen", every)
            folds.append(Fold(place, spread, curve, tensors[f"{start}smooth"], levels, chosen))
        return cls(folds)


class FoldTable:
    """The columns that one fold's models are fitted on, at most ``MAX_FIT_ROWS`` rows, and those they are checked on.

    A category is coded as its level's mean target. In the rows to fit on, each row's mean comes from other rows, or
    models would find the target itself in the means of rare levels.
    """

    def __init__(self, inputs: Inputs, target: Floats, weights: Floats | None, split: Split, seed: int) -> None:
        draw, self.seed, codes = np.random.default_rng(seed), seed, inputs[1]
        self.levels = level_means(codes, target, weights, split[0])
        self.rows, self.check_rows = (
            part if len(part) <= MAX_FIT_ROWS else draw.choice(part, MAX_FIT_ROWS, replace=False) for part in split
        )
        parts = np.array_split(draw.permutation(len(self.rows)), N_CODING_PARTS)
        others = [level_means(codes, target, weights, np.delete(self.rows, part)) for part in parts]
        coded = [
            as_columns(_take(inputs, self.rows[part]), means).numpy() for part, means in zip(parts, others, strict=True)
        ]
        table = np.concatenate(coded)[np.argsort(np.concatenate(parts))]
        self.chosen = choose_columns(table, target[self.rows], None if weights is None else weights[self.rows])
        self.table = table[:, self.chosen.numpy()]
        self.check = self.read(_take(inputs, self.check_rows)).numpy()

    def read(self, inputs: Inputs) -> Tensor:
        """The columns that this fold's models read, of any rows. **Shape:** -> ``(n, k)``."""
        return read_columns(inputs, self.levels, self.chosen)

    def fit_trees(self, target: Floats, weights: Floats | None, rounds: int) -> Trees:
        """Boost trees on the rows until the check rows are answered no better. **Shape:** target ``(n,)``."""
        of_rows, of_check = (None if weights is None else weights[part] for part in (self.rows, self.check_rows))
        check = self.check, target[self.check_rows], of_check
        return boost_trees(self.table, target[self.rows], of_rows, check, rounds, self.seed)

    def fit_curve(self, target: Floats, weights: Floats | None) -> Curve:
        """A smooth curve through the rows that answers the check rows best. **Shape:** target ``(n,)``."""
        of_rows, of_check = (None if weights is None else weights[part] for part in (self.rows, self.check_rows))
        check = self.check, target[self.check_rows], of_check
        return fit_curve(self.table, target[self.rows], of_rows, check, self.seed)


def split_folds(n_rows: int, seed: int) -> Iterator[Split]:
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


def level_means(codes: Tensor, target: Floats, weights: Floats | None, rows: RowNumbers) -> list[Tensor]:
    """Mean target of each code of each categorical column in some rows, drawn to the overall mean where they are few.

    **Shape:** codes ``(n, c)``, rows ``(r,)`` -> c tables ``(codes + 1,)``; the last entry stands for other codes.
    """
    wanted, means = target[rows], []
    importance = np.ones(len(rows)) if weights is None else weights[rows]
    overall = float(np.average(wanted, weights=importance if importance.any() else None))
    squares = float((importance * wanted**2).sum())
    for place in range(codes.shape[1]):
        column = codes[:, place].numpy()[rows]
        total, count = (
            np.bincount(column, weights=part).astype(np.float64) for part in (importance * wanted, importance)
        )
        prior = prior_rows(total, count, squares)
        means.append(torch.from_numpy(np.append((total + prior * overall) / (count + prior), overall)).float())
    return means


def prior_rows(total: Floats, count: Floats, squares: float) -> float:
    """How many rows the overall mean is worth beside a level's own: the variance within levels over that between them.

    Both are estimated by moments from sums and counts of the levels and the sum of squares of all rows.

    >>> prior_rows(np.array([0.0, 10.0]), np.array([10.0, 10.0]), squares=10.0)
    2.0
    """
    seen = count > 0
    n_rows, n_levels = float(count.sum()), int(seen.sum())
    if n_levels < 2 or n_rows <= n_levels:
        return PRIOR_ROWS[1]
    of_levels = float((total[seen] ** 2 / count[seen]).sum())
    within = (squares - of_levels) / (n_rows - n_levels)
    typical = (n_rows - float((count**2).sum()) / n_rows) / (n_levels - 1)
    between = ((of_levels - float(total.sum()) ** 2 / n_rows) / (n_levels - 1) - within) / typical
    return float(np.clip(within / between, *PRIOR_ROWS)) if between > 0 else PRIOR_ROWS[1]


def as_columns(inputs: Inputs, levels: list[Tensor]) -> Tensor:
    """Numbers, and each category as its level's mean target. **Shape:** -> ``(n, p + c)``; at least one column."""
    numbers, codes = inputs[0], inputs[1]
    coded = [means[column.clamp(max=len(means) - 1)] for means, column in zip(levels, codes.T, strict=True)]
    columns = torch.cat([numbers, *(part[:, None] for part in coded)], dim=1)
    return columns if columns.shape[1] else columns.new_zeros(len(columns), 1)


def read_columns(inputs: Inputs, levels: list[Tensor], chosen: Tensor) -> Tensor:
    """The chosen ones of all columns. **Shape:** -> ``(n, k)``."""
    columns = as_columns(inputs, levels)
    return columns if len(chosen) == columns.shape[1] else columns[:, chosen]


def choose_columns(table: Floats, target: Floats, weights: Floats | None) -> Tensor:
    """All columns, or of too many those that go with the target most, up or down. **Shape:** ``(n, q)`` -> ``(k,)``.

    >>> choose_columns(np.eye(3), np.arange(3.0), None)
    tensor([0, 1, 2])
    """
    if table.shape[1] <= MAX_COLUMNS:
        return torch.arange(table.shape[1])
    importance = np.ones(len(target)) if weights is None else weights
    apart = table - np.average(table, axis=0, weights=importance)
    together = np.abs((importance * (target - np.average(target, weights=importance))) @ apart)
    spread = np.sqrt(importance @ apart**2)
    relation = np.divide(together, spread, out=np.zeros_like(together), where=spread > 1e-9)
    return torch.from_numpy(np.sort(np.argsort(-relation, kind="stable")[:MAX_COLUMNS]))


def cross_answer(
    tables: list[FoldTable], answers: list[Callable[[Tensor], Tensor]], inputs: Inputs, splits: list[Split]
) -> Floats:
    """What each fold's model says about the rows that it has not seen, a block at a time. **Shape:** -> ``(n,)``."""
    seen = np.zeros(len(inputs[0]))
    for table, answer, (_, held) in zip(tables, answers, splits, strict=True):
        for block in np.array_split(held, max(1, len(held) // MAX_FIT_ROWS)):
            seen[block] = answer(table.read(_take(inputs, block))).numpy()
    return seen


def best_share(first: Floats, second: Floats, target: Floats, weights: Floats | None) -> float:
    """The share in [0, 1] of the first answer beside the second with the smallest mean squared error.

    >>> best_share(np.array([1.0, 1.0]), np.array([0.0, 0.0]), np.array([0.2, 0.4]), None)
    0.30000000000000004
    """
    apart = first - second
    importance = np.ones_like(apart) if weights is None else weights
    power = float((importance * apart**2).sum())
    return float(np.clip((importance * apart * (target - second)).sum() / power, 0, 1)) if power > 0 else 0.0


def _take(inputs: Inputs, rows: RowNumbers) -> Inputs:
    index = torch.from_numpy(rows)
    return tuple(part[index] for part in inputs)
