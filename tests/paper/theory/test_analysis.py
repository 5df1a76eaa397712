import re

import numpy as np
import pytest
import torch

from diffor.methods.diffor import IncrementDiffusion
from diffor.paper.theory.analysis import (
    NoiseIdentity,
    bounds_by_count,
    bounds_by_time,
    corrupt_rows,
    even_grades,
    noise_identity,
    ordinal_bound,
)

SMALL = {
    "n_increments": 4, "width": 16, "n_layers": 1, "denoiser": "mlp", "parameterization": "velocity",
    "schedule": "cosine", "decoding": "chain",
}  # fmt: skip
METHODS = {
    "diffusion velocity": {},
    "diffusion noise, linear": {"parameterization": "noise", "schedule": "linear"},
    "diffusion clean": {"parameterization": "clean"},
    "flow velocity": {"process": "flow_matching"},
    "flow clean": {"process": "flow_matching", "parameterization": "clean"},
}


def make_method(**settings):
    torch.manual_seed(0)
    return IncrementDiffusion(2, **{**SMALL, **settings}).eval()


def make_rows(n=60):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 2, generator=generator), torch.rand(n, generator=generator)


# From noise errors to value errors.


@pytest.mark.parametrize("settings", METHODS.values(), ids=METHODS)
def test_the_identity_holds_for_every_parameterisation_and_an_untrained_network(settings):
    found = noise_identity(make_method(**settings), *make_rows())
    assert found.max_deviation < 1e-4
    assert (found.clean_mse > 0).all()


def test_the_amplification_is_the_ratio_of_spread_and_signal():
    method = make_method(process="flow_matching", n_times=4)
    found = noise_identity(method, *make_rows(), times=(4, 3, 2, 1))
    assert found.times == (3, 2, 1)
    assert found.left_out == (4,)
    np.testing.assert_allclose(found.amplification, [9.0, 1.0, 1 / 9], rtol=1e-6)


def test_a_predictor_with_a_known_error_has_known_errors_on_both_sides():
    method = make_method(process="flow_matching", parameterization="clean", n_times=4)

    class Off(torch.nn.Module):
        """Answers with the middle of the range, whatever it sees."""

        def forward(self, noisy, features, t):
            return torch.zeros_like(noisy)

    method.denoiser = Off()
    features, y = make_rows()
    y = torch.ones_like(y)  # clean vectors of ones: the squared error is 1
    found = noise_identity(method, features, y, times=(3, 2))
    np.testing.assert_allclose(found.clean_mse, [1.0, 1.0])
    np.testing.assert_allclose(found.noise_mse, [1 / 9, 1.0], rtol=1e-6)


def test_a_broken_identity_has_a_deviation():
    broken = NoiseIdentity((5,), np.array([2.0]), np.array([1.0]), np.array([1.0]), ())
    assert broken.max_deviation == 1.0


def test_times_without_signal_alone_are_refused():
    method = make_method(process="flow_matching", n_times=4)
    with pytest.raises(ValueError, match=re.escape("times must hold one with some signal, but got times=[4]; ask")):
        noise_identity(method, *make_rows(), times=(4,))


def test_corrupted_rows_are_those_of_the_process_and_repeat_with_the_seed():
    method, (features, y) = make_method(), make_rows()
    first, second = (list(corrupt_rows(method, features, y, (500, 1), seed)) for seed in (0, 1))
    for rows in first:
        t = torch.tensor(rows.t)
        torch.testing.assert_close(rows.noisy, method.process.corrupt(rows.clean, rows.noise, t))
    assert torch.equal(first[0].noise, first[1].noise)
    assert not torch.equal(first[0].noise, second[0].noise)


# From value errors to wrong grades.


def test_even_grades_stand_in_the_middle_of_their_cells():
    positions, thresholds = even_grades([0.0, 0.24, 0.25, 0.99, 1.0], 4)
    assert positions.tolist() == [0.125, 0.125, 0.375, 0.875, 0.875]
    assert thresholds.tolist() == [0.25, 0.5, 0.75]
    with pytest.raises(ValueError, match="count must be at least 2, but got count=1"):
        even_grades([0.5], 1)


def test_the_bound_is_tight_where_every_estimate_misses_by_half_a_gap():
    positions = np.full(10, 0.125)
    found = ordinal_bound(positions + 0.125, positions, [0.25, 0.5, 0.75])
    assert found.gamma == 0.25
    assert found.error_rate == found.bound == 1.0


def test_the_bound_is_known_where_a_share_misses_by_half_a_gap():
    positions = np.full(10, 0.125)
    estimates = positions + np.r_[np.full(3, 0.125), np.zeros(7)]
    found = ordinal_bound(estimates, positions, [0.25, 0.5, 0.75])
    assert found.error_rate == pytest.approx(0.3)
    assert found.bound == pytest.approx(0.3)


def test_a_position_on_a_threshold_has_no_margin_and_an_infinite_bound():
    found = ordinal_bound([0.5], [0.5], [0.5])
    assert found.bound == float("inf")


@pytest.mark.parametrize("seed", [0, 4])
def test_the_bound_is_never_broken(seed):
    rng = np.random.default_rng(seed)
    y = rng.random(500)
    estimates = np.clip(y + rng.normal(scale=0.05 * (seed + 1), size=500), 0, 1)
    bounds = bounds_by_count(estimates, y, (2, 3, 5, 10, 50))
    for count, found in zip(bounds.cases, bounds.bounds, strict=True):
        assert found.n_grades == count
        assert found.gamma == pytest.approx(1 / count)
        assert found.error_rate <= found.bound


def test_grades_with_the_outer_ones_on_the_ends_have_the_gap_between_grades():
    y = np.array([0.0, 0.5, 1.0, 1.0])
    right, wrong = y, np.array([0.0, 0.5, 1.0, 0.5])
    bounds = bounds_by_time(np.stack([wrong, right], axis=1), y, (9, 1), n_grades=3)
    assert [found.gamma for found in bounds.bounds] == [0.5, 0.5]
    assert [found.error_rate for found in bounds.bounds] == [0.25, 0.0]
    assert [found.bound for found in bounds.bounds] == [1.0, 0.0]
    assert [row["time"] for row in bounds.numbers["cases"]] == [9, 1]


def test_shapes_and_thresholds_that_do_not_fit_are_refused():
    message = "estimates and positions must be equally many, at least one, but shapes (2,) and (1,)"
    with pytest.raises(ValueError, match=re.escape(message)):
        ordinal_bound([0.1, 0.2], [0.1], [0.5])
    with pytest.raises(ValueError, match=re.escape("thresholds must rise strictly inside (0, 1), but got [0.5, 0.5]")):
        ordinal_bound([0.1], [0.1], [0.5, 0.5])
