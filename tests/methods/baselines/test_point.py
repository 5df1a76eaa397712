import math

import pytest
import torch

from diffor.methods.baselines.point import (
    POINT_METHODS,
    GaussianValue,
    RankedValue,
    StandardScale,
    normal_penalty,
    pair_hinge,
)
from diffor.training.optimizer import FlatAdam


@pytest.mark.parametrize(
    ("name", "constant"), [("value-squared", "mean"), ("value-absolute", "median"), ("value-huber", "mean")]
)
def test_training_starts_from_the_best_constant(name, constant):
    y = torch.tensor([0.0, 0.1, 0.1, 0.2, 0.9])
    method = POINT_METHODS[name](3)
    method.prepare(y)
    with torch.no_grad():
        method.head.bias.zero_()
    assert method.value(torch.zeros(1, 3)).item() == pytest.approx(getattr(y, constant)().item())


def test_penalties_by_hand():
    output, target = torch.tensor([2.0, 0.5]), torch.zeros(2)
    expected = {"value-squared": [4.0, 0.25], "value-absolute": [2.0, 0.5], "value-huber": [1.5, 0.125]}
    for name, penalties in expected.items():
        assert POINT_METHODS[name](3).penalty(output, target).tolist() == penalties
    by_hand = math.log(0.5) + 0.5 * ((1.0 - 0.4) / 0.5) ** 2
    penalty = normal_penalty(torch.tensor([0.4]), torch.tensor([math.log(0.5)]), torch.tensor([1.0]))
    assert penalty.item() == pytest.approx(by_hand)


def test_the_gaussian_recovers_a_spread_that_depends_on_the_row():
    torch.manual_seed(0)
    features = torch.cat([torch.ones(400, 1), -torch.ones(400, 1)])
    spread = torch.where(features[:, 0] > 0, 0.15, 0.03)
    y = (0.5 + 0.1 * features[:, 0] + spread * torch.randn(800)).clamp(0, 1)
    method = GaussianValue(1)
    method.prepare(y)
    optimizer = FlatAdam(method.parameters())
    for _ in range(300):
        method.loss(features, y)["likelihood"].backward()
        optimizer.step(0.05)
    distribution = method.distribution(torch.tensor([[1.0], [-1.0]]))
    assert distribution.centre.tolist() == pytest.approx([0.6, 0.4], abs=0.02)
    assert distribution.spread.tolist() == pytest.approx([0.15, 0.03], rel=0.1)


def test_pairs_in_the_right_order_by_the_margin_cost_nothing():
    y = torch.tensor([0.1, 0.5, 0.9])
    assert pair_hinge(y, y, margin=0.3).item() == 0
    # The two neighbouring pairs fall short of 0.5 by 0.1 each, the outer pair does not.
    assert pair_hinge(y, y, margin=0.5).item() == pytest.approx(0.2 / 3)


def test_pairs_of_equal_targets_are_left_out():
    assert pair_hinge(torch.tensor([0.2, 0.8]), torch.tensor([0.5, 0.5]), margin=0.02).item() == 0


def test_pairs_weigh_by_the_product_of_their_weights():
    value, y = torch.tensor([0.5, 0.4, 0.9]), torch.tensor([0.1, 0.2, 0.3])
    # Falling short: (1, 0) by 0.02 + 0.1; the pairs (2, 0) and (2, 1) do not.
    weighted = pair_hinge(value, y, 0.02, torch.tensor([1.0, 2.0, 0.5]))
    assert weighted.item() == pytest.approx(2 * 0.12 / (2 * 1 + 0.5 * 1 + 0.5 * 2))


def test_the_terms_of_aadb_keep_the_units_of_the_range():
    method = RankedValue(2, rank_weight=3.0)
    y = torch.tensor([0.0, 0.4])
    method.prepare(y)
    with torch.no_grad():
        method.head.weight.zero_()
        method.head.bias.zero_()
    terms = method.loss(torch.zeros(2, 2), y)
    assert terms["value"].item() == pytest.approx(0.04)
    assert terms["order"].item() == pytest.approx(3 * 0.02)


def test_constant_targets_keep_a_usable_scale():
    scale = StandardScale()
    scale.fit(torch.full((5,), 0.3))
    assert scale.spread.item() == 1
    assert scale.back(scale(torch.tensor([0.7]))).item() == pytest.approx(0.7)
