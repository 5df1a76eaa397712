import numpy as np
import pytest

from diffor import metrics
from diffor.reports.evaluation.scores import (
    AMOUNT_MEASURES,
    GRADE_MEASURES,
    Amounts,
    Graded,
    Measure,
    bootstrap_interval,
    constant_amounts,
    constant_grades,
    plain_scores,
    with_intervals,
)


def amounts(n=200, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    answered = truth + noise * rng.normal(size=n)
    return Amounts(truth, answered, answered - 1, answered + 1, np.abs(answered - truth))


def grades(n=200, seed=0):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet([1, 1, 1], size=n)
    return Graded(rng.integers(0, 3, n), probabilities.argmax(axis=1), probabilities)


MEAN_ERROR: Measure[Amounts] = Measure("mean", lambda rows: float((rows.answered - rows.truth).mean()))


def test_measures_are_the_metrics_of_the_columns():
    rows = amounts()
    found = plain_scores(rows, AMOUNT_MEASURES, constant_amounts(rows.truth, 0.9))
    assert found["mae"][0] == metrics.mae(rows.truth, rows.answered)
    assert found["srcc"][0] == metrics.srcc(rows.truth, rows.answered)
    assert found["coverage"][0] == np.mean(np.abs(rows.answered - rows.truth) <= 1)
    assert found["interval_width"][0] == pytest.approx(2)
    assert found["crps"][0] == rows.crps.mean()


def test_no_single_answer_beats_the_constant():
    truth = amounts().truth
    best = constant_amounts(truth, 0.9)
    for value in np.linspace(-2, 2, 41):
        assert metrics.mae(truth, np.full(200, value)) >= best["mae"] - 1e-12
        assert metrics.rmse(truth, np.full(200, value)) >= best["rmse"] - 1e-12
    assert best["crps"] == pytest.approx(metrics.crps_samples(truth, np.tile(truth, (200, 1))))
    assert best["coverage"] == pytest.approx(0.9, abs=0.01)


def test_equal_truths_have_no_order_to_measure():
    rows = amounts()._replace(truth=np.ones(200))
    found = plain_scores(rows, AMOUNT_MEASURES, constant_amounts(rows.truth, 0.9))
    assert found["srcc"] == found["xauc"] == (None, None)
    assert [score.interval for score in with_intervals(rows, AMOUNT_MEASURES, found, 10)][2:4] == [None, None]


def test_the_interval_of_a_mean_is_two_standard_errors_each_way():
    rows = amounts(n=400)
    errors = rows.answered - rows.truth
    low, high = bootstrap_interval(rows, MEAN_ERROR, errors.mean(), 4000)
    around = 1.96 * errors.std() / 20
    assert (low, high) == pytest.approx((errors.mean() - around, errors.mean() + around), abs=0.1 * around)


def test_fewer_rows_drawn_give_the_same_interval():
    rows = amounts(n=4000)
    value = float((rows.answered - rows.truth).mean())
    whole = np.diff(bootstrap_interval(rows, MEAN_ERROR, value, 2000))
    fewer = Measure("mean", MEAN_ERROR.of, max_resampled=250)
    assert np.diff(bootstrap_interval(rows, fewer, value, 2000)) == pytest.approx(whole, rel=0.1)


def test_intervals_repeat_and_hold_the_value():
    rows = grades()
    found = plain_scores(rows, GRADE_MEASURES, constant_grades(rows.truth, 3))
    first, again = (with_intervals(rows, GRADE_MEASURES, found, 100) for _ in range(2))
    assert first == again
    assert [score.title for score in first] == ["accuracy", "MAE in grades", "QWK", "RPS"]
    for score in first:
        low, high = score.interval
        assert low < score.value < high


def test_a_resample_of_one_truth_does_not_spoil_the_interval():
    rows = amounts(n=3)._replace(truth=np.array([1.0, 1.0, 2.0]))
    found = plain_scores(rows, AMOUNT_MEASURES, constant_amounts(rows.truth, 0.9))
    for score in with_intervals(rows, AMOUNT_MEASURES, found, 200):
        assert np.isfinite(score.interval).all(), score.title
