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
    contrast_table,
    contrasts,
    student_interval,
)

MAE, CRPS, SRCC, *_ = COMPARED


def test_interval_is_students():
    values = np.random.default_rng(0).normal(size=7)
    mean, low, high = student_interval(values)
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    np.testing.assert_allclose([mean, low, high], [values.mean(), expected.low, expected.high])


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


def test_tables_hold_amounts_and_mark_intervals_without_zero():
    clear, unclear = (Contrast("a", "b", "mae", 0.0512, low, 0.111, 5, 1.05, 1.0) for low in (0.01, -0.01))
    assert (clear.is_clear, unclear.is_clear) == (True, False)
    assert amount(MAE, 0.0512, -0.01, 0.111) == "+5.1 % (-1.0 to +11.1)"
    assert amount(SRCC, 0.0512, -0.01, 0.111) == "+0.051 (-0.010 to +0.111)"
    table = contrast_table([clear, unclear], MAE, ("width", {"b": 64}))
    assert table.header[0] == "width"
    assert table.rows[0] == ("64", "a", "1", "1.05", "+5.1 % (+1.0 to +11.1)", "5")
    assert table.strong == {(0, 4)}
