"""The contract of a data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Rows = NDArray[np.int64]
TEST_SHARE = 0.2
"""Share of the rows that is for testing where no split is given."""


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
    read: Callable[..., Samples]
    """``read(root, **options)``; most have no options."""
    split: Callable[..., tuple[Rows, Rows]]
    """``split(root, index) -> (training rows, test rows)``; the index names the split or seeds it."""
    parts: Callable[..., tuple[Rows, Rows, Rows]] | None = None
    """``parts(root, index) -> (training, validation, test rows)``, where the protocol names all three; the
    training rows of ``split`` are then the first two together."""
    count_splits: Callable[..., int] | None = None
    """``count_splits(root)`` says how many splits there are, where each row is tested on in exactly one of them: the
    figure of such a set is that over all rows of all splits."""
    n_grades: int | None = None
    """Number of ordered grades, whose codes from 0 are the targets; None where the target is a value."""
    bounds: tuple[float, float] | None = None
    """Legal range of the target, where it is known beforehand."""
    image_column: str | None = None
    """Column of the inputs that names the files of pictures, where these are the inputs."""
    standardised: bool = False
    """Whether a benchmark centres and scales the columns by the rows to learn from, validation rows among them."""
    truth: Callable[[pd.DataFrame, int, int], NDArray[np.float64]] | None = None
    """``truth(x, n_samples, seed) -> (n, n_samples)``: draws from the true conditional distribution, where known."""

    @property
    def task(self) -> str:
        """``grades`` or ``value``."""
        return "value" if self.n_grades is None else "grades"


def random_split(n_rows: int, test_share: float, seed: int) -> tuple[Rows, Rows]:
    """Training and test rows, drawn by the seed.

    >>> train, test = random_split(10, 0.2, seed=0)
    >>> len(train), len(test), sorted([*train.tolist(), *test.tolist()]) == list(range(10))
    (8, 2, True)
    """
    order = np.random.default_rng(seed).permutation(n_rows)
    n_test = round(test_share * n_rows)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def random_group_split(groups: NDArray[np.int64], test_share: float, seed: int) -> tuple[Rows, Rows]:
    """Training and test rows, drawn by the seed, with all rows of a group on the same side.

    >>> train, test = random_group_split(np.array([7, 7, 8, 8]), 0.5, seed=0)
    >>> train.tolist() in ([0, 1], [2, 3]), sorted([*train.tolist(), *test.tolist()])
    (True, [0, 1, 2, 3])
    """
    names, member = np.unique(groups, return_inverse=True)
    _, test_groups = random_split(len(names), test_share, seed)
    in_test = np.isin(member, test_groups)
    return np.flatnonzero(~in_test), np.flatnonzero(in_test)


def split_rows(root: str | Path | None, index: int, n_rows: int) -> tuple[Rows, Rows]:
    """A fifth of so many rows for testing, drawn by the index."""
    return random_split(n_rows, TEST_SHARE, index)


def split_read(root: str | Path | None, index: int, read: Callable[[str | Path | None], Samples]) -> tuple[Rows, Rows]:
    """A fifth of the rows that are read for testing, drawn by the index: groups, such as people, stay together."""
    samples = read(root)
    if samples.groups is None:
        return random_split(len(samples), TEST_SHARE, index)
    return random_group_split(samples.groups, TEST_SHARE, index)
