from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffor.training.streaming.shards import LEAST_WINDOW, SHUFFLE_ROWS, Shards

PLANS = st.builds(
    Shards,
    st.lists(st.integers(0, 40), min_size=1, max_size=8).map(tuple).filter(lambda sizes: sum(sizes) > 0),
    n_shards=st.integers(1, 5),
    batch_size=st.integers(1, 17),
    seed=st.integers(0, 9),
)


@given(PLANS)
def test_an_epoch_deals_out_every_place_of_the_line_once(plan):
    met = []
    for step in range(2 * plan.steps_per_epoch):
        for shard in range(plan.n_shards):
            epoch, start, stop = plan.share(step, shard)
            assert stop - start <= plan.batch_size
            met += [(epoch, place) for place in range(start, stop)]
    assert sorted(met) == [(epoch, place) for epoch in range(2) for place in range(plan.n_rows)]
    assert sum(plan.count(step) for step in range(2 * plan.steps_per_epoch)) == 2 * plan.n_rows


@given(PLANS)
def test_shards_and_batches_differ_by_one_row_at_most(plan):
    lengths = [stop - start for start, stop in map(plan.ends, range(plan.n_shards))]
    assert max(lengths) - min(lengths) <= 1
    for shard in range(plan.n_shards):
        shares = [plan.share(step, shard) for step in range(plan.steps_per_epoch)]
        counts = [stop - start for _, start, stop in shares]
        assert max(counts) - min(counts) <= 1


@given(PLANS, st.integers(0, 3))
def test_parts_cover_each_row_of_each_group_once(plan, epoch):
    cuts = sorted({0, plan.n_rows, plan.n_rows // 3, plan.n_rows // 2})
    rows = [
        (group, row)
        for start, stop in pairwise(cuts)
        for group, first, end in plan.parts(epoch, start, stop)
        for row in range(first, end)
    ]
    assert sorted(rows) == [(group, row) for group, size in enumerate(plan.sizes) for row in range(size)]


def test_epochs_have_orders_of_their_own_and_the_seed_determines_them():
    plan, other = Shards((1,) * 50, 2, 8, seed=1), Shards((1,) * 50, 2, 8, seed=2)
    assert plan.order(0).tolist() == Shards((1,) * 50, 3, 4, seed=1).order(0).tolist()
    assert plan.order(0).tolist() != plan.order(1).tolist()
    assert plan.order(0).tolist() != other.order(0).tolist()
    assert plan.shuffled(0, 0, 0, 50).tolist() != plan.shuffled(0, 1, 0, 50).tolist()
    assert plan.shuffled(0, 0, 0, 50).tolist() != plan.shuffled(0, 0, 1, 50).tolist()
    assert np.array_equal(np.sort(plan.shuffled(0, 0, 0, 50)), np.arange(50))


@pytest.mark.parametrize(("n_shards", "window"), [(1, SHUFFLE_ROWS), (4, SHUFFLE_ROWS // 4), (10_000, LEAST_WINDOW)])
def test_the_shards_of_one_process_share_the_memory_for_shuffling(n_shards, window):
    assert Shards((10,), n_shards, 8, seed=0).window == window
