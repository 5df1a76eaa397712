"""Kernels and honest answers: what is known by heart must not count, and directions that no column has are found."""

import numpy as np
import pytest
import torch

from diffor.priors import PriorRows, fit_priors, make_prior
from diffor.priors.kernel import inverse_factor, learn_kernel, learn_sums
from diffor.priors.learned_kernel import LearnedKernel
from diffor.priors.process_solve import solve_exactly


def make_rows(n, p, seed=0):
    return torch.randn(n, p, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ones(n):
    return torch.ones(n, dtype=torch.float64)


def test_what_a_kernel_knows_by_heart_is_no_answer():
    rows, noise = make_rows(120, 40), make_rows(120, 1, seed=1)[:, 0]
    noise = noise - noise.mean()
    own = solve_exactly(learn_kernel(rows, noise, ones(120))[0], rows, noise, ones(120)).place
    honest = LearnedKernel.of(rows, noise, ones(120)).place
    constant = float(noise.abs().mean())
    assert float((own - noise).abs().mean()) < 0.97 * constant, "forty lengths know noise by heart"
    assert float((honest - noise).abs().mean()) > 0.99 * constant


def test_a_direction_that_no_column_has_is_found():
    rows = make_rows(300, 6)
    target = torch.sin(2 * rows.sum(dim=1) / np.sqrt(6)) + 0.05 * make_rows(300, 1, seed=1)[:, 0]
    plain, found = (LearnedKernel.of(rows, target, ones(300), n_sums) for n_sums in (0, 2))
    assert (plain.kernel.sums.shape[1], found.kernel.sums.shape[1]) == (0, 2)
    missed = [float((one.place - target).abs().mean()) for one in (plain, found)]
    assert missed[1] < 0.8 * missed[0]
    new = make_rows(200, 6, seed=2)
    truth = torch.sin(2 * new.sum(dim=1) / np.sqrt(6))
    slopes = [solve_exactly(one.kernel, rows, target, ones(300)).slopes for one in (plain, found)]
    missed = [
        float((one.kernel.between(new, rows) @ own - truth).abs().mean())
        for one, own in zip((plain, found), slopes, strict=True)
    ]
    assert missed[1] < 0.8 * missed[0]


def test_sums_are_left_out_where_columns_are_enough():
    rows = make_rows(200, 4)
    target = torch.sin(2 * rows[:, 0]) + 0.3 * make_rows(200, 1, seed=1)[:, 0]
    kept = LearnedKernel.of(rows, target, ones(200), 2)
    other = learn_sums(learn_kernel(rows, target, ones(200))[0], 2, rows, target, ones(200))
    assert other.sums.shape == (4, 2)
    assert kept.kernel.sums.shape[1] == 0


def test_the_inverse_of_a_triangle():
    factor = torch.linalg.cholesky(make_rows(30, 30) @ make_rows(30, 30).T + 30 * torch.eye(30, dtype=torch.float64))
    inverse = inverse_factor(factor).tril()
    np.testing.assert_allclose(inverse @ factor, np.eye(30), atol=1e-9)
    with pytest.raises(FloatingPointError, match="must have an inverse"):
        inverse_factor(torch.zeros(2, 2, dtype=torch.float64))


@pytest.mark.parametrize("is_bent", [False, True])
def test_targets_are_answered_on_the_scale_on_which_they_are_smooth(is_bent):
    inputs = (make_rows(250, 2).float(), torch.zeros(250, 0, dtype=torch.int64))
    smooth = torch.sigmoid(inputs[0].sum(dim=1)).double().numpy()
    bent = (smooth > 0.5) * 0.5 + 0.5 * smooth**4  # the same order of rows, a law with a jump
    even, u = (bent, smooth) if is_bent else (smooth, bent)
    prior = make_prior("process")
    assert prior.prefers_even(PriorRows(inputs), u, even, None, seed=0) is (not is_bent)
    fitted, seen = fit_priors(["trees", "process"], PriorRows(inputs), u, None, np.arange(250) % 5, seed=0, even=even)
    assert fitted.are_even == [False, not is_bent], "trees stay with the borders"
    assert np.abs(seen[:, 2] - smooth).mean() < 0.02


def test_a_target_that_is_always_the_same_has_no_scale_to_choose():
    rows = PriorRows((make_rows(30, 2).float(), torch.zeros(30, 0, dtype=torch.int64)))
    assert not make_prior("process").prefers_even(rows, np.full(30, 0.5), np.full(30, 0.2), None, seed=0)


def test_rows_that_repeat_are_remembered():
    rows = make_rows(250, 8).repeat(2, 1)
    target = make_rows(250, 1, seed=1)[:, 0].repeat(2)  # nothing but the row itself tells its target
    order = torch.randperm(500, generator=torch.Generator().manual_seed(0))
    rows, target = rows[order], target[order]
    kernel, _ = learn_kernel(rows, target, ones(500))
    place = solve_exactly(kernel, rows, target, ones(500)).place
    assert float((place - target).abs().mean()) < 0.4 * float(target.abs().mean())
