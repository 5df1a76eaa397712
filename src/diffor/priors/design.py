"""Target encoding: what priors read of a table, numbers and each category's mean target in other rows."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.floating]
RowNumbers = NDArray[np.int64]
Split = tuple[RowNumbers, RowNumbers]
"""Rows to fit on and rows to answer."""

PRIOR_ROWS = (2.0, 200.0)
"""A category's mean target counts as if so many rows of the overall mean had been seen before, at least and at most."""
MAX_FIT_ROWS = 100_000
MAX_COLUMNS = 256
"""Columns that simple models read at most: of thousands they would take longer than the network that they advise."""
N_CODING_PARTS = 5


class FoldDesign:
    """The columns that one fold's models are fitted on, at most ``MAX_FIT_ROWS`` rows, and those they are checked on.

    A category is coded as its level's mean target. In the rows to fit on, each row's mean comes from other rows, or
    models would find the target itself in the means of rare levels.
    """

    def __init__(
        self, inputs: tuple[Tensor, ...], target: Floats, weights: Floats | None, split: Split, seed: int
    ) -> None:
        draw, self.seed, codes = np.random.default_rng(seed), seed, inputs[1]
        self.levels = target_encoding(codes, target, weights, split[0])
        self.rows, self.check_rows = (
            part if len(part) <= MAX_FIT_ROWS else draw.choice(part, MAX_FIT_ROWS, replace=False) for part in split
        )
        table = code_by_others(inputs, target, weights, self.rows, draw)
        self.chosen = choose_columns(table, target[self.rows], None if weights is None else weights[self.rows])
        self.table = table[:, self.chosen.numpy()]
        self.check = self.read(take(inputs, self.check_rows)).numpy()

    def read(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """The columns that this fold's models read, of any rows. **Shape:** -> ``(n, k)``."""
        return read_columns(inputs, self.levels, self.chosen)


def code_by_others(
    inputs: tuple[Tensor, ...], target: Floats, weights: Floats | None, rows: RowNumbers, draw: np.random.Generator
) -> NDArray[np.float32]:
    """Columns of some rows; a category is its level's mean target in others of them. **Shape:** -> ``(r, q)``."""
    if not inputs[1].shape[1]:
        return np.asarray(as_columns(take(inputs, rows), []).numpy())
    parts = np.array_split(draw.permutation(len(rows)), N_CODING_PARTS)
    others = [target_encoding(inputs[1], target, weights, np.delete(rows, part)) for part in parts]
    coded = [as_columns(take(inputs, rows[part]), means).numpy() for part, means in zip(parts, others, strict=True)]
    return np.asarray(np.concatenate(coded)[np.argsort(np.concatenate(parts))])


def target_encoding(codes: Tensor, target: Floats, weights: Floats | None, rows: RowNumbers) -> list[Tensor]:
    """Mean target of each code of each categorical column in some rows, drawn to the overall mean where they are few.

    **Shape:** codes ``(n, c)``, rows ``(r,)`` -> c tables ``(codes + 1,)``; the last entry stands for other codes.
    """
    wanted, means = target[rows], []
    importance = np.ones(len(rows)) if weights is None else weights[rows]
    overall = float(np.average(wanted, weights=importance)) if importance.any() else float(target.mean())
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
    if not typical > 0:  # one level has all the weight
        return PRIOR_ROWS[1]
    between = ((of_levels - float(total.sum()) ** 2 / n_rows) / (n_levels - 1) - within) / typical
    return float(np.clip(within / between, *PRIOR_ROWS)) if between > 0 else PRIOR_ROWS[1]


def as_columns(inputs: tuple[Tensor, ...], levels: list[Tensor]) -> Tensor:
    """Numbers, and each category as its level's mean target. **Shape:** -> ``(n, p + c)``; at least one column."""
    numbers, codes = inputs[0], inputs[1]
    if not levels and numbers.shape[1]:
        return numbers
    coded = [means[column.clamp(max=len(means) - 1)] for means, column in zip(levels, codes.T, strict=True)]
    columns = torch.cat([numbers, *(part[:, None] for part in coded)], dim=1)
    return columns if columns.shape[1] else columns.new_zeros(len(columns), 1)


def read_columns(inputs: tuple[Tensor, ...], levels: list[Tensor], chosen: Tensor) -> Tensor:
    """The chosen ones of all columns. **Shape:** -> ``(n, k)``."""
    columns = as_columns(inputs, levels)
    return columns if len(chosen) == columns.shape[1] else columns[:, chosen]


def choose_columns(table: Floats, target: Floats, weights: Floats | None, at_most: int | None = None) -> Tensor:
    """All columns, or of too many those that go with the target most, up or down. **Shape:** ``(n, q)`` -> ``(k,)``.

    >>> choose_columns(np.eye(3), np.arange(3.0), None), choose_columns(np.eye(3), np.arange(3.0), None, at_most=1)
    (tensor([0, 1, 2]), tensor([0]))
    """
    at_most = MAX_COLUMNS if at_most is None else at_most
    if table.shape[1] <= at_most:
        return torch.arange(table.shape[1])
    importance = np.ones(len(target)) if weights is None else weights
    apart = table - np.average(table, axis=0, weights=importance)
    together = np.abs((importance * (target - np.average(target, weights=importance))) @ apart)
    spread = np.sqrt(importance @ apart**2)
    relation = np.divide(together, spread, out=np.zeros_like(together), where=spread > 1e-9)
    return torch.from_numpy(np.sort(np.argsort(-relation, kind="stable")[:at_most]))


def take(inputs: tuple[Tensor, ...], rows: RowNumbers) -> tuple[Tensor, ...]:
    """Some rows of inputs. **Shape:** row numbers ``(r,)``."""
    index = torch.from_numpy(rows)
    return tuple(part[index] for part in inputs)
