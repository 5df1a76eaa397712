import numpy as np
import pandas as pd
import pytest
import torch

from diffor.bench.peers.card import (
    CARD,
    Chain,
    Guide,
    InputVector,
    InterpolatedNoise,
    NoiseNetwork,
    NoiseOfRows,
    antithetic_times,
    fit_card,
)
from diffor.bench.peers.problem import Problem
from diffor.core.prediction import Prediction
from diffor.encoders import TabularInputs

QUICK = {"n_times": 50, "steps": 2000, "guide_steps": 400, "learning_rate": 3e-3}


def heteroscedastic(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    kind = np.where(rng.random(n) < 0.5, "low", "high")
    table = pd.DataFrame({"x": x, "kind": pd.Categorical(kind)})
    return table, 50 + 20 * x + 10 * (kind == "high") + np.exp(1 + x) * rng.normal(size=n)


def make_problem(bounds=None, n_samples=50):
    (x, y), (x_valid, y_valid) = heteroscedastic(800, 0), heteroscedastic(300, 1)
    return Problem(x, y, x_valid, y_valid, bounds=bounds, n_samples=n_samples)


def test_steps_of_the_chain_add_up_to_its_marginals():
    # One step keeps sqrt(a) of the distance to the centre and adds variance 1 - a.
    chain = Chain(1000)
    clean, centre = 3.0, -1.0
    mean, variance = clean, 0.0
    for t, beta in enumerate(np.linspace(1e-4, 2e-2, 1000)):
        mean = np.sqrt(1 - beta) * mean + (1 - np.sqrt(1 - beta)) * centre
        variance = (1 - beta) * variance + beta
        if t in (0, 300, 999):
            signal, spread = float(chain.signal[t]), float(chain.spread[t])
            assert signal * clean + (1 - signal) * centre == pytest.approx(mean)
            assert spread**2 == pytest.approx(variance)
    assert mean == pytest.approx(centre, abs=0.03)
    assert variance == pytest.approx(1, abs=1e-4)


def test_corrupted_targets_have_the_closed_form_moments():
    chain, n = Chain(1000), 200_000
    torch.manual_seed(0)
    for t in (100, 999):
        states = chain.corrupt(torch.full((n,), 2.0), torch.full((n,), 0.5), torch.full((n,), t), torch.randn(n))
        total = float(torch.prod(1 - torch.linspace(1e-4, 2e-2, 1000, dtype=torch.float64)[: t + 1]))
        assert float(states.mean()) == pytest.approx(0.5 + 1.5 * total**0.5, abs=0.01)
        assert float(states.var()) == pytest.approx(1 - total, abs=0.01)


@pytest.mark.parametrize("t", [1, 2, 40, 99])
def test_reverse_weights_agree_with_conditioning_a_normal_distribution(t):
    chain, clean, centre, state = Chain(100), 1.3, -0.4, 0.8
    signal, before = chain.signal[t], chain.signal[t - 1]
    keep = signal / before  # sqrt(a_t)
    # Prior of the state one time earlier, given the clean target; then this state as an observation of it.
    prior_mean, prior_variance = before * clean + (1 - before) * centre, 1 - before**2
    gain = prior_variance * keep / (keep**2 * prior_variance + 1 - keep**2)
    mean = prior_mean + gain * (state - (keep * prior_mean + (1 - keep) * centre))
    variance = prior_variance * (1 - gain * keep)
    ours = chain.of_clean[t] * clean + chain.of_noisy[t] * state + chain.of_centre[t] * centre
    assert float(ours) == pytest.approx(float(mean), rel=1e-9)
    assert float(chain.variance[t]) == pytest.approx(float(variance), rel=1e-9)


def test_reverse_takes_the_steps_of_the_formulas():
    chain = Chain(30)
    centre, start = torch.tensor([[0.3], [-2.0]]).double(), torch.randn(2, 4).double()

    def noise_of(state, t):
        return torch.sin(state + t)

    expected = start.clone()
    for t in range(29, -1, -1):
        signal, spread = chain.signal[t], chain.spread[t]
        clean = (expected - (1 - signal) * centre - spread * noise_of(expected, t)) / signal
        mean = chain.of_clean[t] * clean + chain.of_noisy[t] * expected + chain.of_centre[t] * centre
        expected = clean if t == 0 else mean + 0.5 * chain.variance[t].sqrt()
    ours = chain.reverse(noise_of, centre, start.clone(), lambda buffer: buffer.fill_(0.5))
    assert torch.allclose(ours, expected)


@pytest.mark.parametrize(("mean", "spread", "guess"), [(1.5, 0.5, 1.0), (-0.5, 1.2, 0.0), (0.3, 0.1, 0.3)])
def test_the_exact_noise_of_a_normal_target_leads_back_to_it(mean, spread, guess):
    chain, shape = Chain(1000), (4, 5000)
    centre = torch.full((4, 1), guess)

    def noise_of(state, t):
        signal, width = float(chain.signal[t]), float(chain.spread[t])
        expected = signal * mean + (1 - signal) * guess
        return width * (state - expected) / (signal**2 * spread**2 + width**2)

    torch.manual_seed(0)
    samples = chain.reverse(noise_of, centre, centre + torch.randn(shape), lambda buffer: buffer.normal_())
    assert float(samples.mean()) == pytest.approx(mean, abs=0.03)
    assert float(samples.std()) == pytest.approx(spread, rel=0.05)  # the chain is a little narrow by its steps


def test_shorter_chains_end_where_the_long_one_does():
    assert float(Chain(100).signal[-1]) == pytest.approx(float(Chain(1000).signal[-1]), abs=0.003)


def test_too_short_a_chain_is_refused():
    with pytest.raises(ValueError, match="n_times must be at least 25, but got n_times=10; choose more"):
        Chain(10)


@pytest.mark.parametrize("n", [7, 8])
def test_times_come_in_pairs(n):
    times = antithetic_times(n, 100)
    half = (n + 1) // 2
    assert len(times) == n
    assert torch.equal(times[half:], 99 - times[: n - half])
    assert 0 <= int(times.min()) <= int(times.max()) <= 99


def test_wide_categories_are_embedded_and_learn_while_narrow_ones_are_fixed():
    vector = InputVector(2, [5, 300])
    assert vector.width == 2 + 5 + 28
    codes = torch.tensor([[2, 7], [0, 0]])
    out = vector(torch.ones(2, 2), codes)
    assert out.shape == (2, 35)
    assert out[0, 2:7].tolist() == [0, 0, 1, 0, 0]
    assert out[1, 2:].abs().sum() == 0  # an unknown level has no place
    assert [parameter.requires_grad for parameter in vector.parameters()] == [False, True]


def test_the_quick_noise_network_is_the_plain_one():
    torch.manual_seed(0)
    network = NoiseNetwork(n_inputs=3, n_times=40, width=16)
    vectors, centre, state = torch.randn(6, 3), torch.randn(6), 3 * torch.randn(6, 5)
    with torch.inference_mode():
        quick = NoiseOfRows(network, centre, vectors, n_draws=5)
        for t in (0, 17, 39):
            plain = network(
                state.flatten(), centre.repeat_interleave(5), vectors.repeat_interleave(5, dim=0), torch.full((30,), t)
            )
            assert torch.allclose(quick(state, t).flatten(), plain, atol=1e-6)


def test_the_quick_noise_network_stays_finite_far_out():
    network = NoiseNetwork(n_inputs=1, n_times=40, width=8)
    with torch.inference_mode():
        quick = NoiseOfRows(network, torch.zeros(1), torch.full((1, 1), 1e4), n_draws=2)
        assert quick(torch.tensor([[1e6, -1e6]]), 3).isfinite().all()


@pytest.mark.parametrize("t", [0, 17, 39])
def test_interpolated_noise_is_that_of_the_network(t):
    torch.manual_seed(0)
    network = NoiseNetwork(n_inputs=3, n_times=40, width=16)
    vectors, centre, state = torch.randn(6, 3), torch.randn(6), 3 * torch.randn(6, 50)
    with torch.inference_mode():
        network.gates.weight.mul_(3)  # else the network is almost a straight line
        exact = NoiseOfRows(network, centre, vectors, n_draws=50)(state, t)
        assert torch.allclose(InterpolatedNoise(network, centre, vectors, n_nodes=24)(state, t), exact, atol=1e-5)
        assert not torch.allclose(InterpolatedNoise(network, centre, vectors, n_nodes=2)(state, t), exact, atol=1e-3)


def test_interpolated_noise_of_equal_states_is_finite():
    network, state = NoiseNetwork(n_inputs=1, n_times=40, width=8), torch.full((2, 7), 1.5)
    with torch.inference_mode():
        exact = NoiseOfRows(network, torch.zeros(2), torch.ones(2, 1), n_draws=7)(state, 3)
        quick = InterpolatedNoise(network, torch.zeros(2), torch.ones(2, 1), n_nodes=24)(state, 3)
    assert torch.allclose(quick, exact, atol=1e-5)


def test_interpolation_draws_the_same_samples():
    # A chunk holds all ten rows either way, so both chains meet the same noise.
    exact, interpolated = (fit_card(make_problem(), **QUICK, n_nodes=n_nodes) for n_nodes in (None, 24))
    x, _ = heteroscedastic(10, 2)
    samples = exact.predict(x).samples
    assert np.abs(interpolated.predict(x).samples - samples).max() < 1e-3 * samples.std()


def test_too_few_nodes_are_refused():
    with pytest.raises(ValueError, match="n_nodes must be at least 2, but got n_nodes=1; 24 are plenty"):
        fit_card(make_problem(), n_nodes=1)


def test_the_gates_start_between_zero_and_one():
    gates = NoiseNetwork(n_inputs=1, n_times=100).gates.weight.detach()
    assert gates.shape == (100, 3 * 128)
    assert 0 <= float(gates.min()) < 0.01 < 0.99 < float(gates.max()) <= 1


def test_it_learns_place_and_spread():
    x, y = heteroscedastic(300, 2)
    prediction = fit_card(make_problem(), **QUICK).predict(x)
    assert prediction.samples.shape == (300, 50)
    constant = Prediction(np.tile(np.sort(make_problem().y)[::16], (300, 1)))
    assert prediction.crps(y).mean() < 0.4 * constant.crps(y).mean()
    narrow, wide = x["x"] < -0.5, x["x"] > 0.5
    assert prediction.std[wide].mean() > 1.5 * prediction.std[narrow].mean()  # e in truth


def test_a_seed_determines_the_answer_and_bounds_hold():
    problem = make_problem(bounds=(45.0, 55.0), n_samples=8)
    settings = {"n_times": 25, "steps": 20, "guide_steps": 20}
    first, second = (fit_card(problem, **settings).predict(problem.x_valid).samples for _ in range(2))
    assert np.array_equal(first, second)
    assert first.min() == 45
    assert first.max() == 55


def test_the_guide_describes_any_number_of_rows():
    table, _ = heteroscedastic(4500, 3)
    inputs = TabularInputs().fit(table)
    guide = Guide(inputs).eval()
    rows = inputs.transform(table)
    vectors, centre = guide.describe(rows)
    assert vectors.shape == (4500, guide.vector.width)
    with torch.no_grad():
        assert torch.allclose(centre, guide(*rows), atol=1e-6)


def test_the_table_names_it():
    (peer,) = CARD
    assert (peer.name, peer.tasks, peer.fit) == ("card", ("value",), fit_card)
