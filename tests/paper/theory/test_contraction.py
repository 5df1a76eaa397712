import numpy as np
import pytest
import torch
from chain_methods import make_method, make_rows

from diffor.core.row_noise import start_noise
from diffor.paper.theory.contraction import (
    chain_distances,
    coarse_to_fine_bound,
    contraction,
    jacobian_norms,
    step_map,
)


def step_factor(method, slope, t, following):
    """By how much the step multiplies the state where the estimate is ``slope`` times the state."""
    if following == 0:
        return slope
    (signal, following_signal), (spread, following_spread) = (
        (float(part[t]), float(part[following])) for part in (method.process.signals, method.process.spreads)
    )
    return following_signal * slope + following_spread * (1 - signal * slope) / spread


def steps_of(method):
    return list(zip(method.chain_times, [*method.chain_times[1:], 0], strict=True))


def test_the_bound_is_the_sum_of_the_papers_theorem():
    rng = np.random.default_rng(0)
    factors, terms = rng.random(5), rng.random(5)  # in the order of the steps: the paper counts from the last one
    expected = np.prod(factors) * 2.0 + sum(terms[k] * np.prod(factors[k + 1 :]) for k in range(5))
    assert coarse_to_fine_bound(factors, terms, 2.0) == pytest.approx(expected)
    assert coarse_to_fine_bound([0.0, 0.0], [9.0, 0.3], 5.0) == 0.3  # with factors of zero, the last term


@pytest.mark.parametrize("process", ["diffusion", "flow_matching"])
@pytest.mark.parametrize("slope", [0.0, 0.9])
def test_factors_of_a_linear_denoiser(process, slope):
    method = make_method(lambda noisy, t: slope * noisy, process=process)
    found = chain_distances(method, *make_rows())
    expected = np.array([step_factor(method, slope, t, following) for t, following in steps_of(method)])
    np.testing.assert_allclose(found.between_starts, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.spectral, np.abs(expected), rtol=1e-4, atol=1e-6)
    begun = found.start > 0  # flow matching starts on the true path itself, where there is no ratio
    if begun.any():
        np.testing.assert_allclose(found.factors[begun], np.tile(expected, (begun.sum(), 1)), rtol=2e-2, atol=1e-5)


def test_the_jacobian_of_a_matrix_is_that_of_the_step():
    slopes = torch.tensor([0.9, 0.1, 0.0, -0.5])
    method, (features, _, _) = make_method(lambda noisy, t: noisy * slopes), make_rows()
    state = torch.randn(len(features), 4)
    expected = max(abs(step_factor(method, slope, 500, 100)) for slope in slopes.tolist())
    np.testing.assert_allclose(jacobian_norms(method, features, state, 500, 100), expected, rtol=1e-5)
    np.testing.assert_allclose(jacobian_norms(method, features, state, 1, 0), 0.9, rtol=1e-5)


def test_the_steps_are_those_of_the_chain():
    method, (features, _, keys) = make_method(), make_rows()
    state = start_noise(keys, 2, 4)[:, 0]
    with torch.no_grad():
        expected = method.read(features, keys, 2).estimates[:, 0, -1]
        for t, following in steps_of(method):
            state = step_map(method, features, state, t, following)
    torch.testing.assert_close(state, expected, rtol=1e-3, atol=1e-4)


def test_a_perfect_denoiser_makes_no_errors_and_stays_on_the_true_path():
    features, y, keys = make_rows()
    half = torch.tensor([1.0, 1.0, -1.0, -1.0])  # what .5 looks like: the same for all, so that a constant knows it
    method, rows = make_method(lambda noisy, t: half + 0 * noisy), (features, torch.full_like(y, 0.5), keys)
    found, distances = contraction(method, *rows), chain_distances(method, *rows)
    np.testing.assert_allclose(distances.terms, 0, atol=1e-6)
    np.testing.assert_allclose(distances.end, 0, atol=1e-6)
    assert found["forgetting"] == pytest.approx(0, abs=1e-6)
    assert found["expanding_steps"] == 0


@pytest.mark.parametrize("settings", [{}, {"process": "flow_matching"}, {"eta": 1.0}])
def test_the_bound_of_each_row_holds_and_that_of_all_rows_is_looser(settings):
    method, rows = make_method(**settings), make_rows()
    found = chain_distances(method, *rows)
    bounds = coarse_to_fine_bound(found.factors, found.terms, found.start)
    assert (found.end <= bounds * (1 + 1e-4) + 1e-5).all()
    assert contraction(method, *rows)["uniform_bound"] >= bounds.max() * (1 - 1e-9)


def test_steps_that_expand_are_counted():
    found = contraction(make_method(lambda noisy, t: 3.0 * noisy), *make_rows())
    assert found["expanding_steps"] == len(found["times"])
    assert found["uniform_bound"] >= 2
