"""The same inputs give the same losses as in packages of other people, wherever these are installed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from diffor.methods.baselines.vote_histograms import EarthMover
from torch import Tensor

from diffor.methods import METHODS
from diffor.methods.baselines.bins import OrdinalLogLoss
from diffor.methods.baselines.cumulative_links import OrderedLogit, OrderedProbit
from diffor.methods.baselines.densities import mixture_nll
from diffor.methods.baselines.label_distributions import SoftOrdinalLabels, SquaredSoftOrdinalLabels
from diffor.methods.baselines.lifetime import ziln_nll
from diffor.methods.baselines.quantiles import pinball_loss
from diffor.methods.baselines.ranks import ConditionalBorders, SharedBorders

N_ROWS, N_FEATURES, N_GRADES = 40, 6, 7
LINKS = {"ordered-logit": "logit", "ordered-probit": "probit", "ordered-cloglog": "cloglog"}


def draw(n_outputs: int = N_GRADES, scale: float = 2.0) -> tuple[Tensor, Tensor]:
    """Logits, and grades of which each occurs. **Shape:** ``(n, n_outputs)``, ``(n,)``."""
    generator = torch.Generator().manual_seed(0)
    return scale * torch.randn(N_ROWS, n_outputs, generator=generator), torch.arange(N_ROWS) % N_GRADES


def unit(grades: Tensor) -> Tensor:
    """Grades as targets in [0, 1]."""
    return grades / (N_GRADES - 1)


def same(ours: Tensor, theirs: Tensor | float) -> bool:
    return ours.item() == pytest.approx(float(torch.as_tensor(theirs).detach()), abs=1e-5, rel=1e-5)


def reading_logits(method):
    """A method of ranks whose features are its logits."""
    with torch.no_grad():
        method.head.weight.copy_(torch.eye(len(method.head.bias)))
        method.head.bias.zero_()
    return method


def with_thresholds(method):
    """A cumulative link model with thresholds and a direction of its own."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        method.score.weight.copy_(0.5 * torch.randn(1, N_FEATURES, generator=generator))
        method.first.fill_(-2.0)
        method.steps.copy_(0.3 + 0.4 * torch.rand(N_GRADES - 2, generator=generator))
    return method


# --- dlordinal ---


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_sord_is_that_of_dlordinal(alpha):
    losses = pytest.importorskip("dlordinal.losses")
    logits, grades = draw()
    method = SoftOrdinalLabels(N_FEATURES, n_grades=N_GRADES, alpha=alpha)
    theirs = losses.SORDLoss(alpha=alpha, num_classes=N_GRADES, train_targets=grades)(logits, grades)
    assert same(method.penalties(logits, unit(grades))["labels"].mean(), theirs)


@pytest.mark.parametrize(("method_class", "power"), [(SoftOrdinalLabels, 1), (SquaredSoftOrdinalLabels, 2)])
def test_exponential_soft_labels_are_those_of_dlordinal(method_class, power):
    losses = pytest.importorskip("dlordinal.losses")
    logits, grades = draw()
    method = method_class(N_FEATURES, n_grades=N_GRADES, alpha=1 / 1.5)
    theirs = losses.ExponentialLoss(torch.nn.CrossEntropyLoss(), N_GRADES, p=power, tau=1.5)(logits, grades)
    assert same(method.penalties(logits, unit(grades))["labels"].mean(), theirs)


def test_corn_is_that_of_dlordinal():
    losses = pytest.importorskip("dlordinal.losses")
    logits, grades = draw(N_GRADES - 1)
    method = reading_logits(ConditionalBorders(N_GRADES - 1, n_grades=N_GRADES))
    assert same(method.loss(logits, unit(grades))["borders"], losses.CORNLoss(N_GRADES)(logits, grades))


@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0])
def test_oll_is_the_distance_weighted_cross_entropy_of_dlordinal(exponent):
    losses = pytest.importorskip("dlordinal.losses")
    logits, grades = draw()
    method = OrdinalLogLoss(N_FEATURES, n_grades=N_GRADES, exponent=exponent)
    theirs = losses.CDWCELoss(N_GRADES, alpha=exponent)(logits, grades)
    assert same(method.penalties(logits, unit(grades))["bins"].mean(), theirs)


def test_squares_of_nima_are_the_squared_distances_of_dlordinal():
    """Theirs is the sum of squares over the classes, ours the root of their mean, row by row."""
    losses = pytest.importorskip("dlordinal.losses")
    logits, grades = draw()
    ours = EarthMover(N_FEATURES, n_grades=N_GRADES).penalties(logits, unit(grades))["earth-mover"]
    assert same(N_GRADES * ours.square().mean(), losses.EMDLoss(N_GRADES)(logits, grades))


@pytest.mark.parametrize("min_distance", [0.0, 0.25])
@pytest.mark.parametrize("name", LINKS)
def test_cumulative_links_are_those_of_dlordinal(name, min_distance):
    layers = pytest.importorskip("dlordinal.output_layers")
    features, grades = draw(N_FEATURES, scale=0.5)
    method = with_thresholds(METHODS[name](N_FEATURES, n_grades=N_GRADES, min_distance=min_distance))
    # Their differences of shares lose digits in the tails.
    layer = layers.CLM(N_GRADES, LINKS[name], min_distance=min_distance).double()
    with torch.no_grad():
        layer.thresholds_b_.copy_(method.first)
        layer.thresholds_a_.copy_(method.steps)
        theirs = layer(method.score(features).double())
    assert torch.allclose(method.distribution(features).probabilities.double(), theirs, atol=1e-5)
    chosen = theirs.gather(1, grades[:, None]).log()
    assert same(method.loss(features, unit(grades))["likelihood"], -chosen.mean())


# --- condor-pytorch ---


def test_both_losses_of_condor_are_those_of_its_authors():
    losses = pytest.importorskip("condor_pytorch.losses")
    dataset = pytest.importorskip("condor_pytorch.dataset")
    logits, grades = draw(N_GRADES - 1)
    levels = dataset.levels_from_labelbatch(grades, num_classes=N_GRADES)
    for name, theirs in (("condor", losses.CondorOrdinalCrossEntropy), ("condor-nll", losses.condor_negloglikeloss)):
        method = reading_logits(METHODS[name](N_GRADES - 1, n_grades=N_GRADES))
        assert same(method.loss(logits, unit(grades))["borders"], theirs(logits, levels))


def test_probabilities_and_decisions_of_condor_are_those_of_its_authors():
    activations = pytest.importorskip("condor_pytorch.activations")
    dataset = pytest.importorskip("condor_pytorch.dataset")
    logits, _ = draw(N_GRADES - 1)
    method = reading_logits(METHODS["condor"](N_GRADES - 1, n_grades=N_GRADES))
    distribution = method.distribution(logits)
    assert torch.allclose(distribution.probabilities, activations.ordinal_softmax(logits), atol=1e-6)
    decided = (method.native(distribution) * (N_GRADES - 1)).round().long()
    assert torch.equal(decided, dataset.logits_to_label(logits))


# --- spacecutter, deepordinal, statsmodels, mord: thresholds on one score ---


def test_the_ordered_logit_is_that_of_spacecutter():
    models, losses = pytest.importorskip("spacecutter.models"), pytest.importorskip("spacecutter.losses")
    features, grades = draw(N_FEATURES, scale=0.5)
    method = with_thresholds(OrderedLogit(N_FEATURES, n_grades=N_GRADES))
    link = models.LogisticCumulativeLink(N_GRADES)
    with torch.no_grad():
        link.cutpoints.copy_(method.thresholds)
    theirs = losses.CumulativeLinkLoss()(link(method.score(features)), grades[:, None])
    assert same(method.loss(features, unit(grades))["likelihood"], theirs)


def test_the_ordered_logit_answers_as_deepordinal():
    deepordinal = pytest.importorskip("deepordinal.torch")
    features, _ = draw(N_FEATURES, scale=0.5)
    method = with_thresholds(OrderedLogit(N_FEATURES, n_grades=N_GRADES))
    layer = deepordinal.OrdinalOutput(N_FEATURES, N_GRADES)
    with torch.no_grad():
        layer.linear.weight.copy_(method.score.weight)
        layer.linear.bias.zero_()
        layer.interior_thresholds.copy_(method.thresholds)
        assert torch.allclose(method.distribution(features).probabilities, layer(features), atol=1e-5)


def test_coral_is_the_loss_of_all_thresholds_of_deepordinal():
    deepordinal = pytest.importorskip("deepordinal.torch")
    features, grades = draw(N_FEATURES, scale=0.5)
    method = SharedBorders(N_FEATURES, n_grades=N_GRADES)
    theirs = deepordinal.ordinal_loss(method.head.direction(features), grades, -method.head.bias)
    assert same(method.loss(features, unit(grades))["borders"], theirs)


def test_coral_is_the_loss_of_all_thresholds_of_mord():
    threshold_based = pytest.importorskip("mord.threshold_based")
    features, grades = draw(N_FEATURES, scale=0.5)
    method = SharedBorders(N_FEATURES, n_grades=N_GRADES)
    direction = method.head.direction.weight[0].detach().double().numpy()
    borders = -method.head.bias.detach().double().numpy()  # their thresholds rise where our biases fall
    theirs = threshold_based.obj_margin(
        np.concatenate([direction, borders]), features.double().numpy(), grades.numpy(), alpha=0.0, n_class=N_GRADES,
        weights=np.ones((N_GRADES, N_GRADES - 1)), L=np.eye(N_GRADES - 1), sample_weight=None,
    )  # fmt: skip
    assert same(method.loss(features, unit(grades))["borders"], theirs / N_ROWS)


@pytest.mark.parametrize(("method_class", "link"), [(OrderedLogit, "logit"), (OrderedProbit, "probit")])
def test_cumulative_links_have_the_likelihood_of_statsmodels(method_class, link):
    ordinal_model = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    features, grades = draw(N_FEATURES, scale=0.5)
    method = with_thresholds(method_class(N_FEATURES, n_grades=N_GRADES))
    model = ordinal_model.OrderedModel(grades.numpy(), features.double().numpy(), distr=link)
    thresholds = method.thresholds.detach().double().numpy()
    steps = np.log(np.diff(thresholds))  # theirs rise by exponentials
    theirs = model.loglike(np.r_[method.score.weight[0].detach().double().numpy(), thresholds[0], steps])
    assert same(method.loss(features, unit(grades))["likelihood"], -theirs / N_ROWS)


# --- scikit-learn and torch, which are always there ---


def test_the_pinball_loss_is_that_of_scikit_learn():
    from sklearn.metrics import mean_pinball_loss

    quantiles, grades = draw(3)
    y, levels = unit(grades), torch.tensor([0.1, 0.5, 0.8])
    theirs = [mean_pinball_loss(y, quantiles[:, k], alpha=float(levels[k])) for k in range(3)]
    assert same(pinball_loss(y, quantiles, levels).mean(), np.mean(theirs))


def test_the_mixture_density_is_that_of_torch():
    from torch.distributions import Categorical, MixtureSameFamily, Normal

    outputs, grades = draw(9)
    logits, means, raw = outputs.chunk(3, dim=1)
    deviations = raw.exp()
    theirs = MixtureSameFamily(Categorical(logits=logits), Normal(means, deviations)).log_prob(unit(grades))
    assert torch.allclose(mixture_nll(logits, means, deviations, unit(grades)), -theirs, atol=1e-5)


def test_ziln_is_a_coin_and_the_log_normal_of_torch():
    from torch.distributions import Bernoulli, LogNormal

    outputs, grades = draw(3)
    chance, location, raw = outputs.unbind(dim=1)
    spread, y = raw.exp(), unit(grades)
    coin, amount = ziln_nll(chance, location, spread, y)
    assert torch.allclose(coin, -Bernoulli(logits=chance).log_prob((y > 0).float()), atol=1e-5)
    theirs = -LogNormal(location, spread).log_prob(y.clamp(min=1e-9))
    assert torch.allclose(amount, torch.where(y > 0, theirs, 0.0), rtol=1e-5, atol=1e-5)


# --- the environment ---


def test_the_environment_of_make_test_has_every_light_package_that_is_compared_with():
    root = Path(__file__).parents[2]
    dev = re.search(r"^dev = \[(.*?)^\]", (root / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)[1]
    for package in ("condor-pytorch", "coral-pytorch", "deepordinal", "mord", "spacecutter"):
        assert f'"{package}>=' in dev, package
    assert "--no-deps dlordinal" in (root / "Makefile").read_text()
    assert '"deprecated>=' in dev
