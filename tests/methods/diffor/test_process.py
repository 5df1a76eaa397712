import math
import re

import pytest
import torch

from diffor.methods.diffor.process import Diffusion, FlowMatching, NoiseProcess, check_times, variance_schedule

LENGTHS = (1, 2, 3, 10, 50, 100, 1000, 4000)
SCHEDULES = ("cosine", "linear")
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
def test_variances_lie_strictly_between_zero_and_one(n_times, schedule):
    variances = variance_schedule(n_times, schedule)
    assert variances.shape == (n_times,)
    assert variances.min() > 0
    assert variances.max() < 1
    assert (variances.diff() >= 0).all()


def test_the_linear_schedule_has_the_usual_end_points():
    variances = variance_schedule(1000, "linear")
    assert variances[[0, -1]].tolist() == pytest.approx([1e-4, 0.02])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n_times", LENGTHS)
def test_signal_falls_and_variance_is_preserved(n_times, schedule):
    process = Diffusion(n_times, schedule)
    assert process.n_times == n_times
    assert process.signals[0] == 1
    assert process.spreads[0] == 0
    assert (process.signals.diff() < 0).all()
    assert (process.spreads.diff() >= 0).all()
    torch.testing.assert_close(process.signals**2 + process.spreads**2, torch.ones(n_times + 1))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_almost_no_signal_is_left_at_the_end(schedule):
    assert Diffusion(1000, schedule).signals[-1] < 0.01


@pytest.mark.parametrize("n_times", LENGTHS)
def test_flow_matching_is_a_straight_path(n_times):
    process = FlowMatching(n_times)
    assert (process.signals.diff() < 0).all()
    assert (process.signals[0], process.signals[-1]) == (1, 0)
    torch.testing.assert_close(process.signals + process.spreads, torch.ones(n_times + 1))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n_times", [1, 10, 1000])
def test_closed_form_equals_the_forward_markov_chain(n_times, schedule):
    # z_t = sqrt(1 - beta_t) z_{t-1} + sqrt(beta_t) v: follow the factor of z_0 and the variance around it.
    process = Diffusion(n_times, schedule)
    factor, variance = 1.0, 0.0
    for t, beta in enumerate(variance_schedule(n_times, schedule).tolist(), start=1):
        factor, variance = math.sqrt(1 - beta) * factor, (1 - beta) * variance + beta
        assert float(process.signals[t]) == pytest.approx(factor, rel=1e-5, abs=1e-9)
        assert float(process.spreads[t]) ** 2 == pytest.approx(variance, rel=1e-5)


def test_corruption_by_many_small_steps_has_the_closed_forms_moments():
    process, noisy = Diffusion(20, "linear"), torch.full((200_000,), 2.0)
    for t, beta in enumerate(variance_schedule(20, "linear").tolist()[:8]):
        noisy = math.sqrt(1 - beta) * noisy + math.sqrt(beta) * draws(200_000, seed=t)
    direct = process.corrupt(torch.full((200_000, 1), 2.0), draws(200_000, 1, seed=99), torch.tensor(8))
    assert float(noisy.mean()) == pytest.approx(float(direct.mean()), abs=0.01)
    assert float(noisy.std()) == pytest.approx(float(direct.std()), rel=0.01)


@every_process
def test_velocity_coefficients_solve_for_the_clean_vector(make):
    process = make(100)
    t = torch.arange(101)
    of_noise, of_clean = process.velocity_coefficients(t)
    torch.testing.assert_close(of_noise * process.signal(t) + of_clean * process.spread(t), torch.ones(101, 1))


# Parameterisations.


@every_process
@pytest.mark.parametrize("n_times", [1, 7, 1000])
def test_corrupt_target_denoised_is_the_identity(make, n_times):
    process = make(n_times)
    t = torch.arange(1, n_times + 1)
    clean, noise = draws(n_times, 5), draws(n_times, 5, seed=1)
    noisy = process.corrupt(clean, noise, t)
    recovered = process.denoised(process.target(clean, noise, t), noisy, t)
    # Dividing by the signal magnifies rounding where the signal is small.
    magnified = 1 / process.signal(t) if process.parameterization == "noise" else torch.ones(n_times, 1)
    assert ((recovered - clean).abs() <= 3e-6 * magnified.clamp(min=1)).all()


@every_process
@pytest.mark.parametrize("n_times", [3, 1000])
def test_the_target_itself_is_read_back_as_the_noise(make, n_times):
    process = make(n_times)
    clean, noise = draws(50, 4).double(), draws(50, 4, seed=1).double()
    t = torch.randint(1, n_times + 1, (50,), generator=torch.Generator().manual_seed(2))
    output, noisy = process.target(clean, noise, t), process.corrupt(clean, noise, t)
    torch.testing.assert_close(process.predicted_noise(output, noisy, t), noise, rtol=1e-9, atol=1e-9)


@every_process
def test_estimates_of_noise_and_clean_vector_together_are_what_was_seen(make):
    process = make(100)
    noisy, output = draws(50, 4).double(), draws(50, 4, seed=1).double()
    t = torch.arange(1, 100, 2)
    clean, noise = process.denoised(output, noisy, t), process.predicted_noise(output, noisy, t)
    torch.testing.assert_close(process.corrupt(clean, noise, t), noisy, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_noise_estimate_is_the_papers_formula(schedule):
    process = Diffusion(1000, schedule, "noise")
    noisy, predicted = draws(1000, 4), draws(1000, 4, seed=1)
    t = torch.arange(1, 1001)
    bar = torch.cumprod(1 - variance_schedule(1000, schedule), dim=0)[:, None]
    expected = (noisy - (1 - bar).sqrt() * predicted) / bar.sqrt()
    torch.testing.assert_close(process.denoised(predicted, noisy, t), expected.float(), rtol=1e-4, atol=1e-5)


def test_error_of_the_estimate_is_the_noise_error_over_the_signal_to_noise_ratio():
    process, t = Diffusion(1000, "linear", "noise"), torch.tensor([1, 50, 300, 700])
    clean, noise, predicted = draws(4, 6), draws(4, 6, seed=1), draws(4, 6, seed=2)
    estimate = process.denoised(predicted, process.corrupt(clean, noise, t), t)
    bar = process.signal(t) ** 2
    expected = (1 - bar) / bar * (predicted - noise).square().mean(dim=1, keepdim=True)
    torch.testing.assert_close((estimate - clean).square().mean(dim=1, keepdim=True), expected, rtol=1e-3, atol=0)


def test_targets_by_name():
    clean, noise, t = draws(3, 2), draws(3, 2, seed=1), torch.tensor([1, 5, 10])
    assert Diffusion(10, parameterization="noise").target(clean, noise, t) is noise
    assert Diffusion(10, parameterization="clean").target(clean, noise, t) is clean
    torch.testing.assert_close(FlowMatching(10).target(clean, noise, t), noise - clean)
    process = Diffusion(10)
    expected = process.signal(t) * noise - process.spread(t) * clean
    torch.testing.assert_close(process.target(clean, noise, t), expected)


# Steps.


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("t", [2, 3, 10, 500, 999])
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


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_ddim_step_keeps_the_implied_noise(schedule):
    process = Diffusion(1000, schedule, "noise")
    clean, noise = draws(4, 6), draws(4, 6, seed=1)
    noisy = process.corrupt(clean, noise, torch.tensor(800))
    torch.testing.assert_close(
        process.step(noisy, clean, 800, 300, 0.0, None),
        process.corrupt(clean, noise, torch.tensor(300)),
        rtol=1e-4,
        atol=1e-4,
    )


def test_flow_step_without_fresh_noise_is_the_euler_step():
    process = FlowMatching(100)
    noisy, velocity = draws(4, 6), draws(4, 6, seed=1)
    for t, following in ((100, 99), (100, 40), (60, 10), (2, 1)):
        estimate = process.denoised(velocity, noisy, torch.tensor(t))
        euler = noisy - (t - following) / 100 * velocity
        torch.testing.assert_close(process.step(noisy, estimate, t, following, 0.0, None), euler, rtol=1e-4, atol=1e-5)


@every_process
@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0])
def test_a_step_with_the_true_clean_vector_keeps_the_marginal_spread(make, eta):
    process, clean = make(1000), torch.full((100_000, 1), 0.3)
    noisy = process.corrupt(clean, draws(100_000, 1), torch.tensor(900))
    moved = process.step(noisy, clean, 900, 200, eta, draws(100_000, 1, seed=1))
    assert float(moved.mean()) == pytest.approx(float(process.signals[200]) * 0.3, abs=0.01)
    assert float(moved.std()) == pytest.approx(float(process.spreads[200]), rel=0.02)


# Chains.


@every_process
@pytest.mark.parametrize("eta", [0.0, 1.0])
@pytest.mark.parametrize("times", [(10,), (10, 1), (10, 7, 3, 1), tuple(range(10, 0, -1))])
def test_a_perfect_denoiser_ends_at_the_clean_vector(make, eta, times):
    clean, seen = draws(3, 4), []

    def denoise(noisy, t):
        seen.append(int(t))
        assert torch.isfinite(noisy).all()
        return clean

    chain = list(make(10).reverse(denoise, draws(3, 4, seed=1), times, eta, lambda t: draws(3, 4, seed=t)))
    assert [t for t, _ in chain] == list(times) == seen
    torch.testing.assert_close(chain[-1][1], clean)


@every_process
def test_the_state_shown_to_a_perfect_denoiser_is_the_corrupted_clean_vector(make):
    process, clean, start = make(10), draws(3, 4), draws(3, 4, seed=1)
    noise = (start - process.signals[10] * clean) / process.spreads[10]

    def denoise(noisy, t):
        torch.testing.assert_close(noisy, process.corrupt(clean, noise, t), rtol=1e-4, atol=1e-5)
        return clean

    assert len(list(process.reverse(denoise, start, (10, 6, 2, 1)))) == 4


def gaussian_denoiser(process: NoiseProcess, mean: float, std: float):
    """The posterior mean of a normal clean vector given the noisy one, in closed form."""

    def denoise(noisy, t):
        signal, spread = float(process.signals[t]), float(process.spreads[t])
        gain = signal * std**2 / (signal**2 * std**2 + spread**2)
        return mean + gain * (noisy - signal * mean)

    return denoise


@pytest.mark.parametrize(
    ("process", "eta"),
    [
        (Diffusion(400, "cosine"), 0.0),
        (Diffusion(400, "cosine"), 1.0),
        (Diffusion(400, "linear", "noise"), 0.0),
        (Diffusion(400, "linear", "noise"), 1.0),
        (FlowMatching(400), 0.0),
        (FlowMatching(400), 1.0),
    ],
    ids=["ddim cosine", "ancestral cosine", "ddim linear", "ancestral linear", "euler", "ancestral flow"],
)
def test_the_exact_posterior_mean_recovers_a_normal_distribution(process, eta):
    n, mean, std = 40_000, 0.4, 0.5
    generator = torch.Generator().manual_seed(3)
    start = torch.randn(n, 1, generator=generator)
    times = tuple(range(400, 0, -1))
    final = start
    for _, final in process.reverse(  # noqa: B007
        gaussian_denoiser(process, mean, std), start, times, eta, lambda t: torch.randn(n, 1, generator=generator)
    ):
        pass
    assert float(final.mean()) == pytest.approx(mean, abs=5 * std / math.sqrt(n) + 0.01)
    assert float(final.std()) == pytest.approx(std, rel=0.03)


def test_fresh_noise_changes_an_ancestral_chain_only():
    process, start = Diffusion(10), draws(3, 4)

    def last(eta, seed):
        chain = process.reverse(lambda noisy, t: noisy * 0.5, start, (10, 5, 1), eta, lambda t: draws(3, 4, seed=seed))
        return list(chain)[-1][1]

    assert torch.equal(last(0.0, 1), last(0.0, 2))
    assert not torch.allclose(last(1.0, 1), last(1.0, 2))


def test_fresh_noise_is_drawn_once_between_two_times():
    drawn = []
    chain = Diffusion(10).reverse(
        lambda noisy, t: noisy, draws(1, 2), (9, 4, 2), eta=1.0, draw=lambda t: drawn.append(t) or draws(1, 2)
    )
    assert [t for t, _ in chain] == [9, 4, 2]
    assert drawn == [9, 4]


# Refusals.


def refused(message: str):
    return pytest.raises(ValueError, match=re.escape(message))


def test_unknown_names_are_refused():
    with refused("parameterization must be one of velocity, noise, clean, but got parameterization='score'"):
        Diffusion(10, parameterization="score")
    with refused("parameterization must be one of velocity, noise, clean, but got parameterization='score'"):
        FlowMatching(10, parameterization="score")
    with refused("schedule must be one of cosine, linear, but got schedule='sigmoid'"):
        Diffusion(10, schedule="sigmoid")


def test_flow_matching_refuses_to_predict_noise():
    with refused("flow matching cannot predict noise: at t = T no signal is left to divide by"):
        FlowMatching(10, parameterization="noise")


@pytest.mark.parametrize("make", [Diffusion, FlowMatching])
def test_no_times_are_refused(make):
    with refused("n_times must be at least 1, but got n_times=0"):
        make(0)


@pytest.mark.parametrize("times", [(), (5, 5), (3, 4), (11, 1), (5, 0), (2, -1)])
def test_times_that_do_not_fall_are_refused(times):
    with refused(f"times must fall strictly from at most 10 to at least 1, but got {list(times)}"):
        check_times(times, 10)
    with refused("times must fall strictly"):
        next(Diffusion(10).reverse(lambda noisy, t: noisy, draws(1, 2), times))


def test_an_ancestral_chain_without_fresh_noise_is_refused():
    with refused("an ancestral chain needs fresh noise: pass draw, but got eta=0.5, draw=None"):
        next(Diffusion(10).reverse(lambda noisy, t: noisy, draws(1, 2), (10, 1), eta=0.5))
