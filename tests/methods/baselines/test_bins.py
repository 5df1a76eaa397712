import pytest
import torch
from torch.nn.functional import cross_entropy

from diffor.core.distribution import Steps, middle_place
from diffor.errors import UserError
from diffor.methods import METHODS
from diffor.methods.baselines.binning import moments
from diffor.methods.baselines.bins import OrdinalLogLoss, UnimodalConcentrated, WeightedPatches
from diffor.methods.baselines.label_distributions import GaussianLabels, soft_cross_entropy, spread_labels

LOGITS = torch.tensor([[0.2, 1.0, -0.5, 0.3, 0.0], [1.5, 0.0, 0.0, -1.0, 0.5]])
INDEX = torch.tensor([1, 3])
Y = INDEX / 4


def test_golden_moments():
    mean, variance = moments(LOGITS.softmax(dim=1))
    assert mean.tolist() == pytest.approx([1.737354, 1.258903], abs=1e-6)
    assert variance.tolist() == pytest.approx([1.809441, 2.497214], abs=1e-6)
    steps = Steps(LOGITS.softmax(dim=1), torch.arange(5) / 4)
    assert (4 * middle_place(steps)).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "settings", "golden"),
    [
        ("dex", {}, 2.035409),
        ("cross-entropy", {}, 2.035409),
        ("mean-variance", {}, 2.321830),
        ("dldl", {"sigma": 2.0}, 1.921042),
        ("dldl-v2", {"sigma": 2.0}, 3.160267),
        ("sord", {}, 1.986250),
        ("sord-squared", {}, 2.012818),
        ("nima", {}, 0.388997),
        ("oll", {}, 3.153152),
        ("oll", {"exponent": 1.0}, 2.016105),
    ],
)
def test_golden_losses(name, settings, golden):
    terms = METHODS[name](4, n_grades=5, **settings).penalties(LOGITS, Y)
    assert sum(terms.values()).mean().item() == pytest.approx(golden, abs=1.5e-6)


def test_golden_divergence_of_dldl():
    labels = spread_labels(GaussianLabels(4, n_grades=5, sigma=2.0).costs(Y))
    entropy = -(labels * labels.log()).sum(dim=1)
    assert (soft_cross_entropy(LOGITS, labels) - entropy).mean().item() == pytest.approx(0.373191, abs=1e-6)


def test_golden_terms_of_unimodal():
    terms = UnimodalConcentrated(4, n_grades=5, unimodality_weight=1000.0).penalties(LOGITS, Y)
    assert terms["unimodality"].mean().item() == pytest.approx(371.291, abs=1e-3)
    assert terms["concentration"].mean().item() == pytest.approx(0.755647, abs=1e-6)


def test_golden_squared_earth_mover():
    distance = METHODS["nima"](4, n_grades=5).penalties(LOGITS, Y)["earth-mover"]
    assert (5 * distance.square()).mean().item() == pytest.approx(0.832919, abs=1e-6)


def test_a_peak_at_the_target_costs_no_unimodality_and_a_valley_does():
    method, peak = (
        UnimodalConcentrated(4, n_grades=5, unimodality_weight=1.0),
        torch.tensor([[0.1, 0.2, 0.4, 0.2, 0.1]]),
    )
    costs = [method.penalties(peak.log(), torch.tensor([y]))["unimodality"].item() for y in (0.5, 1.0)]
    assert costs == pytest.approx([0, 0.3], abs=1e-6)


def test_certainty_in_the_wrong_class_costs_much_but_not_infinitely():
    certain = torch.tensor([[100.0, 0.0, 0.0]])
    assert 13 < OrdinalLogLoss(4, n_grades=3, exponent=1.0).penalties(certain, torch.tensor([0.5]))["bins"].item() < 15
    terms = UnimodalConcentrated(4, n_grades=3).penalties(certain, torch.tensor([1.0]))
    assert torch.isfinite(terms["concentration"]).all()
    assert METHODS["nima"](4, n_grades=3).penalties(certain, torch.zeros(1))["earth-mover"].item() < 1e-4


def test_decisions_of_a_grade_are_those_of_the_sources():
    steps, mean = Steps(torch.tensor([[0.4, 0.35, 0.25]]), torch.tensor([0.0, 0.5, 1.0])), pytest.approx(0.425)
    expected = {"cross-entropy": 0.5, "oll": 0.0, "sord": 0.0, "sord-squared": 0.0, "dex": mean, "dldl": mean,
                "dldl-v2": mean, "mean-variance": mean, "unimodal": mean, "nima": mean, "uiaa": mean}  # fmt: skip
    assert {name: METHODS[name](4, n_grades=3).native(steps).item() for name in expected} == expected


# MPada: patches that learn for themselves, the wrong ones most.


def make_patches(**settings):
    torch.manual_seed(0)
    method = WeightedPatches(8, n_grades=3, **settings)
    y = torch.tensor([0.0, 0.5, 1.0])
    method.prepare(y)
    return method, torch.randn(3, 8), y


def test_the_loss_of_patches_by_hand():
    method, features, y = make_patches(sharpness=2.0)
    total = torch.zeros(())
    for row in range(3):
        for patch in range(4):
            logits = method.head(features[row, 2 * patch : 2 * patch + 2])
            right = logits.softmax(dim=0)[row].detach()
            total = total + (1 - right**2) * cross_entropy(logits[None], torch.tensor([row]))
    assert method.loss(features, y)["patches"].item() == pytest.approx(total.item() / 12, rel=1e-5)


def test_misclassified_patches_count_most_and_their_weight_has_no_gradient():
    logits = torch.tensor([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    counted = make_patches()[0].attention(logits, torch.zeros(3, dtype=torch.int64))
    assert counted[1] > counted[2] > counted[0] > 0
    assert not counted.requires_grad
    assert make_patches(sharpness=0.0)[0].attention(logits, torch.zeros(3, dtype=torch.int64)).tolist() == [1, 1, 1]


def test_the_answer_is_the_mean_over_the_patches():
    method, features, _ = make_patches()
    mean = method.patch_logits(features).softmax(dim=2).mean(dim=1)
    torch.testing.assert_close(method.logits(features).softmax(dim=1), mean)
    turned = features.view(3, 4, 2).flip(1).reshape(3, 8)  # patches have no order
    torch.testing.assert_close(method.logits(turned).softmax(dim=1), mean)


def test_features_that_are_no_patches_are_refused():
    with pytest.raises(UserError, match="n_patches must divide the number of features, but got n_patches=3, n_featur"):
        WeightedPatches(8, n_patches=3)
