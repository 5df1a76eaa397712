"""The same inputs give the same losses as in packages of other people, wherever these are installed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, LogNormal, MixtureSameFamily, Normal

from diffor.methods import METHODS
from diffor.methods.baselines.densities import mixture_nll
from diffor.methods.baselines.lifetime import ziln_nll
from diffor.methods.baselines.quantiles import pinball_loss

N_ROWS, N_FEATURES, N_GRADES = 40, 6, 7
GRADES = torch.arange(N_ROWS) % N_GRADES
Y = GRADES / (N_GRADES - 1)
LINKS = {"ordered-logit": "logit", "ordered-probit": "probit", "ordered-cloglog": "cloglog"}


def draw(n_outputs: int = N_GRADES, scale: float = 2.0) -> Tensor:
    """Logits or features. **Shape:** ``(n, n_outputs)``."""
    return scale * torch.randn(N_ROWS, n_outputs, generator=torch.Generator().manual_seed(0))


def make(name: str, n_features: int = N_FEATURES, **settings):
    return METHODS[name](n_features, n_grades=N_GRADES, **settings)


def same(ours: Tensor, theirs: Tensor | float) -> bool:
    return ours.item() == pytest.approx(float(torch.as_tensor(theirs).detach()), abs=1e-5, rel=1e-5)


def reading_logits(name: str):
    """A method of ranks whose features are its logits."""
    method = make(name, N_GRADES - 1)
    with torch.no_grad():
        method.head.weight.copy_(torch.eye(N_GRADES - 1))
        method.head.bias.zero_()
    return method


def with_thresholds(name: str, **settings):
    """A cumulative link model with thresholds and a direction of its own."""
    method, generator = make(name, **settings), torch.Generator().manual_seed(1)
    with torch.no_grad():
        method.score.weight.copy_(0.5 * torch.randn(1, N_FEATURES, generator=generator))
        method.first.fill_(-2.0)
        method.steps.copy_(0.3 + 0.4 * torch.rand(N_GRADES - 2, generator=generator))
    return method


# --- dlordinal ---


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_sord_is_that_of_dlordinal(alpha):
    losses = pytest.importorskip("dlordinal.losses")
    ours = make("sord", alpha=alpha).penalties(draw(), Y)["labels"].mean()
    assert same(ours, losses.SORDLoss(alpha=alpha, num_classes=N_GRADES, train_targets=GRADES)(draw(), GRADES))
    for name, power in (("sord", 1), ("sord-squared", 2)):
        theirs = losses.ExponentialLoss(torch.nn.CrossEntropyLoss(), N_GRADES, p=power, tau=1 / alpha)(draw(), GRADES)
        assert same(make(name, alpha=alpha).penalties(draw(), Y)["labels"].mean(), theirs)


def test_corn_oll_and_nima_are_those_of_dlordinal():
    losses = pytest.importorskip("dlordinal.losses")
    logits = draw(N_GRADES - 1)
    assert same(reading_logits("corn").loss(logits, Y)["borders"], losses.CORNLoss(N_GRADES)(logits, GRADES))
    for exponent in (1.0, 2.0):
        theirs = losses.CDWCELoss(N_GRADES, alpha=exponent)(draw(), GRADES)
        assert same(make("oll", exponent=exponent).penalties(draw(), Y)["bins"].mean(), theirs)
    # Their distance is the sum of squares over the classes, ours the root of their mean, row by row.
    ours = make("nima").penalties(draw(), Y)["earth-mover"]
    assert same(N_GRADES * ours.square().mean(), losses.EMDLoss(N_GRADES)(draw(), GRADES))


@pytest.mark.parametrize("min_distance", [0.0, 0.25])
@pytest.mark.parametrize("name", LINKS)
def test_cumulative_links_are_those_of_dlordinal(name, min_distance):
    layers = pytest.importorskip("dlordinal.output_layers")
    features, method = draw(N_FEATURES, scale=0.5), with_thresholds(name, min_distance=min_distance)
    # Their differences of shares lose digits in the tails.
    layer = layers.CLM(N_GRADES, LINKS[name], min_distance=min_distance).double()
    with torch.no_grad():
        layer.thresholds_b_.copy_(method.first)
        layer.thresholds_a_.copy_(method.steps)
        theirs = layer(method.score(features).double())
    assert torch.allclose(method.distribution(features).probabilities.double(), theirs, atol=1e-5)
    assert same(method.loss(features, Y)["likelihood"], -theirs.gather(1, GRADES[:, None]).log().mean())


# --- condor-pytorch ---


def test_condor_is_that_of_its_authors():
    losses = pytest.importorskip("condor_pytorch.losses")
    dataset = pytest.importorskip("condor_pytorch.dataset")
    activations = pytest.importorskip("condor_pytorch.activations")
    logits = draw(N_GRADES - 1)
    levels = dataset.levels_from_labelbatch(GRADES, num_classes=N_GRADES)
    for name, theirs in (("condor", losses.CondorOrdinalCrossEntropy), ("condor-nll", losses.condor_negloglikeloss)):
        method = reading_logits(name)
        assert same(method.loss(logits, Y)["borders"], theirs(logits, levels))
    distribution = method.distribution(logits)
    assert torch.allclose(distribution.probabilities, activations.ordinal_softmax(logits), atol=1e-6)
    decided = (method.native(distribution) * (N_GRADES - 1)).round().long()
    assert torch.equal(decided, dataset.logits_to_label(logits))


# --- spacecutter, deepordinal, statsmodels, mord: thresholds on one score ---


def test_the_ordered_logit_is_that_of_spacecutter():
    models, losses = pytest.importorskip("spacecutter.models"), pytest.importorskip("spacecutter.losses")
    features, method = draw(N_FEATURES, scale=0.5), with_thresholds("ordered-logit")
    link = models.LogisticCumulativeLink(N_GRADES)
    with torch.no_grad():
        link.cutpoints.copy_(method.thresholds)
    theirs = losses.CumulativeLinkLoss()(link(method.score(features)), GRADES[:, None])
    assert same(method.loss(features, Y)["likelihood"], theirs)


def test_the_ordered_logit_and_coral_are_those_of_deepordinal():
    deepordinal = pytest.importorskip("deepordinal.torch")
    features, method = draw(N_FEATURES, scale=0.5), with_thresholds("ordered-logit")
    layer = deepordinal.OrdinalOutput(N_FEATURES, N_GRADES)
    with torch.no_grad():
        layer.linear.weight.copy_(method.score.weight)
        layer.linear.bias.zero_()
        layer.interior_thresholds.copy_(method.thresholds)
        assert torch.allclose(method.distribution(features).probabilities, layer(features), atol=1e-5)
    coral = make("coral")
    theirs = deepordinal.ordinal_loss(coral.head.direction(features), GRADES, -coral.head.bias)
    assert same(coral.loss(features, Y)["borders"], theirs)


def test_coral_is_the_loss_of_all_thresholds_of_mord():
    threshold_based = pytest.importorskip("mord.threshold_based")
    features, method = draw(N_FEATURES, scale=0.5), make("coral")
    direction = method.head.direction.weight[0].detach().double().numpy()
    borders = -method.head.bias.detach().double().numpy()  # their thresholds rise where our biases fall
    theirs = threshold_based.obj_margin(
        np.concatenate([direction, borders]), features.double().numpy(), GRADES.numpy(), alpha=0.0, n_class=N_GRADES,
        weights=np.ones((N_GRADES, N_GRADES - 1)), L=np.eye(N_GRADES - 1), sample_weight=None,
    )  # fmt: skip
    assert same(method.loss(features, Y)["borders"], theirs / N_ROWS)


@pytest.mark.parametrize("name", ["ordered-logit", "ordered-probit"])
def test_cumulative_links_have_the_likelihood_of_statsmodels(name):
    ordinal_model = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    features, method = draw(N_FEATURES, scale=0.5), with_thresholds(name)
    model = ordinal_model.OrderedModel(GRADES.numpy(), features.double().numpy(), distr=LINKS[name])
    thresholds = method.thresholds.detach().double().numpy()
    steps = np.log(np.diff(thresholds))  # theirs rise by exponentials
    theirs = model.loglike(np.r_[method.score.weight[0].detach().double().numpy(), thresholds[0], steps])
    assert same(method.loss(features, Y)["likelihood"], -theirs / N_ROWS)


# --- scikit-learn and torch, which are always there ---


def test_the_pinball_loss_is_that_of_scikit_learn():
    from sklearn.metrics import mean_pinball_loss

    quantiles, levels = draw(3), torch.tensor([0.1, 0.5, 0.8])
    theirs = [mean_pinball_loss(Y, quantiles[:, k], alpha=float(levels[k])) for k in range(3)]
    assert same(pinball_loss(Y, quantiles, levels).mean(), np.mean(theirs))


def test_densities_are_those_of_torch():
    logits, means, raw = draw(9).chunk(3, dim=1)
    theirs = MixtureSameFamily(Categorical(logits=logits), Normal(means, raw.exp())).log_prob(Y)
    assert torch.allclose(mixture_nll(logits, means, raw.exp(), Y), -theirs, atol=1e-5)
    chance, location, raw = draw(3).unbind(dim=1)
    coin, amount = ziln_nll(chance, location, raw.exp(), Y)
    assert torch.allclose(coin, -Bernoulli(logits=chance).log_prob((Y > 0).float()), atol=1e-5)
    theirs = -LogNormal(location, raw.exp()).log_prob(Y.clamp(min=1e-9))
    assert torch.allclose(amount, torch.where(Y > 0, theirs, 0.0), rtol=1e-5, atol=1e-5)


# --- the environment ---


def test_the_environment_of_make_test_has_every_light_package_that_is_compared_with():
    root = Path(__file__).parents[2]
    dev = re.search(r"^dev = \[(.*?)^\]", (root / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)[1]
    for package in ("condor-pytorch", "coral-pytorch", "deepordinal", "mord", "spacecutter"):
        assert f'"{package}>=' in dev, package
    assert "--no-deps dlordinal" in (root / "Makefile").read_text()
    assert '"deprecated>=' in dev
