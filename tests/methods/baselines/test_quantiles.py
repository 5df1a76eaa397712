import method_checks
import numpy as np
import pytest
import torch
from scipy import stats

from diffor.methods import METHODS
from diffor.methods.baselines.quantiles import ConditionalQuantiles, QuantileCurve, QuantileRegression, even_levels

NAMES = ("quantile-regression", "cqe")


def test_curve_has_the_papers_expectation_and_keeps_an_atom_where_quantiles_coincide():
    levels, values = even_levels(5), torch.tensor([[0.1, 0.2, 0.2, 0.5, 0.9]])
    wanted = (values.sum() + (values[0, 0] + values[0, -1]) / 2) / 6
    assert QuantileCurve(levels, values).mean.item() == pytest.approx(wanted.item())
    curve = QuantileCurve(even_levels(4), torch.tensor([[-0.2, 0.0, 0.0, 0.5]]))
    assert curve.cdf(torch.tensor([[-0.01, 0.0, 0.25, 0.5]]))[0].tolist() == pytest.approx([0, 0.6, 0.7, 1])
    assert curve.quantile(torch.tensor([0.0, 0.6, 0.7, 1.0]))[0].tolist() == pytest.approx([0, 0, 0.25, 0.5])


@pytest.mark.parametrize("name", NAMES)
def test_quantile_methods_start_at_the_training_quantiles(name):
    method = METHODS[name](3, n_quantiles=9)
    method.prepare(torch.linspace(0, 0.5, 501))
    found = method.quantiles(torch.zeros(1, 3))
    drift = method.scale.spread * method.head.bias if name == "quantile-regression" else 0
    assert (found - drift)[0].tolist() == pytest.approx([0.05 * place for place in range(1, 10)], abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_quantile_methods_recover_conditional_quantiles(name):
    random = np.random.default_rng(3)
    side = random.integers(0, 2, 2000)
    y = torch.tensor(np.where(side, random.beta(2, 6, 2000), random.beta(6, 2, 2000))).float()
    torch.manual_seed(0)
    method = METHODS[name](2, n_quantiles=19)
    method.prepare(y)
    method_checks.descend(method, torch.eye(2)[side], y, n_steps=300, rate=0.05)
    found = method.distribution(torch.eye(2)).values
    levels = np.arange(1, 20) / 20
    assert found[0].tolist() == pytest.approx(stats.beta.ppf(levels, 6, 2).tolist(), abs=0.03)
    assert found[1].tolist() == pytest.approx(stats.beta.ppf(levels, 2, 6).tolist(), abs=0.03)


def test_free_quantiles_are_sorted_when_asked():
    torch.manual_seed(0)
    method, features = QuantileRegression(6, n_quantiles=11), 10 * torch.randn(5, 6)
    assert (method.quantiles(features).diff(dim=1) < 0).any()
    assert (method.distribution(features).values.diff(dim=1) >= 0).all()


def test_native_value_of_quantiles_follows_the_decoding():
    features, _ = method_checks.make_rows("value")
    method = method_checks.make_method(ConditionalQuantiles, "value", decoding="median", activation="relu")
    curve = method.distribution(features)
    assert torch.equal(method.native(curve), curve.quantile(torch.tensor([0.5]))[:, 0])
    assert (method.quantiles(features).diff(dim=1) >= 0).all()
