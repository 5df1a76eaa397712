import math

import method_checks
import miniatures_images
import numpy as np
import pytest
import torch

from diffor import OrdinalRegressor
from diffor.bench.peers.methods import used_by
from diffor.datasets import load_dataset
from diffor.datasets.paper.aesthetics import SPAQ_SCORES
from diffor.errors import UserError
from diffor.methods import METHODS
from diffor.methods.baselines.point import AttributeTasks, GaussianValue, RankedValue, StandardScale, pair_hinge


def test_the_scale_of_nothing_or_of_what_is_all_alike_is_one():
    for y, centre in ((torch.full((5,), 0.3), 0.3), (torch.empty(0), 0.0)):
        scale = StandardScale()
        scale.fit(y)
        assert (scale.centre.item(), scale.spread.item()) == (pytest.approx(centre), 1)
        assert scale.back(scale(torch.tensor([0.7]))).item() == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("name", "constant", "penalties"),
    [
        ("value-squared", "mean", [4.0, 0.25]),
        ("value-absolute", "median", [2.0, 0.5]),
        ("value-huber", "mean", [1.5, 0.125]),
    ],
)
def test_training_starts_from_the_best_constant(name, constant, penalties):
    y = torch.tensor([0.0, 0.1, 0.1, 0.2, 0.9])
    method = METHODS[name](3)
    method.prepare(y)
    with torch.no_grad():
        method.head.bias.zero_()
    assert method.value(torch.zeros(1, 3)).item() == pytest.approx(getattr(y, constant)().item())
    assert method.penalty(torch.tensor([2.0, 0.5]), torch.zeros(2)).tolist() == penalties


def test_the_gaussian_recovers_a_spread_that_depends_on_the_row():
    torch.manual_seed(0)
    features = torch.cat([torch.ones(400, 1), -torch.ones(400, 1)])
    spread = torch.where(features[:, 0] > 0, 0.15, 0.03)
    y = (0.5 + 0.1 * features[:, 0] + spread * torch.randn(800)).clamp(0, 1)
    method = GaussianValue(1)
    method.prepare(y)
    with torch.no_grad():  # a centre of 0.4 and a spread of a half, in standard deviations
        method.head.weight.zero_()
        method.head.bias.copy_(torch.tensor([0.4, math.log(0.5)]))
    one = method.scale.back(torch.ones(1))
    penalty = method.loss(torch.zeros(1, 1), one)["likelihood"].item()
    assert penalty == pytest.approx(math.log(0.5) + 0.5 * ((1.0 - 0.4) / 0.5) ** 2, abs=1e-5)
    method_checks.descend(method, features, y, 300, 0.05)
    distribution = method.distribution(torch.tensor([[1.0], [-1.0]]))
    assert distribution.centre.tolist() == pytest.approx([0.6, 0.4], abs=0.02)
    assert distribution.spread.tolist() == pytest.approx([0.15, 0.03], rel=0.1)


def test_pairs_cost_what_they_fall_short_of_the_margin_by_the_product_of_their_weights():
    y = torch.tensor([0.1, 0.5, 0.9])
    assert pair_hinge(y, y, margin=0.3).item() == 0
    # The two neighbouring pairs fall short of 0.5 by 0.1 each, the outer pair does not.
    assert pair_hinge(y, y, margin=0.5).item() == pytest.approx(0.2 / 3)
    # Pairs of equal targets are left out.
    assert pair_hinge(torch.tensor([0.2, 0.8]), torch.tensor([0.5, 0.5]), margin=0.02).item() == 0
    # Falling short: (1, 0) by 0.02 + 0.1; the pairs (2, 0) and (2, 1) do not.
    weighted = pair_hinge(torch.tensor([0.5, 0.4, 0.9]), y, 0.02, torch.tensor([1.0, 2.0, 0.5]))
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


# MT-A: several scores of a picture learned at once.


def test_the_terms_by_hand():
    torch.manual_seed(0)
    method = AttributeTasks(4, n_attributes=2, attribute_weight=3.0)
    y, attributes = torch.tensor([0.2, 0.4, 0.9]), torch.tensor([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]])
    method.prepare(y, attributes=attributes)
    features, weights = torch.randn(3, 4), torch.tensor([1.0, 2.0, 0.0])
    terms = method.loss(features, y, weights, attributes=attributes)
    outputs = method.head(features)
    target = (y - y.mean()) / y.std(correction=0)
    assert terms["value"].item() == pytest.approx((weights * (outputs[:, 0] - target).square()).mean().item(), rel=1e-5)
    spread = torch.stack([attributes[:, 0].std(correction=0), torch.tensor(1.0)])  # a constant one is only centred
    true = (attributes - attributes.mean(dim=0)) / spread
    errors = (outputs[:, 1:] - true).square().mean(dim=1)
    assert terms["attributes"].item() == pytest.approx(3 * (weights * errors).mean().item(), rel=1e-5)
    assert list(method.loss(features, y)) == ["value"]
    again, weights = AttributeTasks(4, n_attributes=2), torch.tensor([1.0, 1.0, 1.0, 0.0])  # the last is not looked at
    again.prepare(torch.cat([y, y[:1]]), weights, attributes=torch.cat([attributes, 9 * attributes[:1]]))
    assert torch.equal(again.centre, method.centre)
    assert torch.equal(again.spread, method.spread)


def test_attributes_that_tell_of_the_target_help_where_rows_are_few():
    torch.manual_seed(0)
    X = torch.randn(560, 30)
    clear = X[:, :3].sum(dim=1) / 12 + 0.5
    y = (clear + 0.2 * torch.randn(560)).clamp(0, 1)
    attributes = (clear + 0.01 * torch.randn(560))[:, None].expand(-1, 2)
    errors = {}
    for name, beside in (("alone", {}), ("together", {"attributes": attributes[:60]})):
        torch.manual_seed(1)
        encoder, method = torch.nn.Linear(30, 1), AttributeTasks(1, n_attributes=2, attribute_weight=5.0)
        method.prepare(y[:60], **beside)
        optimizer = torch.optim.Adam([*encoder.parameters(), *method.parameters()], lr=0.05)
        for _ in range(150):
            optimizer.zero_grad()
            sum(method.loss(encoder(X[:60]), y[:60], **beside).values()).backward()
            optimizer.step()
        with torch.no_grad():
            errors[name] = (method.value(encoder(X[60:])) - clear[60:]).abs().mean().item()
    assert errors["together"] < 0.7 * errors["alone"]


def test_an_estimator_takes_attributes_and_predicts_without():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    model = OrdinalRegressor("mt-a", preset="fast", max_steps=5, random_state=0, verbose=0)
    model.fit(X, X[:, 0], attributes=rng.normal(size=(80, 5)))
    assert model.predict(X).shape == (80,)


@pytest.mark.parametrize(("shape", "cure"), [((3, 4), "n_attributes=4"), ((3,), "n_attributes=1")])
def test_attributes_of_another_number_are_refused(shape, cure):
    with pytest.raises(UserError, match=rf"must have n_attributes=5 columns, but .*pass {cure}"):
        AttributeTasks(4).prepare(torch.rand(3), attributes=torch.rand(*shape))


def test_the_other_scores_of_spaq_reach_it(tmp_path):
    root = miniatures_images.write_spaq(tmp_path)
    samples, again = load_dataset("spaq", root), load_dataset("spaq", root, target="MOS")
    assert list(used_by("mt-a", samples.side)) == ["attributes"]
    assert samples.side["attributes"].shape == (len(samples), 5)
    np.testing.assert_allclose(samples.side["attributes"][:, SPAQ_SCORES.index("MOS")], again.y)
    np.testing.assert_allclose(again.side["attributes"][:, SPAQ_SCORES.index("Colorfulness") - 1], samples.y)
    assert not set(SPAQ_SCORES) & set(samples.x)
