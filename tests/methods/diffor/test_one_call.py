"""One call: survival functions by cross-entropy, with any encoder's features."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from diffor.core.cdf_prediction import CdfPrediction
from diffor.methods.diffor.one_call import OneCall, as_prediction, falling, grade_borders


def fitted_constant(y: torch.Tensor, n_increments: int = 16) -> OneCall:
    method = OneCall(n_features=2, n_increments=n_increments, dropout=0.0)
    method.prepare(y)
    return method.eval()


def test_the_best_constant_is_the_empirical_survival_function() -> None:
    """At t = T the estimate that minimises the cross-entropy is the mean thermometer: the survival function."""
    torch.manual_seed(0)
    y = torch.rand(400) ** 2
    method = fitted_constant(y)
    features = torch.zeros(len(y), 2)
    loss = method.loss(features, y)["cross_entropy"]
    loss.backward()
    assert method.direct.bias.grad.abs().max() < 1e-3, "training starts where a constant cannot be improved"
    prediction = method.predict(features[:1], torch.zeros(1, dtype=torch.int64), 1)
    assert isinstance(prediction, CdfPrediction)
    middle = prediction.knots[1:-1]
    assert np.allclose(prediction.cdf(middle[None])[0], [(y.numpy() <= knot).mean() for knot in middle], atol=0.03)


def test_cross_entropy_and_squared_error_have_the_same_minimiser() -> None:
    share = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    filled = torch.tensor([0.0, 0.3, 1.0, 1.0], dtype=torch.float64)[:, None]
    entropy = -(filled * share.log() + (1 - filled) * torch.log1p(-share)).mean(dim=0)
    squares = (filled - share).square().mean(dim=0)
    for loss in (entropy, squares):
        assert abs(share[loss.argmin()] - filled.mean()) < 0.011


def test_answers_are_distributions_inside_the_range_of_the_targets() -> None:
    y = torch.rand(200) * 0.5 + 0.2
    method = fitted_constant(y)
    torch.nn.init.normal_(method.direct.weight, std=3.0)
    prediction = method.predict(torch.randn(50, 2), torch.arange(50), 1)
    assert (np.diff(prediction.heights, axis=1) >= 0).all()
    ends = prediction.quantile([0.0, 1.0])
    assert ends.min() >= float(y.min()) - 1e-6
    assert ends.max() <= float(y.max()) + 1e-6


def test_weights_count_rows() -> None:
    method = fitted_constant(torch.rand(50))
    features, y = torch.randn(4, 2), torch.rand(4)
    doubled = method.loss(features[[0, 0, 1]], y[[0, 0, 1]])["cross_entropy"] * 3
    weighted = method.loss(features[:2], y[:2], torch.tensor([2.0, 1.0]))["cross_entropy"] * 2
    assert torch.allclose(doubled, weighted)


def test_grades_have_the_probability_between_two_steps() -> None:
    borders = grade_borders(3)
    prediction = as_prediction(borders, torch.tensor([[0.7, 0.2]]))
    assert np.allclose(prediction.probabilities([0.25, 0.75]), [[0.3, 0.5, 0.2]])


def test_a_saved_method_knows_its_borders() -> None:
    y = torch.rand(300)
    y[:100] = 0.5
    method = fitted_constant(y)
    other = OneCall(n_features=2, n_increments=16)
    other.load_state_dict(method.state_dict())
    features, keys = torch.randn(5, 2), torch.arange(5)
    one, two = (each.eval().predict(features, keys, 1) for each in (method, other))
    assert np.array_equal(one.knots, two.knots)
    assert np.array_equal(one.heights, two.heights)


def test_survival_functions_fall() -> None:
    assert (falling(torch.randn(20, 9)).diff(dim=1) <= 0).all()


@pytest.mark.parametrize(("name", "value"), [("n_increments", 0), ("n_layers", -1)])
def test_wrong_settings_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must .*{name}={value}"):
        OneCall(2, **{name: value})
