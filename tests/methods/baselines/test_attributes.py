"""MT-A: several scores of a picture learned at once."""

import miniatures_images
import numpy as np
import pytest
import torch

from diffor import OrdinalRegressor
from diffor.bench.peers.methods import used_by
from diffor.datasets import load_dataset
from diffor.datasets.paper.aesthetics import SPAQ_SCORES
from diffor.errors import UserError
from diffor.methods.baselines.attributes import AttributeTasks


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
        optimizer = torch.optim.Adam([*encoder.parameters(), *method.parameters()], lr=0.02)
        for _ in range(400):
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
