"""Paired differences against closed forms and scipy."""

import numpy as np
import pytest
from experiment_cells import cells_of, line
from scipy.stats import ttest_1samp

from diffor.bench.leaderboard import latest_cells
from diffor.paper.experiments.contrasts import (
    ALL_SETS,
    COMPARED,
    Contrast,
    amount,
    as_numbers,
    contrasts,
    student_interval,
)

MAE, CRPS, SRCC = COMPARED


def test_interval_is_students():
    values = np.random.default_rng(0).normal(size=7)
    mean, low, high = student_interval(values)
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    np.testing.assert_allclose([mean, low, high], [values.mean(), expected.low, expected.high])


def test_about_95_of_100_intervals_hold_the_truth():
    draws = np.random.default_rng(1).normal(3.0, 2.0, size=(2000, 5))
    inside = [low <= 3.0 <= high for _, low, high in map(student_interval, draws)]
    assert 0.93 < np.mean(inside) < 0.97


def test_one_value_has_no_interval():
    with pytest.raises(ValueError, match=r"needs at least two values, but got shape=\(1,\); run with more seeds"):
        student_interval([1.0])


def test_errors_are_compared_seed_by_seed_and_as_shares():
    cells = cells_of({("wine", "full"): [1.0, 2.0, 4.0], ("wine", "less"): [1.1, 2.2, 4.4]})
    (found,) = contrasts(cells, "full", ["less"], [MAE])
    # The scores differ much between seeds, the shares not at all.
    np.testing.assert_allclose([found.mean, found.low, found.high], 0.1)
    assert (found.dataset, found.method, found.metric, found.n_seeds) == ("wine", "less", "mae", 3)
    np.testing.assert_allclose([found.method_mean, found.reference_mean], [7.7 / 3, 7 / 3])


def test_correlations_are_compared_as_they_are():
    scores = {"full": [0.5, 0.6], "less": [0.4, 0.5]}
    cells = latest_cells(
        line("wine", name, seed, 1.0, value) for name, values in scores.items() for seed, value in enumerate(values)
    )
    (found,) = contrasts(cells, "full", ["less"], [SRCC])
    assert found.mean == pytest.approx(-0.1)
    assert found.verdict(greater_is_better=True) == "worse"


def test_over_all_sets_each_seed_counts_with_its_mean():
    cells = cells_of({
        ("a", "full"): [1.0, 1.0, 1.0], ("a", "less"): [1.1, 1.3, 1.2],
        ("b", "full"): [10.0, 10.0, 10.0], ("b", "less"): [9.0, 11.0, 10.0],
    })  # fmt: skip
    pooled = next(one for one in contrasts(cells, "full", ["less"], [MAE]) if one.dataset == ALL_SETS)
    mean, low, high = student_interval([0.0, 0.2, 0.1])
    np.testing.assert_allclose([pooled.mean, pooled.low, pooled.high], [mean, low, high], atol=1e-12)


def test_seeds_that_one_of_them_lacks_do_not_count():
    cells = cells_of({("a", "full"): [1.0, 1.0, 1.0], ("a", "less"): [1.1, 1.3, 9.0]})
    cells["a", "less", 2]["status"] = "failed"
    (found,) = contrasts(cells, "full", ["less"], [MAE])
    assert found.n_seeds == 2
    assert found.mean == pytest.approx(0.2)


def test_a_single_common_seed_gives_no_contrast():
    cells = cells_of({("a", "full"): [1.0], ("a", "less"): [1.1]})
    assert contrasts(cells, "full", ["less"]) == []


@pytest.mark.parametrize(
    ("mean", "low", "high", "verdict"),
    [(0.1, 0.05, 0.15, "worse"), (-0.1, -0.15, -0.05, "better"), (0.1, -0.1, 0.3, "not clearly different")],
)
def test_verdict_looks_at_the_interval(mean, low, high, verdict):
    assert Contrast("a", "b", "mae", mean, low, high, 5, 1.0, 1.0).verdict() == verdict


def test_amounts_are_percent_of_errors_and_plain_for_correlations():
    one = Contrast("a", "b", "mae", 0.0512, -0.01, 0.111, 5, 1.0, 1.0)
    assert amount(one, MAE) == "+5.1 % (-1.0 to +11.1)"
    assert amount(one, SRCC) == "+0.051 (-0.010 to +0.111)"
    assert as_numbers([one])[0]["low"] == -0.01
