import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from diffor.bench.peers.densities import (
    DENSITIES,
    SCALE_FLOOR,
    VARIANCE_FLOOR,
    fit_deep_ensemble,
    fit_mdn,
    gaussian_loss,
    mixture,
    mixture_loss,
    mixture_quantiles,
)
from diffor.bench.peers.problem import Problem, quantile_levels
from diffor.core.prediction import Prediction

QUICK = {"max_steps": 300, "width": 64, "learning_rate": 3e-3, "encoder": "plain"}


def heteroscedastic(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    table = pd.DataFrame({"x": x, "kind": pd.Categorical(np.where(rng.random(n) < 0.5, "low", "high"))})
    return table, 50 + 20 * x + 10 * (table["kind"] == "high") + np.exp(1 + x) * rng.normal(size=n)


def make_problem(bounds=None, n_samples=50, y_of=lambda y: y):
    (x, y), (x_valid, y_valid) = heteroscedastic(800, 0), heteroscedastic(300, 1)
    return Problem(x, y_of(np.asarray(y)), x_valid, y_of(np.asarray(y_valid)), bounds=bounds, n_samples=n_samples)


def softplus(values):
    return np.logaddexp(0, values)


def test_the_gaussian_loss_is_the_likelihood():
    outputs, y = np.random.default_rng(0).normal(size=(7, 2)), np.linspace(-2, 2, 7)
    spread = np.sqrt(softplus(outputs[:, 1]) + VARIANCE_FLOOR)
    expected = -stats.norm(outputs[:, 0], spread).logpdf(y).mean()
    assert float(gaussian_loss(torch.from_numpy(outputs), torch.from_numpy(y))) == pytest.approx(expected)


def test_the_mixture_loss_is_the_likelihood():
    outputs, y = np.random.default_rng(0).normal(size=(7, 9)), np.linspace(-2, 2, 7)
    logits, means, raw = np.split(outputs, 3, axis=1)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    densities = stats.norm(means, softplus(raw) + SCALE_FLOOR).pdf(y[:, None])
    expected = -np.log((shares * densities).sum(axis=1)).mean()
    assert float(mixture_loss(torch.from_numpy(outputs), torch.from_numpy(y))) == pytest.approx(expected)


def test_components_never_shrink_to_a_point():
    _, _, scales = mixture(torch.tensor([[0.0, 0.0, 0.0, 0.0, -1e4, -50.0]]))
    assert scales.min() >= SCALE_FLOOR


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 1e-4)])
def test_mixture_quantiles_invert_the_mixtures_cdf(dtype, tolerance):
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(5), size=40)
    means, scales = rng.normal(size=(40, 5)), rng.uniform(0.05, 1, size=(40, 5))
    levels = quantile_levels(30)
    parts = (torch.from_numpy(part).to(dtype) for part in (shares, means, scales, levels))
    quantiles = mixture_quantiles(*parts).double().numpy()
    cdf = (shares[:, None] * stats.norm(means[:, None], scales[:, None]).cdf(quantiles[:, :, None])).sum(axis=2)
    assert cdf == pytest.approx(np.tile(levels, (40, 1)), abs=tolerance)


def test_mixture_quantiles_of_many_rows_are_those_of_each():
    shares, scales = torch.full((3000, 2), 0.5), torch.ones(3000, 2)
    means = torch.randn(3000, 2, generator=torch.Generator().manual_seed(0))
    levels = torch.from_numpy(quantile_levels(40))  # more rows than one block holds
    whole = mixture_quantiles(shares, means, scales, levels)
    alone = mixture_quantiles(shares[2990:], means[2990:], scales[2990:], levels)
    assert torch.allclose(whole[2990:], alone, atol=1e-6)


@pytest.mark.parametrize("fit", [fit_deep_ensemble, fit_mdn])
def test_it_learns_place_and_spread(fit):
    x, y = heteroscedastic(1000, 2)
    prediction = fit(make_problem(), **QUICK).predict(x)
    assert prediction.samples.shape == (1000, 50)
    truth = stats.norm(50 + 20 * x["x"] + 10 * (x["kind"] == "high"), np.exp(1 + x["x"]))
    ideal = Prediction(truth.ppf(quantile_levels(50)[:, None]).T).crps(y).mean()
    constant = Prediction(np.tile(np.sort(make_problem().y)[::16], (1000, 1))).crps(y).mean()
    assert prediction.crps(y).mean() < ideal + 0.15 * (constant - ideal)
    narrow, wide = x["x"] < -0.5, x["x"] > 0.5
    assert prediction.std[wide].mean() > 1.8 * prediction.std[narrow].mean()  # e in truth


@pytest.mark.parametrize("fit", [fit_deep_ensemble, fit_mdn])
def test_a_seed_determines_the_answer_and_bounds_hold(fit):
    settings = {**QUICK, "max_steps": 20}
    problem = make_problem(bounds=(45.0, 55.0))
    first, second = (fit(problem, **settings).predict(problem.x_valid).samples for _ in range(2))
    assert np.array_equal(first, second)
    assert first.min() == 45
    assert first.max() == 55


def test_members_share_the_samples_and_differ():
    problem = make_problem(n_samples=12)
    fitted = fit_deep_ensemble(problem, n_members=5, max_steps=20, width=16)
    samples = fitted.predict(problem.x_valid).samples
    assert samples.shape == (300, 12)
    # Three levels each for the first two members: their middle ones are the members' means.
    assert np.abs(samples[:, 1] - samples[:, 4]).max() > 0
    assert samples[:, 0] + samples[:, 2] == pytest.approx(2 * samples[:, 1])
    assert len({member.encoder_name for member in fitted.members}) == 1


def test_two_modes_are_found():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=900)})
    y = np.where(rng.random(900) < 0.5, -10.0, 10.0) + rng.normal(size=900)
    problem = Problem(table[:600], y[:600], table[600:], y[600:], n_samples=40)
    samples = fit_mdn(problem, **QUICK).predict(table[600:]).samples
    assert (np.abs(samples) > 5).mean() > 0.9
    assert (samples > 0).mean() == pytest.approx(0.5, abs=0.1)


def test_the_table_names_them():
    assert {peer.name: peer.fit for peer in DENSITIES} == {"deep-ensemble": fit_deep_ensemble, "mdn": fit_mdn}
    assert all(peer.tasks == ("value",) for peer in DENSITIES)
