"""CARD on shared features: the chain by hand and by its limits, and recovered truths."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from diffor.core.row_noise import row_keys
from diffor.methods.baselines.diffusion import (
    DiffusionAroundMean,
    NoiseNetwork,
    draw_times_and_noise,
    noise_shares,
    reverse_weights,
)

SMALL = {"n_times": 25, "width": 16, "dropout": 0.0}


@pytest.mark.parametrize("n_times", [25, 100, 1000])
def test_chain_ends_at_a_unit_normal_around_the_centre(n_times):
    kept = (1 - noise_shares(n_times)).prod().item()
    assert math.sqrt(kept) < 0.01


def test_reverse_weights_are_those_of_the_posterior():
    """The state before, given this one and the clean target, by the product of two normal densities."""
    shares = noise_shares(100)
    kept = 1 - shares
    total = kept.cumprod(dim=0)
    clean, centre, state = 0.7, -0.4, 0.2
    for t in (1, 30, 99):
        # x_t = sqrt(kept) x_before + (1 - sqrt(kept)) centre + noise of variance 1 - kept
        prior_mean = total[t - 1].sqrt() * clean + (1 - total[t - 1].sqrt()) * centre
        prior_precision, precision = 1 / (1 - total[t - 1]), kept[t] / (1 - kept[t])
        seen = (state - (1 - kept[t].sqrt()) * centre) / kept[t].sqrt()
        mean = (prior_precision * prior_mean + precision * seen) / (prior_precision + precision)
        of_clean, of_state, of_centre, deviation = reverse_weights(shares)[t]
        assert (of_clean * clean + of_state * state + of_centre * centre).item() == pytest.approx(mean.item())
        assert deviation.item() == pytest.approx((prior_precision + precision).rsqrt().item())


def test_times_come_in_pairs_and_first_draws_do_not_depend_on_what_follows():
    torch.manual_seed(0)
    times, noise = draw_times_and_noise(10_000, 100)
    assert (times[::2] + times[1::2] == 99).all()
    assert set(times.tolist()) == set(range(100))
    assert noise.std().item() == pytest.approx(1, abs=0.05)
    assert np.corrcoef(noise[::2], noise[1::2])[0, 1] == pytest.approx(0, abs=0.05)
    torch.manual_seed(0)
    fewer_times, fewer_noise = draw_times_and_noise(7, 100)
    assert torch.equal(fewer_times, times[:7])
    assert torch.equal(fewer_noise, noise[:7])


def test_noise_network_by_hand():
    torch.manual_seed(0)
    network = NoiseNetwork(n_features=3, n_times=5, width=4)
    centre, features, state = torch.randn(2), torch.randn(2, 3), torch.randn(2, 6)
    times = torch.tensor([1, 4])
    found = network(state, network.describe(centre, features), times)
    with torch.no_grad():
        faster = network(state, network.describe(centre, features), times)
    for row in range(2):
        gates = network.gates.weight[times[row]].chunk(3)
        for draw in range(6):
            inputs = torch.cat([centre[row : row + 1], features[row]])
            hidden = network.of_row(inputs) + network.of_state.weight[:, 0] * state[row, draw]
            hidden = torch.log1p((gates[0] * hidden).exp())
            for gate, layer in zip(gates[1:], (network.second, network.third), strict=True):
                hidden = torch.log1p((gate * layer(hidden)).exp())
            assert found[row, draw].item() == pytest.approx(network.last(hidden).item(), abs=1e-5)
    assert torch.allclose(found, faster, atol=1e-5)


def test_reverse_chain_with_the_true_noise_draws_from_the_true_distribution():
    """For a normal target the best noise estimate is known, so the chain must end at that normal distribution."""
    method = DiffusionAroundMean(1, n_times=200, dropout=0.0)
    mean, deviation, guess = 0.8, 0.3, 0.5
    signals = method.signal

    class BestNoise(NoiseNetwork):
        def forward(self, state, described, t):
            signal = signals[t]
            spread = (1 - signal.square()).sqrt()
            centre = signal * mean + (1 - signal) * guess
            return spread * (state - centre) / (signal.square() * deviation**2 + spread.square())

    method.noise = BestNoise(1, 200, 4)
    with torch.no_grad():
        method.guide[-1].weight.zero_()
        method.guide[-1].bias.fill_(guess)
        draws = method.eval().reverse(torch.zeros(4, 1), row_keys((torch.arange(4.0)[:, None],), seed=0), 2000)
    assert draws.mean().item() == pytest.approx(mean, abs=0.02)
    assert draws.std().item() == pytest.approx(deviation, abs=0.02)


@pytest.mark.parametrize("t", [0, 39])
def test_interpolated_noise_is_that_of_the_network(t):
    torch.manual_seed(0)
    exact, fine, coarse = (
        DiffusionAroundMean(3, n_times=40, width=16, n_nodes=n_nodes).eval() for n_nodes in (None, 24, 2)
    )
    exact.noise.gates.weight.data.mul_(3)  # else the network is almost a straight line in the state
    exact.noise.of_state.weight.data.mul_(0.4)  # as smooth as it is after some steps of training
    for method in (fine, coarse):
        method.load_state_dict(exact.state_dict())
    features, state = torch.randn(6, 3), 3 * torch.randn(6, 50)
    with torch.inference_mode():
        described = exact.noise.describe(torch.randn(6), features)
        noise = exact.noise_in(state.clone(), described, torch.tensor(t))
        assert torch.allclose(fine.noise_in(state.clone(), described, torch.tensor(t)), noise, atol=1e-5)
        assert not torch.allclose(coarse.noise_in(state.clone(), described, torch.tensor(t)), noise, atol=1e-3)
        alike = torch.full((6, 7), 1.5)  # all draws in one place
        assert torch.allclose(
            fine.noise_in(alike.clone(), described, torch.tensor(t)),
            exact.noise_in(alike.clone(), described, torch.tensor(t)),
            atol=1e-5,
        )
