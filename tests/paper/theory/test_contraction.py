import numpy as np
import pytest
import torch

from diffor.core.row_noise import row_keys, start_noise
from diffor.methods.diffor import IncrementDiffusion
from diffor.paper.theory.contraction import coarse_to_fine_bound, contraction, jacobian_norms, step_map


class Linear(torch.nn.Module):
    """A denoiser of clean vectors whose estimate is a matrix times what it sees."""

    def __init__(self, matrix):
        super().__init__()
        self.matrix = matrix

    def forward(self, noisy, features, t):
        return noisy @ self.matrix.T


def make_method(matrix=None, **settings):
    torch.manual_seed(0)
    base = {"n_increments": 4, "width": 16, "n_layers": 1, "denoiser": "mlp", "parameterization": "clean"}
    method = IncrementDiffusion(2, **{**base, "schedule": "cosine", "decoding": "chain", **settings}).eval()
    if matrix is not None:
        method.denoiser = Linear(matrix)
    return method


def make_rows(n=40):
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(n, 2, generator=generator)
    return features, torch.rand(n, generator=generator), row_keys((features,), 0)


def step_factor(method, slope, t, following):
    """By how much the step multiplies the state where the estimate is ``slope`` times the state."""
    signal, spread = float(method.process.signals[t]), float(method.process.spreads[t])
    if following == 0:
        return slope
    signal_next, spread_next = float(method.process.signals[following]), float(method.process.spreads[following])
    return signal_next * slope + spread_next * (1 - signal * slope) / spread


# The paper's bound.


def test_the_bound_is_the_sum_of_the_papers_theorem():
    rng = np.random.default_rng(0)
    factors, terms = rng.random(5), rng.random(5)  # in the order of the steps: the paper counts from the last one
    expected = np.prod(factors) * 2.0
    for k in range(5):
        expected += terms[k] * np.prod(factors[k + 1 :])
    assert coarse_to_fine_bound(factors, terms, 2.0) == pytest.approx(expected)


def test_with_factors_of_zero_the_bound_is_the_last_term():
    assert coarse_to_fine_bound([0.0, 0.0], [9.0, 0.3], 5.0) == 0.3


# A step map that is known exactly.


@pytest.mark.parametrize("process", ["diffusion", "flow_matching"])
@pytest.mark.parametrize("slope", [0.0, 0.9])
def test_factors_of_a_linear_denoiser(process, slope):
    method = make_method(slope * torch.eye(4), process=process)
    found = contraction(method, *make_rows())
    steps = list(zip(method.chain_times, [*method.chain_times[1:], 0], strict=True))
    expected = np.array([step_factor(method, slope, t, following) for t, following in steps])
    np.testing.assert_allclose(found.between_starts, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.spectral, np.abs(expected), rtol=1e-4, atol=1e-6)
    begun = found.start > 0  # flow matching starts on the true path itself, where there is no ratio
    if begun.any():
        np.testing.assert_allclose(found.factors[begun], np.tile(expected, (begun.sum(), 1)), rtol=2e-2, atol=1e-5)


def test_the_jacobian_of_a_matrix_is_that_of_the_step():
    matrix = torch.diag(torch.tensor([0.9, 0.1, 0.0, -0.5]))
    method = make_method(matrix)
    features, _, _ = make_rows()
    state = torch.randn(len(features), 4)
    expected = max(abs(step_factor(method, float(slope), 500, 100)) for slope in matrix.diagonal())
    np.testing.assert_allclose(jacobian_norms(method, features, state, 500, 100), expected, rtol=1e-5)
    np.testing.assert_allclose(jacobian_norms(method, features, state, 1, 0), 0.9, rtol=1e-5)


def test_the_steps_are_those_of_the_chain():
    method = make_method(parameterization="velocity")
    features, _, keys = make_rows()
    state = start_noise(keys, 2, 4)[:, 0]
    with torch.no_grad():
        expected = method.read(features, keys, 2).estimates[:, 0, -1]
        for t, following in zip(method.chain_times, [*method.chain_times[1:], 0], strict=True):
            state = step_map(method, features, state, t, following)
    torch.testing.assert_close(state, expected, rtol=1e-3, atol=1e-4)


def test_a_perfect_denoiser_makes_no_errors_and_stays_on_the_true_path():
    features, y, keys = make_rows()
    y = torch.full_like(y, 0.5)  # the same for all, so that a constant denoiser knows it

    class Perfect(torch.nn.Module):
        def forward(self, noisy, features, t):
            return torch.tensor([1.0, 1.0, -1.0, -1.0]).expand_as(noisy) + 0 * noisy

    method = make_method()
    method.denoiser = Perfect()
    found = contraction(method, features, y, keys)
    np.testing.assert_allclose(found.terms, 0, atol=1e-6)
    np.testing.assert_allclose(found.end, 0, atol=1e-6)
    assert found.forgetting == pytest.approx(0, abs=1e-6)
    assert found.expanding == ()


@pytest.mark.parametrize("settings", [{}, {"process": "flow_matching"}, {"eta": 1.0}])
def test_the_bound_of_each_row_holds_and_that_of_all_rows_is_looser(settings):
    found = contraction(make_method(**settings), *make_rows())
    assert (found.end <= found.row_bound * (1 + 1e-4) + 1e-5).all()
    assert found.uniform_bound >= found.row_bound.max() * (1 - 1e-9)


def test_steps_that_expand_are_counted():
    found = contraction(make_method(3.0 * torch.eye(4)), *make_rows())
    assert len(found.expanding) == len(found.times)
    assert found.numbers["expanding_steps"] == len(found.times)
    assert found.uniform_bound >= 2
