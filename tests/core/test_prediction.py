import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from diffor.core.prediction import Prediction
from diffor.metrics import pit_values

values = st.floats(-1e6, 1e6)
sample_tables = npst.arrays(float, st.tuples(st.integers(1, 4), st.integers(1, 30)), elements=values)
tied_tables = npst.arrays(float, st.tuples(st.integers(1, 4), st.integers(1, 30)), elements=st.integers(0, 4))
level_lists = st.lists(st.floats(0, 1), min_size=1, max_size=10)


def refused(message: str):
    return pytest.raises(ValueError, match=re.escape(message))


# Quantiles.


@settings(deadline=None)
@given(sample_tables | tied_tables, level_lists)
def test_quantiles_never_cross_and_stay_in_the_range_of_the_samples(samples, levels):
    quantiles = Prediction(samples).quantile(sorted(levels))
    assert quantiles.shape == (len(samples), len(levels))
    assert (quantiles >= samples.min(axis=1, keepdims=True)).all()
    assert (quantiles <= samples.max(axis=1, keepdims=True)).all()
    assert (np.diff(quantiles, axis=1) >= 0).all()


@settings(deadline=None)
@given(sample_tables, level_lists)
def test_quantiles_are_numpys_hazen_quantiles(samples, levels):
    expected = np.quantile(samples, levels, axis=1, method="hazen").T
    np.testing.assert_allclose(Prediction(samples).quantile(levels), expected, rtol=1e-9, atol=1e-6)


@settings(deadline=None)
@given(sample_tables | tied_tables, st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_intervals_are_nested_around_the_median(samples, one, other):
    prediction = Prediction(samples)
    inner, outer = (prediction.interval(coverage) for coverage in sorted((one, other)))
    assert (outer[:, 0] <= inner[:, 0]).all()
    assert (inner[:, 1] <= outer[:, 1]).all()
    assert (inner[:, 0] <= prediction.median).all()
    assert (prediction.median <= inner[:, 1]).all()


@settings(deadline=None)
@given(st.integers(1, 40), st.floats(0.01, 0.99), st.integers(0, 5))
def test_intervals_of_samples_that_all_differ_lie_between_two_quantiles(m, coverage, seed):
    prediction = Prediction(np.random.default_rng(seed).normal(size=(3, m)))
    ends = prediction.quantile([(1 - coverage) / 2, (1 + coverage) / 2])
    np.testing.assert_allclose(prediction.interval(coverage), ends, atol=1e-9)


@settings(deadline=None)
@given(tied_tables, st.floats(0.01, 0.99))
def test_intervals_hold_their_share_where_samples_are_equal_and_lie_between_the_quantiles(samples, coverage):
    prediction = Prediction(samples)
    low, high = prediction.interval(coverage).T[:, :, None]
    # An end between two samples may leave out a part of one more on either side, as a quantile does.
    assert (((samples >= low) & (samples <= high)).sum(axis=1) >= coverage * samples.shape[1] - 1 - 1e-6).all()
    ends = prediction.quantile([(1 - coverage) / 2, (1 + coverage) / 2])
    assert (ends[:, :1] <= low + 1e-9).all()
    assert (high <= ends[:, 1:] + 1e-9).all()


@pytest.mark.parametrize(
    ("n_low", "n_high", "expected"),
    [
        (4000, 0, (0.0, 0.9)),  # the zeros are held, so all that is left out lies above
        (0, 4000, (0.1, 1.0)),
        (600, 0, (0.0, 0.94)),  # any deeper, and the zeros were outside: 6 % and as much above
        (300, 0, (0.05, 0.95)),  # zeros at neither end
        (9500, 0, (0.0, 0.0)),
    ],
)
def test_intervals_of_samples_that_settle_at_an_end(n_low, n_high, expected):
    # The others stand where evenly spread samples would.
    samples = (np.arange(10_000) + 0.5) / 10_000
    samples[:n_low], samples[len(samples) - n_high :] = 0.0, 1.0
    assert Prediction(samples[None]).interval(0.9)[0] == pytest.approx(expected, abs=2e-4)


# Distribution functions.


@settings(deadline=None)
@given(sample_tables | tied_tables)
def test_cdf_counts_the_samples_at_or_below(samples):
    prediction = Prediction(samples)
    for row in range(len(samples)):
        asked = samples[row]
        expected = [(samples[row] <= value).mean() for value in asked]
        assert prediction[row : row + 1].cdf(asked[None, :])[0] == pytest.approx(expected)


@settings(deadline=None)
@given(sample_tables | tied_tables, st.floats(0, 1))
def test_cdf_and_quantile_agree(samples, level):
    prediction = Prediction(samples)
    slack = 1 / samples.shape[1] + 1e-9  # one sample, between neighbours of which a quantile interpolates
    quantile = prediction.quantile(level)[:, 0]
    assert (prediction.cdf(quantile) >= level - slack).all()
    below = (samples < quantile[:, None]).mean(axis=1)
    assert (below <= level + slack).all()


def test_cdf_takes_a_number_one_value_per_row_or_a_table():
    prediction = Prediction([[1.0, 2.0], [3.0, 4.0]])
    assert prediction.cdf(2).tolist() == [1.0, 0.0]
    assert prediction.cdf([1, 3]).tolist() == [0.5, 0.5]
    assert prediction.cdf([[1, 2, 3]]).tolist() == [[0.5, 1.0, 1.0], [0.0, 0.0, 0.5]]
    assert prediction.cdf([[1], [4]]).tolist() == [[0.5], [1.0]]


@settings(deadline=None)
@given(sample_tables | tied_tables, st.lists(values, min_size=1, max_size=8, unique=True))
def test_probabilities_sum_to_one(samples, cuts):
    probabilities = Prediction(samples).probabilities(sorted(cuts))
    assert probabilities.shape == (len(samples), len(cuts) + 1)
    assert (probabilities >= 0).all()
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(len(samples)))


def test_a_cut_belongs_to_the_range_below_it():
    assert Prediction([[1.0, 2.0, 2.0, 3.0]]).probabilities([1, 2]).tolist() == [[0.25, 0.5, 0.25]]


# Points.


def test_mean_and_spread_are_computed_in_double_precision():
    samples = np.full((1, 100_000), 0.1, dtype=np.float32)
    assert Prediction(samples).mean[0] == pytest.approx(float(np.float32(0.1)), rel=1e-12)
    assert Prediction([[1.0, 3.0]]).std.tolist() == [1.0]


@pytest.mark.parametrize("m", [20, 51])
def test_mode_finds_the_densest_cluster(m):
    rng = np.random.default_rng(0)
    near, wide = rng.normal(7, 0.01, (5, m)), rng.uniform(-50, 50, (5, m // 2))
    samples = rng.permuted(np.concatenate([near, wide], axis=1), axis=1)
    assert Prediction(samples).mode == pytest.approx([7] * 5, abs=0.05)
    assert abs(Prediction(samples).mean - 7).max() > 0.5


@settings(deadline=None)
@given(tied_tables)
def test_mode_of_a_majority_is_its_value(samples):
    padded = np.concatenate([samples, np.full((len(samples), samples.shape[1] + 1), 2.0)], axis=1)
    assert (Prediction(padded).mode == 2).all()


@settings(deadline=None)
@given(sample_tables)
def test_the_order_of_samples_does_not_matter(samples):
    one, other = Prediction(samples), Prediction(samples[:, ::-1])
    for name in ("median", "mode", 0.3):
        assert np.array_equal(one.statistic(name), other.statistic(name))


def test_a_statistic_by_name_or_level():
    prediction = Prediction([[1.0, 2.0, 2.0, 10.0]])
    assert prediction.statistic("mean")[0] == 3.75
    assert prediction.statistic("median")[0] == 2
    assert prediction.statistic("mode")[0] == 2
    assert prediction.statistic(1)[0] == 10
    assert prediction.statistic(0.25)[0] == prediction.quantile(0.25)[0, 0]


@settings(deadline=None)
@given(st.lists(values, min_size=1, max_size=5))
def test_a_point_prediction_is_one_sample(points):
    prediction = Prediction(np.array(points)[:, None])
    for statistic in ("mean", "median", "mode", 0.1, 0.9):
        assert prediction.statistic(statistic).tolist() == points
    assert (prediction.std == 0).all()


# Mapping and joining.


@settings(deadline=None)
@given(sample_tables)
def test_mapping_by_a_rising_function_commutes_at_sample_points(samples):
    def rising(x):
        return np.arcsinh(x) * 3 + 1

    m = samples.shape[1]
    at_samples = (np.arange(1, m + 1) - 0.5) / m
    prediction = Prediction(samples)
    mapped = prediction.map(rising)
    # Rounding may move a level off its sample by a hair, which the steep part of the map magnifies.
    np.testing.assert_allclose(mapped.quantile(at_samples), rising(prediction.ordered), rtol=1e-9, atol=1e-6)
    if m % 2:
        np.testing.assert_allclose(mapped.median, rising(prediction.median), rtol=1e-9, atol=1e-6)


def test_rows_can_be_selected_and_joined_again():
    samples = np.arange(12.0).reshape(4, 3)
    prediction = Prediction(samples)
    parts = [prediction[:1], prediction[np.array([1, 2])], prediction[np.array([False, False, False, True])]]
    assert [len(part) for part in parts] == [1, 2, 1]
    assert np.array_equal(Prediction.concatenate(parts).samples, samples)
    assert repr(prediction) == "Prediction(rows=4, samples=3)"


# Score.


@settings(deadline=None)
@given(sample_tables | tied_tables, st.data())
def test_crps_is_the_mean_distance_less_half_the_mean_difference(samples, data):
    y = data.draw(npst.arrays(float, len(samples), elements=values))
    distance = abs(samples - y[:, None]).mean(axis=1)
    difference = abs(samples[:, :, None] - samples[:, None, :]).mean(axis=(1, 2))
    np.testing.assert_allclose(Prediction(samples).crps(y), distance - difference / 2, rtol=1e-9, atol=1e-6)


# Refusals.


@pytest.mark.parametrize("samples", [[1.0, 2.0], 3.0, np.zeros((2, 0)), np.zeros((2, 3, 4))])
def test_samples_of_another_shape_are_refused(samples):
    with refused(f"samples must have shape (rows, at least one sample), but got shape={np.asarray(samples).shape}"):
        Prediction(samples)


@pytest.mark.parametrize(
    ("ask", "wrong", "message"),
    [
        ("quantile", [-0.1, [0.5, 2], float("nan"), [[0.5]]], "quantile levels must lie in [0, 1], but got "),
        ("interval", [0, 1, -0.2, float("nan")], "coverage must lie strictly between 0 and 1, but got coverage="),
        ("statistic", ["std", None, True], "statistic must be 'mean', 'median', 'mode', 'native' or a level in [0, 1]"),
        ("probabilities", [[], [1, 1], [2, 1], [0, float("inf")], [[1, 2]], 3], "cuts must be finite numbers that "),
    ],
)
def test_wrong_questions_are_refused(ask, wrong, message):
    for asked in wrong:
        with refused(message):
            getattr(Prediction([[1.0]]), ask)(asked)


# Increments, places and probabilities of single values.


@settings(deadline=None)
@given(sample_tables, st.integers(1, 9))
def test_increments_add_up_to_the_mean_and_fall(samples, n_increments):
    increments = Prediction(samples).increments(n_increments, -1e6, 1e6)
    assert increments.shape == (len(samples), n_increments)
    assert (np.diff(increments, axis=1) <= 1e-6).all()
    assert -1e6 + increments.sum(axis=1) == pytest.approx(samples.mean(axis=1), abs=1e-6)


def test_a_value_has_the_share_of_equal_samples():
    prediction = Prediction(np.array([[0.1, 0.1, 0.5, 0.7], [0, 1, 2, 3]], dtype=np.float32))
    assert prediction.mass([0.1, 0.1]).tolist() == [0.5, 0]
    assert prediction.mass(0.5).tolist() == [0.25, 0]


def test_places_of_the_truth_are_those_of_the_metric():
    samples, y = np.random.default_rng(0).integers(0, 4, (50, 9)), np.arange(50) % 4
    assert np.array_equal(Prediction(samples).pit(y), pit_values(y, samples))
    assert np.array_equal(Prediction(samples).pit(y, 3), pit_values(y, samples, 3))


def test_rows_of_other_numbers_of_samples_are_joined_by_quantiles():
    joined = Prediction.concatenate([Prediction([[1.0, 2.0]]), Prediction([[1.0, 2.0, 3.0, 4.0]])])
    assert joined.samples.tolist() == [[1, 2], [1.5, 3.5]]
