"""D2Q, D2Co and CWM: golden numbers, hand-computed cases, known truths and what they share."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from diffor.core.method import Method
from diffor.methods.baselines.duration_groups import DurationGroups, completed, learned_seconds, mid_rank, two_levels
from diffor.methods.baselines.durations import (
    CWM,
    D2Q,
    DURATION_METHODS,
    CensoredInterest,
    D2Co,
    finished_losses,
    interest_of_watch,
    interest_share,
    unfinished_losses,
    watch_of_interest,
    watch_of_share,
)

NAMES = tuple(DURATION_METHODS)


def doubles(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def views(n: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """One feature column per row, exponential watch times that end with the video, and durations."""
    random = torch.Generator().manual_seed(seed)
    duration = 0.2 + torch.rand(n, generator=random)
    watched = torch.minimum(duration, -0.4 * torch.rand(n, generator=random).log()).clamp(max=1)
    return torch.eye(n), watched, duration


def prepared(name: str, n: int = 64, seed: int = 0) -> tuple[Method, Tensor, Tensor, Tensor]:
    torch.manual_seed(seed)
    features, y, duration = views(n, seed)
    method = DURATION_METHODS[name](n)  # type: ignore[call-arg]
    method.prepare(y, duration=duration)
    return method, features, y, duration


def descend(method: Method, features: Tensor, y: Tensor, n_steps: int, rate: float, **side: Tensor) -> None:
    optimizer = torch.optim.Adam(method.parameters(), lr=rate)
    for _ in range(n_steps):
        optimizer.zero_grad()
        torch.stack(list(method.loss(features, y, **side).values())).sum().backward()
        optimizer.step()


def native(method: Method, features: Tensor, **side: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.from_numpy(method.predict(features, torch.arange(len(features)), 8, **side).statistic("native"))


# --- the formulas, in the units of the sources ---


def test_cwm_golden_numbers() -> None:
    interest = interest_of_watch(doubles(10, 30), 40)
    assert interest.tolist() == pytest.approx([-3.609662, -0.968488], abs=1e-6)
    location = doubles(-2, 0.5)
    assert unfinished_losses(location, interest, 2)[0].item() == pytest.approx(0.323877, abs=1e-6)
    assert finished_losses(location, interest, 2)[1].item() == pytest.approx(0.391953, abs=1e-6)
    decoded = torch.minimum(watch_of_interest(location, 40), doubles(20, 30))
    assert decoded.tolist() == pytest.approx([17.806457, 30], abs=1e-6)


def test_interest_of_no_watch_time_is_finite() -> None:
    assert interest_of_watch(torch.zeros(1), 40.0).item() == pytest.approx(math.log(1e-6), abs=1e-3)


def test_gaussian_tail_of_finished_views() -> None:
    # Half of a Gaussian lies above its centre.
    assert finished_losses(doubles(1.0), doubles(1.0), 2.0, "paper").item() == pytest.approx(math.log(2))


def test_share_between_two_levels_by_hand() -> None:
    watch, low, high = doubles(2, 6, 0, 9), doubles(2, 2, 2, 2), doubles(8, 8, 8, 8)
    by_hand = (math.exp(1.8) - math.exp(0.6)) / (math.exp(2.4) - math.exp(0.6))
    assert interest_share(watch, low, high, 0.3).tolist() == pytest.approx([0, by_hand, 0, 1])
    assert interest_share(watch, low, high, 0.0).tolist() == pytest.approx([0, 4 / 6, 0, 1])


@pytest.mark.parametrize("sensitivity", [0.0, 0.01, 0.3, 2.0])
def test_watch_time_of_a_share_is_the_inverse(sensitivity: float) -> None:
    watch = torch.linspace(2, 8, 25, dtype=torch.float64)
    low, high = torch.full_like(watch, 2), torch.full_like(watch, 8)
    share = interest_share(watch, low, high, sensitivity)
    assert torch.allclose(watch_of_share(share, low, high, sensitivity), watch)


def test_share_does_not_overflow_in_single_precision() -> None:
    watch, low, high = torch.tensor([0.0, 999.0, 1000.0]), torch.zeros(3), torch.full((3,), 1000.0)
    share = interest_share(watch, low, high, 0.3)
    assert share.tolist() == pytest.approx([0, math.exp(-0.3), 1])
    assert watch_of_share(share, low, high, 0.3)[1:].tolist() == pytest.approx([999, 1000])
    assert watch_of_share(share, low, high, 0.3)[0].isfinite()


def test_mid_rank_counts_half_of_the_ties() -> None:
    watched = np.repeat([0.0, 0.2, 0.6, 1.0], [400, 200, 200, 200])
    grid = torch.from_numpy(np.quantile(watched, np.linspace(0, 1, 101), method="hazen"))
    rank = mid_rank(doubles(0, 0.2, 0.6, 1.0), grid.repeat(4, 1))
    assert rank.tolist() == pytest.approx([0.2, 0.5, 0.7, 0.9], abs=0.011)


# --- groups, levels and scale ---


def test_groups_hold_equally_many_rows() -> None:
    groups = DurationGroups(5, min_rows=2)
    duration = torch.rand(1000, generator=torch.Generator().manual_seed(0))
    groups.fit(duration)
    assert torch.bincount(groups(duration)).tolist() == [200] * 5


def test_equal_durations_stay_together_and_no_group_is_nearly_empty() -> None:
    groups = DurationGroups(10, min_rows=20)
    duration = torch.tensor([1.0] * 70 + [2.0] * 3 + [3.0] * 27)
    groups.fit(duration)
    counts = torch.bincount(groups(duration))
    assert counts.tolist() == [70, 30]
    assert groups.n_used == 2


def test_few_rows_make_few_groups() -> None:
    groups = DurationGroups(30, min_rows=20)
    groups.fit(torch.arange(30.0))
    assert groups.n_used == 1


def test_two_levels_finds_both_components() -> None:
    random = np.random.default_rng(0)
    watched = np.concatenate([random.normal(0.1, 0.02, 6000), random.normal(0.6, 0.1, 4000)])
    assert two_levels(watched) == pytest.approx([0.1, 0.6], abs=0.01)
    assert two_levels(np.full(30, 0.25)).tolist() == [0.25, 0.25]


def test_the_median_target_counts_as_typical_seconds() -> None:
    y = torch.tensor([0.0, 0.05, 0.1, 0.1, 0.9])
    assert learned_seconds(y, None) * 0.1 == pytest.approx(20)
    assert learned_seconds(torch.zeros(3), None) == 1


@pytest.mark.parametrize("name", ["d2co", "cwm"])
def test_a_given_range_makes_the_constants_those_of_the_source(name: str) -> None:
    _, y, duration = views(64)
    method = DURATION_METHODS[name](64, range_seconds=300.0)  # type: ignore[call-arg]
    method.prepare(y, duration=duration)
    assert float(method.seconds) == 300  # type: ignore[arg-type]


def test_cwm_loss_is_that_of_seconds() -> None:
    """Golden numbers again, through the class: 10 of 20 seconds, 30 of 30 seconds, in a range of 100 seconds."""
    method = CWM(2, range_seconds=100.0)
    y, duration = torch.tensor([0.1, 0.3]), torch.tensor([0.2, 0.3])
    method.prepare(y, duration=duration)
    with torch.no_grad():
        method.output.weight.copy_(torch.tensor([[-2.0, 0.5]]))
        method.output.bias.zero_()
    terms = method.loss(torch.eye(2), y, duration=duration)
    assert {name: round(term.item(), 5) for name, term in terms.items()} == {"unfinished": 0.32388, "finished": 0.39195}
    assert (100 * native(method, torch.eye(2), duration=duration)).tolist() == pytest.approx([17.80646, 30], abs=1e-4)


def test_d2co_answers_in_the_seconds_of_its_sensitivity() -> None:
    """Levels at 10 and 50 seconds in a range of 100 seconds: a share of 0.1 at 0.3 per second."""
    method = D2Co(1, n_groups=1, sensitivity=0.3, range_seconds=100.0)
    method.prepare(torch.tensor([0.1, 0.5]).repeat(50), duration=torch.ones(100))
    with torch.no_grad():
        method.output.weight.zero_()
        method.output.bias.fill_(math.log(0.1 / 0.9))
    by_hand = math.log(0.1 * (math.exp(15) - math.exp(3)) + math.exp(3)) / 0.3
    assert native(method, torch.zeros(1, 1), duration=torch.ones(1)).item() == pytest.approx(by_hand / 100, rel=1e-4)
    rest = method.loss(torch.zeros(1, 1), torch.tensor([by_hand / 100]), duration=torch.ones(1))["share"]
    assert rest.item() == pytest.approx(-(0.1 * math.log(0.1) + 0.9 * math.log(0.9)), rel=1e-3)


def test_rounding_does_not_make_a_view_unfinished() -> None:
    exact, rounded = torch.tensor([0.3]), torch.tensor([0.3], dtype=torch.float64) * (1 - 1e-7)
    assert completed(rounded.float(), exact).all()
    assert not completed(torch.tensor([0.299]), exact).any()


# --- known truths ---


def censored_views(n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Two kinds of rows, whose interest is Gaussian around -2 and 0; a good part of the videos ends too early."""
    random = torch.Generator().manual_seed(3)
    kind = torch.arange(n) % 2
    truth = torch.tensor([-2.0, 0.0])
    interest = truth[kind] + 2 * torch.randn(n, generator=random)
    watched = watch_of_interest(interest, 40.0).clamp(min=0) / 1000
    duration = (10 + 60 * torch.rand(n, generator=random)) / 1000
    return torch.eye(2)[kind], torch.minimum(watched, duration), duration, truth


def test_cwm_recovers_the_location_of_censored_interest() -> None:
    features, y, duration, truth = censored_views(8000)
    assert 0.2 < completed(y, duration).float().mean() < 0.6
    method = CWM(2, range_seconds=1000.0, likelihood="paper")
    method.prepare(y, duration=duration)
    descend(method, features, y, 300, 0.05, duration=duration)
    location = method.output(torch.eye(2)).squeeze(1).detach()
    assert torch.allclose(location, truth, atol=0.15)
    seen = interest_of_watch(y * 1000, 40.0)
    naive = torch.stack([seen[features[:, kind] == 1].mean() for kind in (0, 1)])
    assert ((naive - truth).abs() > 2 * (location - truth).abs()).all()


def test_the_code_of_cwm_comes_near_that_location() -> None:
    features, y, duration, truth = censored_views(8000)
    method = CWM(2, range_seconds=1000.0)
    method.prepare(y, duration=duration)
    descend(method, features, y, 300, 0.05, duration=duration)
    assert torch.allclose(method.output(torch.eye(2)).squeeze(1).detach(), truth, atol=0.8)


def test_d2co_levels_follow_the_durations() -> None:
    random = np.random.default_rng(1)
    duration = random.uniform(0.2, 1.0, 6000)
    keen = random.random(6000) < 0.5
    y = np.clip(np.where(keen, 0.8, 0.1) * duration + random.normal(0, 0.01, 6000), 0, 1)
    method = D2Co(2, n_groups=20)
    method.prepare(torch.from_numpy(y).float(), duration=torch.from_numpy(duration).float())
    middles = torch.from_numpy(np.quantile(duration, (np.arange(20) + 0.5) / 20))
    # Smoothing pulls the outermost groups inwards.
    inner = slice(2, -2)
    assert torch.allclose(method.low.double()[inner], 0.1 * middles[inner], atol=0.02)
    assert torch.allclose(method.high.double()[inner], 0.8 * middles[inner], atol=0.04)


def test_d2q_answers_with_quantiles_of_the_group() -> None:
    random = torch.Generator().manual_seed(0)
    duration = torch.tensor([0.2, 0.8]).repeat(2000)
    y = duration * torch.rand(4000, generator=random)
    method = D2Q(1, n_groups=2)
    method.prepare(y, duration=duration)
    with torch.no_grad():
        method.output.weight.zero_()
        method.output.bias.fill_(math.log(3))  # rank 0.75
    answer = native(method, torch.zeros(2, 1), duration=torch.tensor([0.2, 0.8]))
    assert answer.tolist() == pytest.approx([0.15, 0.6], abs=0.02)


# --- the distribution of CWM ---


def test_censored_interest_is_proper() -> None:
    location = torch.linspace(-6, 3, 7)
    limit = torch.linspace(0.1, 1, 7)
    views = CensoredInterest(location, 2.0, limit, 40.0, torch.tensor(200.0))
    grid = torch.linspace(0, 1, 201)[None]
    reached = views.cdf(grid)
    assert (reached.diff(dim=1) >= 0).all()
    assert (reached[:, 0] >= 0).all()
    assert torch.equal(reached[:, -1], torch.ones(7))
    levels = torch.linspace(0.01, 0.99, 50)
    values = views.quantile(levels)
    inside = (values > 0) & (values < limit[:, None])
    assert inside.any(dim=1).all()
    assert torch.allclose(views.cdf(values)[inside], levels.expand(7, -1)[inside], atol=1e-4)
    assert (views.cdf(values) >= levels - 1e-4).all()
    assert torch.equal(views.quantile(torch.tensor([0.0, 1.0]))[:, 1], limit)


def test_no_view_is_shorter_than_nothing() -> None:
    location = torch.tensor([-60.0, -40.0, 0.0])  # so little interest that most views end at once
    views = CensoredInterest(location, 2.0, torch.tensor([0.5, 0.0, 1.0]), 40.0, torch.tensor(200.0))
    reached = views.cdf(torch.tensor([[-1.0, -1e-6, 0.0]]))
    assert (reached[:, :2] == 0).all()
    assert reached[:, 2].tolist() == pytest.approx([1.0, 1.0, 0.0], abs=1e-4)
    assert torch.equal(views.quantile(torch.tensor([0.5]))[:2], torch.zeros(2, 1))


def test_watch_times_beyond_all_interest_are_certain() -> None:
    views = CensoredInterest(torch.tensor([3.0]), 2.0, torch.tensor([2.0]), 40.0, torch.tensor(1e9))
    assert views.cdf(torch.tensor([[0.5, 1.0]])).tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("duration", [-0.2, 0.0])
def test_a_duration_below_the_targets_range_leaves_nothing_to_watch(duration: float) -> None:
    method = CWM(2)
    method.prepare(torch.tensor([0.1, 0.2, 0.3]), duration=torch.ones(3))
    views = method.distribution(torch.zeros(1, 2), duration=torch.tensor([duration]))
    assert views.cdf(torch.tensor([[-0.1, 0.0]])).tolist() == [[0.0, 1.0]]
    assert views.quantile(torch.tensor([0.5])).tolist() == [[0.0]]


def test_censored_interest_agrees_with_draws() -> None:
    location, limit = torch.tensor([-3.0, 0.5]), torch.tensor([0.2, 0.3])
    views = CensoredInterest(location, 2.0, limit, 40.0, torch.tensor(200.0))
    noise = torch.randn(2, 200_000, generator=torch.Generator().manual_seed(0))
    watched = (watch_of_interest(location[:, None] + 2 * noise, 40.0) / 200).clamp(min=0)
    drawn = torch.minimum(watched, limit[:, None])
    assert torch.allclose(views.mean, drawn.mean(dim=1), atol=1e-3)
    asked = torch.tensor([[0.02, 0.1, 0.19]])
    share = (drawn[:, :, None] <= asked).float().mean(dim=1)
    assert torch.allclose(views.cdf(asked), share, atol=5e-3)


def test_unclipped_predictions_may_outlast_the_video() -> None:
    duration = torch.full((2,), 0.2)
    answers = []
    for clip in (True, False):
        method = CWM(2, range_seconds=200.0, clip=clip)
        method.prepare(torch.tensor([0.2, 0.2]), duration=duration)
        with torch.no_grad():
            method.output.weight.zero_()
            method.output.bias.fill_(2.0)
        answers.append(native(method, torch.zeros(2, 2), duration=duration))
    assert torch.equal(answers[0], duration)
    assert (answers[1] > 0.5).all()


@pytest.mark.parametrize("method", [D2Q(1, n_groups=1, clip=True), D2Co(1, n_groups=1)])
def test_clipped_values_end_with_the_video(method: Method) -> None:
    method.prepare(torch.tensor([0.1, 0.5]).repeat(50), duration=torch.ones(100))
    with torch.no_grad():
        method.output.bias.fill_(9.0)  # type: ignore[union-attr, operator]
    assert native(method, torch.zeros(2, 1), duration=torch.tensor([0.25, 1.0])).tolist() == pytest.approx(
        [0.25, 0.5], abs=1e-3
    )


# --- what all of them share; what every method must do, tests/test_contracts.py checks ---


@pytest.mark.parametrize("finished", [True, False])
def test_cwm_without_one_kind_of_views(finished: bool) -> None:
    method = CWM(4)
    y = torch.linspace(0.1, 0.4, 4)
    duration = y if finished else 2 * y
    method.prepare(y, duration=duration)
    terms = method.loss(torch.eye(4), y, duration=duration)
    assert terms["unfinished" if finished else "finished"].item() == 0
    assert terms["finished" if finished else "unfinished"].item() > 0


@pytest.mark.parametrize("name", NAMES)
def test_durations_beyond_the_training_range(name: str) -> None:
    method, features, _, duration = prepared(name)
    row = features[:1].expand(3, -1)
    longest = duration.max()
    near, far, short = native(method, row, duration=torch.stack([longest, 50 * longest, torch.tensor(1e-4)]))
    assert near == far
    assert 0 <= short <= 1
