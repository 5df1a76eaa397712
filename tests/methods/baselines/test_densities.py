"""Mixtures: golden numbers, hand-computed cases and recovered truths."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from method_checks import descend
from scipy import stats
from torch import Tensor

from diffor.methods.baselines.densities import (
    ExponentialGaussian,
    ExponentialGaussianMixture,
    GaussianMixture,
    MixtureDensity,
    egmn_nll,
)


def doubles(*numbers: float) -> Tensor:
    return torch.tensor([numbers], dtype=torch.float64)


def test_gaussian_mixture_stands_at_the_ends_with_what_lies_beyond_them():
    mixture = GaussianMixture(doubles(0.5, 0.5), doubles(0.0, 1.2), doubles(0.1, 0.2))
    assert mixture.cdf(doubles(-1e-9, 0.0, 1.0))[0].tolist() == pytest.approx([0, 0.25, 1], abs=1e-6)
    draws = np.random.default_rng(0).normal([[0.0], [1.2]], [[0.1], [0.2]], (2, 200_000)).clip(0, 1)
    assert mixture.mean.item() == pytest.approx(draws.mean(), abs=1e-3)
    assert mixture.free_mean.item() == pytest.approx(0.6)


def test_components_start_at_the_quantiles():
    method = MixtureDensity(3, n_components=4)
    method.prepare(torch.linspace(0.2, 0.6, 101))
    mixture = method.distribution(torch.zeros(1, 3))
    assert mixture.means[0].tolist() == pytest.approx([0.25, 0.35, 0.45, 0.55], abs=1e-5)
    assert mixture.deviations[0].tolist() == pytest.approx([0.1] * 4, abs=1e-3)


def test_mdn_recovers_a_mixture():
    random = np.random.default_rng(1)
    which = random.random(4000) < 0.3
    y = torch.tensor(np.where(which, random.normal(0.25, 0.03, 4000), random.normal(0.7, 0.06, 4000))).float()
    torch.manual_seed(0)
    method = MixtureDensity(1, n_components=2)
    method.prepare(y)
    descend(method, torch.ones(4000, 1), y, n_steps=200, rate=0.05)
    mixture = method.distribution(torch.ones(1, 1))
    order = mixture.means[0].argsort()
    assert mixture.weights[0, order].tolist() == pytest.approx([0.3, 0.7], abs=0.02)
    assert mixture.means[0, order].tolist() == pytest.approx([0.25, 0.7], abs=0.01)
    assert mixture.deviations[0, order].tolist() == pytest.approx([0.03, 0.06], abs=0.005)


def test_egmn_golden_numbers():
    weights, rate = doubles(0.5, 0.3, 0.2), torch.tensor([0.5], dtype=torch.float64)
    means, deviations = doubles(3, 6), doubles(1, 2)
    nll = egmn_nll(weights.log(), rate, means, deviations, torch.tensor([4.0], dtype=torch.float64))
    assert nll.item() == pytest.approx(2.034446, abs=6e-7)
    assert ExponentialGaussianMixture(weights, rate, means, deviations).free_mean.item() == pytest.approx(3.1)
    assert (weights * weights.log()).sum().item() == pytest.approx(-1.029653, abs=6e-7)


def test_egmn_terms_by_hand():
    torch.manual_seed(0)
    method = ExponentialGaussian(2, n_components=2, entropy_weight=0.3, value_weight=0.7)
    method.prepare(torch.linspace(0, 0.5, 101))
    assert method.scale.item() == pytest.approx(0.495)
    features, y = torch.randn(3, 2), torch.tensor([0.1, 0.2, 0.4])
    log_weights, rate, means, deviations = method.components(features)
    terms = method.loss(features, y)
    weights = log_weights.exp()
    expected = weights[:, 0] / rate + (weights[:, 1:] * means).sum(dim=1)
    nll = egmn_nll(log_weights, rate, means, deviations, y / method.scale)
    assert torch.isclose(terms["likelihood"], nll.mean())
    assert torch.isclose(terms["entropy"], 0.3 * (weights * log_weights).sum(dim=1).mean())
    assert torch.isclose(terms["value"], 0.7 * (expected - y / method.scale).abs().mean())
    assert (means > 1 / rate[:, None]).all()
    assert torch.allclose(method.distribution(features).free_mean, expected * method.scale)


def test_egmn_distribution_is_that_of_its_draws():
    random = np.random.default_rng(0)
    cut_off = stats.truncnorm.rvs(-0.5, np.inf, 0.2, 0.4, size=300_000, random_state=random)
    draws = np.concatenate([random.exponential(0.1, 200_000), cut_off]).clip(0, 1)
    rate = torch.tensor([10.0], dtype=torch.float64)
    mixture = ExponentialGaussianMixture(doubles(0.4, 0.6), rate, doubles(0.2), doubles(0.4))
    assert mixture.mean.item() == pytest.approx(draws.mean(), abs=1e-3)
    asked = doubles(0.05, 0.3, 0.8)
    assert mixture.cdf(asked)[0].tolist() == pytest.approx([(draws <= v).mean() for v in asked[0].numpy()], abs=2e-3)


def test_egmn_recovers_its_mixture():
    random, n = np.random.default_rng(2), 2000
    which = random.random(n) < 0.4
    y = torch.tensor(np.where(which, random.exponential(0.05, n), random.normal(0.6, 0.1, n)).clip(0, 1)).float()
    torch.manual_seed(0)
    method = ExponentialGaussian(1, n_components=1, entropy_weight=0.0, value_weight=0.0)
    method.prepare(y)
    descend(method, torch.ones(n, 1), y, n_steps=200, rate=0.1)
    mixture = method.distribution(torch.ones(1, 1))
    assert mixture.weights[0].tolist() == pytest.approx([0.4, 0.6], abs=0.02)
    assert 1 / mixture.rate.item() == pytest.approx(0.05, abs=0.005)
    assert mixture.means.item() == pytest.approx(0.6, abs=0.01)
    assert mixture.deviations.item() == pytest.approx(0.1, abs=0.01)
