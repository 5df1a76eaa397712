"""Protocols that divide rows into those to learn from, those to stop and tune on, and those to be scored on.

Every protocol is a function of the samples and an index: the same pair gives the same rows. The rows of a group (a
person, a celebrity) stay in one part, whatever the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diffor.datasets.readers.reading import Survey
from diffor.datasets.samples import Rows, Samples
from diffor.errors import UserError

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
        parts = (self.training, self.validation, self.test)
        # One mark per row: sorting the rows of the largest sets would take most of the memory that reading needs.
        seen = np.zeros(1 + max((int(rows.max()) for rows in parts if len(rows)), default=-1), dtype=bool)
        for rows in parts:
            seen[rows] = True
        n_double = sum(map(len, parts)) - int(seen.sum())
        if n_double:
            raise UserError(f"the parts of a split must not share rows, but {n_double} rows are in two parts")
        if not len(self.training) or not len(self.test):
            raise UserError(
                f"a split must have training and test rows, but {len(self.training)} and {len(self.test)} "
                "of them; use another protocol, or complete the files"
            )

    @property
    def learning(self) -> Rows:
        """Training and validation rows together, in order. **Shape:** ``(n,)``."""
        return np.sort(np.concatenate([self.training, self.validation]))


# Protocols.


def random_parts(
    n_rows: int, seed: int | Sequence[int], shares: Sequence[float] = SHARES, groups: ArrayLike | None = None
) -> Split:
    """Parts of about these shares of the rows, drawn by the seed; groups stay whole.

    >>> split = random_parts(20, seed=0)
    >>> len(split.training), len(split.validation), len(split.test)
    (16, 2, 2)
    """
    check_shares(shares)
    names, member, sizes = np.unique(
        np.arange(n_rows) if groups is None else np.asarray(groups), return_inverse=True, return_counts=True
    )
    order = np.random.default_rng(seed).permutation(len(names))
    centres = (np.cumsum(sizes[order]) - sizes[order] / 2) / n_rows
    ends = _fill_parts(np.searchsorted(centres, np.cumsum(shares)[:2]).tolist(), len(names), shares)
    part = np.empty(len(names), dtype=np.int64)
    part[order] = np.searchsorted(ends, np.arange(len(names)), side="right")
    return _split_by_part(part[member])


def _fill_parts(ends: list[int], n_groups: int, shares: Sequence[float]) -> list[int]:
    """Move the ends of the first two parts so that every part with a share has a group."""
    wanted = [int(share > 0) for share in shares]
    if n_groups < sum(wanted):
        raise UserError(
            f"{sum(wanted)} parts need {sum(wanted)} groups or more, but there are {n_groups}; complete the files"
        )
    second = min(max(ends[1], wanted[0] + wanted[1]), n_groups - wanted[2])
    return [min(max(ends[0], wanted[0]), second - wanted[1]), second]


def check_shares(shares: Sequence[float]) -> None:
    """Refuse shares that are not three, negative, or do not add up to one; only validation may have none."""
    sound = len(shares) == 3 and min(shares) >= 0 and abs(sum(shares) - 1) < 1e-9
    if not sound or shares[0] == 0 or shares[2] == 0:
        raise UserError(
            "shares must be those of training, validation and test, add up to 1, and leave rows for training and test, "
            f"but got shares={tuple(shares)}"
        )


def leave_group_out(groups: ArrayLike, index: int, validation_share: float = VALIDATION_SHARE) -> Split:
    """All rows of one group for testing: the index counts the groups in their order.

    >>> leave_group_out([3, 3, 5, 5, 9], 1).test.tolist()
    [2, 3]
    """
    names = np.unique(groups)
    if not 0 <= index < len(names):
        raise UserError(
            f"index must lie in 0 to {len(names) - 1}, because each of the {len(names)} groups is left out once, "
            f"but got index={index}"
        )
    return named_test_rows(np.asarray(groups) == names[index], index, validation_share, groups)


def named_test_rows(
    is_test: ArrayLike, seed: int, validation_share: float = VALIDATION_SHARE, groups: ArrayLike | None = None
) -> Split:
    """Test rows that are named, and validation rows that the seed draws from the others.

    >>> named_test_rows([0, 1, 0, 0], seed=0, validation_share=0.34).learning.tolist()
    [0, 2, 3]
    """
    chosen = np.asarray(is_test).astype(bool)
    others = np.flatnonzero(~chosen)
    if not 0 <= validation_share < 1:
        raise UserError(f"validation_share must lie in [0, 1), but got validation_share={validation_share}")
    if not len(others):
        return Split(others, others, np.flatnonzero(chosen))
    names = np.arange(len(chosen)) if groups is None else np.asarray(groups)
    member = np.unique(names[others], return_inverse=True)[1]
    n_groups = int(member.max()) + 1
    # At least one group for validation where there is a share for it, and at least one for training.
    n_validation = min(max(round(validation_share * n_groups), int(validation_share > 0)), n_groups - 1)
    in_validation = np.zeros(n_groups, dtype=bool)
    in_validation[np.random.default_rng(seed).permutation(n_groups)[:n_validation]] = True
    in_validation = in_validation[member]
    return Split(others[~in_validation], others[in_validation], np.flatnonzero(chosen))


def rank_parts(rank: ArrayLike, validation_rank: int = VALIDATION_RANK, test_rank: int = TEST_RANK) -> Split:
    """Celebrities by rank: the first are labelled best and for validation, the next for testing, all others to learn.

    >>> rank_parts([1, 3, 6, 5, 2]).test.tolist()
    [1, 3]
    """
    if not 0 <= validation_rank < test_rank:
        raise UserError(
            f"ranks must rise from validation to test, but got validation_rank={validation_rank}, test_rank={test_rank}"
        )
    ranks = np.asarray(rank)
    return Split(
        np.flatnonzero(ranks > test_rank),
        np.flatnonzero(ranks <= validation_rank),
        np.flatnonzero((ranks > validation_rank) & (ranks <= test_rank)),
    )


def folder_parts(folders: ArrayLike, index: int) -> Split:
    """One of the five splits that the age benchmark makes of ten folders: six, two and two of them.

    >>> folder_parts(range(10), 3).training.tolist()
    [0, 5, 6, 7, 8, 9]
    """
    if not 0 <= index < len(FIRST_FOLDERS):
        raise UserError(
            f"index must lie in 0 to {len(FIRST_FOLDERS) - 1}, because the benchmark has five splits, "
            f"but got index={index}"
        )
    place = (np.asarray(folders) - FIRST_FOLDERS[index]) % N_FOLDERS
    return _split_by_part(np.searchsorted([6, 8], place, side="right"))


def alternating_folders(n_rows: int) -> Rows:
    """Folders 0 to 9 given out in the order of the rows, round and round. **Shape:** ``(n_rows,)``."""
    return np.arange(n_rows) % N_FOLDERS


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


def _split_by_part(part: NDArray[np.int64]) -> Split:
    return Split(*(np.flatnonzero(part == number) for number in range(3)))


# Protocols by name, for samples.


def split_samples(samples: Samples, index: int, protocol: str = "random") -> Split:
    """Divide samples by a protocol: ``random``, ``folders``, ``one-out``, ``rank`` or ``given``; see `PROTOCOLS`."""
    if protocol not in PROTOCOLS:
        raise UserError(f"protocol must be one of {', '.join(PROTOCOLS)}, but got protocol={protocol!r}")
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
    rows = np.concatenate([split.training, split.validation, split.test])
    part = np.repeat([0, 1, 2], [len(split.training), len(split.validation), len(split.test)])
    pairs = np.unique(np.stack([np.asarray(groups)[rows], part]), axis=1)
    names, n_parts = np.unique(pairs[0], return_counts=True)
    return [int(name) for name in names[n_parts > 1]]


def _random(samples: Samples, index: int) -> Split:
    return random_parts(len(samples), index, groups=samples.groups)


def _folders(samples: Samples, index: int) -> Split:
    if samples.groups is None:
        return folder_parts(alternating_folders(len(samples)), index)
    return folder_parts(balanced_folders(samples.groups, samples.y), index)


def _one_out(samples: Samples, index: int) -> Split:
    if samples.groups is None:
        raise UserError("protocol 'one-out' leaves out a group, but these samples have no groups; use 'random'")
    return leave_group_out(samples.groups, index)


def _rank(samples: Samples, index: int) -> Split:
    return rank_parts(_side(samples, "rank"))


def _given(samples: Samples, index: int) -> Split:
    return named_test_rows(_side(samples, "test"), index, groups=samples.groups)


def _side(samples: Samples, column: str) -> NDArray[np.float64]:
    if column not in samples.side:
        raise UserError(
            f"this protocol needs the side column {column!r}, but these samples have "
            f"{', '.join(samples.side) or 'none'}; use 'random', or complete the files"
        )
    return samples.side[column]


PROTOCOLS: dict[str, Callable[[Samples, int], Split]] = {
    "random": _random,
    "folders": _folders,
    "one-out": _one_out,
    "rank": _rank,
    "given": _given,
}
"""``random``: 80 / 10 / 10, drawn by the index. ``folders``: the age benchmark's ten folders, in five splits.
``one-out``: the group that the index counts is for testing. ``rank``: by the rank of celebrities. ``given``: the test
rows that the files name; the index draws the validation rows."""


def split_files(root: str | Path | None, index: int, survey: Survey, protocol: str) -> tuple[Rows, Rows]:
    """Learning and test rows of a data set that is read from files."""
    split = split_samples(survey(root)[0], index, protocol)
    return split.learning, split.test
