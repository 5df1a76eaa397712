"""Conformal intervals and sets: they cover as promised, for good models and bad ones."""

import json
import math
import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtr
from sklearn.exceptions import NotFittedError

import diffor
from diffor import DiffoRClassifier, DiffoRRegressor
from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.prediction import Prediction
from diffor.estimators.conformal import (
    OUTER_DEPTH,
    Calibration,
    interval_scores,
    open_intervals,
    open_sets,
    probable_sets,
    rows_needed,
    set_scores,
)

N_SPLITS, N_CALIBRATION, N_TEST = 100, 99, 400
COVERAGES = (0.5, 0.9)
UNIT = st.floats(0, 1, width=32)


def inside(intervals, y):
    return (intervals[:, 0] <= y) & (y <= intervals[:, 1])


def mean_coverage(n_rows, covered_by, coverage, seed=0):
    """Mean over random splits, and its standard error; ``covered_by(calibration, test, coverage)`` are flags."""
    random = np.random.default_rng(seed)
    shares = []
    for _ in range(N_SPLITS):
        order = random.permutation(n_rows)[: N_CALIBRATION + N_TEST]
        shares.append(covered_by(order[:N_CALIBRATION], order[N_CALIBRATION:], coverage).mean())
    return np.mean(shares), np.std(shares) / math.sqrt(N_SPLITS)


# --- values ---


def heteroscedastic(width_factor, seed=0):
    """Rows of different noise, predicted with ``width_factor`` times the right spread."""
    random = np.random.default_rng(seed)
    centre, spread = random.uniform(0.3, 0.7, 1000), random.uniform(0.005, 0.05, 1000)
    y = np.clip(centre + spread * random.standard_normal(1000), 0, 1)
    samples = centre[:, None] + width_factor * spread[:, None] * random.standard_normal((1000, 40))
    return Prediction(np.clip(samples, 0, 1)), y, spread


def with_atoms(seed=0):
    """Zeros of a probability that differs by row, a second atom in the middle, and a tail; repeated rows among them."""
    random = np.random.default_rng(seed)
    share = random.choice([0.1, 0.3, 0.6], 1000)
    kinds = random.random((1000, 41))
    values = np.where(kinds < share[:, None], 0.0, np.where(kinds < share[:, None] + 0.2, 0.5, kinds**4))
    return Prediction(np.round(values[:, 1:], 2)), np.round(values[:, 0], 2)


def interval_coverage(prediction, y):
    scores = interval_scores(prediction, y)

    def covered_by(calibration, test, coverage):
        threshold = Calibration.of(scores[calibration], (0, 1)).threshold(coverage)
        return inside(open_intervals(prediction[test], threshold), y[test])

    return covered_by


@pytest.mark.parametrize("coverage", COVERAGES)
@pytest.mark.parametrize("width_factor", [0.2, 1.0, 4.0], ids=["overconfident", "right", "underconfident"])
@pytest.mark.parametrize("in_closed_form", [False, True])
def test_intervals_cover_as_promised_and_no_more(width_factor, coverage, in_closed_form):
    prediction, y = normal_rows(width_factor) if in_closed_form else heteroscedastic(width_factor)[:2]
    mean, error = mean_coverage(len(y), interval_coverage(prediction, y), coverage)
    assert coverage - 3 * error <= mean <= coverage + 1 / (N_CALIBRATION + 1) + 3 * error


@pytest.mark.parametrize("coverage", COVERAGES)
@pytest.mark.parametrize("in_closed_form", [False, True])
def test_intervals_of_a_target_with_atoms_cover(coverage, in_closed_form):
    prediction, y = rows_with_atoms() if in_closed_form else with_atoms()
    mean, error = mean_coverage(len(y), interval_coverage(prediction, y), coverage)
    assert mean >= coverage - 3 * error
    # An interval cannot hold a part of an atom: what exceeds is the rows that share the score of the threshold.
    scores = interval_scores(prediction, y)
    values, counts = np.unique(scores.round(9), return_counts=True)
    nearby = np.abs(np.searchsorted(np.sort(scores), values) / len(y) - coverage) < 0.2
    assert mean <= coverage + (counts[nearby].max() + 1) / len(y) + 1 / (N_CALIBRATION + 1) + 3 * error


def test_a_zero_that_most_samples_name_needs_no_interval():
    prediction = Prediction([[0.0, 0.0, 0.0, 0.4, 0.9], [0.0, 0.0, 0.2, 0.4, 0.9]])
    scores = interval_scores(prediction, [0.0, 0.0])
    assert scores.tolist() == [-2, -1]
    assert open_intervals(prediction, scores[0])[0].tolist() == [0.0, 0.0]


def test_intervals_adapt_to_the_noise_of_each_row():
    prediction, y, spread = heteroscedastic(0.2)
    threshold = Calibration.of(interval_scores(prediction, y), (0, 1)).threshold(0.9)
    assert threshold > 0  # an overconfident model: the interval reaches beyond the samples
    width = np.diff(open_intervals(prediction, threshold), axis=1)[:, 0]
    assert np.corrcoef(width, spread)[0, 1] > 0.9
    noisy, quiet = spread > 0.035, spread < 0.02
    covered = inside(open_intervals(prediction, threshold), y)
    assert abs(covered[noisy].mean() - covered[quiet].mean()) < 0.1


SAMPLES = st.integers(1, 7).flatmap(lambda m: arrays(np.float32, (3, m), elements=UNIT))
EXACT = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@settings(max_examples=100, deadline=None)
@given(SAMPLES, arrays(np.float64, 3, elements=st.one_of(UNIT, EXACT)))
def test_a_row_opened_to_its_score_holds_its_target(samples, y):
    prediction = Prediction(samples)
    for row, score in enumerate(interval_scores(prediction, y)):
        lower, upper = open_intervals(prediction, score)[row]
        assert lower <= y[row] <= upper
        assert 0 <= lower <= upper <= 1


@settings(max_examples=100, deadline=None)
@given(SAMPLES, arrays(np.float64, 3, elements=UNIT))
def test_a_row_opened_less_than_to_its_score_does_not_hold_its_target(samples, y):
    prediction = Prediction(samples)
    for row, score in enumerate(interval_scores(prediction, y)):
        lower, upper = open_intervals(prediction, score - 1e-3)[row]
        narrow = upper - lower < 1e-4 or np.min(np.diff(np.unique(samples[row])), initial=1) < 1e-4
        most_central = score <= -(samples.shape[1] - 1) / 2 + 2e-3
        at_the_bound = y[row] in (0, 1)
        assert narrow or most_central or at_the_bound or not lower <= y[row] <= upper


@settings(max_examples=200, deadline=None)
@given(SAMPLES, st.lists(st.floats(-4, 30), min_size=2, max_size=6))
def test_intervals_are_nested(samples, thresholds):
    prediction = Prediction(samples)
    opened = [open_intervals(prediction, threshold) for threshold in [*sorted(thresholds), math.inf]]
    for inner, outer in pairwise(opened):
        assert (outer[:, 0] <= inner[:, 0]).all()
        assert (inner[:, 1] <= outer[:, 1]).all()


# --- values in closed form ---


def normal_rows(width_factor, seed=0):
    """The heteroscedastic rows as distribution functions, clipped at both ends of the range."""
    _, y, spread = heteroscedastic(width_factor, seed)
    centre = np.random.default_rng(seed).uniform(0.3, 0.7, 1000)
    inner = np.linspace(0, 1, 400)
    heights = ndtr((inner - centre[:, None]) / (width_factor * spread[:, None]))
    zero, one = np.zeros((1000, 1)), np.ones((1000, 1))
    return CdfPrediction([0, *inner, 1], np.concatenate([zero, heights, one], axis=1)), y


def rows_with_atoms(seed=0):
    """Zeros of a probability that differs by row, a second atom, and a tail, predicted as they are."""
    random = np.random.default_rng(seed)
    share = random.choice([0.1, 0.3, 0.6], 1000)[:, None]
    heights = np.concatenate([0 * share, share, (1 + share) / 2 - 0.1, (1 + share) / 2 + 0.1, 1 + 0 * share], axis=1)
    prediction = CdfPrediction([0, 0, 0.5, 0.5, 1], heights)
    return prediction, prediction._values_at(random.random((1000, 1)))[:, 0]


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), UNIT)
def test_an_interval_in_closed_form_holds_all_targets_up_to_its_threshold_and_no_others(seed, target):
    random = np.random.default_rng(seed)
    knots = np.sort(np.concatenate([[0, 1], random.choice([0.25, 0.5, 0.75, target], 6)]))
    masses = random.random((5, 7)) * (random.random((5, 7)) < 0.7)
    masses[:, random.integers(7)] += 0.01
    heights = np.concatenate([np.zeros((5, 1)), masses.cumsum(axis=1)], axis=1)
    prediction = CdfPrediction(knots, heights / heights[:, -1:])
    y = np.full(5, target)
    scores = interval_scores(prediction, y)
    for row, score in enumerate(scores):
        opened = open_intervals(prediction, float(score))
        assert inside(opened, y)[scores <= score].all()
        assert inside(opened, y)[row]
        further = open_intervals(prediction, float(score) + 0.01)
        assert (further[:, 0] <= opened[:, 0]).all()
        assert (further[:, 1] >= opened[:, 1]).all()
        out = scores > score + 1e-6
        assert not inside(opened, y)[out].any()


def test_scores_in_closed_form_are_shares_of_samples():
    prediction, y = normal_rows(1.0)
    samples = Prediction(prediction.quantile((np.arange(2000) + 0.5) / 2000))
    exact, drawn = interval_scores(prediction, y), interval_scores(samples, y)
    deep = drawn < -20
    assert deep.mean() > 0.95
    np.testing.assert_allclose(exact[deep], drawn[deep] / 2000 + OUTER_DEPTH, atol=1e-3)


def test_beyond_the_distribution_the_reach_is_that_of_samples():
    certain = Prediction([[0.3]]), CdfPrediction([0, 0.3, 0.3, 1], [[0, 0, 1, 1]])
    for y in (0.1, 0.3, 0.8):
        assert abs(interval_scores(certain[0], [y])[0]) == pytest.approx(max(interval_scores(certain[1], [y])[0], 0))
    for threshold in (10.0, 100.0, math.inf):
        np.testing.assert_allclose(*(open_intervals(one, threshold) for one in certain), atol=1e-9)


def test_bounds_may_be_in_units_of_the_target():
    random = np.random.default_rng(0)
    for unit in (Prediction(random.random((20, 9))), normal_rows(0.2)[0][:20]):
        y = random.random(20)
        moved = unit.map(lambda value: 30 + 50 * value)
        scores = interval_scores(unit, y)
        np.testing.assert_allclose(interval_scores(moved, 30 + 50 * y, (30, 80)), scores, atol=1e-9)
        for threshold in (-0.2, 0.4, math.inf):
            opened = 30 + 50 * open_intervals(unit, threshold)
            np.testing.assert_allclose(open_intervals(moved, threshold, (30, 80)), opened, atol=1e-6)


def test_intervals_in_closed_form_move_with_the_heights_without_jumps():
    knots, heights = [0, 0, 0.4, 0.6, 1], np.array([[0, 0.3, 0.5, 0.7, 1]])
    moved = heights + 1e-11 * np.array([0, 1, -1, 1, 0])
    for threshold in (-0.4, -0.1, 0.0, 0.3):
        ends = [open_intervals(CdfPrediction(knots, table), threshold) for table in (heights, moved)]
        assert np.abs(ends[0] - ends[1]).max() < 1e-9


@pytest.mark.parametrize("prediction", [Prediction([[0.2, 0.5]]), CdfPrediction([0, 1], [[0, 1]])])
def test_a_target_beyond_the_bounds_is_held_by_no_interval(prediction):
    assert interval_scores(prediction, [math.inf]).tolist() == [math.inf]


# --- thresholds ---


@pytest.mark.parametrize(("coverage", "rows"), [(0.5, 1), (0.9, 9), (0.95, 19), (0.99, 99), (0.07, 1), (0.999, 999)])
def test_rows_needed_is_the_smallest_number_that_does(coverage, rows):
    assert rows_needed(coverage) == rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Calibration.of(np.arange(rows), (0, 1)).threshold(coverage) <= rows - 1
    if rows > 1:
        with pytest.warns(UserWarning, match=rf"at least {rows} calibration rows, but there are {rows - 1};"):
            assert Calibration.of(np.arange(rows - 1), (0, 1)).threshold(coverage) == math.inf


def test_ranks_are_those_of_the_decimal_that_was_written():
    # 100 * 0.07 and 100 * 0.57 are a little more than 7 and a little less than 57 in binary.
    calibration = Calibration.of(np.arange(1, 100), (0, 1))
    assert [calibration.threshold(coverage) for coverage in (0.07, 0.57, 0.9)] == [7, 57, 90]


def test_rows_beyond_any_answer_count_but_are_not_a_threshold():
    calibration = Calibration.of([*range(17), np.inf, np.inf], (-1, 2))
    assert calibration.threshold(0.85) == 16
    with pytest.warns(UserWarning, match=r"inside the range of the training targets, but 2 of 19"):
        assert calibration.threshold(0.9) == math.inf


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 90, math.nan])
def test_coverage_must_be_a_share(coverage):
    rule = rf"coverage must lie strictly between 0 and 1, but got coverage={coverage}"
    with pytest.raises(ValueError, match=rule):
        Calibration.of([1.0], (0, 1)).threshold(coverage)
    with pytest.raises(ValueError, match=rule):
        rows_needed(coverage)
    with pytest.raises(ValueError, match=rule):
        probable_sets([[0.5, 0.5]], coverage)


def test_calibration_survives_json():
    calibration = Calibration.of([0.3, -0.1, 0.2, np.inf], (0.0, 7.5))
    again = Calibration.from_json(json.loads(json.dumps(calibration.to_json(), allow_nan=False)))
    assert again.scores.tolist() == [-0.1, 0.2, 0.3]
    assert (again.n_rows, again.widest) == (4, (0.0, 7.5))


# --- grades ---


def graded(sharpness, seed=0, n_grades=6, n_samples=None):
    """Rows with grades drawn from known probabilities, predicted too sharply (above 1) or too bluntly (below 1)."""
    random = np.random.default_rng(seed)
    place = random.uniform(0, n_grades - 1, 1000)[:, None]
    truth = np.exp(-(((np.arange(n_grades) - place) / 1.2) ** 2))
    truth /= truth.sum(axis=1, keepdims=True)
    y = (random.random((1000, 1)) > truth.cumsum(axis=1)).sum(axis=1).clip(0, n_grades - 1)
    predicted = truth**sharpness
    predicted /= predicted.sum(axis=1, keepdims=True)
    if n_samples is not None:
        predicted = np.stack([random.multinomial(n_samples, row) for row in predicted]) / n_samples
    return predicted, y


def set_coverage(probabilities, y):
    scores = set_scores(probabilities)[np.arange(len(y)), y]

    def covered_by(calibration, test, coverage):
        threshold = Calibration.of(scores[calibration], (0, 1)).threshold(coverage)
        return open_sets(probabilities[test], threshold)[np.arange(len(test)), y[test]]

    return covered_by


def longest_gap(flags):
    """Largest number of places between two neighbours of a row's set; 1 where there are no gaps."""
    return max(np.diff(np.flatnonzero(row)).max(initial=1) for row in flags)


@pytest.mark.parametrize("coverage", COVERAGES)
@pytest.mark.parametrize("sharpness", [0.3, 1.0, 5.0], ids=["underconfident", "right", "overconfident"])
def test_sets_of_grades_cover_as_promised(sharpness, coverage):
    probabilities, y = graded(sharpness)
    mean, error = mean_coverage(len(y), set_coverage(probabilities, y), coverage)
    assert mean >= coverage - 3 * error
    first_alone = (probabilities.argmax(axis=1) == y).mean()  # sets are never empty, so they cover at least that
    assert mean <= max(coverage + 1 / (N_CALIBRATION + 1), first_alone) + 3 * error


PROBABILITIES = st.integers(1, 6).flatmap(
    lambda grades: arrays(np.float64, (3, grades), elements=st.sampled_from([0.0, 1.0, 2.0, 5.0]))
).map(lambda weights: (weights + 1e-300) / (weights + 1e-300).sum(axis=1, keepdims=True))  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(PROBABILITIES, st.lists(st.floats(0, 1.2), min_size=2, max_size=5))
def test_sets_are_nested_runs_that_hold_the_most_probable_grade(probabilities, thresholds):
    opened = [open_sets(probabilities, threshold) for threshold in [*sorted(thresholds), math.inf]]
    for flags in opened:
        assert longest_gap(flags) == 1
        assert flags[np.arange(3), probabilities.argmax(axis=1)].all()
    for inner, outer in pairwise(opened):
        assert (outer >= inner).all()
    assert opened[-1].all()


@settings(max_examples=100, deadline=None)
@given(PROBABILITIES, st.floats(0.01, 0.99))
def test_uncalibrated_sets_gather_the_coverage_and_stop(probabilities, coverage):
    flags = probable_sets(probabilities, coverage)
    assert longest_gap(flags) == 1
    gathered = np.where(flags, probabilities, 0).sum(axis=1)
    assert (gathered >= coverage - 1e-6).all()
    scores = np.where(flags, set_scores(probabilities), -1)
    last = scores.argmax(axis=1)  # without the grade that came last, the set held too little
    several = flags.sum(axis=1) > 1
    assert (gathered - probabilities[np.arange(3), last] < coverage)[several].all()


def test_equal_neighbours_are_taken_on_the_side_of_the_mean():
    assert set_scores([[0.0, 0.2, 0.5, 0.2, 0.1]]).round(3).tolist() == [[1.004, 0.702, 0.0, 0.501, 0.903]]
    assert set_scores([[0.0, 1.0, 0.0]]).round(3).tolist() == [[1.001, 0.0, 1.002]]


# --- estimators ---

SETTINGS = {"max_steps": 50, "random_state": 0, "verbose": 0}


def make_table(n, seed):
    random = np.random.default_rng(seed)
    table = pd.DataFrame({"a": random.uniform(0, 1, n), "b": random.uniform(0, 1, n)})
    y = 100 * np.clip(table["a"] + (0.02 + 0.2 * table["b"]) * random.standard_normal(n), 0, 1)
    return table, y.to_numpy()


def in_order(model, table):
    """Probability of each grade, from the lowest to the highest."""
    return model.predict_proba(table)[:, np.searchsorted(model.classes_, model.grades_)]


def as_grades(y):
    return np.array(["poor", "fair", "good", "best"])[np.minimum(y // 25, 3).astype(int)]


@pytest.fixture(scope="module")
def regressor():
    return DiffoRRegressor("fast", bounds=(0, 100), **SETTINGS).fit(*make_table(300, seed=0))


@pytest.fixture(scope="module")
def classifier():
    table, y = make_table(300, seed=0)
    return DiffoRClassifier("fast", grades=["poor", "fair", "good", "best"], **SETTINGS).fit(table, as_grades(y))


@pytest.fixture
def fresh(regressor):
    return pickle.loads(pickle.dumps(regressor))


@pytest.fixture
def fresh_classifier(classifier):
    return pickle.loads(pickle.dumps(classifier))


def test_regressor_covers_new_rows(fresh):
    table, y = make_table(2000, seed=1)
    before = fresh.predict_interval(table[:5])
    assert np.array_equal(before, fresh.predict_distribution(table[:5]).interval(0.9))
    assert fresh.conformalize(table[:500], y[:500]) is fresh
    for coverage in (0.5, 0.9):
        intervals = fresh.predict_interval(table[500:], coverage)
        assert inside(intervals, y[500:]).mean() == pytest.approx(coverage, abs=0.06)
        assert intervals.min() >= 0
        assert intervals.max() <= 100
    wide, narrow = fresh.predict_interval(table[:9], 0.95), fresh.predict_interval(table[:9], 0.6)
    assert (wide[:, 0] <= narrow[:, 0]).all()
    assert (narrow[:, 1] <= wide[:, 1]).all()


def test_classifier_covers_new_rows(fresh_classifier):
    table, y = make_table(2000, seed=1)
    grades = as_grades(y)
    rows, codes = np.arange(1500), pd.Index(fresh_classifier.grades_).get_indexer(grades[500:])
    before = fresh_classifier.predict_set(table[:5], 0.8)
    assert np.array_equal(before, probable_sets(in_order(fresh_classifier, table[:5]), 0.8))
    assert fresh_classifier.conformalize(table[:500], grades[:500]) is fresh_classifier
    flags = fresh_classifier.predict_set(table[500:], 0.9)
    assert flags.dtype == bool
    assert flags.shape == (1500, 4)
    assert longest_gap(flags) == 1
    assert flags.any(axis=1).all()
    assert flags[rows, codes].mean() == pytest.approx(0.9, abs=0.06)
    assert (fresh_classifier.predict_set(table[500:], 0.95) >= flags).all()


def test_intervals_and_distributions_come_from_the_same_samples(fresh):
    table, y = make_table(100, seed=2)
    prediction, opened = fresh.predict_opened(table, None)
    assert opened is None
    assert np.array_equal(prediction.samples, fresh.predict_distribution(table).samples)
    fresh.conformalize(table, y)
    prediction, opened = fresh.predict_opened(table, fresh.conformal_.threshold(0.8))
    assert np.array_equal(opened, fresh.predict_interval(table, 0.8))
    assert np.array_equal(prediction.samples, fresh.predict_distribution(table).samples)


def test_calibration_in_blocks_is_that_of_the_whole(fresh, monkeypatch):
    table, y = make_table(60, seed=2)
    whole = fresh.conformalize(table, y).conformal_.scores
    monkeypatch.setattr("diffor.estimators.rows.BLOCK_ROWS", 16)
    parts = fresh.conformalize(table, y).conformal_.scores
    assert np.allclose(parts, whole, rtol=0, atol=1e-6)  # products of blocks and of the whole round in other orders


def test_saving_loading_and_pickling_keep_the_calibration(fresh, fresh_classifier, tmp_path):
    table, y = make_table(100, seed=2)
    fresh.save(tmp_path / "without")
    assert diffor.load(tmp_path / "without").conformal_ is None
    fresh.conformalize(table, y).save(tmp_path / "values")
    fresh_classifier.conformalize(table, as_grades(y)).save(tmp_path / "grades")
    for model, name, ask in ((fresh, "values", "predict_interval"), (fresh_classifier, "grades", "predict_set")):
        for again in (diffor.load(tmp_path / name), pickle.loads(pickle.dumps(model))):
            assert np.array_equal(getattr(again, ask)(table, 0.8), getattr(model, ask)(table, 0.8))
            assert again.conformal_.n_rows == 100


def test_fitting_again_forgets_the_calibration():
    table, y = make_table(60, seed=0)
    model = DiffoRRegressor("fast", max_steps=2, bounds=(0, 100), random_state=0, verbose=0).fit(table, y)
    assert model.conformalize(table, y).conformal_ is not None
    assert model.fit(table, y).conformal_ is None


def test_too_few_rows_give_the_whole_range_and_a_warning(fresh, fresh_classifier):
    table, y = make_table(5, seed=3)
    fresh.conformalize(table, y)
    fresh_classifier.conformalize(table, as_grades(y))
    with pytest.warns(UserWarning, match=r"coverage=0.9 needs at least 9 calibration rows, but there are 5;"):
        assert fresh.predict_interval(table, 0.9).tolist() == [[0, 100]] * 5
    with pytest.warns(UserWarning, match="needs at least 9 calibration rows, but there are 5;"):
        assert fresh_classifier.predict_set(table, 0.9).all()


def test_bounds_that_were_found_may_be_left_by_calibration_targets():
    table, y = make_table(60, seed=0)
    middle = (y > 20) & (y < 80)
    model = DiffoRRegressor("fast", max_steps=2, random_state=0, verbose=0).fit(table[middle], y[middle])
    model.conformalize(table, y)
    intervals = model.predict_interval(table, 0.3)
    assert intervals.min() >= model.scale_.low
    assert intervals.max() <= model.scale_.high
    with pytest.warns(UserWarning, match=rf"but {(~middle).sum()} of 60 calibration targets lie outside"):
        assert model.predict_interval(table, 0.95).tolist() == [[y.min(), y.max()]] * 60


@pytest.mark.parametrize("make", [DiffoRRegressor, DiffoRClassifier])
def test_conformalize_needs_a_fitted_model(make):
    with pytest.raises(NotFittedError, match=rf"needs a trained model, but this {make.__name__} is not fitted"):
        make().conformalize([[1.0]], [1.0])


def test_calibration_rows_are_checked(fresh, fresh_classifier):
    table, y = make_table(4, seed=0)
    for model in (fresh, fresh_classifier):
        with pytest.raises(ValueError, match="conformalize needs at least one row, but y_cal has 0;"):
            model.conformalize(table[:0], [])
        with pytest.raises(ValueError, match="must be equally long, but got 4 rows and 3 targets;"):
            model.conformalize(table, y[:3])
    with pytest.raises(ValueError, match=r"y_cal must lie inside bounds=\(0, 100\), but 1 of 4 values"):
        fresh.conformalize(table, [1, 2, 3, 101])
    with pytest.raises(ValueError, match="y_cal must not contain NaN, but 1 of 4"):
        fresh.conformalize(table, [1, 2, 3, np.nan])
    with pytest.raises(ValueError, match="y_cal must hold grades only, no NaN or inf, but 1 of 4"):
        fresh_classifier.conformalize(table, ["poor", "poor", "great", "best"])
    assert fresh.conformal_ is None
    assert fresh_classifier.conformal_ is None
