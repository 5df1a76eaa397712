import math
import re

import pytest
import torch

from diffor.methods.diffor.process import (
    SCHEDULES,
    Diffusion,
    FlowMatching,
    check_times,
    variance_schedule,
)

LENGTHS = (1, 10, 1000)
PROCESSES = {
    **{
        f"diffusion {schedule} {target}": (lambda n, schedule=schedule, target=target: Diffusion(n, schedule, target))
        for schedule in SCHEDULES
        for target in ("velocity", "noise", "clean")
    },
    "flow velocity": lambda n: FlowMatching(n, "velocity"),
    "flow clean": lambda n: FlowMatching(n, "clean"),
}
every_process = pytest.mark.parametrize("make", PROCESSES.values(), ids=PROCESSES.keys())


def draws(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# Schedules and coefficients.


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n_times", LENGTHS)
def test_signal_falls_and_variance_is_preserved(n_times, schedule):
    variances, process = variance_schedule(n_times, schedule), Diffusion(n_times, schedule)
    assert variances.shape == (n_times,)
    assert 0 < variances.min() <= variances.max() < 1
    assert (variances.diff() >= 0).all()
    assert process.n_times == n_times
    assert (process.signals[0], process.spreads[0]) == (1, 0)
    assert (process.signals.diff() < 0).all()
    assert (process.spreads.diff() >= 0).all()
    torch.testing.assert_close(process.signals**2 + process.spreads**2, torch.ones(n_times + 1))
    assert n_times < 1000 or process.signals[-1] < 0.01  # almost no signal is left at the end


def test_the_linear_schedule_has_the_usual_end_points():
    assert variance_schedule(1000, "linear")[[0, -1]].tolist() == pytest.approx([1e-4, 0.02])


@pytest.mark.parametrize("n_times", LENGTHS)
def test_flow_matching_is_a_straight_path(n_times):
    process = FlowMatching(n_times)
    assert (process.signals.diff() < 0).all()
    assert (process.signals[0], process.signals[-1]) == (1, 0)
    torch.testing.assert_close(process.signals + process.spreads, torch.ones(n_times + 1))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n_times", [1, 1000])
def test_closed_form_equals_the_forward_markov_chain(n_times, schedule):
    # z_t = sqrt(1 - beta_t) z_{t-1} + sqrt(beta_t) v: follow the factor of z_0 and the variance around it.
    process = Diffusion(n_times, schedule)
    factor, variance = 1.0, 0.0
    for t, beta in enumerate(variance_schedule(n_times, schedule).tolist(), start=1):
        factor, variance = math.sqrt(1 - beta) * factor, (1 - beta) * variance + beta
        assert float(process.signals[t]) == pytest.approx(factor, rel=1e-5, abs=1e-9)
        assert float(process.spreads[t]) ** 2 == pytest.approx(variance, rel=1e-5)


# Parameterisations.


@every_process
@pytest.mark.parametrize("n_times", [1, 1000])
def test_clean_vector_and_noise_are_read_back_off_the_target(make, n_times):
    process = make(n_times)
    t = torch.arange(1, n_times + 1)
    clean, noise = draws(n_times, 5), draws(n_times, 5, seed=1)
    recovered = process.denoised(process.target(clean, noise, t), process.corrupt(clean, noise, t), t)
    # Dividing by the signal magnifies rounding where the signal is small.
    magnified = 1 / process.signal(t) if process.parameterization == "noise" else torch.ones(n_times, 1)
    assert ((recovered - clean).abs() <= 3e-6 * magnified.clamp(min=1)).all()
    clean, noise = clean.double(), noise.double()
    output, noisy = process.target(clean, noise, t), process.corrupt(clean, noise, t)
    torch.testing.assert_close(process.predicted_noise(output, noisy, t), noise, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_noise_estimate_is_the_papers_formula(schedule):
    process = Diffusion(1000, schedule, "noise")
    noisy, predicted = draws(1000, 4), draws(1000, 4, seed=1)
    t = torch.arange(1, 1001)
    bar = torch.cumprod(1 - variance_schedule(1000, schedule), dim=0)[:, None]
    expected = (noisy - (1 - bar).sqrt() * predicted) / bar.sqrt()
    torch.testing.assert_close(process.denoised(predicted, noisy, t), expected.float(), rtol=1e-4, atol=1e-5)


def test_targets_by_name():
    clean, noise, t = draws(3, 2), draws(3, 2, seed=1), torch.tensor([1, 5, 10])
    assert Diffusion(10, parameterization="noise").target(clean, noise, t) is noise
    assert Diffusion(10, parameterization="clean").target(clean, noise, t) is clean
    torch.testing.assert_close(FlowMatching(10).target(clean, noise, t), noise - clean)
    process = Diffusion(10)
    torch.testing.assert_close(process.target(clean, noise, t), process.signal(t) * noise - process.spread(t) * clean)


# Steps.


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("t", [2, 10, 999])
def test_ancestral_step_is_the_papers_reverse_update(schedule, t):
    process = Diffusion(1000, schedule, "noise")
    noisy, predicted = draws(4, 6).double(), draws(4, 6, seed=1).double()
    alpha = 1 - variance_schedule(1000, schedule)  # alpha_t stands at index t - 1
    bar, bar_before, alpha = alpha[:t].prod(), alpha[: t - 1].prod(), alpha[t - 1]
    estimate = (noisy - (1 - bar).sqrt() * predicted) / bar.sqrt()
    mean = (noisy - (1 - alpha) / (1 - bar).sqrt() * predicted) / alpha.sqrt()
    sigma = ((1 - bar_before) / (1 - bar) * (1 - alpha)).sqrt()
    zero, fresh = torch.zeros(4, 6).double(), draws(4, 6, seed=2).double()
    torch.testing.assert_close(process.step(noisy, estimate, t, t - 1, 1.0, zero), mean, rtol=1e-5, atol=1e-5)
    added = process.step(noisy, estimate, t, t - 1, 1.0, fresh) - process.step(noisy, estimate, t, t - 1, 1.0, zero)
    torch.testing.assert_close(added, sigma * fresh, rtol=1e-4, atol=1e-6)


def test_flow_step_without_fresh_noise_is_the_euler_step():
    process = FlowMatching(100)
    noisy, velocity = draws(4, 6), draws(4, 6, seed=1)
    for t, following in ((100, 99), (100, 40), (60, 10), (2, 1)):
        estimate = process.denoised(velocity, noisy, torch.tensor(t))
        euler = noisy - (t - following) / 100 * velocity
        torch.testing.assert_close(process.step(noisy, estimate, t, following, 0.0, None), euler, rtol=1e-4, atol=1e-5)


@every_process
@pytest.mark.parametrize("eta", [0.0, 0.5])
def test_a_step_with_the_true_clean_vector_keeps_the_marginal_spread(make, eta):
    process, clean = make(1000), torch.full((100_000, 1), 0.3)
    noisy = process.corrupt(clean, draws(100_000, 1), torch.tensor(900))
    moved = process.step(noisy, clean, 900, 200, eta, draws(100_000, 1, seed=1))
    assert float(moved.mean()) == pytest.approx(float(process.signals[200]) * 0.3, abs=0.01)
    assert float(moved.std()) == pytest.approx(float(process.spreads[200]), rel=0.02)


# Chains.


@every_process
@pytest.mark.parametrize("eta", [0.0, 1.0])
@pytest.mark.parametrize("times", [(10,), (10, 7, 3, 1)])
def test_a_perfect_denoiser_ends_at_the_clean_vector(make, eta, times):
    clean, seen = draws(3, 4), []

    def denoise(noisy, t):
        seen.append(int(t))
        assert torch.isfinite(noisy).all()
        return clean

    chain = list(make(10).reverse(denoise, draws(3, 4, seed=1), times, eta, lambda t: draws(3, 4, seed=t)))
    assert [t for t, _ in chain] == list(times) == seen
    torch.testing.assert_close(chain[-1][1], clean)


@pytest.mark.parametrize(
    ("process", "eta"),
    [
        (Diffusion(400, "cosine"), 0.0),
        (Diffusion(400, "cosine"), 1.0),
        (Diffusion(400, "linear", "noise"), 1.0),
        (FlowMatching(400), 0.0),
        (FlowMatching(400), 1.0),
    ],
    ids=["ddim cosine", "ancestral cosine", "ancestral linear", "euler", "ancestral flow"],
)
def test_the_exact_posterior_mean_recovers_a_normal_distribution(process, eta):
    n, mean, std = 40_000, 0.4, 0.5
    generator = torch.Generator().manual_seed(3)

    def denoise(noisy, t):
        """The posterior mean of a normal clean vector given the noisy one, in closed form."""
        signal, spread = float(process.signals[t]), float(process.spreads[t])
        gain = signal * std**2 / (signal**2 * std**2 + spread**2)
        return mean + gain * (noisy - signal * mean)

    def fresh(t=None):
        return torch.randn(n, 1, generator=generator)

    *_, (_, final) = process.reverse(denoise, fresh(), tuple(range(400, 0, -1)), eta, fresh)
    assert float(final.mean()) == pytest.approx(mean, abs=5 * std / math.sqrt(n) + 0.01)
    assert float(final.std()) == pytest.approx(std, rel=0.03)


def test_fresh_noise_is_drawn_once_between_two_times():
    drawn = []
    chain = Diffusion(10).reverse(
        lambda noisy, t: noisy, draws(1, 2), (9, 4, 2), eta=1.0, draw=lambda t: drawn.append(t) or draws(1, 2)
    )
    assert [t for t, _ in chain] == [9, 4, 2]
    assert drawn == [9, 4]


# Refusals.


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Diffusion(10, parameterization="score"), "but got parameterization='score'"),
        (lambda: FlowMatching(10, parameterization="score"), "but got parameterization='score'"),
        (lambda: Diffusion(10, schedule="sigmoid"), "cosine, linear, but got schedule='sigmoid'"),
        (lambda: FlowMatching(10, "noise"), "at t = T no signal is left to divide by"),
        (lambda: Diffusion(0), "at least 1, but got n_times=0"),
        (lambda: FlowMatching(0), "at least 1, but got n_times=0"),
        (lambda: next(Diffusion(10).reverse(lambda noisy, t: noisy, draws(1, 2), (10, 1), eta=0.5)), "pass draw"),
        (lambda: next(Diffusion(10).reverse(lambda noisy, t: noisy, draws(1, 2), (3, 4))), "but got [3, 4]"),
    ],
)
def test_what_is_no_process_or_chain_is_refused(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("times", [(), (5, 5), (11, 1), (5, 0)])
def test_times_that_do_not_fall_are_refused(times):
    with pytest.raises(ValueError, match=re.escape(f"from at most 10 to at least 1, but got {list(times)}")):
        check_times(times, 10)
