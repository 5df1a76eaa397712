"""Protocols that divide rows into those to learn from, those to stop and tune on, and those to be scored on.

Every protocol is a function of the samples and an index: the same pair gives the same rows. The rows of a group (a
person, a celebrity) stay in one part, whatever the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.datasets.samples import Rows, Samples
from diffor.errors import UserError, check_choice

SHARES = (0.8, 0.1, 0.1)
"""Training, validation and test shares of the paper."""
N_FOLDERS = 10
FIRST_FOLDERS = (0, 2, 4, 5, 6)
"""Where the six training folders begin in each of the five splits of the age benchmark; two for validation and two for
testing follow, round and round."""
VALIDATION_SHARE = 0.1
"""Share of the remaining rows that is set apart where a protocol names only the test rows."""
VALIDATION_RANK, TEST_RANK = 2, 5
"""Celebrities up to the first rank are for validation, from there up to the second for testing."""


@dataclass(frozen=True)
class Split:
    """Rows to learn from, to stop and tune on, and to be scored on: no row is in two parts. **Shape:** ``(n,)``."""

    training: Rows
    validation: Rows
    test: Rows

    def __post_init__(self) -> None:
        if not len(self.training) or not len(self.test):
            raise UserError(
                f"a split needs training and test rows, but has {len(self.training)} and {len(self.test)}; "
                "use another protocol, or complete the files"
            )

    @property
    def learning(self) -> Rows:
        """Training and validation rows together, in order. **Shape:** ``(n,)``."""
        return np.sort(np.concatenate([self.training, self.validation]))


def _split_by_part(part: NDArray[np.int64]) -> Split:
    return Split(*(np.flatnonzero(part == number) for number in range(3)))


def _check_index(index: int, count: int, reason: str) -> None:
    if not 0 <= index < count:
        raise UserError(f"index must lie in 0 to {count - 1}, because {reason}, but got index={index}")


def random_parts(
    n_rows: int, seed: int | Sequence[int], shares: Sequence[float] = SHARES, groups: ArrayLike | None = None
) -> Split:
    """Parts of about these shares of the rows, drawn by the seed; groups stay whole.

    >>> split = random_parts(20, seed=0)
    >>> len(split.training), len(split.validation), len(split.test)
    (16, 2, 2)
    """
    names, member, sizes = np.unique(
        np.arange(n_rows) if groups is None else np.asarray(groups), return_inverse=True, return_counts=True
    )
    if len(names) < 3:
        raise UserError(f"three parts need 3 groups or more, but there are {len(names)}; complete the files")
    order = np.random.default_rng(seed).permutation(len(names))
    centres = (np.cumsum(sizes[order]) - sizes[order] / 2) / n_rows
    first, second = np.searchsorted(centres, np.cumsum(shares)[:2])
    second = min(max(second, 2), len(names) - 1)  # every part has a group
    first = min(max(first, 1), second - 1)
    part = np.empty(len(names), dtype=np.int64)
    part[order] = np.searchsorted([first, second], np.arange(len(names)), side="right")
    return _split_by_part(part[member])


def leave_group_out(groups: ArrayLike, index: int) -> Split:
    """All rows of one group for testing: the index counts the groups in their order.

    >>> leave_group_out([3, 3, 5, 5, 9], 1).test.tolist()
    [2, 3]
    """
    names = np.unique(groups)
    _check_index(index, len(names), f"each of the {len(names)} groups is left out once")
    return named_test_rows(np.asarray(groups) == names[index], index, groups)


def named_test_rows(is_test: ArrayLike, seed: int | Sequence[int], groups: ArrayLike | None = None) -> Split:
    """The test rows as given; a tenth of the others, drawn by the seed, is for validation, and groups stay whole.

    >>> named_test_rows([0, 1, 0, 0], seed=0).learning.tolist()
    [0, 2, 3]
    """
    chosen = np.asarray(is_test).astype(bool)
    others = np.flatnonzero(~chosen)
    names, member = np.unique(others if groups is None else np.asarray(groups)[others], return_inverse=True)
    # At least one group for validation, and at least one for training.
    n_validation = min(max(round(VALIDATION_SHARE * len(names)), 1), len(names) - 1)
    in_validation = np.isin(member, np.random.default_rng(seed).permutation(len(names))[:n_validation])
    return Split(others[~in_validation], others[in_validation], np.flatnonzero(chosen))


def date_parts(dates: NDArray[np.float64], last_dates: tuple[int, int]) -> Split:
    """Rows by date, as YYYYMMDD: training up to the first of the last dates, validation up to the second, then testing.

    **Shape:** ``(n,)``.

    >>> date_parts(np.array([20220408, 20220422, 20220429]), (20220421, 20220428)).test.tolist()
    [2]
    """
    return _split_by_part(np.searchsorted(last_dates, dates))


def rank_parts(rank: ArrayLike) -> Split:
    """Celebrities by rank: the first are labelled best and for validation, the next for testing, all others to learn.

    >>> rank_parts([1, 3, 6, 5, 2]).test.tolist()
    [1, 3]
    """
    return _split_by_part(np.array([1, 2, 0])[np.searchsorted([VALIDATION_RANK, TEST_RANK], np.asarray(rank))])


def folder_parts(folders: ArrayLike, index: int) -> Split:
    """One of the five splits that the age benchmark makes of ten folders: six, two and two of them.

    >>> folder_parts(range(10), 3).training.tolist()
    [0, 5, 6, 7, 8, 9]
    """
    _check_index(index, len(FIRST_FOLDERS), "the benchmark has five splits")
    place = (np.asarray(folders) - FIRST_FOLDERS[index]) % N_FOLDERS
    return _split_by_part(np.searchsorted([6, 8], place, side="right"))


def balanced_folders(groups: ArrayLike, y: ArrayLike, seed: int = 0) -> Rows:
    """Folders 0 to 9 by group: each, in drawn order, goes where its commonest target is rarest. **Shape:** ``(n,)``.

    Where folders tie, the one with the fewest rows is taken.

    >>> balanced_folders([1, 1, 2], [30, 30, 30]).tolist() in ([0, 0, 1], [1, 1, 0])
    True
    """
    names, member = np.unique(groups, return_inverse=True)
    values, code = np.unique(y, return_inverse=True)
    by_group = np.zeros((len(names), len(values)), dtype=np.int64)
    np.add.at(by_group, (member, code), 1)
    in_folder = np.zeros((N_FOLDERS, len(values)), dtype=np.int64)
    folder = np.empty(len(names), dtype=np.int64)
    for group in np.random.default_rng(seed).permutation(len(names)):
        folder[group] = np.lexsort((in_folder.sum(axis=1), in_folder[:, np.argmax(by_group[group])]))[0]
        in_folder[folder[group]] += by_group[group]
    return folder[member]


# Protocols by name, for samples.


def split_samples(samples: Samples, index: int, protocol: str = "random") -> Split:
    """Divide samples by a protocol of `PROTOCOLS`."""
    check_choice("protocol", protocol, PROTOCOLS)
    split = PROTOCOLS[protocol](samples, index)
    crossing = crossing_groups(split, samples.groups)
    if crossing:
        raise UserError(
            f"groups must stay in one part, but protocol {protocol!r} divides {len(crossing)} of them, "
            f"the first is {crossing[0]}; fetch the files again"
        )
    return split


def crossing_groups(split: Split, groups: ArrayLike | None) -> list[int]:
    """Groups that have rows in more than one part.

    >>> crossing_groups(Split(np.array([0]), np.array([1]), np.array([2])), [7, 8, 7])
    [7]
    """
    if groups is None:
        return []
    inside = [set(np.asarray(groups)[rows].tolist()) for rows in (split.training, split.validation, split.test)]
    return sorted((inside[0] & inside[1]) | (inside[0] & inside[2]) | (inside[1] & inside[2]))


def _folders(samples: Samples, index: int) -> Split:
    if samples.groups is None:  # given out in the order of the rows, round and round
        return folder_parts(np.arange(len(samples)) % N_FOLDERS, index)
    return folder_parts(balanced_folders(samples.groups, samples.y), index)


def _one_out(samples: Samples, index: int) -> Split:
    if samples.groups is None:
        raise UserError("protocol 'one-out' leaves out a group, but these samples have no groups; use 'random'")
    return leave_group_out(samples.groups, index)


def _side(samples: Samples, column: str) -> NDArray[np.float64]:
    if column not in samples.side:
        raise UserError(
            f"this protocol needs the side column {column!r}, but these samples have "
            f"{', '.join(samples.side) or 'none'}; use 'random', or complete the files"
        )
    return samples.side[column]


PROTOCOLS: dict[str, Callable[[Samples, int], Split]] = {
    "random": lambda samples, index: random_parts(len(samples), index, groups=samples.groups),
    "folders": _folders,
    "one-out": _one_out,
    "rank": lambda samples, index: rank_parts(_side(samples, "rank")),
    "parts": lambda samples, index: _split_by_part(_side(samples, "part").astype(np.int64)),
    "given": lambda samples, index: named_test_rows(_side(samples, "test"), index, samples.groups),
}
"""``random``: 80 / 10 / 10, drawn by the index. ``folders``: the age benchmark's ten folders, in five splits.
``one-out``: the group that the index counts is for testing. ``rank``: by the rank of celebrities. ``parts``: all three
as the files name them. ``given``: the test rows that the files name; the index draws the validation rows."""
