import method_checks
import numpy as np
import pytest
import torch
from scipy.stats import norm

from diffor.core.distribution import Steps, middle_place
from diffor.methods.baselines.cumulative_links import (
    CUMULATIVE_LINK_METHODS,
    LINKS,
    OrderedLogit,
    inverse_link,
    rank_log_probabilities,
)
from diffor.methods.baselines.ranks import (
    RANK_METHODS,
    ConditionalBorders,
    SharedBorders,
    borders_passed,
    conditional_penalty,
    cumulative_penalty,
    marginal_penalty,
    rank_probabilities,
)

METHODS = {**RANK_METHODS, **CUMULATIVE_LINK_METHODS}
NAMES = tuple(METHODS)

LOGITS = torch.tensor([[2.1, 1.8, -2.1, -1.8], [1.9, -1.0, -1.5, -1.3], [1.9, 1.8, 1.7, 1.6]])
INDEX = torch.tensor([2, 1, 4])


@pytest.mark.parametrize("name", NAMES)
def test_training_starts_from_the_shares_of_the_ranks(name):
    method = METHODS[name](4, n_grades=4)
    method.prepare(torch.tensor([0.0, 0.0, 0.0, 1 / 3, 1 / 3, 1.0]))
    probabilities = method.distribution(torch.zeros(1, 4)).probabilities
    assert probabilities[0].tolist() == pytest.approx([0.4, 0.3, 0.1, 0.2], abs=1e-5)


def test_golden_losses_of_the_borders():
    assert cumulative_penalty(LOGITS, INDEX).mean().item() == pytest.approx(0.6920, abs=5e-5)
    assert marginal_penalty(LOGITS, INDEX).mean().item() == pytest.approx(0.8259, abs=5e-5)
    assert conditional_penalty(LOGITS, INDEX).mean().item() == pytest.approx(0.4936, abs=5e-5)


def with_logits_as_features(method):
    """The same method with a head that hands its features on."""
    with torch.no_grad():
        method.head.weight.copy_(torch.eye(len(method.head.weight)))
        method.head.bias.zero_()
    return method


@pytest.mark.parametrize(
    ("name", "golden", "tolerance"),
    [("or-cnn", 0.6920, 5e-5), ("condor", 0.8259, 5e-5), ("condor-nll", 0.4936, 5e-5), ("corn", 0.164524, 1e-6)],
)
def test_golden_losses_and_decisions_of_the_methods(name, golden, tolerance):
    method = with_logits_as_features(METHODS[name](4, n_grades=5))
    assert method.loss(LOGITS, INDEX / 4)["borders"].item() == pytest.approx(golden, abs=tolerance)
    assert (4 * method.native(method.distribution(LOGITS))).tolist() == [2, 1, 4]


def test_golden_likelihood_of_the_cumulative_link():
    log_probabilities = rank_log_probabilities(torch.tensor([0.4, -1.0]), torch.tensor([-1.0, 0.0, 0.5, 2.0]), "logit")
    chosen = log_probabilities.gather(1, torch.tensor([[1], [3]]))
    assert -chosen.mean().item() == pytest.approx(1.797295, abs=1e-6)


def test_losses_agree_with_the_package_of_the_authors():
    losses = pytest.importorskip("coral_pytorch.losses")
    dataset = pytest.importorskip("coral_pytorch.dataset")
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(40, 6, generator=generator)
    index = torch.randint(0, 7, (40,), generator=generator)
    levels = dataset.levels_from_labelbatch(index, num_classes=7)
    assert torch.equal(levels, borders_passed(index, 7).float())
    coral = losses.coral_loss(logits, levels)
    assert cumulative_penalty(logits, index).mean().item() == pytest.approx(coral.item(), abs=1e-5)
    method = with_logits_as_features(ConditionalBorders(6, n_grades=7))
    corn = losses.corn_loss(logits, index, num_classes=7)
    assert method.loss(logits, index / 6)["borders"].item() == pytest.approx(corn.item(), abs=1e-5)


def test_the_outputs_of_coral_agree_with_the_layer_of_the_authors():
    layers = pytest.importorskip("coral_pytorch.layers")
    losses = pytest.importorskip("coral_pytorch.losses")
    layer = layers.CoralLayer(size_in=6, num_classes=5)
    method = SharedBorders(6, n_grades=5)
    assert torch.allclose(method.head.bias, layer.coral_bias)
    with torch.no_grad():
        method.head.direction.weight.copy_(layer.coral_weights.weight)
    features, y = method_checks.make_rows("grades")
    assert torch.allclose(method.logits(features), layer(features), atol=1e-6)
    levels = borders_passed((4 * y).round().long(), 5).float()
    assert method.loss(features, y)["borders"].item() == pytest.approx(
        losses.coral_loss(layer(features), levels).item(), abs=1e-5
    )


def test_probabilities_and_decisions_agree_with_the_package_of_the_authors():
    dataset = pytest.importorskip("coral_pytorch.dataset")
    generator = torch.Generator().manual_seed(1)
    logits = 2 * torch.randn(40, 6, generator=generator)
    falling = logits.sort(dim=1, descending=True).values
    coral = METHODS["coral"](4, n_grades=7)
    steps = Steps(rank_probabilities(coral.above(falling)), torch.arange(7) / 6)
    labels = dataset.proba_to_label(falling.sigmoid())
    assert (6 * middle_place(steps)).round().long().tolist() == labels.tolist()
    corn = METHODS["corn"](4, n_grades=7)
    steps = Steps(rank_probabilities(corn.above(logits)), torch.arange(7) / 6)
    labels = dataset.corn_label_from_logits(logits)
    assert (6 * middle_place(steps)).round().long().tolist() == labels.tolist()


def test_probabilities_that_rise_between_borders_are_cut():
    probabilities = rank_probabilities(torch.tensor([[0.9, 0.3, 0.6, 0.2]]))
    assert probabilities[0].tolist() == pytest.approx([0.1, 0.6, 0.0, 0.1, 0.2])


def test_all_rows_of_coral_share_one_family_of_distributions():
    method = method_checks.make_method(METHODS["coral"], "grades")
    logits = method.logits(method_checks.make_rows("grades")[0])
    assert torch.allclose(logits.diff(dim=1), logits.diff(dim=1)[:1].expand(len(logits), -1), atol=1e-5)


@pytest.mark.parametrize("link", LINKS)
def test_links_agree_with_differences_of_their_functions(link):
    functions = {
        "logit": lambda x: 1 / (1 + np.exp(-x)),
        "probit": norm.cdf,
        "cloglog": lambda x: 1 - np.exp(-np.exp(x)),
    }
    score, thresholds = np.array([-1.3, 0.0, 0.8]), np.array([-1.5, -0.2, 0.1, 1.4])
    cumulative = functions[link](thresholds - score[:, None])
    expected = np.diff(cumulative, axis=1, prepend=0, append=1)
    answer = rank_log_probabilities(torch.tensor(score), torch.tensor(thresholds), link)
    assert answer.exp().numpy() == pytest.approx(expected)
    assert torch.allclose(inverse_link(torch.tensor(cumulative), link), torch.tensor(thresholds - score[:, None]))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("score", [-50.0, -9.0, 9.0, 50.0])
def test_likelihoods_and_their_gradients_are_finite_far_in_the_tails(link, score):
    scores = torch.tensor([score], requires_grad=True)
    log_probabilities = rank_log_probabilities(scores, torch.tensor([-1.0, 0.0, 1.0]), link)
    assert torch.isfinite(log_probabilities).all()
    assert (log_probabilities <= 0).all()
    for rank in range(4):
        (gradient,) = torch.autograd.grad(log_probabilities[0, rank], scores, retain_graph=True)
        assert torch.isfinite(gradient).all()


def test_a_hopeless_row_still_pulls_its_score_back():
    method = OrderedLogit(1, n_grades=3)
    method.prepare(torch.tensor([0.0, 0.5, 1.0]))
    with torch.no_grad():
        method.score.weight.fill_(40.0)
    method.loss(torch.tensor([[1.0]]), torch.tensor([0.0]))["likelihood"].backward()
    assert method.score.weight.grad.item() == pytest.approx(1.0, abs=1e-3)


def test_thresholds_rise_by_the_least_distance():
    method = OrderedLogit(2, n_grades=6, min_distance=0.1)
    with torch.no_grad():
        method.steps.zero_()
    assert method.thresholds.diff().tolist() == pytest.approx([0.1] * 4)


def test_a_saturated_border_has_a_finite_loss_and_gradient():
    logits = torch.full((2, 3), 200.0, requires_grad=True)
    loss = marginal_penalty(logits, torch.tensor([0, 3])).sum()
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("name", NAMES)
def test_repeated_targets_leave_ranks_that_get_no_probability(name):
    method = METHODS[name](6, n_bins=12, policy="quantile")
    features, y = method_checks.make_rows("grades")
    method.prepare(y)
    loss = method_checks.total_loss(method, features, y)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(parameter.grad).all() for parameter in method.parameters())
    probabilities = method.distribution(features).probabilities
    assert (probabilities[:, ~method.binning.reachable] == 0).all()
