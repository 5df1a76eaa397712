import method_checks
import pytest
import torch
from torch.nn.functional import cross_entropy, one_hot

from diffor.core.distribution import Steps, middle_place
from diffor.methods.baselines.bins import (
    BIN_METHODS,
    MeanVariance,
    UnimodalConcentrated,
    concentration_penalty,
    moments,
    ordinal_log_loss,
    unimodality_penalty,
)
from diffor.methods.baselines.label_distributions import (
    LABEL_DISTRIBUTION_METHODS,
    GaussianLabels,
    GaussianLabelsWithMean,
    SoftOrdinalLabels,
    SquaredSoftOrdinalLabels,
    UnifiedLabels,
    soft_cross_entropy,
    spread_labels,
)
from diffor.methods.baselines.vote_histograms import VOTE_METHODS, earth_mover_distance

METHODS = {**BIN_METHODS, **VOTE_METHODS, **LABEL_DISTRIBUTION_METHODS}
NAMES = tuple(METHODS)

LOGITS = torch.tensor([[0.2, 1.0, -0.5, 0.3, 0.0], [1.5, 0.0, 0.0, -1.0, 0.5]])
INDEX = torch.tensor([1, 3])
Y = INDEX / 4


def total(method_class, **settings):
    method = method_class(4, n_grades=5, **settings)
    return torch.stack(list(method.penalties(LOGITS, Y).values())).sum(dim=0).mean().item()


def test_golden_moments():
    mean, variance = moments(LOGITS.softmax(dim=1))
    assert mean.tolist() == pytest.approx([1.737354, 1.258903], abs=1e-6)
    assert variance.tolist() == pytest.approx([1.809441, 2.497214], abs=1e-6)
    steps = Steps(LOGITS.softmax(dim=1), torch.arange(5) / 4)
    assert (4 * middle_place(steps)).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("method_class", "settings", "golden"),
    [
        (BIN_METHODS["dex"], {}, 2.035409),
        (BIN_METHODS["cross-entropy"], {}, 2.035409),
        (MeanVariance, {}, 2.321830),
        (GaussianLabels, {"sigma": 2.0}, 1.921042),
        (GaussianLabelsWithMean, {"sigma": 2.0}, 3.160267),
        (SoftOrdinalLabels, {}, 1.986250),
        (SquaredSoftOrdinalLabels, {}, 2.012818),
        (VOTE_METHODS["nima"], {}, 0.388997),
        (BIN_METHODS["oll"], {}, 3.153152),
        (BIN_METHODS["oll"], {"exponent": 1.0}, 2.016105),
    ],
)
def test_golden_losses(method_class, settings, golden):
    assert total(method_class, **settings) == pytest.approx(golden, abs=1.5e-6)


def test_golden_divergence_of_dldl():
    labels = spread_labels(GaussianLabels(4, n_grades=5, sigma=2.0).costs(Y))
    entropy = -(labels * labels.log()).sum(dim=1)
    assert (soft_cross_entropy(LOGITS, labels) - entropy).mean().item() == pytest.approx(0.373191, abs=1e-6)


def test_golden_terms_of_unimodal():
    probabilities = LOGITS.softmax(dim=1)
    hinge, concentration = unimodality_penalty(probabilities, INDEX), concentration_penalty(probabilities, INDEX)
    assert hinge.mean().item() == pytest.approx(0.371291, abs=1e-6)
    assert concentration.mean().item() == pytest.approx(0.755647, abs=1e-6)
    terms = UnimodalConcentrated(4, n_grades=5, unimodality_weight=1000.0).penalties(LOGITS, Y)
    assert torch.allclose(terms["unimodality"], 1000 * hinge)
    assert torch.allclose(terms["concentration"], concentration)


def test_golden_squared_earth_mover():
    distance = earth_mover_distance(LOGITS.softmax(dim=1), one_hot(INDEX, 5).float())
    assert (5 * distance.square()).mean().item() == pytest.approx(0.832919, abs=1e-6)


def test_the_labels_of_uiaa_by_hand():
    ten = spread_labels(UnifiedLabels(4).costs(torch.tensor([0.5])))  # between the fifth score and the sixth
    weights = (-(torch.arange(10) - 4.5).square() / 2).exp()
    assert torch.allclose(ten[0], weights / weights.sum())
    # Three grades lie four and a half scores apart.
    three = spread_labels(UnifiedLabels(4, n_grades=3, variance=20.25).costs(torch.tensor([0.25])))
    weights = torch.tensor([-0.25, -0.25, -2.25]).exp()  # half a grade, half a grade, one and a half
    assert torch.allclose(three[0], weights / weights.sum())


@pytest.mark.parametrize(("n_bins", "sigma"), [(5, 0.5), (10, 1.0), (20, 2.0), (100, 2.0)])
def test_labels_spread_over_two_bins_but_not_over_all_grades(n_bins, sigma):
    assert GaussianLabels(4, n_grades=n_bins).sigma == GaussianLabelsWithMean(4, n_bins=n_bins).sigma == sigma


def test_labels_centre_on_the_target_not_on_its_bin():
    method = GaussianLabels(4, n_bins=20, policy="uniform")
    y = torch.tensor([0.512])
    labels = spread_labels(method.costs(y))
    assert (labels @ torch.arange(20.0)).item() == pytest.approx(0.512 * 20 - 0.5, abs=1e-3)


def test_a_peak_at_the_target_costs_no_unimodality_and_a_valley_does():
    peak = torch.tensor([[0.1, 0.2, 0.4, 0.2, 0.1]])
    assert unimodality_penalty(peak, torch.tensor([2])).item() == 0
    assert unimodality_penalty(peak, torch.tensor([4])).item() == pytest.approx(0.3)


def test_certainty_in_the_wrong_class_costs_much_but_not_infinitely():
    certain = torch.tensor([[1.0, 0.0, 0.0]])
    assert 13 < ordinal_log_loss(certain, torch.tensor([1]), 1.0).item() < 15
    assert torch.isfinite(concentration_penalty(certain, torch.tensor([2.0]))).all()
    assert earth_mover_distance(certain, certain).item() < 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_training_starts_from_the_shares_of_the_bins(name):
    method = METHODS[name](4, n_grades=3)
    method.prepare(torch.tensor([0.0, 0.0, 0.0, 0.5, 0.5, 1.0]))
    probabilities = method.distribution(torch.zeros(1, 4)).probabilities
    assert probabilities[0].tolist() == pytest.approx([4 / 9, 3 / 9, 2 / 9])


@pytest.mark.parametrize("name", NAMES)
def test_repeated_targets_leave_bins_that_get_no_probability(name):
    method = METHODS[name](6, n_bins=12, policy="quantile")
    features, y = method_checks.make_rows("grades")
    method.prepare(y)
    assert not method.binning.reachable.all()
    loss = method_checks.total_loss(method, features, y)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(method.head.weight.grad).all()
    probabilities = method.distribution(features).probabilities
    assert (probabilities[:, ~method.binning.reachable] == 0).all()


def test_decisions_of_a_grade_are_those_of_the_sources():
    steps = Steps(torch.tensor([[0.4, 0.35, 0.25]]), torch.tensor([0.0, 0.5, 1.0]))
    decisions = {name: METHODS[name](4, n_grades=3).native(steps).item() for name in NAMES}
    mean = pytest.approx(0.425)
    assert decisions["cross-entropy"] == 0.5
    assert decisions["oll"] == decisions["sord"] == decisions["sord-squared"] == 0.0
    assert [decisions[name] for name in ("dex", "dldl", "dldl-v2", "mean-variance", "unimodal", "nima", "uiaa")] == (
        [mean] * 7
    )


def test_cross_entropy_is_that_of_torch():
    method = BIN_METHODS["dex"](4, n_grades=5)
    assert torch.allclose(method.penalties(LOGITS, Y)["bins"], cross_entropy(LOGITS, INDEX, reduction="none"))
