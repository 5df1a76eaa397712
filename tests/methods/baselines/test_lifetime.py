"""Lifetime value: golden numbers, hand-computed cases and recovered truths."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from method_checks import descend
from scipy import stats
from torch import Tensor
from torch.nn.functional import softplus

from diffor.core.method import Method, subset_mean
from diffor.methods import METHODS
from diffor.methods.baselines.lifetime import LogNormal, ZeroInflated, ZeroInflatedLogNormal, ziln_nll
from diffor.methods.baselines.lifetime_buckets import (
    bucket_of,
    distance_similarity,
    ordinal_probabilities,
    positive_edges,
    tower_losses,
)
from diffor.methods.baselines.lifetime_mixtures import (
    LogisticMixture,
    OptimalDistribution,
    ZeroInflatedLogistics,
    logistic_mixture_nll,
    selection_losses,
)
from diffor.methods.baselines.point import StandardScale


def rows_with_zeros() -> tuple[Tensor, Tensor]:
    """Features, and targets of which those on one side are zero; the others span two orders of magnitude."""
    features = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
    return features, torch.where(features[:, 0] > 0, (features[:, 1] - 3).exp().clamp(max=1), torch.zeros(64))


def prepared(name: str, **settings) -> Method:
    torch.manual_seed(0)
    method = METHODS[name](6, **settings)
    method.prepare(rows_with_zeros()[1])
    return method


def single(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


# Zero-inflated log-normal.


def test_ziln_golden_numbers():
    logits = torch.tensor([[0.3, 1.2, 0.1], [-0.5, 0.2, -1.0]], dtype=torch.float64)
    chance, location, spread = logits[:, 0], logits[:, 1], softplus(logits[:, 2])
    loss = torch.stack(ziln_nll(chance, location, spread, single(4, 0))).sum(dim=0)
    assert loss.mean().item() == pytest.approx(1.534900, abs=6e-7)
    expected = chance.sigmoid() * LogNormal(location, spread).free_mean(torch.tensor(math.inf))
    assert expected.tolist() == pytest.approx([2.516095, 0.484319], abs=6e-7)


def test_log_normal_stands_at_one_with_what_lies_beyond_and_at_zero_with_who_does_not_pay():
    draws = np.exp(np.random.default_rng(0).normal(-0.5, 0.8, 400_000)).clip(max=1)
    distribution = LogNormal(single(-0.5), single(0.8))
    assert distribution.mean.item() == pytest.approx(draws.mean(), abs=1e-3)
    assert distribution.cdf(single(0.0, 0.5, 1.0)[None])[0].tolist() == pytest.approx(
        [0, (draws <= 0.5).mean(), 1], abs=2e-3
    )
    assert distribution.quantile(single(0.999)).item() == 1
    wide = LogNormal(single(5.0), single(20.0)).free_mean(torch.tensor(-1.0))  # an expectation is held back
    assert wide.item() == pytest.approx(math.exp(-1 + 4.5))
    median = ZeroInflated(single(0.4, 0.8), LogNormal(single(-2, -2), single(0.5, 0.5))).quantile(single(0.5))[:, 0]
    assert median.tolist() == pytest.approx([0, math.exp(-2 + 0.5 * stats.norm.ppf(0.3 / 0.8))])


def test_ziln_recovers_the_parameters_of_its_data():
    random = np.random.default_rng(0)
    side = random.integers(0, 2, 4000)
    positive = random.random(4000) < np.where(side, 0.7, 0.2)
    amounts = np.exp(random.normal(np.where(side, -3.0, -5.0), np.where(side, 0.5, 1.0)))
    y = torch.tensor(np.where(positive, amounts, 0).clip(max=1)).float()
    torch.manual_seed(0)
    method = ZeroInflatedLogNormal(2)
    method.prepare(y)
    descend(method, torch.eye(2)[side], y, n_steps=200, rate=0.05)
    found = method.distribution(torch.eye(2))
    # The most likely parameters of these rows themselves.
    logs = [np.log(amounts[positive & (side == place)]) for place in (0, 1)]
    assert found.positive.location.tolist() == pytest.approx([part.mean() for part in logs], abs=0.01)
    assert found.positive.spread.tolist() == pytest.approx([part.std() for part in logs], abs=0.01)
    shares = [positive[side == place].mean() for place in (0, 1)]
    assert found.chance.tolist() == pytest.approx(shares, abs=0.01)
    wanted = [p * math.exp(part.mean() + part.var() / 2) for p, part in zip(shares, logs, strict=True)]
    assert method.native(found).tolist() == pytest.approx(wanted, rel=0.03)


# A chance and an amount.


def test_subset_mean_divides_by_the_weight_of_the_subset():
    values, members = single(1, 5, 9), torch.tensor([True, True, False])
    assert subset_mean(values, members, single(3, 1, 7)).item() == pytest.approx(2)
    assert subset_mean(values, torch.zeros(3, dtype=torch.bool), None).item() == 0


def test_two_stage_terms_by_hand():
    method = prepared("two-stage")
    features, y = rows_with_zeros()
    positive = y > 0
    chance = method.chance(features)[:, 0].sigmoid()
    terms = method.loss(features, y)
    by_hand = -torch.where(positive, chance, 1 - chance).log().mean()
    assert torch.isclose(terms["chance"], by_hand)
    wanted = (y[positive] - y[positive].mean()) / y[positive].std(correction=0)
    assert torch.isclose(terms["amount"], (method.amount(features)[positive, 0] - wanted).square().mean(), rtol=1e-4)

    amount = method.scale.back(method.amount(features)[:, 0]).clamp(min=0)
    assert torch.equal(method.value(features), chance * amount)
    method.gate = "hard"
    assert torch.equal(method.value(features), torch.where(chance > 0.5, amount, 0.0))


def test_mtl_mse_terms_by_hand():
    method = prepared("mtl-mse")
    features, y = rows_with_zeros()
    logit, raw = method.head(features).T
    terms = method.loss(features, y)
    product = logit.sigmoid() * torch.log1p(raw.exp())
    assert torch.isclose(terms["value"], (product - y / y.std(correction=0)).square().mean())
    assert torch.isclose(terms["chance"], -torch.where(y > 0, logit.sigmoid(), (-logit).sigmoid()).log().mean())
    assert torch.allclose(method.value(features), product * y.std(correction=0))


# One of several heads.


def test_selection_losses_by_hand():
    log_shares = single(0.2, 0.8).log()[None]
    focal, divergence = selection_losses(log_shares, single(1.0, 2.0)[None], focus=2.0)
    assert focal.item() == pytest.approx(-(0.8**2) * math.log(0.2))
    soft = np.exp([-1, -2]) / np.exp([-1, -2]).sum()
    assert divergence.item() == pytest.approx(0.2 * math.log(0.2 / soft[0]) + 0.8 * math.log(0.8 / soft[1]))
    # Pseudo-labels carry no gradient.
    losses = torch.tensor([[1.0, 2.0]], requires_grad=True)
    shares = torch.tensor([[0.4, 0.6]]).log().requires_grad_()
    torch.stack(selection_losses(shares, losses, 2.0)).sum().backward()
    assert losses.grad is None
    assert shares.grad.abs().sum() > 0


def test_optdist_anneals_while_training_only():
    method = prepared("optdist", n_annealing_steps=10)
    features, y = rows_with_zeros()
    method.eval().loss(features, y)
    assert method.n_steps.item() == 0
    logits = torch.tensor([[2.0, 0.0, -1.0, 0.5]])
    torch.manual_seed(2)
    warm = method.draw_log_shares(logits)
    for _ in range(20):
        method.train().loss(features, y)
    torch.manual_seed(2)
    cold = method.eval().draw_log_shares(logits)
    assert method.n_steps.item() == 20
    # Half the temperature doubles all differences of logarithms.
    assert torch.allclose(cold.diff(), 2 * warm.diff(), atol=1e-5)


def test_optdist_answers_with_the_head_that_the_selector_favours():
    method = prepared("optdist")
    features, _ = rows_with_zeros()
    chosen = method.selector(features).argmax(dim=1)
    assert len(chosen.unique()) > 1
    distribution = method.distribution(features)
    for row in (0, 1, 2, 3):
        alone = method.zero_inflated(method.heads[chosen[row]](features[row : row + 1]))
        assert torch.isclose(distribution.chance[row], alone.chance[0])
        assert torch.isclose(distribution.positive.location[row], alone.positive.location[0])


def test_optdist_separates_two_kinds_of_rows():
    random = np.random.default_rng(0)
    side = random.integers(0, 2, 2000)
    y = torch.tensor(np.exp(random.normal(np.where(side, -2.0, -6.0), 0.3)).clip(max=1)).float()
    torch.manual_seed(0)
    method = OptimalDistribution(2, n_heads=2, n_hidden=8)
    method.prepare(y)
    descend(method, torch.eye(2)[side], y, n_steps=150, rate=0.02)
    found = method.distribution(torch.eye(2))
    assert found.positive.location.tolist() == pytest.approx([-6, -2], abs=0.2)


# A mixture of logistics.


def test_logistic_mixture_by_hand():
    weights, means, scales = single(0.25, 0.75)[None], single(-1, 1)[None], single(0.5, 2)[None]
    nll = logistic_mixture_nll(weights.log(), means, scales, single(0.3))
    wanted = -math.log(0.25 * stats.logistic.pdf(0.3, -1, 0.5) + 0.75 * stats.logistic.pdf(0.3, 1, 2))
    assert nll.item() == pytest.approx(wanted)
    standard = StandardScale()
    standard.load_state_dict({"centre": torch.tensor(0.7), "spread": torch.tensor(0.4)})
    mixture = LogisticMixture(weights, means, scales, torch.tensor(0.1), standard)
    place = (math.log1p(0.3 / 0.1) - 0.7) / 0.4
    wanted = 0.25 * stats.logistic.cdf(place, -1, 0.5) + 0.75 * stats.logistic.cdf(place, 1, 2)
    assert mixture.cdf(single(0.3)[None]).item() == pytest.approx(wanted)


def test_hiltv_loss_is_the_density_of_the_target():
    method = prepared("hiltv")
    features, y = rows_with_zeros()
    features, y = features[y > 0][:1], y[y > 0][:1]
    amount = method.loss(features, y)["amount"].item()
    method.double()
    mixture, width = method.distribution(features.double()).positive, 1e-6
    around = mixture.cdf(torch.stack([y.double() - width, y.double() + width], dim=1))
    assert amount == pytest.approx(-math.log(around.diff().item() / (2 * width)), abs=1e-3)


def test_hiltv_recovers_two_peaks():
    random = np.random.default_rng(0)
    centres = np.where(random.random(2000) < 0.3, 0.05, 0.4)
    y = np.where(random.random(2000) < 0.6, centres * np.exp(random.logistic(0, 0.05, 2000)), 0).clip(max=1)
    torch.manual_seed(0)
    method = ZeroInflatedLogistics(1)
    method.prepare(torch.tensor(y).float())
    descend(method, torch.ones(2000, 1), torch.tensor(y).float(), n_steps=150, rate=0.05)
    found = method.distribution(torch.ones(1, 1))
    asked = torch.tensor([[0.0, 0.045, 0.05, 0.06, 0.2, 0.38, 0.42, 0.5]])
    assert found.cdf(asked)[0].tolist() == pytest.approx([(y <= v).mean() for v in asked[0].numpy()], abs=0.02)


# Buckets.


def test_buckets_share_the_positive_targets():
    y = torch.cat([torch.zeros(50), torch.linspace(0.01, 1, 100)])
    edges = positive_edges(y, 4)
    assert torch.bincount(bucket_of(y, edges)).tolist() == [50, 25, 25, 25, 25]
    assert bucket_of(torch.tensor([0.001, 1.0]), edges).tolist() == [1, 4]
    # Repeated targets leave buckets without width.
    edges = positive_edges(torch.tensor([0.0, 0.2, 0.2, 0.2, 0.2, 0.9]), 4)
    assert edges.tolist() == pytest.approx([0, 0.2, 0.2, 0.2, 0.9])
    assert bucket_of(torch.tensor([0.1, 0.2, 0.9]), edges).tolist() == [1, 4, 4]


def test_tower_losses_by_hand():
    logits, borders = single(0.0, 1.0, 2.0)[None], single(1.0, -1.0)[None]
    own, order, distillation = tower_losses(logits, borders, torch.tensor([1]))
    softmax = np.exp([0, 1, 2]) / np.exp([0, 1, 2]).sum()
    pass_first, pass_second = 1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1))
    teacher = np.array([1 - pass_first, pass_first - pass_second, pass_second])
    assert own.item() == pytest.approx(-math.log(softmax[1]))
    assert order.item() == pytest.approx(-math.log(pass_first) - math.log(1 - pass_second))
    assert distillation.item() == pytest.approx((teacher * np.log(teacher / softmax)).sum())
    # Borders out of order give probabilities all the same.
    found = ordinal_probabilities(torch.tensor([[-1.0, 1.0]]))
    assert (found >= 0).all()
    assert found.sum().item() == pytest.approx(1)


def test_mdme_terms_by_hand():
    method = prepared("mdme", n_ranges=2, n_buckets=3)
    method.edges.copy_(torch.tensor([0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0]))
    features, y = rows_with_zeros()[0][:2], torch.tensor([0.0, 0.6])  # zero; range 2, bucket 2, place 1 / 2
    terms = method.loss(features, y)
    ranges = method.ranges(features).log_softmax(dim=1)
    assert torch.isclose(terms["range"], -(ranges[0, 0] + ranges[1, 2]) / 2)
    assert torch.isclose(terms["bucket"], -method.buckets(features)[1, 3:].log_softmax(dim=0)[1] / 2)
    assert torch.isclose(terms["place"], (method.places(features)[1, 4].sigmoid() - 0.5).square() / 2)


def test_mdme_decodes_range_then_bucket_then_place():
    method = prepared("mdme", n_ranges=2, n_buckets=2)
    method.edges.copy_(torch.tensor([0, 0.1, 0.2, 0.6, 1.0]))
    with torch.no_grad():
        for layer in (method.ranges, method.buckets, method.places):
            layer.weight.zero_()
            layer.bias.zero_()
        method.ranges.bias.copy_(torch.tensor([0.0, 1.0, 2.0]))
        method.buckets.bias.copy_(torch.tensor([5.0, 0.0, 0.0, 1.0]))  # the first range's is likelier, but not asked
        method.places.bias.copy_(torch.tensor([0.0, 0.0, 0.0, math.log(3)]))
    distribution = method.distribution(torch.zeros(1, 6))
    assert method.native(distribution).item() == pytest.approx(0.6 + 0.75 * 0.4)
    with torch.no_grad():
        method.ranges.bias.copy_(torch.tensor([3.0, 1.0, 2.0]))
    distribution = method.distribution(torch.zeros(1, 6))
    assert method.native(distribution).item() == 0
    assert distribution.cdf(torch.zeros(1, 1)).item() == pytest.approx(math.exp(3) / sum(map(math.exp, (1, 2, 3))))
    method.decoding = "expectation"
    assert torch.equal(method.native(distribution), distribution.mean)


def test_distance_similarity_by_hand():
    embedding, y = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]), torch.tensor([0.0, 0.3, 0.1])
    apart, labels = np.array([5, 1, math.sqrt(18)]), np.array([0.3, 0.1, 0.2])
    wanted = np.abs(apart / apart.mean() - labels / labels.mean()).mean()
    assert distance_similarity(embedding, y, None).item() == pytest.approx(wanted, rel=1e-5)
    pairs = np.array([2 * 1, 2 * 3, 1 * 3]) / 11
    wanted = (np.abs(apart / (apart * pairs).sum() - labels / (labels * pairs).sum()) * pairs).sum()
    assert distance_similarity(embedding, y, torch.tensor([2.0, 1.0, 3.0])).item() == pytest.approx(wanted, rel=1e-5)
    assert distance_similarity(embedding[:1], y[:1], None).item() == 0


def test_mdan_fuses_channels_by_the_probabilities_of_buckets():
    method = prepared("mdan", n_buckets=3, n_hidden=4)
    features, _ = rows_with_zeros()
    logits, fused = method.fuse(features)
    channels = method.channels(features).relu()
    shares = logits.softmax(dim=1)
    wanted = sum(shares[:, [j]] * channels[:, 4 * j : 4 * j + 4] for j in range(3))
    assert torch.allclose(fused, wanted, atol=1e-6)
