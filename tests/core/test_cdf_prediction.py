import re
import time
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from diffor import CdfPrediction, Prediction
from diffor.core.cdf_prediction import LIKELIHOOD_FLOOR
from diffor.core.distribution import Bins, Steps

SPEND = CdfPrediction([0, 0, 10, 20], [[0, 0.5, 0.75, 1], [0, 0, 0.5, 1], [0, 1, 1, 1]])
UNIFORM = CdfPrediction([2, 4], [[0, 1]])


@st.composite
def distributions(draw, only_atoms=False):
    """Any few rows on any few knots, some of them twice, with stretches and atoms that have no probability."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = np.unique(random.integers(-8, 9, draw(st.integers(2, 7)))) / 4
    twice = np.ones(len(values), dtype=int) if only_atoms or len(values) == 1 else random.integers(0, 2, len(values))
    knots = np.repeat(values, 1 + twice)
    masses = random.random((draw(st.integers(1, 4)), len(knots) - 1)) ** 3
    masses *= random.random(masses.shape) < draw(st.sampled_from([0.5, 1.0]))
    if only_atoms:
        masses *= np.diff(knots) == 0
        masses[:, 0] += 1e-3
    masses[:, -1] += 1e-3
    heights = np.concatenate([np.zeros((len(masses), 1)), masses.cumsum(axis=1)], axis=1)
    return CdfPrediction(knots, heights / heights[:, -1:])


def refused(message: str, kind: type[Exception] = ValueError):
    return pytest.raises(kind, match=re.escape(message))


def dense(prediction: CdfPrediction, n_levels: int = 20_000) -> np.ndarray:
    return prediction.quantile((np.arange(n_levels) + 0.5) / n_levels)


def spots(prediction: CdfPrediction) -> np.ndarray:
    """Knots, places between them, and beyond both ends."""
    knots = prediction.knots
    return np.unique(np.concatenate([knots, (knots[1:] + knots[:-1]) / 2, [knots[0] - 1, knots[-1] + 0.3]]))


# Statistics.


@settings(deadline=None)
@given(distributions())
def test_statistics_are_those_of_many_even_quantiles(prediction):
    samples = dense(prediction)
    span = np.ptp(prediction.knots) + 1e-9
    assert prediction.mean == pytest.approx(samples.mean(axis=1), abs=2e-4 * span)
    assert prediction.std == pytest.approx(samples.std(axis=1), abs=2e-3 * span)
    assert np.array_equal(prediction.median, prediction.quantile(0.5)[:, 0])
    at = spots(prediction)[None]
    assert np.abs(prediction.cdf(at) - Prediction(samples).cdf(at)).max() < 2e-4
    y = np.full(len(prediction), 0.1)
    assert prediction.crps(y) == pytest.approx(Prediction(samples).crps(y), abs=2e-4 * span)


@settings(deadline=None)
@given(distributions())
def test_means_stay_in_the_support_and_are_the_sum_of_increments(prediction):
    low, high = prediction.quantile([0, 1]).T
    assert ((low - 1e-9 <= prediction.mean) & (prediction.mean <= high + 1e-9)).all()
    for n_increments, ends in ((1, (-2.0, 2.0)), (7, (-2.0, 2.0)), (16, (-3.0, 2.5))):
        increments = prediction.increments(n_increments, *ends)
        assert increments.shape == (len(prediction), n_increments)
        assert (increments >= 0).all()
        assert (np.diff(increments, axis=1) <= 1e-12).all()
        assert ends[0] + increments.sum(axis=1) == pytest.approx(prediction.mean, abs=1e-12)


def test_increments_are_those_of_samples():
    samples = dense(SPEND)
    np.testing.assert_allclose(SPEND.increments(4, 0, 16), Prediction(samples).increments(4, 0, 16), atol=1e-3)


def test_closed_forms_of_a_uniform_distribution():
    assert UNIFORM.mean.tolist() == UNIFORM.median.tolist() == UNIFORM.mode.tolist() == [3]
    assert UNIFORM.std == pytest.approx([2 / np.sqrt(12)])
    assert UNIFORM.density([2.0]).tolist() == UNIFORM.density([4.0]).tolist() == [0.5]
    assert UNIFORM.density([[1.9, 3.0, 4.1]]).tolist() == [[0, 0.5, 0]]
    assert UNIFORM.log_likelihood([3.0]) == pytest.approx(np.log(0.5))
    assert UNIFORM.crps([2.0]) == pytest.approx(2 / 3)
    assert UNIFORM.interval(0.5) == pytest.approx(np.array([[2.5, 3.5]]))


def test_a_certain_row_is_one_value_everywhere():
    certain = CdfPrediction([5, 5], [[0, 1]])
    for statistic in ("mean", "median", "mode", "native", 0, 0.3, 1):
        assert certain.statistic(statistic).tolist() == [5]
    assert certain.std.tolist() == [0]
    assert certain.interval(0.9).tolist() == [[5, 5]]
    assert certain.log_likelihood([5]).tolist() == [0]
    assert certain.density([5]).tolist() == [0]


def test_the_mode_is_the_densest_piece_unless_an_atom_holds_more():
    assert SPEND.mode.tolist() == [0, 5, 0]
    knots = [0, 0, 4, 5, 9]
    smooth, zero = [0, 0.01, 0.2, 0.8, 1], [0, 0.3, 0.4, 0.9, 1]
    assert CdfPrediction(knots, [smooth, zero]).mode.tolist() == [4.5, 0]


@settings(deadline=None)
@given(distributions(only_atoms=True))
def test_the_mode_of_atoms_is_the_most_probable(prediction):
    places, masses = prediction.atoms
    assert np.array_equal(prediction.mode, places[masses.argmax(axis=1)])


# Quantiles and the function.


@settings(deadline=None)
@given(distributions(), st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_quantiles_rise_and_stay_in_the_support(prediction, levels):
    quantiles = prediction.quantile([0, *sorted(levels), 1])
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert (prediction.cdf(quantiles) >= np.array([0, *sorted(levels), 1]) - 1e-9).all()
    assert (prediction.cdf_below(quantiles[:, :1]) <= 1e-9).all()


@settings(deadline=None)
@given(distributions())
def test_quantiles_undo_the_function(prediction):
    for value in spots(prediction):
        levels = prediction.cdf(value)
        back = prediction._values_at(levels[:, None])[:, 0]
        reached = back <= np.maximum(value, prediction.quantile(0)[:, 0]) + 1e-9
        # Where hardly anything lies, a level that misses by rounding is a way off in the value.
        assert (reached | (prediction.cdf(back) <= levels + 1e-11)).all()
    assert (prediction.cdf_below(prediction.median) <= 0.5 + 1e-9).all()
    assert (prediction.cdf(prediction.median) >= 0.5 - 1e-9).all()


def test_a_level_that_sums_miss_by_rounding_is_reached():
    tenths = np.minimum(np.arange(11) * 0.1, 1)[None]
    grades = CdfPrediction(np.repeat(np.arange(10), 2), np.repeat(tenths, 2, axis=1)[:, 1:-1])
    assert grades.quantile(np.arange(1, 11) / 10)[0].tolist() == list(range(10))


@settings(deadline=None)
@given(distributions(), st.integers(0, 2**32 - 1))
def test_the_function_of_each_row_and_of_a_table_agree(prediction, seed):
    y = np.random.default_rng(seed).normal(size=len(prediction))
    assert np.array_equal(prediction.cdf(y), prediction.cdf(y[:, None])[:, 0])
    assert np.array_equal(prediction.cdf(y), np.diag(prediction.cdf(y[None])))
    assert np.array_equal(prediction.cdf(0.25), prediction.cdf(np.full(len(prediction), 0.25)))
    assert (prediction.cdf_below(y) <= prediction.cdf(y)).all()
    np.testing.assert_allclose(prediction.probabilities([-0.5, 0.5]).sum(axis=1), 1)


def test_it_agrees_with_steps_and_bins():
    random = np.random.default_rng(0)
    shares = random.dirichlet(np.ones(5), size=20)
    sums = np.concatenate([np.zeros((20, 1)), shares.cumsum(axis=1)], axis=1)
    places, edges = np.linspace(0, 1, 5), np.array([0, 0.1, 0.3, 0.35, 0.9, 1])
    cases = {
        Steps(torch.tensor(shares), torch.tensor(places)): CdfPrediction(
            np.repeat(places, 2), np.repeat(sums, 2, axis=1)[:, 1:-1]
        ),
        Bins(torch.tensor(shares), torch.tensor(edges)): CdfPrediction(edges, sums),
    }
    levels, at = np.linspace(0.01, 0.99, 50), random.random(60)
    for other, prediction in cases.items():
        np.testing.assert_allclose(prediction.mean, other.mean, atol=1e-12)
        np.testing.assert_allclose(prediction.quantile(levels), other.quantile(torch.tensor(levels)), atol=1e-9)
        np.testing.assert_allclose(prediction.cdf(at[None]), other.cdf(torch.tensor(at)[None]), atol=1e-12)


def test_a_value_that_rounding_moved_is_still_its_atom():
    prediction = CdfPrediction([0, 0.3, 0.3, 1], [[0, 0.1, 0.9, 1]])
    assert prediction.cdf(
        [
            0.1 + 0.2 - 1e-16,
        ]
    ).tolist() == [0.9]
    assert prediction.cdf([np.nextafter(0.3, 0)]).tolist() == [0.9]
    assert prediction.cdf_below([np.nextafter(0.3, 1)]).tolist() == [0.1]
    assert prediction.log_likelihood([np.nextafter(0.3, 0)]) == pytest.approx(np.log(0.8))
    assert prediction.cdf([0.2999]) == pytest.approx(0.1, abs=1e-4)


# Likelihood.


@settings(deadline=None)
@given(distributions())
def test_densities_and_atoms_add_up_to_one(prediction):
    middles = (prediction.knots[1:] + prediction.knots[:-1]) / 2
    wide = np.diff(prediction.knots) > 0
    smooth = prediction.density(middles[wide][None]) @ np.diff(prediction.knots)[wide]
    places, masses = prediction.atoms
    assert smooth + masses.sum(axis=1) == pytest.approx(1)
    if len(places):
        at_atoms = np.stack([prediction.log_likelihood(np.full(len(prediction), place)) for place in places], axis=1)
        assert np.exp(at_atoms) == pytest.approx(np.maximum(masses, LIKELIHOOD_FLOOR), rel=1e-6)


def test_the_likelihood_has_a_floor():
    floor = np.log(LIKELIHOOD_FLOOR)
    assert SPEND.log_likelihood([-1, 0, 5]) == pytest.approx([floor - np.log(20), floor, floor - np.log(20)])
    assert SPEND.log_likelihood([0, 5, 0]) == pytest.approx(np.log([0.5, 0.05, 1]))


# Score.


@settings(deadline=None, max_examples=50)
@given(distributions(), st.floats(-3, 3))
def test_crps_is_the_integral(prediction, y):
    row, breaks = prediction[:1], sorted({*prediction.knots, y})
    expected = 0.0
    for left, right in pairwise(breaks):
        part, _ = quad(lambda v, y=y: (row.cdf(v)[0] - (v >= y)) ** 2, left, right, epsabs=1e-12)
        expected += part
    assert row.crps([y])[0] == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(distributions(only_atoms=True), st.floats(-3, 3))
def test_crps_of_atoms_is_the_discrete_formula(prediction, y):
    places, masses = prediction.atoms
    pairs = np.abs(places[:, None] - places)
    expected = masses @ np.abs(places - y) - np.einsum("ni,ij,nj->n", masses, pairs, masses) / 2
    assert prediction.crps(np.full(len(prediction), y)) == pytest.approx(expected, abs=1e-12)


# Intervals.


def outside(prediction: CdfPrediction, ends: np.ndarray) -> np.ndarray:
    return prediction.cdf_below(ends[:, 0]) + 1 - prediction.cdf(ends[:, 1])


@settings(deadline=None, max_examples=300)
@given(distributions() | distributions(only_atoms=True), st.floats(0.01, 0.99))
def test_intervals_hold_their_coverage_and_no_more_than_they_must(prediction, coverage):
    ends = prediction.interval(coverage)
    assert (ends[:, 0] <= ends[:, 1]).all()
    assert (outside(prediction, ends) <= 1 - coverage + 1e-9).all()
    # A search over all depths: none that is deeper leaves out as little.
    depths = np.linspace(0.005, 0.5, 50)
    tried = np.stack([prediction.quantile(depths), -prediction.mirrored.quantile(depths)], axis=2)  # (n, 50, 2)
    left_out = prediction.cdf_below(tried[:, :, 0]) + 1 - prediction.cdf(tried[:, :, 1])
    allowed = left_out <= 1 - coverage - 1e-9
    assert (~allowed | (ends[:, None, 0] >= tried[:, :, 0] - 1e-9)).all()
    assert (~allowed | (ends[:, None, 1] <= tried[:, :, 1] + 1e-9)).all()


@settings(deadline=None)
@given(distributions(), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_intervals_are_nested_around_the_median(prediction, one, other):
    inner, outer = (prediction.interval(coverage) for coverage in sorted((one, other)))
    assert (outer[:, 0] <= inner[:, 0] + 1e-9).all()
    assert (inner[:, 1] <= outer[:, 1] + 1e-9).all()
    assert (inner[:, 0] <= prediction.median + 1e-9).all()
    assert (prediction.median <= inner[:, 1] + 1e-9).all()


@settings(deadline=None, max_examples=30)
@given(distributions() | distributions(only_atoms=True), st.sampled_from([0.3, 0.5, 0.77, 0.9]))
def test_intervals_are_those_of_many_samples(prediction, coverage):
    ends, drawn = prediction.interval(coverage), Prediction(dense(prediction)).interval(coverage)
    # At a flat stretch the ends may differ, but not what they leave out; at a jump just before it either may.
    left_out = outside(prediction, ends), outside(prediction, drawn)
    same = (np.abs(ends - drawn).max(axis=1) < 0.02) | (np.abs(left_out[0] - left_out[1]) < 2e-3)
    assert (same | (np.maximum(*left_out) > 1 - coverage - 2e-3)).all()


def test_intervals_without_atoms_are_central_quantiles():
    random = np.random.default_rng(0)
    heights = np.sort(random.random((50, 20)), axis=1)
    heights[:, 0], heights[:, -1] = 0, 1
    prediction = CdfPrediction(np.arange(20), heights)
    np.testing.assert_allclose(prediction.interval(0.8), prediction.quantile([0.1, 0.9]), atol=1e-6)


def test_an_atom_at_an_end_is_held_whole_and_the_other_end_is_deeper():
    assert SPEND.interval(0.8) == pytest.approx(np.array([[0, 12], [2, 18], [0, 0]]))


# Rows, maps, samples.


def test_rows_can_be_selected_and_joined_again():
    whole = CdfPrediction(SPEND.knots, SPEND.heights, point=[1, 2, 3])
    parts = [whole[:1], whole[np.array([1])], whole[np.array([False, False, True])]]
    joined = Prediction.concatenate(parts)
    assert isinstance(joined, CdfPrediction)
    assert np.array_equal(joined.heights, SPEND.heights)
    assert joined.point.tolist() == joined.statistic("native").tolist() == [1, 2, 3]
    assert Prediction.concatenate([whole[:1], SPEND]).point is None
    assert repr(joined) == "CdfPrediction(rows=3, knots=4)"


@settings(deadline=None)
@given(distributions(), distributions())
def test_rows_on_other_knots_are_joined_exactly(one, other):
    joined = Prediction.concatenate([one, other])
    at = np.concatenate([spots(one), spots(other)])[None]
    np.testing.assert_allclose(joined.cdf(at), np.concatenate([one.cdf(at), other.cdf(at)]), atol=1e-12)
    np.testing.assert_allclose(joined.mean, np.concatenate([one.mean, other.mean]), atol=1e-12)


def test_rows_of_both_forms_are_joined_as_samples():
    drawn = Prediction(np.arange(8.0).reshape(2, 4))
    for parts in ([drawn, SPEND], [SPEND, drawn]):
        joined = Prediction.concatenate(parts)
        assert len(joined) == 5
        assert joined.samples.shape[1] == parts[0].samples.shape[1]
        assert not isinstance(joined, CdfPrediction)


@settings(deadline=None)
@given(distributions(), distributions(), st.floats(0, 1))
def test_a_pool_is_the_mixture(one, other, share):
    n = min(len(one), len(other))
    one, other = one[:n], other[:n]
    mixed = CdfPrediction.pool([one, other], [share, 1 - share])
    at = np.concatenate([spots(one), spots(other)])[None]
    np.testing.assert_allclose(mixed.cdf(at), share * one.cdf(at) + (1 - share) * other.cdf(at), atol=1e-12)
    np.testing.assert_allclose(mixed.mean, share * one.mean + (1 - share) * other.mean, atol=1e-12)
    assert np.array_equal(CdfPrediction.pool([one]).heights, one.heights)


def test_a_pool_has_the_mean_of_all_points():
    parts = [CdfPrediction([0, 1], [[0, 1]], point=[value]) for value in (0.2, 0.6)]
    assert CdfPrediction.pool(parts).point == pytest.approx([0.4])
    assert CdfPrediction.pool([parts[0], CdfPrediction([0, 1], [[0, 1]])]).point is None


def test_a_straight_map_is_exact_and_moves_the_point():
    moved = CdfPrediction(SPEND.knots, SPEND.heights, point=[1, 2, 3]).map(lambda y: 3 * y + 1)
    for statistic in ("mean", "median", "mode", 0.8):
        assert moved.statistic(statistic) == pytest.approx(3 * SPEND.statistic(statistic) + 1)
    assert moved.point.tolist() == [4, 7, 10]
    assert moved.crps([1.0, 16.0, 1.0]) == pytest.approx(3 * SPEND.crps([0.0, 5.0, 0.0]))


def test_samples_are_even_quantiles_in_rising_order():
    assert SPEND.samples.shape == (3, 100)
    assert (np.diff(SPEND.samples, axis=1) >= 0).all()
    assert (SPEND.samples[0] == 0).sum() == 50
    assert SPEND.samples is SPEND.samples


def test_draws_belong_to_the_keys_of_rows():
    keys = torch.tensor([11, 12, 13])
    drawn = SPEND.draw(1000, keys)
    assert drawn.shape == (3, 1000)
    assert np.array_equal(drawn[1:], SPEND[1:].draw(1000, keys[1:]))
    assert not np.array_equal(drawn, SPEND.draw(1000, keys + 1))
    assert drawn.mean(axis=1) == pytest.approx(SPEND.mean, abs=0.02)
    assert (drawn[0] == 0).mean() == 0.5
    assert (np.diff(drawn, axis=1) < 0).any()
    assert np.abs(Prediction(drawn).crps([5.0] * 3) - SPEND.crps([5.0] * 3)).max() < 0.02


def test_pit_values_are_even_for_truths_of_the_distribution_also_at_atoms():
    random = np.random.default_rng(0)
    rows = CdfPrediction(SPEND.knots, np.repeat(SPEND.heights[:1], 5000, axis=0))
    y = rows._values_at(random.random((5000, 1)))[:, 0]
    pit = rows.pit(y)
    assert np.histogram(pit, bins=10, range=(0, 1))[0] == pytest.approx([500] * 10, abs=100)
    assert np.array_equal(pit, rows.pit(y))
    assert not np.array_equal(pit, rows.pit(y, random_state=1))


def test_heights_of_single_precision_are_cleaned():
    heights = np.array([[1e-7, 0.3, 0.3 - 1e-7, 1 - 1e-7]])
    prediction = CdfPrediction([0, 1, 2, 3], heights)
    assert prediction.heights.tolist() == [[0, 0.3, 0.3, 1]]
    assert heights[0, 0] == 1e-7


def test_a_knot_that_occurs_more_than_twice_is_one_jump():
    prediction = CdfPrediction([0, 1, 1, 1, 2], [[0, 0.2, 0.4, 0.7, 1]])
    assert prediction.knots.tolist() == [0, 1, 1, 2]
    assert prediction.atoms[1] == pytest.approx(np.array([[0.5]]))


def test_a_rows_answer_does_not_depend_on_the_rows_beside_it():
    random = np.random.default_rng(0)
    heights = np.sort(random.random((200, 57)), axis=1)
    heights[:, 0], heights[:, -1] = 0, 1
    whole = CdfPrediction(np.sort(random.normal(size=57)), heights)
    for name in ("mean", "std", "median", "mode"):
        assert np.array_equal(getattr(whole, name)[3:4], getattr(whole[3:4], name))
    assert np.array_equal(whole.crps(np.zeros(200))[3:4], whole[3:4].crps([0.0]))
    assert np.array_equal(whole.interval()[3:4], whole[3:4].interval())


def test_large_tables_are_quick():
    random = np.random.default_rng(0)
    heights = np.concatenate([np.zeros((50_000, 1)), random.random((50_000, 99)).cumsum(axis=1)], axis=1)
    knots = np.sort(random.random(100))
    knots[10] = knots[11]
    prediction = CdfPrediction(knots, heights / heights[:, -1:])
    start = time.process_time()
    assert len(prediction.mean) == len(prediction.median) == len(prediction.quantile([0.05, 0.95])) == 50_000
    assert time.process_time() - start < 1


# Refusals.


@pytest.mark.parametrize(
    ("knots", "heights"), [([1], [[1]]), ([0, 1], [0, 1]), ([0, 1], [[0, 0.5, 1]]), ([[0, 1]], [[0, 1]])]
)
def test_other_shapes_are_refused(knots, heights):
    given = f"knots.shape={np.shape(knots)}, heights.shape={np.shape(heights)}"
    with refused(f"knots must have shape (m,), m at least 2, and heights (rows, m), but got {given}"):
        CdfPrediction(knots, heights)


@pytest.mark.parametrize("knots", [[1, 0], [0, np.nan], [0, np.inf]])
def test_falling_knots_are_refused(knots):
    with refused("knots must be finite numbers that do not fall, but got "):
        CdfPrediction(knots, [[0, 1]])


def test_a_falling_map_is_refused():
    with refused("knots must be finite numbers that do not fall, but got [-4.0"[:50]):
        UNIFORM.map(lambda y: np.where(y > 3, -4.0, 0.0))


@pytest.mark.parametrize("row", [[0, 0.5, 0.4, 1], [0.1, 0.5, 0.6, 1], [0, 0.5, 0.6, 0.9], [0, np.nan, 0.5, 1]])
def test_heights_of_no_distribution_are_refused(row):
    with refused("heights must rise from 0 to 1, but those of row 1 are "):
        CdfPrediction([0, 1, 2, 3], [[0, 0.1, 0.2, 1], row])


def test_a_point_of_other_rows_is_refused():
    with refused("point must have one value per row, 1, but got shape=(2,)"):
        CdfPrediction([0, 1], [[0, 1]], point=[1, 2])


def test_widening_is_refused():
    with refused("only samples can be widened, but this is a CdfPrediction", TypeError):
        UNIFORM.widen(2, 0, 1)


@pytest.mark.parametrize("levels", [-0.1, 1.1, [0.5, 2], float("nan"), [[0.5]]])
def test_levels_outside_the_unit_interval_are_refused(levels):
    with refused("quantile levels must lie in [0, 1], but got "):
        UNIFORM.quantile(levels)


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.2, float("nan")])
def test_coverage_outside_the_open_unit_interval_is_refused(coverage):
    with refused(f"coverage must lie strictly between 0 and 1, but got coverage={coverage}"):
        UNIFORM.interval(coverage)


@pytest.mark.parametrize("given", [(0, 0, 1), (3, 1, 1), (2, 3, 1)])
@pytest.mark.parametrize("prediction", [UNIFORM, Prediction([[1.0]])])
def test_increments_of_no_intervals_are_refused(prediction, given):
    with refused("increments need at least one interval and low below high, but got "):
        prediction.increments(*given)


@given(st.integers(0, 2**32 - 1))
def test_a_row_alone_is_answered_as_among_others(seed):
    random = np.random.default_rng(seed)
    knots = np.sort(random.integers(0, 9, 12)).astype(float)
    heights = np.sort(np.append(random.random((5, 10)).round(1), [[0.0, 1.0]] * 5, axis=1), axis=1)
    rows, levels = CdfPrediction(knots, heights), np.linspace(0, 1, 21)
    for place in range(5):
        row = rows[place : place + 1]
        assert np.array_equal(row.quantile(levels)[0], rows.quantile(levels)[place])
        assert np.array_equal(row.interval(0.8)[0], rows.interval(0.8)[place])
