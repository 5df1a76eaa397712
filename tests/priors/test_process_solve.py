import numpy as np
import pytest
import torch

from diffor.priors import PriorRows, fit_priors, make_prior
from diffor.priors.kernel import (
    ROUGH,
    SMOOTH,
    Likelihood,
    as_vector,
    from_vector,
    inverse_factor,
    learn_kernel,
    learn_sums,
    start_kernel,
)
from diffor.priors.process_solve import (
    LearnedKernel,
    ProcessAnswer,
    slopes_by_landmarks,
    slopes_exactly,
    solve_by_landmarks,
    solve_exactly,
    steady_cholesky,
)


def make_data(n=40, p=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, p, generator=generator, dtype=torch.float64)
    target = torch.sin(2 * rows[:, 0]) + 0.1 * torch.randn(n, generator=generator, dtype=torch.float64)
    return rows, target, torch.rand(n, generator=generator, dtype=torch.float64) + 0.5


@pytest.mark.parametrize("kind", [SMOOTH, ROUGH])
def test_the_gradient_is_that_of_the_likelihood(kind):
    data = make_data()
    kernel = start_kernel(3, kind)._replace(sums=torch.linspace(-0.3, 0.4, 6, dtype=torch.float64).view(3, 2))
    settings = as_vector(kernel)

    def loss(at):
        return Likelihood(*data)(from_vector(kernel, at))[0]

    steps = 1e-5 * torch.eye(12, dtype=torch.float64)
    numeric = [(loss(settings + step) - loss(settings - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(Likelihood(*data)(kernel)[1], numeric, rtol=1e-6, atol=1e-6)


def test_the_likelihood_is_that_of_a_normal_law():
    (rows, target, weights), kernel = make_data(), start_kernel(3, ROUGH)
    covariance = kernel.between(rows, rows) + torch.diag(kernel.noise / weights)
    law = torch.distributions.MultivariateNormal(torch.zeros(40, dtype=torch.float64), covariance)
    apart = kernel.log_lengths - np.log(np.sqrt(3))
    constant = 20 * np.log(2 * np.pi)
    wanted = -law.log_prob(target) - constant + 0.05 * apart.square().sum()
    assert Likelihood(rows, target, weights)(kernel)[0] == pytest.approx(float(wanted), rel=1e-9)


@pytest.mark.parametrize("kind", [SMOOTH, ROUGH])
def test_each_row_left_out_exactly(kind):
    (rows, target, weights), kernel = make_data(), start_kernel(3, kind)
    solution = solve_exactly(kernel, rows, target, weights)
    for row in (0, 7, 39):
        rest = torch.arange(40) != row
        inverse = torch.linalg.inv(kernel.between(rows[rest], rows[rest]) + torch.diag(kernel.noise / weights[rest]))
        likeness = kernel.between(rows[[row]], rows[rest])[0]
        place = likeness @ inverse @ target[rest]
        assert float(solution.place[row]) == pytest.approx(float(place), abs=1e-6)
        without = solve_exactly(kernel, rows[rest], target[rest], weights[rest])
        again = kernel.between(rows[[row]], without.known)[0] @ without.slopes
        assert float(again) == pytest.approx(float(place), abs=1e-6)


def test_each_row_left_out_through_landmarks():
    (rows, target, weights), kernel = make_data(60), start_kernel(3, ROUGH)
    landmarks = rows[:15]
    solution = solve_by_landmarks(kernel, rows, target, weights, landmarks)
    for row in (3, 20, 59):
        rest = torch.arange(60) != row
        without = solve_by_landmarks(kernel, rows[rest], target[rest], weights[rest], landmarks)
        place = kernel.between(rows[[row]], without.known)[0] @ without.slopes
        assert float(solution.place[row]) == pytest.approx(float(place), abs=1e-6)


def test_slopes_alone_are_those_of_the_whole_solution():
    (rows, target, weights), kernel = make_data(60), start_kernel(3, ROUGH)
    whole = solve_by_landmarks(kernel, rows, target, weights, rows[:15])
    assert torch.equal(slopes_by_landmarks(kernel, rows, target, weights, rows[:15]), whole.slopes)
    exact = solve_exactly(kernel, rows, target, weights)
    assert torch.equal(slopes_exactly(kernel, rows, target, weights), exact.slopes)


def test_landmarks_everywhere_are_the_exact_process():
    (rows, target, weights), kernel = make_data(), start_kernel(3, ROUGH)
    exact, near = solve_exactly(kernel, rows, target, weights), solve_by_landmarks(kernel, rows, target, weights, rows)
    np.testing.assert_allclose(near.place, exact.place, atol=1e-3)


def test_pieces_change_nothing(monkeypatch):
    (rows, target, weights), kernel = make_data(50), start_kernel(3, ROUGH)
    whole = solve_by_landmarks(kernel, rows, target, weights, rows[:10])
    monkeypatch.setattr("diffor.priors.process_solve.PIECE", 7)
    parts = solve_by_landmarks(kernel, rows, target, weights, rows[:10])
    np.testing.assert_allclose(parts.place, whole.place, atol=1e-9)


def test_a_row_of_weight_two_is_a_row_twice_for_others():
    (rows, target, _), kernel = make_data(), start_kernel(3, ROUGH)
    weights = torch.ones(40, dtype=torch.float64)
    weights[:5] = 2
    twice = torch.cat([torch.arange(40), torch.arange(5)])
    once = solve_exactly(kernel, rows, target, weights)
    double = solve_exactly(kernel, rows[twice], target[twice], torch.ones(45, dtype=torch.float64))
    new = make_data(seed=3)[0]
    np.testing.assert_allclose(
        kernel.between(new, once.known) @ once.slopes, kernel.between(new, double.known) @ double.slopes, atol=1e-8
    )
    np.testing.assert_allclose(once.place[5:], double.place[5:40], atol=1e-8)


def test_lengths_tell_columns_that_matter():
    rows, target, _ = make_data(200)
    kernel, _ = learn_kernel(rows, target, torch.ones(200, dtype=torch.float64))
    assert kernel.log_lengths[0] < kernel.log_lengths[1:].min() - 0.5
    assert 0.003 < float(kernel.noise) < 0.03


def test_a_covariance_without_a_factor_gets_one():
    alike = torch.ones(5, 5, dtype=torch.float64)
    assert torch.isfinite(steady_cholesky(alike)).all()
    with pytest.raises(FloatingPointError, match="must be finite"):
        steady_cholesky(alike * torch.nan)


@pytest.mark.parametrize("kind", [SMOOTH, ROUGH])
def test_the_prepared_answer_is_likeness_times_slopes(kind):
    (rows, target, weights), kernel = make_data(), start_kernel(3, kind)
    slopes = solve_exactly(kernel, rows, target, weights).slopes
    new = make_data(300, seed=3)[0]
    wanted = kernel.between(new, rows) @ slopes
    np.testing.assert_allclose(ProcessAnswer.of(kernel, rows, slopes).predict(new), wanted, atol=1e-9)
    single = ProcessAnswer.of(kernel, rows.float(), slopes.float())
    np.testing.assert_allclose(single.predict(new.float()), wanted, atol=1e-4)
    assert len(single.predict(new[:0].float())) == 0


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
