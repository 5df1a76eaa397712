import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from diffor.methods.diffor.increments import aggregate_increments, aligned_times, split_increments

COUNTS = range(1, 65)


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
def test_increments_are_a_thermometer_code(count):
    increments = split_increments(targets(), count)
    started, full = increments > 1e-12, increments >= 1 / count - 1e-12
    assert (full[:, :-1] | ~started[:, 1:]).all()  # nothing starts before its lower neighbour is full
    assert ((started & ~full).sum(dim=1) <= 1).all()


@pytest.mark.parametrize("count", [1, 3, 8, 64])
def test_splitting_and_aggregating_returns_the_target(count):
    torch.testing.assert_close(aggregate_increments(split_increments(targets(), count)), targets(), atol=1e-13, rtol=0)


def test_split_keeps_order():
    y = targets().sort().values
    assert (split_increments(y, 8).diff(dim=0) >= 0).all()


def test_split_keeps_leading_shape_and_dtype():
    increments = split_increments(torch.rand(2, 3), 5)
    assert increments.shape == (2, 3, 5)
    assert increments.dtype == torch.float32


def test_split_clips_what_lies_outside_the_unit_interval():
    sums = split_increments(torch.tensor([-0.5, 1.5], dtype=torch.float64), 4).sum(dim=1)
    torch.testing.assert_close(sums, torch.tensor([0.0, 1.0], dtype=torch.float64))


# Aggregating.

non_negative = npst.arrays(float, st.integers(1, 64), elements=st.floats(0, 3))
any_sign = npst.arrays(float, st.integers(1, 64), elements=st.floats(-3, 3))


@settings(deadline=None)
@given(non_negative)
def test_aggregation_is_the_nested_truncation(increments):
    assert aggregate_increments(torch.from_numpy(increments)).item() == pytest.approx(
        nested_truncation(increments.tolist()), abs=1e-12
    )


@settings(deadline=None)
@given(any_sign)
def test_aggregation_is_a_clamped_sum_in_the_unit_interval(increments):
    value = aggregate_increments(torch.from_numpy(increments)).item()
    assert value == pytest.approx(increments.clip(0, 1 / len(increments)).sum(), abs=1e-12)
    assert 0 <= value <= 1


@settings(deadline=None)
@given(any_sign)
def test_negative_increments_count_as_none(increments):
    value = aggregate_increments(torch.from_numpy(increments)).item()
    assert value == pytest.approx(nested_truncation(increments.clip(0).tolist()), abs=1e-12)


@settings(deadline=None)
@given(any_sign, st.data())
def test_aggregation_rises_with_every_increment(increments, data):
    place = data.draw(st.integers(0, len(increments) - 1))
    raised = torch.from_numpy(increments.copy())
    raised[place] += data.draw(st.floats(0, 2))
    assert aggregate_increments(raised) >= aggregate_increments(torch.from_numpy(increments)) - 1e-12


@pytest.mark.parametrize("count", COUNTS)
def test_full_increments_never_round_above_one(count):
    assert aggregate_increments(torch.full((1, count), 9.0)).item() <= 1.0


# Aligned times.


def all_lengths(count: int) -> list[int]:
    return [*range(count, 2 * count + 2), 100 + count, 257, 1000, 4001]


@pytest.mark.parametrize("count", range(2, 65))
def test_linear_times_are_the_formula(count):
    for n_times in all_lengths(count):
        exact = [1 + math.floor((count - k) * (n_times - 1) / (count - 1)) for k in range(1, count + 1)]
        assert aligned_times(count, n_times, "linear") == tuple(exact)


@pytest.mark.parametrize("spacing", ["linear", "log"])
@pytest.mark.parametrize("count", range(2, 65))
def test_times_fall_strictly_from_the_last_to_the_first(count, spacing):
    for n_times in all_lengths(count):
        times = aligned_times(count, n_times, spacing)
        assert len(times) == count
        assert all(type(t) is int for t in times)
        assert times[0] == n_times
        assert times[-1] == 1
        assert all(earlier > later for earlier, later in pairwise(times))


def test_log_times_are_evenly_spaced_in_the_logarithm_where_there_is_room():
    ratios = [earlier / later for earlier, later in pairwise(aligned_times(5, 10_000, "log"))]
    assert ratios == pytest.approx([10] * 4)


@pytest.mark.parametrize("count", COUNTS)
def test_shared_times_all_stand_at_the_last_state(count):
    assert aligned_times(count, 1000, "shared") == (1,) * count


@pytest.mark.parametrize("spacing", ["linear", "log", "shared"])
def test_one_increment_reads_the_last_state(spacing):
    assert aligned_times(1, 1000, spacing) == (1,)


# Refusals.


@pytest.mark.parametrize("count", [0, -3])
def test_a_count_below_one_is_refused(count):
    message = f"count must be at least 1, but got count={count}"
    with pytest.raises(ValueError, match=message):
        split_increments(torch.rand(3), count)
    with pytest.raises(ValueError, match=message):
        aligned_times(count, 10)


@pytest.mark.parametrize("spacing", ["linear", "log"])
def test_fewer_times_than_increments_are_refused(spacing):
    with pytest.raises(ValueError, match=r"n_times >= count, but got n_times=3, count=4; use more times or fewer"):
        aligned_times(4, 3, spacing)


def test_an_unknown_spacing_is_refused():
    with pytest.raises(ValueError, match="spacing must be one of linear, log, shared, but got spacing='even'"):
        aligned_times(4, 10, "even")
