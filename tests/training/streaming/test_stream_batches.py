from __future__ import annotations

import numpy as np
import pytest
import torch
from stream_examples import SIZES, write_files

from diffor.training.batches import Rows
from diffor.training.distributed import World
from diffor.training.streaming import shards as shards_module
from diffor.training.streaming.parquet_table import ParquetTable, find_files
from diffor.training.streaming.shards import Shards
from diffor.training.streaming.stream_batches import StreamBatches, learned_sizes

HELD_OUT = np.array([0, 3, 49, 50, 169, 170, 459])


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch):
    """Windows and blocks that are shorter than row groups and shards."""
    monkeypatch.setattr(shards_module, "SHUFFLE_ROWS", 64)
    monkeypatch.setattr(shards_module, "LEAST_WINDOW", 16)
    monkeypatch.setattr("diffor.training.streaming.parquet_table.BLOCK_ROWS", 24)


@pytest.fixture
def table(tmp_path):
    write_files(tmp_path)
    return ParquetTable(find_files(str(tmp_path)))


def to_rows(frame):
    values = torch.tensor(frame["row"].to_numpy())
    return Rows((values[:, None],), values.float(), values.float() + 0.5, values, {"duration": values.float()})


def make_batches(table, n_shards=3, batch_size=16, world=None, accumulate=1):
    plan = Shards(learned_sizes(table, HELD_OUT), n_shards, batch_size, seed=5)
    return StreamBatches(table, ["row"], HELD_OUT, plan, to_rows, world or World(), accumulate)


def met(batches, steps):
    """Rows of each step and shard of a process."""
    return {
        (step, shard): [row for rows, _ in batches.pieces(step, shard) for row in rows.keys.tolist()]
        for step in steps
        for shard in batches.shards
    }


@pytest.mark.parametrize("n_shards", [1, 2, 5])
def test_every_epoch_meets_every_row_once_in_a_new_order(table, n_shards):
    batches = make_batches(table, n_shards)
    n_steps = batches.plan.steps_per_epoch
    wanted = sorted(set(range(sum(SIZES))) - set(HELD_OUT.tolist()))
    epochs = [met(batches, range(first, first + n_steps)) for first in (0, n_steps)]
    orders = [[row for rows in epoch.values() for row in rows] for epoch in epochs]
    assert sorted(orders[0]) == sorted(orders[1]) == wanted
    assert orders[0] != orders[1] != wanted


@pytest.mark.parametrize("size", [2, 3, 4])
def test_processes_divide_the_shards_and_meet_the_same_rows(table, size):
    alone = met(make_batches(table), range(12))
    divided = [met(make_batches(table, world=World(rank, size)), range(12)) for rank in range(size)]
    together = {place: rows for part in divided for place, rows in part.items()}
    assert together == alone
    assert sum(map(len, divided)) == len(alone)


def test_a_run_that_begins_anywhere_meets_what_an_unbroken_one_does(table):
    unbroken = met(make_batches(table), range(24))
    for first in range(1, 24, 5):
        assert met(make_batches(table), range(first, 24)).items() <= unbroken.items()


def test_shares_of_all_pieces_are_those_of_their_rows(table):
    batches = make_batches(table, accumulate=3)
    for step in range(batches.plan.steps_per_epoch):
        pieces = [piece for shard in batches.shards for piece in batches.pieces(step, shard)]
        assert sum(share for _, share in pieces) == pytest.approx(1)
        for rows, share in pieces:
            assert share == pytest.approx(len(rows) / batches.count(step))
            assert rows.side["duration"].tolist() == (rows.weights - 0.5).tolist() == rows.y.tolist()


def test_rows_of_sorted_files_are_mixed_within_windows(table):
    batches = make_batches(table, n_shards=1)
    rows = np.array([row for rows in met(batches, range(4)).values() for row in rows])
    assert len(np.unique(np.searchsorted([group.first for group in table.groups], rows, "right"))) > 1
    assert (np.diff(rows) < 0).mean() > 0.3


def test_a_window_is_all_that_is_kept(table):
    batches = make_batches(table, n_shards=1)
    for step in range(batches.plan.steps_per_epoch):
        list(batches.pieces(step, 0))
        state = batches._shards[0]
        assert len(state.windows) <= 2
        assert sum(len(window.rows) for window in state.windows) <= 2 * batches.plan.window
        assert sum(map(len, state.waiting)) <= 24
