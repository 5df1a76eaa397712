"""SWaT: hand-computed cases, known truths, and when the duration ends the progress bar."""

from __future__ import annotations

import math

import pytest
import torch
from method_checks import descend, native, predict
from torch import Tensor

from diffor.methods import METHODS
from diffor.methods.baselines.behaviours import BinomialSWaT, GeometricSWaT, PiecewiseExponential, WanderingViews

NAMES = ("swat-binomial", "swat-geometric")
EDGES = torch.tensor([0.0, 0.5, 1.0])


def views(n: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """One feature column per row, exponential watch times that end with the video, and durations."""
    random = torch.Generator().manual_seed(seed)
    duration = 0.2 + torch.rand(n, generator=random)
    watched = torch.minimum(duration, -0.4 * torch.rand(n, generator=random).log()).clamp(max=1)
    return torch.eye(n), watched, duration


def two_buckets(name: str, edges: list[float], outputs: list[float]):
    """A method of two buckets that bounds views by their duration and says the same of all rows."""
    method = METHODS[name](1, n_buckets=2, bounded=True)
    method.buckets.edges.copy_(torch.tensor(edges))
    method.ends.fill_(True)
    with torch.no_grad():
        method.output.weight.zero_()
        method.output.bias.copy_(torch.tensor(outputs))
    return method


# --- the formulas ---


def test_cross_entropy_of_watched_parts_by_hand() -> None:
    # The first bucket, 0.2 long, is watched fully; of the second, of which 0.6 lies before the end, a quarter.
    method = two_buckets("swat-binomial", [0.0, 0.2, 1.0], torch.tensor([0.9, 0.3]).logit().tolist())
    loss = method.loss(torch.zeros(1, 1), torch.tensor([0.35]), duration=torch.tensor([0.8]))["parts"]
    second = 0.25 * math.log(0.3) + 0.75 * math.log(0.7)
    assert loss.item() == pytest.approx(-(0.2 * math.log(0.9) + 0.6 * second) / 0.8, rel=1e-5)


def test_likelihood_of_leaving_by_hand() -> None:
    method = two_buckets("swat-geometric", [0.0, 0.5, 1.0], [0.0, 0.0])  # where softplus is 1
    method.typical.copy_(torch.tensor([1.0, 3.0]))
    y, duration = torch.tensor([0.7, 0.7]), torch.tensor([0.9, 0.7])
    losses = [method.loss(torch.zeros(1, 1), y[[k]], duration=duration[[k]])["likelihood"].item() for k in (0, 1)]
    assert losses == pytest.approx([1.1 - math.log(3), 1.1], abs=1e-5)  # one leaves, one has not left by the end


def test_piecewise_exponential_by_hand() -> None:
    answer = PiecewiseExponential(torch.tensor([[1.0, 3.0]]), EDGES, torch.tensor([0.8]))
    expected = (1 - math.exp(-0.5)) + math.exp(-0.5) * (1 - math.exp(-0.9)) / 3
    assert answer.mean.item() == pytest.approx(expected, rel=1e-5)
    assert answer.cdf(torch.tensor([[0.7]])).item() == pytest.approx(1 - math.exp(-1.1), rel=1e-5)
    assert answer.quantile(torch.tensor([1 - math.exp(-1.1), 0.99])).tolist()[0] == pytest.approx([0.7, 0.8])


def test_wandering_views_by_hand() -> None:
    """Two buckets of 0.5; the video ends at 0.6, and half of all viewers are still there, or in the first bucket."""
    lengths = torch.tensor([[0.5, 0.1]])
    answer = WanderingViews(torch.tensor([[0.8, 0.5]]), EDGES, lengths, torch.tensor([0.6]))
    assert answer.expected.item() == pytest.approx(0.5 * 0.8 + 0.1 * 0.5)
    asked = torch.tensor([[0.25, 0.55, 0.599, 0.6]])
    assert answer.cdf(asked)[0].tolist() == pytest.approx([0.2, 0.5, 0.5, 1.0], abs=1e-6)
    answer = WanderingViews(torch.tensor([[0.8, 0.0]]), EDGES, torch.tensor([[0.3, 0.0]]), torch.tensor([0.3]))
    assert answer.expected.item() == pytest.approx(0.24)
    assert answer.cdf(torch.tensor([[0.15, 0.29, 0.3]]))[0].tolist() == pytest.approx([0.2, 0.2, 1.0], abs=1e-6)


# --- known truths ---


def leaving_views(n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Two kinds of rows that leave at rates 1 and 2 at first, at 4 and 1 from 0.4 on; videos end between 0.3 and 1."""
    random = torch.Generator().manual_seed(1)
    kind = torch.arange(n) % 2
    early, late = torch.tensor([1.0, 2.0])[kind], torch.tensor([4.0, 1.0])[kind]
    hazard = -torch.rand(n, generator=random).log()
    watched = torch.where(hazard < 0.4 * early, hazard / early, 0.4 + (hazard - 0.4 * early) / late)
    duration = 0.3 + 0.7 * torch.rand(n, generator=random)
    return torch.eye(2)[kind], torch.minimum(watched, duration), duration


def reached_hazard(asked: Tensor) -> Tensor:
    early, late = torch.tensor([[1.0], [2.0]]), torch.tensor([[4.0], [1.0]])
    return early * asked.clamp(max=0.4) + late * (asked - 0.4).clamp(min=0)


def test_geometric_recovers_the_rates_behind_censored_views() -> None:
    features, y, duration = leaving_views(8000)
    method, free = GeometricSWaT(2, n_buckets=20), GeometricSWaT(2)
    method.prepare(y, duration=duration)
    free.prepare(y)
    descend(method, features, y, 100, 0.05, duration=duration)
    asked = torch.tensor([[0.1, 0.2, 0.4, 0.6, 0.8]])
    with torch.no_grad():
        answer = method.distribution(torch.eye(2), duration=torch.full((2,), 1.0))
        found = -torch.log1p(-answer.cdf(asked))
    assert torch.allclose(found, reached_hazard(asked), rtol=0.12)
    rates = found.diff(dim=1) / asked.diff(dim=1)
    assert torch.allclose(rates[:, 1:3], torch.tensor([[1.0, 4.0], [2.0, 1.0]]), rtol=0.15)
    # Who does not know the durations takes the end of a video for leaving.
    assert free.typical.mean() > 1.3 * method.typical.mean()


def test_binomial_recovers_the_mean_watch_time() -> None:
    features, y, duration = leaving_views(8000)
    method = BinomialSWaT(2, n_buckets=20)
    method.prepare(y, duration=duration)
    descend(method, features, y, 100, 0.05, duration=duration)
    ends = torch.linspace(0, 0.9, 2001)[None]
    expected = torch.trapezoid(torch.exp(-reached_hazard(ends)), ends.expand(2, -1), dim=1)
    answer = method.distribution(torch.eye(2), duration=torch.full((2,), 0.9))
    assert torch.allclose(method.native(answer), expected, atol=0.02)
    asked = torch.tensor([[0.1, 0.3, 0.5]])
    assert torch.allclose(answer.cdf(asked), 1 - torch.exp(-reached_hazard(asked)), atol=0.04)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ends", [True, False])
def test_starts_with_the_mean_of_all_rows(name: str, ends: bool) -> None:
    _, y, duration = leaving_views(4000)
    side = {"duration": duration} if ends else {}
    method = METHODS[name](2)
    method.prepare(y, **side)
    with torch.no_grad():
        method.output.weight.zero_()
    assert native(method, torch.zeros(4000, 2), **side).mean().item() == pytest.approx(y.mean().item(), abs=0.01)


# --- when the duration counts ---


@pytest.mark.parametrize("name", NAMES)
def test_trained_with_durations_it_needs_them_and_ends_with_them_and_else_it_does_not(name: str) -> None:
    features, y, duration = views(64)
    alone, method = METHODS[name](64), METHODS[name](64)
    alone.prepare(y)
    assert not alone.ends
    assert torch.equal(native(alone, features, duration=duration), native(alone, features))
    method.prepare(y, duration=duration)
    assert method.ends
    for ask in (
        lambda: method.loss(features, y),
        lambda: predict(method, features, 4),
        lambda: METHODS[name](64, bounded=True).prepare(y),
    ):
        with pytest.raises(ValueError, match=r"SWaT .* needs the column 'duration'.*but no column was given; pass dur"):
            ask()
    short = duration / 4
    samples = predict(method, features, 32, duration=short).samples
    assert (torch.from_numpy(samples) <= short[:, None]).all()
    assert (native(method, features, duration=short) <= short).all()


@pytest.mark.parametrize("name", NAMES)
def test_replays_free_the_watch_time(name: str) -> None:
    _, y, duration = views(200)
    replayed = torch.where(torch.arange(200) < 20, (duration + 0.1), y).clamp(max=2) / 2
    for bounded, watched, lasted, ends in (
        (None, replayed, duration / 2, False), (True, replayed, duration / 2, True), (False, y, duration, False)
    ):  # fmt: skip
        method = METHODS[name](200, bounded=bounded)
        method.prepare(watched, duration=lasted)
        assert bool(method.ends) == ends


@pytest.mark.parametrize("name", NAMES)
def test_leaving_at_once_stays_finite(name: str) -> None:
    """Whole groups of rows that are never watched must not push a rate to infinity."""
    method, kind = METHODS[name](2), torch.arange(200) % 2
    y = torch.where(kind == 1, torch.linspace(0.01, 1, 200), 0.0)
    method.prepare(y)
    descend(method, torch.eye(2)[kind], y, 200, 0.1)
    assert all(parameter.isfinite().all() for parameter in method.parameters())
    never, sometimes = native(method, torch.eye(2))
    assert never < 0.02
    assert sometimes > 0.3


@pytest.mark.parametrize("name", NAMES)
def test_a_duration_below_the_targets_range_leaves_nothing_to_watch(name: str) -> None:
    method = METHODS[name](2, bounded=True)
    method.prepare(torch.linspace(0, 0.5, 101), duration=torch.ones(101))
    views = method.distribution(torch.zeros(1, 2), duration=torch.tensor([-0.2]))
    assert views.cdf(torch.tensor([[-0.1, 0.0]])).tolist() == [[0.0, 1.0]]
    assert views.quantile(torch.tensor([0.5])).tolist() == [[0.0]]
