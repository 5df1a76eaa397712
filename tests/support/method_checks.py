"""What every method must do, as functions that the contract of all methods and the tests of each module call."""

from __future__ import annotations

import torch
from torch import Tensor

from diffor.core.cdf_prediction import N_SAMPLES, CdfPrediction
from diffor.core.distribution import DistributionMethod
from diffor.core.method import Method
from diffor.core.row_noise import row_keys

N_ROWS, N_FEATURES, N_GRADES = 64, 6, 5


def make_rows(task: str, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features, and targets that follow one direction in them: values, or five grades."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(N_ROWS, N_FEATURES, generator=generator)
    y = torch.sigmoid(2 * features[:, 0] - features[:, 1])
    return features, y if task == "value" else (y * (N_GRADES - 1)).round() / (N_GRADES - 1)


def make_method(method_class: type[Method], task: str, **settings: object) -> Method:
    """A method made for the task, prepared with the targets of :func:`make_rows`."""
    torch.manual_seed(0)
    if task == "grades" and method_class.takes_n_grades:
        settings["n_grades"] = N_GRADES
    method = method_class(N_FEATURES, **settings)
    method.prepare(make_rows(task)[1])
    return method


def total_loss(method: Method, features: Tensor, y: Tensor, weights: Tensor | None = None, **side: Tensor) -> Tensor:
    """The sum that training minimises."""
    return torch.stack(list(method.loss(features, y, weights, **side).values())).sum()


def descend(method: Method, features: Tensor, y: Tensor, n_steps: int, rate: float, **side: Tensor) -> None:
    """Train on all rows at once."""
    optimizer = torch.optim.Adam(method.parameters(), lr=rate)
    for _ in range(n_steps):
        optimizer.zero_grad()
        total_loss(method, features, y, **side).backward()
        optimizer.step()


def check_gradients(method: Method, task: str) -> None:
    """The first loss is finite and every parameter feels it."""
    loss = total_loss(method, *make_rows(task))
    loss.backward()
    assert torch.isfinite(loss)
    for name, parameter in method.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


def check_learning(method: Method, task: str, n_steps: int = 120) -> None:
    """A short training beats the best constant clearly, inside [0, 1]."""
    features, y = make_rows(task)
    descend(method, features, y, n_steps, 0.05)
    native = torch.as_tensor(predict(method, features).statistic("native"))
    assert ((native >= 0) & (native <= 1)).all()
    constant_error = (y - y.median()).abs().mean()
    assert (native - y).abs().mean() < 0.5 * constant_error


def predict(method: Method, features: Tensor, n_samples: int = 20, **side: Tensor):
    method.eval()
    with torch.inference_mode():
        return method.predict(features, row_keys((features,), seed=0), n_samples, **side)


def native(method: Method, features: Tensor, **side: Tensor) -> Tensor:
    """What a method answers with."""
    return torch.from_numpy(predict(method, features, 8, **side).statistic("native"))


def check_prediction(method: Method, task: str) -> None:
    """Samples in range, the same twice, and not dependent on the rows beside."""
    features, _ = make_rows(task)
    first, second = predict(method, features), predict(method, features.flip(0))
    assert first.samples.shape == (N_ROWS, N_SAMPLES if isinstance(first, CdfPrediction) else 20)
    assert ((first.samples >= 0) & (first.samples <= 1)).all()
    assert torch.allclose(torch.tensor(first.samples), torch.tensor(second.samples).flip(0), atol=1e-5)


def check_weights(method: Method, task: str) -> None:
    """Rows of weight zero change nothing; other weights do."""
    features, y = make_rows(task)
    weights = torch.ones(N_ROWS)
    weights[::3] = 0
    weights = weights / weights.mean()
    kept = weights > 0
    torch.manual_seed(1)
    weighted = method.loss(features, y, weights)
    torch.manual_seed(1)
    removed = method.loss(features[kept], y[kept])
    assert weighted.keys() == removed.keys()
    for name in removed:
        assert torch.isclose(weighted[name], removed[name], rtol=1e-4, atol=1e-6), name
    torch.manual_seed(1)
    assert total_loss(method, features, y) != torch.stack(list(removed.values())).sum()


def check_distribution(method: DistributionMethod, task: str) -> None:
    """The cdf rises from 0 to 1, and quantiles are the smallest values that reach their level."""
    method.eval()
    with torch.inference_mode():
        distribution = method.distribution(make_rows(task)[0])
        values = torch.linspace(0, 1, 101)[None]
        cdf = distribution.cdf(values)
        assert cdf.shape == (N_ROWS, 101)
        assert cdf.dtype == torch.float32
        assert (cdf.diff(dim=1) >= -1e-6).all()
        assert (distribution.cdf(torch.tensor([[-1e-3]])) == 0).all()
        assert torch.allclose(distribution.cdf(torch.tensor([[1.0]])), torch.ones(N_ROWS, 1), atol=1e-6)
        levels = torch.linspace(0.02, 0.98, 25)
        quantiles = distribution.quantile(levels)
        assert (distribution.cdf(quantiles + 1e-6) >= levels - 1e-4).all()
        assert (distribution.cdf(quantiles - 1e-5) <= levels + 1e-4).all()
        fine = distribution.quantile((torch.arange(2000) + 0.5) / 2000)
        assert torch.allclose(fine.mean(dim=1), distribution.mean, atol=2e-3)
