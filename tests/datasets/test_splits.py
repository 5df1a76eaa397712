"""Splits: seeded, disjoint, complete, and no group in two parts, whatever the rows are."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffor.datasets.samples import Samples
from diffor.datasets.splits import (
    FIRST_FOLDERS,
    PROTOCOLS,
    balanced_folders,
    crossing_groups,
    date_parts,
    folder_parts,
    leave_group_out,
    named_test_rows,
    random_parts,
    rank_parts,
    split_samples,
)

people = st.lists(st.integers(-5, 40), min_size=1, max_size=200).filter(lambda groups: len(set(groups)) >= 3)
seeds = st.integers(0, 2**31)
several = settings(max_examples=30, deadline=None)


def parts_of(split):
    return [split.training.tolist(), split.validation.tolist(), split.test.tolist()]


def assert_complete(split, n_rows, groups=None):
    assert sorted(row for part in parts_of(split) for row in part) == list(range(n_rows))
    assert sorted(split.learning.tolist() + split.test.tolist()) == list(range(n_rows))
    assert all(part == sorted(part) for part in parts_of(split))
    assert crossing_groups(split, groups) == []


@several
@given(n_rows=st.integers(3, 3000), seed=seeds)
def test_random_rows_are_divided_by_the_shares(n_rows, seed):
    split = random_parts(n_rows, seed)
    assert_complete(split, n_rows)
    # Rounding moves each border by half a row; every part has a row, however few there are.
    for part, share in zip(parts_of(split), (0.8, 0.1, 0.1), strict=True):
        assert abs(len(part) - max(1, share * n_rows)) <= 1.5
    assert parts_of(random_parts(n_rows, seed)) == parts_of(split)


@several
@given(groups=people, seed=seeds)
def test_random_parts_and_folders_keep_groups_whole(groups, seed):
    split = random_parts(len(groups), seed, groups=groups)
    assert_complete(split, len(groups), groups)
    assert all(parts_of(split))
    folders = balanced_folders(groups, np.random.default_rng(0).integers(0, 5, len(groups)), seed)
    assert 0 <= folders.min() <= folders.max() < 10
    assert all(len(set(folders[np.asarray(groups) == name])) == 1 for name in set(groups))


def test_shares_of_many_groups_are_nearly_those_asked_for():
    groups = np.repeat(np.arange(1000), np.arange(1000) % 7 + 1)
    split = random_parts(len(groups), 0, (0.7, 0.1, 0.2), groups)
    assert [len(part) / len(groups) for part in parts_of(split)] == pytest.approx([0.7, 0.1, 0.2], abs=0.002)


@several
@given(groups=people)
def test_each_group_is_left_out_once(groups):
    for index, name in enumerate(sorted(set(groups))):
        split = leave_group_out(groups, index)
        assert_complete(split, len(groups), groups)
        assert split.test.tolist() == np.flatnonzero(np.asarray(groups) == name).tolist()


@several
@given(is_test=st.lists(st.booleans(), min_size=3, max_size=200).filter(lambda named: 0 < sum(named) < len(named)),
       seed=seeds)  # fmt: skip
def test_named_rows_are_the_test_rows(is_test, seed):
    split = named_test_rows(is_test, seed)
    assert_complete(split, len(is_test))
    assert split.test.tolist() == np.flatnonzero(is_test).tolist()
    assert bool(len(split.validation)) == (len(split.learning) > 1)
    assert parts_of(named_test_rows(is_test, seed)) == parts_of(split)


def test_folders_by_group_balance_the_targets():
    random = np.random.default_rng(0)
    groups = np.repeat(np.arange(500), 3)
    y = np.repeat(random.integers(20, 30, 500), 3)
    counts = np.zeros((10, 10), dtype=int)
    np.add.at(counts, (balanced_folders(groups, y), y - 20), 1)
    assert (counts.max(axis=0) - counts.min(axis=0)).max() <= 3
    assert np.ptp(counts.sum(axis=1)) <= 18


def test_the_five_splits_of_ten_folders_are_those_of_the_benchmark():
    wanted = [
        ([0, 1, 2, 3, 4, 5], [6, 7], [8, 9]),
        ([2, 3, 4, 5, 6, 7], [8, 9], [0, 1]),
        ([4, 5, 6, 7, 8, 9], [0, 1], [2, 3]),
        ([0, 5, 6, 7, 8, 9], [1, 2], [3, 4]),
        ([0, 1, 6, 7, 8, 9], [2, 3], [4, 5]),
    ]
    assert [parts_of(folder_parts(range(10), index)) for index in range(5)] == [[*parts] for parts in wanted]
    # Where there are no groups, folders are given out in the order of the rows, round and round.
    assert split_samples(samples(23), 1, "folders").test.tolist() == [0, 1, 10, 11, 20, 21]


def test_ranks_and_dates_divide_rows():
    assert parts_of(rank_parts(np.array([7, 1, 3, 2, 5, 6, 99, 4]))) == [[0, 5, 6], [1, 3], [2, 4, 7]]
    split = date_parts(np.array([20220429.0, 20220408, 20220421, 20220422, 20220428]), (20220421, 20220428))
    assert parts_of(split) == [[1, 2], [3, 4], [0]]


def samples(n_rows=30, groups=False):
    number = np.arange(n_rows)
    table = pd.DataFrame({"path": [f"{row}.jpg" for row in number]})
    side = {"rank": number // 3 + 1.0, "test": (number // 3 == 9).astype(float), "part": number // 3 % 3.0}
    return Samples(table, number % 7 + 20.0, side, number // 3 if groups else None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_divides_samples(protocol):
    for data in [samples(groups=True), *([] if protocol == "one-out" else [samples()])]:
        for index in range(len(FIRST_FOLDERS)):
            split = split_samples(data, index, protocol)
            assert_complete(split, len(data), data.groups)
            assert parts_of(split_samples(data, index, protocol)) == parts_of(split)


MIXED = Samples(
    pd.DataFrame({"path": list("abc")}), np.zeros(3), {"rank": np.array([1.0, 4.0, 9.0])}, np.array([1, 2, 1])
)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: random_parts(4, 0, groups=[1, 1, 2, 2]), "3 groups or more, but there are 2; complete"),
        (lambda: leave_group_out([1, 2, 2], 2), "index must lie in 0 to 1, .* but got index=2"),
        (lambda: folder_parts(range(10), 5), "index must lie in 0 to 4, .* but got index=5"),
        (lambda: rank_parts([1, 2, 9]), "needs training and test rows, but has 1 and 0; use another"),
        (lambda: named_test_rows([1, 1], 0), "needs training and test rows, but has 0 and 2; use another"),
        (lambda: split_samples(samples(), 0, "one-out"), "leaves out a group, but .* have no groups; use 'random'"),
        (lambda: split_samples(samples(), 0, "dated"), "protocol must be one of random, .*but got protocol='dated'"),
        (
            lambda: split_samples(MIXED, 0, "rank"),
            "stay in one part, but protocol 'rank' divides 1 of them",
        ),
        (lambda: split_samples(MIXED, 0, "given"), "needs the side column 'test', but these samples have rank; use"),
    ],
)
def test_what_cannot_be_divided_is_named(action, message):
    with pytest.raises(ValueError, match=message):
        action()
