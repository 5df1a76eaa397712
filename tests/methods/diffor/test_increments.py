import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from diffor.methods.diffor.increments import aggregate_increments, aligned_times, split_increments

COUNTS = (1, 2, 5, 8, 33)


def targets(n: int = 200) -> torch.Tensor:
    random = torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return torch.cat([random, torch.tensor([0.0, 1.0, 0.5, 1e-12, 1 - 1e-12], dtype=torch.float64)])


def nested_truncation(increments: list[float]) -> float:
    """The paper's aggregation, word for word."""
    width = 1 / len(increments)
    kept = [min(increments[0], width)]
    for increment in increments[1:]:
        kept.append(min(increment, width, max(1 - sum(kept), 0.0)))
    return sum(kept)


# Splitting.


@pytest.mark.parametrize("count", COUNTS)
def test_split_follows_the_definition_and_sums_to_the_target(count):
    y, width = targets(), 1 / count
    increments = split_increments(y, count)
    for k in range(1, count + 1):
        expected = [min(max(value - (k - 1) * width, 0), width) for value in y.tolist()]
        assert increments[:, k - 1].tolist() == pytest.approx(expected, abs=1e-15)
    assert increments.shape == (len(y), count)
    assert increments.min() >= 0
    assert increments.max() <= width
    torch.testing.assert_close(increments.sum(dim=1), y, atol=1e-13, rtol=0)


@pytest.mark.parametrize("count", COUNTS)
def test_increments_are_a_thermometer_code_that_keeps_order_and_gives_the_target_back(count):
    y = targets().sort().values
    increments = split_increments(y, count)
    started, full = increments > 1e-12, increments >= 1 / count - 1e-12
    assert (full[:, :-1] | ~started[:, 1:]).all()  # nothing starts before its lower neighbour is full
    assert ((started & ~full).sum(dim=1) <= 1).all()
    assert (increments.diff(dim=0) >= 0).all()
    torch.testing.assert_close(aggregate_increments(increments), y, atol=1e-13, rtol=0)


def test_split_keeps_shape_and_dtype_and_clips_what_lies_outside_the_unit_interval():
    increments = split_increments(torch.tensor([[-0.5, 0.2, 1.5]] * 2), 5)
    assert (increments.shape, increments.dtype) == ((2, 3, 5), torch.float32)
    torch.testing.assert_close(increments.sum(dim=-1), torch.tensor([[0.0, 0.2, 1.0]] * 2))


# Aggregating.

any_sign = npst.arrays(float, st.integers(1, 64), elements=st.floats(-3, 3))


@settings(deadline=None)
@given(any_sign)
def test_aggregation_is_the_nested_truncation_and_a_clamped_sum(increments):
    value = aggregate_increments(torch.from_numpy(increments)).item()
    assert value == pytest.approx(nested_truncation(increments.clip(0).tolist()), abs=1e-12)  # below 0 counts as none
    assert value == pytest.approx(increments.clip(0, 1 / len(increments)).sum(), abs=1e-12)
    assert 0 <= value <= 1


@settings(deadline=None, max_examples=40)
@given(any_sign, st.data())
def test_aggregation_rises_with_every_increment(increments, data):
    k = data.draw(st.integers(0, len(increments) - 1))
    raised = torch.from_numpy(increments.copy())
    raised[k] += data.draw(st.floats(0, 2))
    assert aggregate_increments(raised) >= aggregate_increments(torch.from_numpy(increments)) - 1e-12


def test_full_increments_never_round_above_one():
    assert all(aggregate_increments(torch.full((1, count), 9.0)).item() <= 1.0 for count in range(1, 65))


# Aligned times.


@pytest.mark.parametrize("spacing", ["linear", "log"])
@pytest.mark.parametrize("count", COUNTS[1:])
def test_times_fall_strictly_from_the_last_to_the_first_linear_ones_by_the_formula(count, spacing):
    for n_times in (count, count + 1, 2 * count - 1, 1000):
        times = aligned_times(count, n_times, spacing)
        assert len(times) == count
        assert all(type(t) is int for t in times)
        assert (times[0], times[-1]) == (n_times, 1)
        assert all(earlier > later for earlier, later in pairwise(times))
        exact = [1 + math.floor((count - k) * (n_times - 1) / (count - 1)) for k in range(1, count + 1)]
        assert spacing == "log" or times == tuple(exact)


def test_log_times_are_evenly_spaced_in_the_logarithm_where_there_is_room():
    ratios = [earlier / later for earlier, later in pairwise(aligned_times(5, 10_000, "log"))]
    assert ratios == pytest.approx([10] * 4)


def test_shared_times_and_those_of_one_increment_all_stand_at_the_last_state():
    assert aligned_times(8, 1000, "shared") == (1,) * 8
    assert [aligned_times(1, 1000, spacing) for spacing in ("linear", "log", "shared")] == [(1,)] * 3


@pytest.mark.parametrize("count", [0, -3])
def test_a_count_below_one_is_refused(count):
    for ask in (lambda: split_increments(torch.rand(3), count), lambda: aligned_times(count, 10)):
        with pytest.raises(ValueError, match=f"at least 1, but got count={count}"):
            ask()


def test_fewer_times_than_increments_and_unknown_spacings_are_refused():
    for spacing in ("linear", "log"):
        with pytest.raises(ValueError, match=r"n_times=3, count=4; use more times or fewer"):
            aligned_times(4, 3, spacing)
    with pytest.raises(ValueError, match="linear, log, shared, but got spacing='even'"):
        aligned_times(4, 10, "even")
