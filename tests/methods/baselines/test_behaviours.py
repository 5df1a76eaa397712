"""SWaT: hand-computed cases, known truths, and when the duration ends the progress bar."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from diffor.methods.baselines.behaviours import (
    BEHAVIOUR_METHODS,
    BinomialSWaT,
    GeometricSWaT,
    PiecewiseExponential,
    SWaT,
    WanderingViews,
    leaving_losses,
    watched_part_losses,
)

NAMES = tuple(BEHAVIOUR_METHODS)
EDGES = torch.tensor([0.0, 0.5, 1.0])


def views(n: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """One feature column per row, exponential watch times that end with the video, and durations."""
    random = torch.Generator().manual_seed(seed)
    duration = 0.2 + torch.rand(n, generator=random)
    watched = torch.minimum(duration, -0.4 * torch.rand(n, generator=random).log()).clamp(max=1)
    return torch.eye(n), watched, duration


def make(name: str, n_features: int) -> SWaT:
    torch.manual_seed(0)
    method = BEHAVIOUR_METHODS[name](n_features)  # type: ignore[call-arg]
    assert isinstance(method, SWaT)
    return method


def prepared(name: str, n: int = 64) -> tuple[SWaT, Tensor, Tensor, Tensor]:
    features, y, duration = views(n)
    method = make(name, n)
    method.prepare(y, duration=duration)
    return method, features, y, duration


def descend(method: SWaT, features: Tensor, y: Tensor, n_steps: int, rate: float, **side: Tensor) -> None:
    optimizer = torch.optim.Adam(method.parameters(), lr=rate)
    for _ in range(n_steps):
        optimizer.zero_grad()
        torch.stack(list(method.loss(features, y, **side).values())).sum().backward()
        optimizer.step()


def native(method: SWaT, features: Tensor, **side: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.from_numpy(method.predict(features, torch.arange(len(features)), 8, **side).statistic("native"))


# --- the formulas ---


def test_cross_entropy_of_watched_parts_by_hand() -> None:
    # The first bucket, 0.2 long, is watched fully; of the second, 0.6 long, a quarter; the third lies behind the video.
    chances = torch.tensor([[0.9, 0.3, 0.5]])
    loss = watched_part_losses(chances.logit(), torch.tensor([[0.2, 0.15, 0.0]]), torch.tensor([[0.2, 0.6, 0.0]]))
    second = 0.25 * math.log(0.3) + 0.75 * math.log(0.7)
    assert loss.item() == pytest.approx(-(0.2 * math.log(0.9) + 0.6 * second) / 0.8, rel=1e-5)


def test_likelihood_of_leaving_by_hand() -> None:
    rates, stays = torch.tensor([[1.0, 3.0], [1.0, 3.0]]), torch.tensor([[0.5, 0.2], [0.5, 0.2]])
    loss = leaving_losses(rates, stays, torch.tensor([1, 1]), torch.tensor([True, False]))
    assert loss.tolist() == pytest.approx([1.1 - math.log(3), 1.1], abs=1e-6)


def test_piecewise_exponential_by_hand() -> None:
    answer = PiecewiseExponential(torch.tensor([[1.0, 3.0]]), EDGES, torch.tensor([0.8]))
    expected = (1 - math.exp(-0.5)) + math.exp(-0.5) * (1 - math.exp(-0.9)) / 3
    assert answer.mean.item() == pytest.approx(expected, rel=1e-5)
    assert answer.cdf(torch.tensor([[0.7]])).item() == pytest.approx(1 - math.exp(-1.1), rel=1e-5)
    assert answer.quantile(torch.tensor([1 - math.exp(-1.1), 0.99])).tolist()[0] == pytest.approx([0.7, 0.8])


def test_wandering_views_by_hand() -> None:
    """Two buckets of 0.5; the video ends at 0.6, and half of all viewers are still there."""
    lengths = torch.tensor([[0.5, 0.1]])
    answer = WanderingViews(torch.tensor([[0.8, 0.5]]), EDGES, lengths, torch.tensor([0.6]))
    assert answer.expected.item() == pytest.approx(0.5 * 0.8 + 0.1 * 0.5)
    asked = torch.tensor([[0.25, 0.55, 0.599, 0.6]])
    assert answer.cdf(asked)[0].tolist() == pytest.approx([0.2, 0.5, 0.5, 1.0], abs=1e-6)


def test_buckets_behind_the_video_do_not_count() -> None:
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
    method = GeometricSWaT(2, n_buckets=20)
    method.prepare(y, duration=duration)
    descend(method, features, y, 100, 0.05, duration=duration)
    asked = torch.tensor([[0.1, 0.2, 0.4, 0.6, 0.8]])
    with torch.no_grad():
        answer = method.distribution(torch.eye(2), duration=torch.full((2,), 1.0))
        found = -torch.log1p(-answer.cdf(asked))
        free = make("swat-geometric", 2)
        free.prepare(y)
    assert torch.allclose(found, reached_hazard(asked), rtol=0.12)
    rates = found.diff(dim=1) / asked.diff(dim=1)
    assert torch.allclose(rates[:, 1:3], torch.tensor([[1.0, 4.0], [2.0, 1.0]]), rtol=0.15)
    # Who does not know the durations takes the end of a video for leaving.
    assert free.typical.mean() > 1.3 * method.typical.mean()  # type: ignore[operator, union-attr]


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
    method = make(name, 2)
    method.prepare(y, **side)
    with torch.no_grad():
        method.output.weight.zero_()
    assert native(method, torch.zeros(4000, 2), **side).mean().item() == pytest.approx(y.mean().item(), abs=0.01)


# --- when the duration counts ---


@pytest.mark.parametrize("name", NAMES)
def test_works_without_durations(name: str) -> None:
    features, y, duration = views(64)
    method = make(name, 64)
    method.prepare(y)
    assert not method.ends
    alone = native(method, features)
    assert torch.equal(native(method, features, duration=duration), alone)


@pytest.mark.parametrize("name", NAMES)
def test_trained_with_durations_it_needs_them(name: str) -> None:
    method, features, y, _ = prepared(name)
    assert method.ends
    message = "SWaT .* needs the column 'duration'.*but no column was given; pass duration="
    with pytest.raises(ValueError, match=message):
        method.loss(features, y)
    with pytest.raises(ValueError, match=message):
        method.predict(features, torch.arange(64), 4)
    with pytest.raises(ValueError, match=message):
        type(method)(64, bounded=True).prepare(y)


@pytest.mark.parametrize("name", NAMES)
def test_replays_free_the_watch_time(name: str) -> None:
    _, y, duration = views(200)
    watched = torch.where(torch.arange(200) < 20, (duration + 0.1), y).clamp(max=2) / 2
    decided, demanded = make(name, 200), type(make(name, 200))(200, bounded=True)
    decided.prepare(watched, duration=duration / 2)
    demanded.prepare(watched, duration=duration / 2)
    assert not decided.ends
    assert demanded.ends
    ignoring = type(decided)(200, bounded=False)
    ignoring.prepare(y, duration=duration)
    assert not ignoring.ends


@pytest.mark.parametrize("name", NAMES)
def test_predictions_end_with_the_video(name: str) -> None:
    method, features, _, duration = prepared(name)
    short = duration / 4
    with torch.no_grad():
        samples = method.predict(features, torch.arange(64), 32, duration=short).samples
    assert (torch.from_numpy(samples) <= short[:, None]).all()
    assert (native(method, features, duration=short) <= short).all()


@pytest.mark.parametrize("name", NAMES)
def test_durations_beyond_the_training_range(name: str) -> None:
    method, features, _, duration = prepared(name)
    row = features[:1].expand(3, -1)
    near, far, short = native(method, row, duration=duration.max() * torch.tensor([1.0, 50.0, 1e-5]))
    assert near == far
    assert 0 <= short <= 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_leaving_at_once_stays_finite(name: str) -> None:
    """Whole groups of rows that are never watched must not push a rate to infinity."""
    method = make(name, 2)
    kind = torch.arange(200) % 2
    y = torch.where(kind == 1, torch.linspace(0.01, 1, 200), 0.0)
    method.prepare(y)
    descend(method, torch.eye(2)[kind], y, 300, 0.1)
    assert all(parameter.isfinite().all() for parameter in method.parameters())
    never, sometimes = native(method, torch.eye(2))
    assert never < 0.02
    assert sometimes > 0.3


def test_the_likelihood_of_leaving_at_once_has_a_best_rate() -> None:
    method = GeometricSWaT(1)
    method.prepare(torch.cat([torch.zeros(50), torch.linspace(0.01, 1, 50)]))
    losses = []
    for logit in (0.0, 1e2, 1e9):
        with torch.no_grad():
            method.output.weight.zero_()
            method.output.bias.fill_(logit)
        losses.append(method.loss(torch.zeros(1, 1), torch.zeros(1))["likelihood"].item())
    assert losses[1] < losses[0] < losses[2]


# --- what both share; what every method must do, tests/test_contracts.py checks ---


@pytest.mark.parametrize("name", NAMES)
def test_mean_is_that_of_even_levels(name: str) -> None:
    method, features, _, duration = prepared(name)
    with torch.no_grad():
        answer = method.distribution(features, duration=duration)
    even = answer.quantile((torch.arange(2000) + 0.5) / 2000).mean(dim=1)
    assert torch.allclose(answer.mean, even, atol=1e-3)


@pytest.mark.parametrize("name", BEHAVIOUR_METHODS)
def test_a_duration_below_the_targets_range_leaves_nothing_to_watch(name: str) -> None:
    method = BEHAVIOUR_METHODS[name](2, bounded=True)  # type: ignore[call-arg]
    method.prepare(torch.linspace(0, 0.5, 101), duration=torch.ones(101))
    views = method.distribution(torch.zeros(1, 2), duration=torch.tensor([-0.2]))  # type: ignore[operator]
    assert views.cdf(torch.tensor([[-0.1, 0.0]])).tolist() == [[0.0, 1.0]]
    assert views.quantile(torch.tensor([0.5])).tolist() == [[0.0]]
