"""Mixtures and quantiles: golden numbers, hand-computed cases and recovered truths."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from method_checks import make_method, make_rows
from scipy import stats
from torch import Tensor

from diffor.core.method import Method
from diffor.methods.baselines.densities import (
    DENSITY_METHODS,
    ExponentialGaussian,
    ExponentialGaussianMixture,
    GaussianMixture,
    MixtureDensity,
    centre_and_spread,
    egmn_nll,
    mixture_nll,
    training_quantiles,
)
from diffor.methods.baselines.quantiles import (
    QUANTILE_METHODS,
    ConditionalQuantiles,
    QuantileCurve,
    QuantileRegression,
    even_levels,
    pinball_loss,
)

CLASSES = {**DENSITY_METHODS, **QUANTILE_METHODS}


def doubles(*numbers: float) -> Tensor:
    return torch.tensor([numbers], dtype=torch.float64)


def descend(method: Method, features: Tensor, y: Tensor, n_steps: int, rate: float) -> None:
    optimizer = torch.optim.Adam(method.parameters(), lr=rate)
    for _ in range(n_steps):
        optimizer.zero_grad()
        torch.stack(list(method.loss(features, y).values())).sum().backward()
        optimizer.step()


def make_unprepared(name: str) -> Method:
    torch.manual_seed(0)
    return CLASSES[name](6)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_equal_targets_have_a_finite_loss(name, value):
    method = make_unprepared(name)
    y = torch.full((20,), value)
    method.prepare(y)
    terms = method.loss(make_rows("value")[0][:20], y)
    assert all(torch.isfinite(term) for term in terms.values())


# Mixtures of Gaussians.


def test_mixture_nll_by_hand():
    logits = torch.tensor([[math.log(0.3), math.log(0.7)]], dtype=torch.float64)
    found = mixture_nll(logits, doubles(0.0, 2.0), doubles(1.0, 0.5), torch.tensor([1.0], dtype=torch.float64))
    wanted = -math.log(0.3 * stats.norm.pdf(1) + 0.7 * stats.norm.pdf(1, 2, 0.5))
    assert found.item() == pytest.approx(wanted, abs=1e-12)


def test_gaussian_mixture_stands_at_the_ends_with_what_lies_beyond_them():
    mixture = GaussianMixture(doubles(0.5, 0.5), doubles(0.0, 1.2), doubles(0.1, 0.2))
    assert mixture.cdf(doubles(-1e-9, 0.0, 1.0))[0].tolist() == pytest.approx([0, 0.25, 1], abs=1e-6)
    draws = np.random.default_rng(0).normal([[0.0], [1.2]], [[0.1], [0.2]], (2, 200_000)).clip(0, 1)
    assert mixture.mean.item() == pytest.approx(draws.mean(), abs=1e-3)
    assert mixture.free_mean.item() == pytest.approx(0.6)


def test_components_start_at_the_quantiles():
    method = MixtureDensity(3, n_components=4)
    y = torch.linspace(0.2, 0.6, 101)
    method.prepare(y)
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
    descend(method, torch.ones(4000, 1), y, n_steps=250, rate=0.05)
    mixture = method.distribution(torch.ones(1, 1))
    order = mixture.means[0].argsort()
    assert mixture.weights[0, order].tolist() == pytest.approx([0.3, 0.7], abs=0.02)
    assert mixture.means[0, order].tolist() == pytest.approx([0.25, 0.7], abs=0.01)
    assert mixture.deviations[0, order].tolist() == pytest.approx([0.03, 0.06], abs=0.005)


# The exponential-Gaussian mixture.


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
    draws = np.concatenate(
        [
            random.exponential(0.1, 200_000),
            stats.truncnorm.rvs(-0.5, np.inf, 0.2, 0.4, size=300_000, random_state=random),
        ]
    ).clip(0, 1)
    mixture = ExponentialGaussianMixture(
        doubles(0.4, 0.6), torch.tensor([10.0], dtype=torch.float64), doubles(0.2), doubles(0.4)
    )
    assert mixture.mean.item() == pytest.approx(draws.mean(), abs=1e-3)
    asked = doubles(0.05, 0.3, 0.8)
    assert mixture.cdf(asked)[0].tolist() == pytest.approx([(draws <= v).mean() for v in asked[0].numpy()], abs=2e-3)


def test_egmn_recovers_its_mixture():
    random = np.random.default_rng(2)
    n = 2000
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


# Quantiles.


def test_pinball_by_hand():
    y, quantiles = torch.tensor([1.0, 2.0]), torch.tensor([[0.0, 3.0], [4.0, 1.0]])
    found = pinball_loss(y, quantiles, torch.tensor([0.25, 0.75]))
    assert found.tolist() == pytest.approx([(0.25 * 1 + 0.25 * 2) / 2, (0.75 * 2 + 0.75 * 1) / 2])


def test_curve_has_the_papers_expectation():
    levels, values = even_levels(5), torch.tensor([[0.1, 0.2, 0.2, 0.5, 0.9]])
    wanted = (values.sum() + (values[0, 0] + values[0, -1]) / 2) / 6
    assert QuantileCurve(levels, values).mean.item() == pytest.approx(wanted.item())


def test_curve_keeps_an_atom_where_quantiles_coincide():
    curve = QuantileCurve(even_levels(4), torch.tensor([[-0.2, 0.0, 0.0, 0.5]]))
    assert curve.cdf(torch.tensor([[-0.01, 0.0, 0.25, 0.5]]))[0].tolist() == pytest.approx([0, 0.6, 0.7, 1])
    assert curve.quantile(torch.tensor([0.0, 0.6, 0.7, 1.0]))[0].tolist() == pytest.approx([0, 0, 0.25, 0.5])


@pytest.mark.parametrize("name", QUANTILE_METHODS)
def test_quantile_methods_start_at_the_training_quantiles(name):
    method = CLASSES[name](3, n_quantiles=9)
    method.prepare(torch.linspace(0, 0.5, 501))
    found = method.quantiles(torch.zeros(1, 3))
    drift = method.spread * method.head.bias if name == "quantile-regression" else 0
    assert (found - drift)[0].tolist() == pytest.approx([0.05 * place for place in range(1, 10)], abs=1e-4)


@pytest.mark.parametrize("name", QUANTILE_METHODS)
def test_quantile_methods_recover_conditional_quantiles(name):
    random = np.random.default_rng(3)
    side = random.integers(0, 2, 2000)
    y = torch.tensor(np.where(side, random.beta(2, 6, 2000), random.beta(6, 2, 2000))).float()
    features = torch.nn.functional.one_hot(torch.tensor(side)).float()
    torch.manual_seed(0)
    method = CLASSES[name](2, n_quantiles=19)
    method.prepare(y)
    descend(method, features, y, n_steps=300, rate=0.05)
    found = method.distribution(torch.eye(2)).values
    levels = np.arange(1, 20) / 20
    assert found[0].tolist() == pytest.approx(stats.beta.ppf(levels, 6, 2).tolist(), abs=0.03)
    assert found[1].tolist() == pytest.approx(stats.beta.ppf(levels, 2, 6).tolist(), abs=0.03)


def test_free_quantiles_are_sorted_when_asked():
    torch.manual_seed(0)
    method = QuantileRegression(6, n_quantiles=11)
    features = 10 * torch.randn(5, 6)
    assert (method.quantiles(features).diff(dim=1) < 0).any()
    assert (method.distribution(features).values.diff(dim=1) >= 0).all()


def test_native_value_of_quantiles_follows_the_decoding():
    features, _ = make_rows("value")
    method = make_method(ConditionalQuantiles, "value")
    curve = method.distribution(features)
    assert torch.equal(method.native(curve), curve.mean)
    method = make_method(ConditionalQuantiles, "value", decoding="median", activation="relu")
    curve = method.distribution(features)
    assert torch.equal(method.native(curve), curve.quantile(torch.tensor([0.5]))[:, 0])
    assert (method.quantiles(features).diff(dim=1) >= 0).all()


# What several modules need.


def test_statistics_of_training_targets():
    assert training_quantiles(torch.tensor([0.0, 1.0]), torch.tensor([0.25])).tolist() == [0.25]
    centre, spread = centre_and_spread(torch.tensor([0.25, 0.75]))
    assert (centre.item(), spread.item()) == (0.5, 0.25)
    assert centre_and_spread(torch.full((3,), 0.5))[1].item() == 1
    assert [part.item() for part in centre_and_spread(torch.empty(0))] == [0, 1]
