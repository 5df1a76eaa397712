import numpy as np
import pytest
import torch

from diffor.methods.diffor import IncrementDiffusion
from diffor.methods.diffor.gradients import Interference, cosines_for_history, gradient_interference, time_losses
from diffor.methods.diffor.increments import split_increments
from diffor.paper.theory.interference import time_interference


def make_method(**settings):
    torch.manual_seed(0)
    base = {"n_increments": 4, "width": 16, "n_layers": 1, "denoiser": "mlp", "parameterization": "velocity"}
    return IncrementDiffusion(2, **{**base, "schedule": "cosine", "objective": "one_call", **settings}).eval()


def make_rows(n=50):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 2, generator=generator), torch.rand(n, generator=generator)


# Gradients whose angles are known.


def test_cosines_of_known_gradients():
    place = torch.zeros(2, requires_grad=True)
    losses = [place[0], place[1], -3 * place[0], place.sum()]
    found = gradient_interference(losses, [place])
    half = np.sqrt(0.5)
    expected = [[1, 0, -1, half], [0, 1, 0, half], [-1, 0, 1, -half], [half, half, -half, 1]]
    np.testing.assert_allclose(found.cosines, expected, atol=1e-12)
    assert found.conflicts == pytest.approx(2 / 6)
    assert found.mean_cosine == pytest.approx((0 - 1 + half + 0 + half - half) / 6)


def test_orthogonal_gradients_do_not_interfere():
    place = torch.zeros(2, requires_grad=True)
    found = gradient_interference([place[0], 2 * place[1]], [place])
    assert found.cross_term == 0.0
    assert found.descent == 1.0


def test_opposed_gradients_cancel_and_equal_ones_double():
    place = torch.zeros(3, requires_grad=True)
    opposed = gradient_interference([place.sum(), -place.sum()], [place])
    assert opposed.descent == pytest.approx(0.0)
    assert opposed.cross_term == pytest.approx(-6.0)
    equal = gradient_interference([place.sum(), place.sum()], [place])
    assert equal.descent == pytest.approx(2.0)


def test_the_norm_of_the_sum_is_the_papers_expansion():
    place = torch.randn(5, requires_grad=True, generator=torch.Generator().manual_seed(0))
    losses = [(place**power).sum() for power in (1, 2, 3)]
    found = gradient_interference(losses, [place])
    joint = torch.autograd.grad(sum(losses), place)[0].double().square().sum().item()
    assert np.trace(found.products) + found.cross_term == pytest.approx(joint, rel=1e-5)


def test_parameters_that_a_loss_does_not_touch_have_zero_gradients_there():
    first, second = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    found = gradient_interference([first.sum(), second.sum(), (0 * first).sum()], [first, second])
    np.testing.assert_array_equal(found.products, [[1, 0, 0], [0, 1, 0], [0, 0, 0]])
    assert np.isfinite(found.cosines).all()
    assert first.grad is None


def test_one_loss_has_no_pairs():
    alone = Interference("", np.array([[4.0]]))
    assert (alone.mean_cosine, alone.conflicts, alone.cross_term, alone.descent) == (0.0, 0.0, 0.0, 1.0)


# The method.


def test_the_losses_of_the_times_sum_to_the_terms_of_algorithm_1():
    method, (features, y) = make_method(objective="full"), make_rows()
    increments = split_increments(y, 4)
    noise = torch.randn(increments.shape, generator=torch.Generator().manual_seed(0))
    _, of_heads, estimates = time_losses(method, features, increments, seed=0)
    expected = (increments - method.heads(method.call_at_aligned_times(features, increments, noise)[1])).square().mean()
    torch.testing.assert_close(torch.stack(of_heads).mean(), expected)
    assert estimates.shape == (50, 4, 4)


def test_separate_heads_have_no_cross_terms_and_the_denoiser_has():
    found = time_interference(make_method(), *make_rows())
    assert found.heads.cross_term == 0.0
    assert (np.diag(found.heads.products) > 0).all()
    assert not np.triu(found.heads.cosines, 1).any()
    assert abs(found.denoising.cross_term) > 0
    assert abs(found.increments.cross_term) > 0
    assert abs(found.shared_start.cross_term) > 0


def test_in_a_shared_head_that_has_learned_gradients_point_against_each_other():
    found = time_interference(make_method(), *make_rows())
    assert found.shared_end.descent < 1
    assert np.trace(found.shared_end.products) < np.trace(found.shared_start.products)


def test_nothing_is_left_behind():
    method, rows = make_method(), make_rows()
    before = [parameter.clone() for parameter in method.parameters()]
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with torch.no_grad():  # as callers may have it
        first = time_interference(method, *rows)
    assert torch.equal(torch.rand(3), expected)
    assert all(parameter.grad is None for parameter in method.parameters())
    assert all(torch.equal(one, other) for one, other in zip(before, method.parameters(), strict=True))
    np.testing.assert_array_equal(first.shared_end.products, time_interference(method, *rows).shared_end.products)


def test_one_head_has_nobody_to_conflict_with():
    found = time_interference(make_method(n_increments=1), *make_rows())
    assert [one.mean_cosine for one in found.measured] == [0.0] * 5


def test_what_training_logs_is_what_is_measured():
    method, rows = make_method(), make_rows()
    found, logged = time_interference(method, *rows), cosines_for_history(method, *rows)
    assert logged == method.diagnostics(*rows)
    assert logged == pytest.approx(
        {
            "denoise_cosine": found.denoising.mean_cosine,
            "denoise_conflicts": found.denoising.conflicts,
            "increment_cosine": found.increments.mean_cosine,
            "increment_conflicts": found.increments.conflicts,
        }
    )
