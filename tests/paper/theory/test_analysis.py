import re

import numpy as np
import pytest
import torch
from chain_methods import make_method, make_rows

from diffor.paper.theory.analysis import (
    bounds_by_count,
    bounds_by_time,
    corrupt_rows,
    deviation,
    even_grades,
    noise_identity,
    ordinal_bound,
)

FEATURES, Y, _ = make_rows()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"parameterization": "noise", "schedule": "linear"},
        {"parameterization": "clean"},
        {"process": "flow_matching"},
    ],
)
def test_the_identity_holds_for_every_parameterisation_and_an_untrained_network(settings):
    found = noise_identity(make_method(**settings), FEATURES, Y)
    assert found["max_deviation"] < 1e-4
    assert (found["clean_mse"] > 0).all()


def test_a_predictor_with_a_known_error_has_known_errors_on_both_sides():
    method = make_method(lambda noisy, t: torch.zeros_like(noisy), process="flow_matching", n_times=4)
    found = noise_identity(method, FEATURES, torch.ones_like(Y), times=(4, 3, 2, 1))  # clean vectors of ones
    assert (found["times"], found["left_out"]) == ([3, 2, 1], [4])
    np.testing.assert_allclose(found["amplification"], [9.0, 1.0, 1 / 9], rtol=1e-6)
    np.testing.assert_allclose(found["clean_mse"], [1.0, 1.0, 1.0])
    np.testing.assert_allclose(found["noise_mse"], [1 / 9, 1.0, 9.0], rtol=1e-6)
    with pytest.raises(ValueError, match=re.escape("times must hold one with some signal, but got times=[4]; ask")):
        noise_identity(method, FEATURES, Y, times=(4,))


def test_a_broken_identity_has_a_deviation():
    assert deviation(np.array([1.0, 2.0]), np.array([1.0, 1.0])) == 1.0


def test_corrupted_rows_are_those_of_the_process_and_repeat_with_the_seed():
    method = make_method()
    first, second = (list(corrupt_rows(method, FEATURES, Y, (500, 1), seed)) for seed in (0, 1))
    for rows, t in zip(first, (500, 1), strict=True):
        torch.testing.assert_close(rows.noisy, method.process.corrupt(rows.clean, rows.noise, torch.tensor(t)))
    assert torch.equal(first[0].noise, first[1].noise)
    assert not torch.equal(first[0].noise, second[0].noise)


def test_even_grades_stand_in_the_middle_of_their_cells():
    positions, thresholds = even_grades([0.0, 0.24, 0.25, 0.99, 1.0], 4)
    assert positions.tolist() == [0.125, 0.125, 0.375, 0.875, 0.875]
    assert thresholds.tolist() == [0.25, 0.5, 0.75]
    with pytest.raises(ValueError, match="count must be at least 2, but got count=1"):
        even_grades([0.5], 1)


@pytest.mark.parametrize("n_missed", [10, 3])
def test_the_bound_is_tight_where_estimates_miss_by_half_a_gap(n_missed):
    positions = np.full(10, 0.125)
    estimates = positions + np.r_[np.full(n_missed, 0.125), np.zeros(10 - n_missed)]
    found = ordinal_bound(estimates, positions, [0.25, 0.5, 0.75])
    assert found["gamma"] == 0.25
    assert found["error_rate"] == found["bound"] == pytest.approx(n_missed / 10)


def test_a_position_on_a_threshold_has_no_margin_and_an_infinite_bound():
    assert ordinal_bound([0.5], [0.5], [0.5])["bound"] == float("inf")


@pytest.mark.parametrize("seed", [0, 4])
def test_the_bound_is_never_broken(seed):
    rng = np.random.default_rng(seed)
    y = rng.random(500)
    estimates = np.clip(y + rng.normal(scale=0.05 * (seed + 1), size=500), 0, 1)
    for found in bounds_by_count(estimates, y, (2, 3, 5, 10, 50))["cases"]:
        assert found["n_grades"] == found["number of grades"]
        assert found["gamma"] == pytest.approx(1 / found["n_grades"])
        assert found["error_rate"] <= found["bound"]


def test_grades_with_the_outer_ones_on_the_ends_have_the_gap_between_grades():
    y = np.array([0.0, 0.5, 1.0, 1.0])
    right, wrong = y, np.array([0.0, 0.5, 1.0, 0.5])
    found = bounds_by_time(np.stack([wrong, right], axis=1), y, (9, 1), n_grades=3)
    names = ("time", "gamma", "error_rate", "bound")
    assert [tuple(one[name] for name in names) for one in found["cases"]] == [(9, 0.5, 0.25, 1.0), (1, 0.5, 0.0, 0.0)]


def test_shapes_and_thresholds_that_do_not_fit_are_refused():
    message = "estimates and positions must be equally many, at least one, but shapes (2,) and (1,)"
    with pytest.raises(ValueError, match=re.escape(message)):
        ordinal_bound([0.1, 0.2], [0.1], [0.5])
    with pytest.raises(ValueError, match=re.escape("thresholds must rise strictly inside (0, 1), but got [0.5, 0.5]")):
        ordinal_bound([0.1], [0.1], [0.5, 0.5])
