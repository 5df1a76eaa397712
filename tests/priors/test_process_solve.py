import numpy as np
import pytest
import torch

from diffor.priors.kernel import ROUGH, SMOOTH, Likelihood, as_vector, from_vector, learn_kernel, start_kernel
from diffor.priors.process_answer import ProcessAnswer
from diffor.priors.process_solve import (
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
