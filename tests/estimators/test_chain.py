"""Methods with a chain are known by what they can do: a second one, made here, has all that the first has."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy

import numpy as np
import pytest
import torch
from torch import Tensor

import diffor
from diffor import OrdinalRegressor
from diffor.cli.main import main
from diffor.core.method import Method, weighted_mean
from diffor.core.prediction import Prediction
from diffor.core.row_noise import start_noise
from diffor.errors import UserError
from diffor.estimators.chain import has_increments, trajectory_of
from diffor.methods import METHODS
from diffor.methods.diffor import FlowMatching, MLPDenoiser
from diffor.paper.theory.model_diagnosis import diagnose_model


class ValueFlow(Method):
    """Flow matching of the target itself, as one number, instead of its increments."""

    family = "increments"
    title = "flow matching of the value"
    evidence = "standard"
    tasks = ("value",)
    has_chain = True

    def __init__(self, n_features: int, *, n_steps: int = 8) -> None:
        super().__init__()
        self.process, self.denoiser = FlowMatching(64), MLPDenoiser(1, n_features, width=32, dropout=0.0)
        self.set_steps(n_steps)

    def set_steps(self, n_steps: int) -> None:
        self.chain_times = tuple(range(64, 0, -64 // n_steps))

    def with_steps(self, n_steps: int) -> ValueFlow:
        other = copy(self)
        other.set_steps(n_steps)
        return other

    def loss(self, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> dict[str, Tensor]:
        clean = 2 * y[:, None] - 1
        noise, t = torch.randn_like(clean), torch.randint(1, 65, y.shape)
        output = self.denoiser(self.process.corrupt(clean, noise, t), features, t)
        errors = (output - self.process.target(clean, noise, t)).square()[:, 0]
        return {"denoise": weighted_mean(errors, weights)}

    def chain(self, features: Tensor, keys: Tensor, n_samples: int) -> Iterator[tuple[int, Tensor]]:
        def denoise(noisy: Tensor, t: Tensor) -> Tensor:
            return self.process.denoised(self.denoiser(noisy, features[:, None], t), noisy, t)

        return self.process.reverse(denoise, start_noise(keys, n_samples, 1).to(features), self.chain_times)

    def values_along(self, features: Tensor, keys: Tensor, n_samples: int) -> Tensor:
        estimates = torch.cat([estimate for _, estimate in self.chain(features, keys, n_samples)], dim=2)
        return ((estimates + 1) / 2).clamp(0, 1)

    def predict(self, features: Tensor, keys: Tensor, n_samples: int, **side: Tensor) -> Prediction:
        return Prediction(self.values_along(features, keys, n_samples)[:, :, -1].numpy())


X = np.random.default_rng(0).random((200, 2))
Y = 10 * X[:, 0] + np.random.default_rng(1).normal(0, 0.3, 200)


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setitem(METHODS, "value-flow", ValueFlow)
    settings = {"max_steps": 150, "n_samples": 32, "random_state": 0, "verbose": 0}
    return OrdinalRegressor("value-flow", bounds=(-2, 12), **settings).fit(X, Y)


def test_a_second_diffusion_method_is_one_class_and_one_line(model, tmp_path, capsys):
    crps = model.predict_distribution(X).crps(Y).mean()
    assert crps < 0.5 * np.abs(Y - Y.mean()).mean()
    # What is asked of methods with a chain: its length, and what happens along it.
    assert not np.array_equal(model.predict(X, n_steps=2), model.predict(X))
    path = trajectory_of(model, X[:1], n_chains=16)
    assert path.times == (64, 56, 48, 40, 32, 24, 16, 8)
    assert path.values.shape == (16, 8)
    assert path.values.min() >= -2
    # What is asked of all methods: files, and the list.
    model.save(tmp_path / "model")
    assert np.array_equal(diffor.load(tmp_path / "model").predict(X), model.predict(X))
    assert main(["methods"]) == 0
    assert "flow matching of the value" in capsys.readouterr().out


def test_what_is_about_increments_is_not_asked_of_it(model):
    assert not has_increments(model)
    with pytest.raises(UserError, match=r"with a chain of increments .* got method='value-flow'; fit"):
        diagnose_model(model, X, Y)


def test_a_model_without_a_chain_has_none_to_follow():
    model = OrdinalRegressor("value-squared", max_steps=2, verbose=0).fit(X, Y)
    with pytest.raises(UserError, match="only a method with a chain can be followed, but got method='value-squared'"):
        trajectory_of(model, X[:1])
