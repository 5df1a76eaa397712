"""MPada: patches that learn for themselves, the wrong ones most."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from diffor.errors import UserError
from diffor.methods.baselines.patches import WeightedPatches


def make(**settings):
    torch.manual_seed(0)
    method = WeightedPatches(8, n_grades=3, **settings)
    y = torch.tensor([0.0, 0.5, 1.0])
    method.prepare(y)
    return method, torch.randn(3, 8), y


def test_the_loss_by_hand():
    method, features, y = make(sharpness=2.0)
    total = torch.zeros(())
    for row in range(3):
        for patch in range(4):
            logits = method.head(features[row, 2 * patch : 2 * patch + 2])
            right = logits.softmax(dim=0)[row].detach()
            total = total + (1 - right**2) * cross_entropy(logits[None], torch.tensor([row]))
    assert method.loss(features, y)["patches"].item() == pytest.approx(total.item() / 12, rel=1e-5)
    weights = torch.tensor([0.0, 3.0, 0.0])
    alone = method.loss(features[1:2], y[1:2])["patches"].item()
    assert method.loss(features, y, weights)["patches"].item() == pytest.approx(alone, rel=1e-5)


def test_misclassified_patches_count_most_and_their_weight_has_no_gradient():
    method, _, _ = make()
    logits = torch.tensor([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    counted = method.attention(logits, torch.zeros(3, dtype=torch.int64))
    assert counted[1] > counted[2] > counted[0] > 0
    assert not counted.requires_grad
    even, _, _ = make(sharpness=0.0)
    assert even.attention(logits, torch.zeros(3, dtype=torch.int64)).tolist() == [1, 1, 1]


def test_the_answer_is_the_mean_over_the_patches():
    method, features, _ = make()
    mean = method.patch_logits(features).softmax(dim=2).mean(dim=1)
    torch.testing.assert_close(method.logits(features).softmax(dim=1), mean)
    turned = features.view(3, 4, 2).flip(1).reshape(3, 8)  # patches have no order
    torch.testing.assert_close(method.logits(turned).softmax(dim=1), mean)
    torch.testing.assert_close(method.distribution(features).mean, mean @ torch.tensor([0.0, 0.5, 1.0]))


def test_features_that_are_no_patches_are_refused():
    with pytest.raises(UserError, match="n_patches must divide the number of features, but got n_patches=3, n_featur"):
        WeightedPatches(8, n_patches=3)
