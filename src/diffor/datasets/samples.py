"""The contract of a data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """Inputs, targets in their original units, side columns that some methods need, and groups that splits respect."""

    x: pd.DataFrame
    y: NDArray[np.float64]
    side: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    groups: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Dataset:
    """A data set: what it is, where it comes from, how to read it and how it is split."""

    name: str
    description: str
    source: str
    metrics: tuple[str, ...]
    read: Callable[[str | Path | None], Samples]
    split: Callable[[str | Path | None, int], tuple[Rows, Rows]]
    """``split(root, index) -> (training rows, test rows)``; the index names the split or seeds it."""


def random_split(n_rows: int, test_share: float, seed: int) -> tuple[Rows, Rows]:
    """Training and test rows, drawn by the seed.

    >>> train, test = random_split(10, 0.2, seed=0)
    >>> len(train), len(test), sorted([*train.tolist(), *test.tolist()]) == list(range(10))
    (8, 2, True)
    """
    order = np.random.default_rng(seed).permutation(n_rows)
    n_test = round(test_share * n_rows)
    return np.sort(order[n_test:]), np.sort(order[:n_test])
