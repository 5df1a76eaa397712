import numpy as np
import pytest
import torch
from chain_methods import make_method, make_rows

from diffor.methods.diffor.gradients import Interference, cosines_for_history, gradient_interference, time_losses
from diffor.methods.diffor.increments import split_increments
from diffor.paper.theory.interference import time_interference

FEATURES, Y, _ = make_rows()


def test_cosines_of_known_gradients():
    place = torch.zeros(2, requires_grad=True)
    losses = [place[0], place[1], -3 * place[0], place.sum()]
    found = gradient_interference(losses, [place])
    half = np.sqrt(0.5)
    expected = [[1, 0, -1, half], [0, 1, 0, half], [-1, 0, 1, -half], [half, half, -half, 1]]
    np.testing.assert_allclose(found.cosines, expected, atol=1e-12)
    assert found.conflicts == pytest.approx(2 / 6)
    assert found.mean_cosine == pytest.approx((0 - 1 + half + 0 + half - half) / 6)


def test_orthogonal_gradients_do_not_interfere_opposed_ones_cancel_and_equal_ones_double():
    place = torch.zeros(2, requires_grad=True)
    for losses, cross_term, descent in (
        ([place[0], 2 * place[1]], 0.0, 1.0),
        ([place.sum(), -place.sum()], -4.0, 0.0),
        ([place.sum(), place.sum()], 4.0, 2.0),
    ):
        found = gradient_interference(losses, [place])
        assert (found.cross_term, found.descent) == pytest.approx((cross_term, descent))


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


def test_the_losses_of_the_times_sum_to_the_terms_of_algorithm_1():
    method, increments = make_method(objective="full"), split_increments(Y, 4)
    noise = torch.randn(increments.shape, generator=torch.Generator().manual_seed(0))
    _, of_heads, estimates = time_losses(method, FEATURES, increments, seed=0)
    expected = (increments - method.heads(method.call_at_aligned_times(FEATURES, increments, noise)[1])).square().mean()
    torch.testing.assert_close(torch.stack(of_heads).mean(), expected)
    assert estimates.shape == (50, 4, 4)


def test_separate_heads_have_no_cross_terms_and_shared_parameters_have():
    found = time_interference(make_method(objective="one_call"), FEATURES, Y)["gradients"]
    heads = found.pop("separate heads")
    assert heads["cross_term"] == 0.0
    np.testing.assert_allclose(heads["cosines"], np.eye(4))  # none of the gradients is zero
    assert len(found) == 4
    assert all(abs(one["cross_term"]) > 0 for one in found.values())
    assert found["shared head, fitted"]["descent"] < 1  # where it has learned, gradients point against each other


def test_nothing_is_left_behind_and_the_same_is_found_again():
    method = make_method()
    state = torch.get_rng_state()
    before = [parameter.clone() for parameter in method.parameters()]
    with torch.no_grad():  # as callers may have it
        first, again = (time_interference(method, FEATURES, Y) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in method.parameters())
    assert all(torch.equal(one, other) for one, other in zip(before, method.parameters(), strict=True))
    np.testing.assert_equal(first, again)


def test_what_training_logs_is_what_is_measured():
    method = make_method()
    found, logged = time_interference(method, FEATURES, Y)["gradients"], cosines_for_history(method, FEATURES, Y)
    assert logged == method.diagnostics(FEATURES, Y)
    for kind, name in (("denoise", "denoiser, denoising losses"), ("increment", "denoiser, increment losses")):
        assert logged[f"{kind}_cosine"] == pytest.approx(found[name]["mean_cosine"])
        assert logged[f"{kind}_conflicts"] == pytest.approx(found[name]["conflicts"])
