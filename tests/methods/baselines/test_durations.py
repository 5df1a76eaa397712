"""D2Q, D2Co and CWM: golden numbers, hand-computed cases, known truths and what they share."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from method_checks import descend, native
from torch import Tensor

from diffor.core.method import Method
from diffor.methods import METHODS
from diffor.methods.baselines.duration_groups import DurationGroups, completed, learned_seconds, mid_rank, two_levels
from diffor.methods.baselines.durations import (
    CWM,
    D2Q,
    CensoredInterest,
    D2Co,
    interest_of_watch,
    interest_share,
    watch_of_interest,
    watch_of_share,
)


def doubles(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def fixed(method: Method, bias: float) -> Method:
    """A method whose one output is the same for all rows."""
    with torch.no_grad():
        method.output.weight.zero_()
        method.output.bias.fill_(bias)
    return method


# --- the formulas, in the units of the sources ---


def test_cwm_golden_numbers() -> None:
    """In the source's units, and through the class: 10 of 20 seconds, 30 of 30 seconds, in a range of 100 seconds."""
    assert interest_of_watch(doubles(10, 30), 40).tolist() == pytest.approx([-3.609662, -0.968488], abs=1e-6)
    decoded = torch.minimum(watch_of_interest(doubles(-2, 0.5), 40), doubles(20, 30))
    assert decoded.tolist() == pytest.approx([17.806457, 30], abs=1e-6)
    method = CWM(2, range_seconds=100.0)
    y, duration = torch.tensor([0.1, 0.3]), torch.tensor([0.2, 0.3])
    method.prepare(y, duration=duration)
    with torch.no_grad():
        method.output.weight.copy_(torch.tensor([[-2.0, 0.5]]))
        method.output.bias.zero_()
    terms = method.loss(torch.eye(2), y, duration=duration)
    assert {name: round(term.item(), 5) for name, term in terms.items()} == {"unfinished": 0.32388, "finished": 0.39195}
    assert (100 * native(method, torch.eye(2), duration=duration)).tolist() == pytest.approx([17.80646, 30], abs=1e-4)


def test_interest_of_no_watch_time_is_finite() -> None:
    assert interest_of_watch(torch.zeros(1), 40.0).item() == pytest.approx(math.log(1e-6), abs=1e-3)


def test_gaussian_tail_of_finished_views() -> None:
    # Half of a Gaussian lies above its centre.
    method, y = CWM(1, range_seconds=100.0, likelihood="paper"), torch.tensor([0.3])
    fixed(method, interest_of_watch(torch.tensor(30.0), 40).item())
    method.prepare(y, duration=y)
    terms = fixed(method, interest_of_watch(torch.tensor(30.0), 40).item()).loss(torch.zeros(1, 1), y, duration=y)
    assert {name: term.item() for name, term in terms.items()} == pytest.approx(
        {"unfinished": 0, "finished": math.log(2)}
    )


def test_share_between_two_levels_by_hand() -> None:
    watch, low, high = doubles(2, 6, 0, 9), doubles(2, 2, 2, 2), doubles(8, 8, 8, 8)
    by_hand = (math.exp(1.8) - math.exp(0.6)) / (math.exp(2.4) - math.exp(0.6))
    assert interest_share(watch, low, high, 0.3).tolist() == pytest.approx([0, by_hand, 0, 1])
    assert interest_share(watch, low, high, 0.0).tolist() == pytest.approx([0, 4 / 6, 0, 1])
    watch = torch.linspace(2, 8, 25, dtype=torch.float64)
    low, high = torch.full_like(watch, 2), torch.full_like(watch, 8)
    for sensitivity in (0.0, 0.01, 2.0):
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


@pytest.mark.parametrize(
    ("n_groups", "duration", "expected"),
    [
        (5, torch.rand(1000, generator=torch.Generator().manual_seed(0)), [200] * 5),
        (10, torch.tensor([1.0] * 70 + [2.0] * 3 + [3.0] * 27), [70, 30]),  # equal ones together, none nearly empty
        (30, torch.arange(30.0), [30]),
    ],
)
def test_groups_hold_equally_many_rows(n_groups: int, duration: Tensor, expected: list[int]) -> None:
    groups = DurationGroups(n_groups, min_rows=20)
    groups.fit(duration)
    assert torch.bincount(groups(duration)).tolist() == expected
    assert groups.n_used == len(expected)
    assert groups(torch.tensor([-1.0, 99.0])).tolist() == [0, len(expected) - 1]


def test_two_levels_finds_both_components() -> None:
    random = np.random.default_rng(0)
    watched = np.concatenate([random.normal(0.1, 0.02, 6000), random.normal(0.6, 0.1, 4000)])
    assert two_levels(watched) == pytest.approx([0.1, 0.6], abs=0.01)
    assert two_levels(np.full(30, 0.25)).tolist() == [0.25, 0.25]


def test_the_median_target_counts_as_typical_seconds_where_no_range_is_given() -> None:
    y = torch.tensor([0.0, 0.05, 0.1, 0.1, 0.9])
    assert learned_seconds(y, None) * 0.1 == pytest.approx(20)
    assert learned_seconds(torch.zeros(3), None) == 1
    for name in ("d2co", "cwm"):
        method = METHODS[name](2, range_seconds=300.0)
        method.prepare(y, duration=torch.ones(5))
        assert float(method.seconds) == 300


def test_d2co_answers_in_the_seconds_of_its_sensitivity() -> None:
    """Levels at 10 and 50 seconds in a range of 100 seconds: a share of 0.1 at 0.3 per second."""
    method = D2Co(1, n_groups=1, sensitivity=0.3, range_seconds=100.0)
    method.prepare(torch.tensor([0.1, 0.5]).repeat(50), duration=torch.ones(100))
    fixed(method, math.log(0.1 / 0.9))
    by_hand = math.log(0.1 * (math.exp(15) - math.exp(3)) + math.exp(3)) / 0.3
    assert native(method, torch.zeros(1, 1), duration=torch.ones(1)).item() == pytest.approx(by_hand / 100, rel=1e-4)
    rest = method.loss(torch.zeros(1, 1), torch.tensor([by_hand / 100]), duration=torch.ones(1))["share"]
    assert rest.item() == pytest.approx(-(0.1 * math.log(0.1) + 0.9 * math.log(0.9)), rel=1e-3)


def test_rounding_does_not_make_a_view_unfinished() -> None:
    exact, rounded = torch.tensor([0.3]), torch.tensor([0.3], dtype=torch.float64) * (1 - 1e-7)
    assert completed(rounded.float(), exact).all()
    assert not completed(torch.tensor([0.299]), exact).any()


# --- known truths ---


def test_cwm_recovers_the_location_of_censored_interest() -> None:
    """Two kinds of rows, with Gaussian interest around -2 and 0; a good part of the videos ends too early."""
    random, kind, truth = torch.Generator().manual_seed(3), torch.arange(8000) % 2, torch.tensor([-2.0, 0.0])
    watched = watch_of_interest(truth[kind] + 2 * torch.randn(8000, generator=random), 40.0).clamp(min=0) / 1000
    duration = (10 + 60 * torch.rand(8000, generator=random)) / 1000
    features, y = torch.eye(2)[kind], torch.minimum(watched, duration)
    assert 0.2 < completed(y, duration).float().mean() < 0.6
    locations = {}
    for likelihood in ("paper", "code"):
        method = CWM(2, range_seconds=1000.0, likelihood=likelihood)
        method.prepare(y, duration=duration)
        descend(method, features, y, 150, 0.1, duration=duration)
        locations[likelihood] = method.output(torch.eye(2)).squeeze(1).detach()
    assert torch.allclose(locations["paper"], truth, atol=0.15)
    assert torch.allclose(locations["code"], truth, atol=0.8)
    seen = interest_of_watch(y * 1000, 40.0)
    naive = torch.stack([seen[features[:, kind] == 1].mean() for kind in (0, 1)])
    assert ((naive - truth).abs() > 2 * (locations["paper"] - truth).abs()).all()


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
    duration = torch.tensor([0.2, 0.8]).repeat(2000)
    y = duration * torch.rand(4000, generator=torch.Generator().manual_seed(0))
    method = D2Q(1, n_groups=2)
    method.prepare(y, duration=duration)
    fixed(method, math.log(3))  # rank 0.75
    answer = native(method, torch.zeros(2, 1), duration=torch.tensor([0.2, 0.8]))
    assert answer.tolist() == pytest.approx([0.15, 0.6], abs=0.02)


# --- the distribution of CWM ---


def test_censored_interest_agrees_with_draws_and_stands_at_its_limit() -> None:
    location, limit = torch.tensor([-3.0, 0.5]), torch.tensor([0.2, 0.3])
    views = CensoredInterest(location, 2.0, limit, 40.0, torch.tensor(200.0))
    noise = torch.randn(2, 200_000, generator=torch.Generator().manual_seed(0))
    watched = (watch_of_interest(location[:, None] + 2 * noise, 40.0) / 200).clamp(min=0)
    drawn = torch.minimum(watched, limit[:, None])
    assert torch.allclose(views.mean, drawn.mean(dim=1), atol=1e-3)
    asked = torch.tensor([[0.02, 0.1, 0.19]])
    assert torch.allclose(views.cdf(asked), (drawn[:, :, None] <= asked).float().mean(dim=1), atol=5e-3)
    assert torch.equal(views.quantile(torch.tensor([0.0, 1.0]))[:, 1], limit)


def test_no_view_is_shorter_than_nothing_and_none_beyond_all_interest() -> None:
    location = torch.tensor([-60.0, -40.0, 0.0])  # so little interest that most views end at once
    views = CensoredInterest(location, 2.0, torch.tensor([0.5, 0.0, 1.0]), 40.0, torch.tensor(200.0))
    reached = views.cdf(torch.tensor([[-1.0, -1e-6, 0.0]]))
    assert (reached[:, :2] == 0).all()
    assert reached[:, 2].tolist() == pytest.approx([1.0, 1.0, 0.0], abs=1e-4)
    assert torch.equal(views.quantile(torch.tensor([0.5]))[:2], torch.zeros(2, 1))
    views = CensoredInterest(torch.tensor([3.0]), 2.0, torch.tensor([2.0]), 40.0, torch.tensor(1e9))
    assert views.cdf(torch.tensor([[0.5, 1.0]])).tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("duration", [-0.2, 0.0])
def test_a_duration_below_the_targets_range_leaves_nothing_to_watch(duration: float) -> None:
    method = CWM(2)
    method.prepare(torch.tensor([0.1, 0.2, 0.3]), duration=torch.ones(3))
    views = method.distribution(torch.zeros(1, 2), duration=torch.tensor([duration]))
    assert views.cdf(torch.tensor([[-0.1, 0.0]])).tolist() == [[0.0, 1.0]]
    assert views.quantile(torch.tensor([0.5])).tolist() == [[0.0]]


def test_predictions_outlast_the_video_only_where_they_are_not_clipped() -> None:
    duration = torch.full((2,), 0.2)
    answers = []
    for clip in (True, False):
        method = CWM(2, range_seconds=200.0, clip=clip)
        method.prepare(torch.tensor([0.2, 0.2]), duration=duration)
        answers.append(native(fixed(method, 2.0), torch.zeros(2, 2), duration=duration))
    assert torch.equal(answers[0], duration)
    assert (answers[1] > 0.5).all()
    for method in (D2Q(1, n_groups=1, clip=True), D2Co(1, n_groups=1)):
        method.prepare(torch.tensor([0.1, 0.5]).repeat(50), duration=torch.ones(100))
        ended = native(fixed(method, 9.0), torch.zeros(2, 1), duration=torch.tensor([0.25, 1.0]))
        assert ended.tolist() == pytest.approx([0.25, 0.5], abs=1e-3)


@pytest.mark.parametrize("finished", [True, False])
def test_cwm_without_one_kind_of_views(finished: bool) -> None:
    method = CWM(4)
    y = torch.linspace(0.1, 0.4, 4)
    duration = y if finished else 2 * y
    method.prepare(y, duration=duration)
    terms = method.loss(torch.eye(4), y, duration=duration)
    assert terms["unfinished" if finished else "finished"].item() == 0
    assert terms["finished" if finished else "unfinished"].item() > 0
