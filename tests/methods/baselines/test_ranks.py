import method_checks
import pytest
import torch

from diffor.core.distribution import Steps, middle_place
from diffor.methods import METHODS
from diffor.methods.baselines.ranks import borders_passed, rank_probabilities

LOGITS = torch.tensor([[2.1, 1.8, -2.1, -1.8], [1.9, -1.0, -1.5, -1.3], [1.9, 1.8, 1.7, 1.6]])
INDEX = torch.tensor([2, 1, 4])


def with_logits_as_features(name, n_grades):
    """A method with a head that hands its features on."""
    method = METHODS[name](n_grades - 1, n_grades=n_grades)
    with torch.no_grad():
        method.head.weight.copy_(torch.eye(n_grades - 1))
        method.head.bias.zero_()
    return method


@pytest.mark.parametrize(
    ("name", "golden", "tolerance"),
    [("or-cnn", 0.6920, 5e-5), ("condor", 0.8259, 5e-5), ("condor-nll", 0.4936, 5e-5), ("corn", 0.164524, 1e-6)],
)
def test_golden_losses_of_the_borders(name, golden, tolerance):
    method = with_logits_as_features(name, 5)
    assert method.loss(LOGITS, INDEX / 4)["borders"].item() == pytest.approx(golden, abs=tolerance)
    assert (4 * method.native(method.distribution(LOGITS))).tolist() == [2, 1, 4]


def test_coral_and_corn_agree_with_the_package_of_their_authors():
    losses = pytest.importorskip("coral_pytorch.losses")
    layers, dataset = pytest.importorskip("coral_pytorch.layers"), pytest.importorskip("coral_pytorch.dataset")
    features, y = method_checks.make_rows("grades")
    levels = dataset.levels_from_labelbatch((4 * y).round().long(), num_classes=5)
    assert torch.equal(levels, borders_passed((4 * y).round().long(), 4).float())
    layer, coral = layers.CoralLayer(size_in=6, num_classes=5), METHODS["coral"](6, n_grades=5)
    assert torch.allclose(coral.head.bias, layer.coral_bias)
    with torch.no_grad():
        coral.head.direction.weight.copy_(layer.coral_weights.weight)
    assert torch.allclose(coral.logits(features), layer(features), atol=1e-6)
    theirs = losses.coral_loss(layer(features), levels).item()
    assert coral.loss(features, y)["borders"].item() == pytest.approx(theirs, abs=1e-5)
    logits = 3 * torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    index = torch.arange(40) % 7
    corn = with_logits_as_features("corn", 7)
    theirs = losses.corn_loss(logits, index, num_classes=7).item()
    assert corn.loss(logits, index / 6)["borders"].item() == pytest.approx(theirs, abs=1e-5)
    falling = logits.sort(dim=1, descending=True).values
    for method, asked, labels in (
        (METHODS["coral"](4, n_grades=7), falling, dataset.proba_to_label(falling.sigmoid())),
        (corn, logits, dataset.corn_label_from_logits(logits)),
    ):
        steps = Steps(rank_probabilities(method.above(asked)), torch.arange(7) / 6)
        assert (6 * middle_place(steps)).round().long().tolist() == labels.tolist()


def test_all_rows_of_coral_share_one_family_of_distributions():
    method = method_checks.make_method(METHODS["coral"], "grades")
    logits = method.logits(method_checks.make_rows("grades")[0])
    assert torch.allclose(logits.diff(dim=1), logits.diff(dim=1)[:1].expand(len(logits), -1), atol=1e-5)


def test_a_saturated_border_has_a_finite_loss_and_gradient():
    logits = torch.full((2, 3), 200.0, requires_grad=True)
    loss = METHODS["condor"](4, n_grades=4).penalty(logits, torch.tensor([0, 3])).sum()
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()
