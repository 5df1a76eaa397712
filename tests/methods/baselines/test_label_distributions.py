"""Labels that are distributions: by hand, by votes, whole fits, and what does not fit."""

import miniatures_images
import numpy as np
import pytest
import torch

from diffor import OrdinalRegressor
from diffor.bench.peers.methods import used_by
from diffor.datasets import load_dataset
from diffor.errors import UserError
from diffor.methods.baselines.label_distributions import (
    LEAST_VARIANCE,
    EarthMover,
    GaussianLabels,
    GaussianLabelsWithMean,
    UnifiedLabels,
    soft_cross_entropy,
    spread_labels,
)

VOTES = torch.tensor([[1.0, 3.0, 0.0, 0.0], [0.0, 0.0, 5.0, 5.0], [0.0, 4.0, 0.0, 0.0]])
SHARES = VOTES / VOTES.sum(dim=1, keepdim=True)
Y = SHARES @ torch.linspace(0, 1, 4)
LEARNING_FROM_VOTES = ("nima", "uiaa", "dldl", "dldl-v2")


def test_the_labels_of_uiaa_by_hand():
    ten = spread_labels(UnifiedLabels(4).costs(torch.tensor([0.5])))  # between the fifth score and the sixth
    weights = (-(torch.arange(10) - 4.5).square() / 2).exp()
    assert torch.allclose(ten[0], weights / weights.sum())
    # Three grades lie four and a half scores apart.
    three = spread_labels(UnifiedLabels(4, n_grades=3, variance=20.25).costs(torch.tensor([0.25])))
    weights = torch.tensor([-0.25, -0.25, -2.25]).exp()  # half a grade, half a grade, one and a half
    assert torch.allclose(three[0], weights / weights.sum())


@pytest.mark.parametrize(("n_bins", "sigma"), [(5, 0.5), (20, 2.0), (100, 2.0)])
def test_labels_spread_over_two_bins_but_not_over_all_grades(n_bins, sigma):
    assert GaussianLabels(4, n_grades=n_bins).sigma == GaussianLabelsWithMean(4, n_bins=n_bins).sigma == sigma


def test_labels_centre_on_the_target_not_on_its_bin():
    labels = spread_labels(GaussianLabels(4, n_bins=20, policy="uniform").costs(torch.tensor([0.512])))
    assert (labels @ torch.arange(20.0)).item() == pytest.approx(0.512 * 20 - 0.5, abs=1e-3)


# Votes.


def prepared(method_class, **settings):
    torch.manual_seed(0)
    method = method_class(3, n_bins=4, **settings)
    method.prepare(Y, votes=VOTES)
    return method, torch.randn(3, 3)


def test_nima_is_the_distance_to_the_votes():
    method, features = prepared(EarthMover)
    loss = method.loss(features, Y, votes=VOTES)["earth-mover"]
    moved = (method.logits(features).softmax(dim=1) - SHARES).cumsum(dim=1)
    assert loss.item() == pytest.approx(moved.square().mean(dim=1).sqrt().mean().item())
    assert loss.item() != pytest.approx(method.loss(features, Y)["earth-mover"].item(), rel=1e-3)
    weights = torch.tensor([3.0, 0.0, 0.0])
    first = method.loss(features[:1], Y[:1], votes=VOTES[:1])["earth-mover"]
    assert method.loss(features, Y, weights, votes=VOTES)["earth-mover"].item() == pytest.approx(first.item())


def test_labels_of_dldl_are_the_votes():
    method, features = prepared(GaussianLabels)
    expected = soft_cross_entropy(method.logits(features), SHARES).mean()
    assert method.loss(features, Y, votes=VOTES)["labels"].item() == pytest.approx(expected.item())


def test_dldl_v2_adds_the_error_of_the_mean_score():
    method, features = prepared(GaussianLabelsWithMean, mean_weight=2.0)
    mean = method.logits(features).softmax(dim=1) @ torch.arange(4.0)
    expected = 2 * (mean - SHARES @ torch.arange(4.0)).abs().mean()
    assert method.loss(features, Y, votes=VOTES)["mean"].item() == pytest.approx(expected.item())


def test_labels_of_uiaa_have_the_mean_and_variance_of_each_pictures_votes():
    method, features = prepared(UnifiedLabels)
    mean = SHARES @ torch.arange(4.0)
    variance = (SHARES * (torch.arange(4.0) - mean[:, None]).square()).sum(dim=1).clamp(min=LEAST_VARIANCE)
    labels = (-(torch.arange(4.0) - mean[:, None]).square() / variance[:, None]).exp()
    labels = labels / labels.sum(dim=1, keepdim=True)
    expected = soft_cross_entropy(method.logits(features), labels).mean()
    assert method.loss(features, Y, votes=VOTES)["labels"].item() == pytest.approx(expected.item())
    assert labels[2, 1] > 0.999  # voters who all agree


def test_bins_become_scores_and_start_from_the_votes():
    method, _ = prepared(EarthMover)
    torch.testing.assert_close(method.binning.places, torch.linspace(0, 1, 4))
    torch.testing.assert_close(method.head.bias.softmax(dim=0), (SHARES.sum(dim=0) + 1) / 7)
    answer = method.binning.distribution(SHARES)
    torch.testing.assert_close(answer.mean, Y)


@pytest.mark.parametrize("method_class", [EarthMover, UnifiedLabels, GaussianLabels, GaussianLabelsWithMean])
def test_votes_of_weight_zero_are_not_looked_at(method_class):
    """Such rows may have no votes at all, and targets that are not the means of them."""
    method, features = prepared(method_class)
    weights, all_votes, all_y = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0]), torch.zeros(5, 4), torch.full((5,), 0.9)
    all_votes[::2], all_y[::2] = VOTES, Y
    again = method_class(3, n_bins=4)
    again.prepare(all_y, weights, votes=all_votes)
    for key in ("binning.edges", "binning.places", "head.bias"):
        assert torch.equal(again.state_dict()[key], method.state_dict()[key])
    among_others = torch.randn(5, 3)
    among_others[::2] = features
    alone = method.loss(features, Y, votes=VOTES)
    for name, term in method.loss(among_others, all_y, 5 / 3 * weights, votes=all_votes).items():
        assert term.item() == pytest.approx(alone[name].item(), rel=1e-5)


@pytest.mark.parametrize(
    ("votes", "y", "message"),
    [
        (VOTES[:, :3], Y, r"one column for each of n_bins=4 scores, but their shape is \(3, 3\); pass n_bins=3"),
        (VOTES[0], Y, r"their shape is \(4,\); pass n_bins=10"),
        (-VOTES, Y, "votes must be counts"),
        (0 * VOTES, Y, "at least one in each row"),
        (VOTES, 1 - Y, r"must be the means of their votes.* differ by up to .*pass bounds=\(1, 4\)"),
    ],
)
def test_votes_that_do_not_fit_are_refused(votes, y, message):
    with pytest.raises(UserError, match=message):
        EarthMover(3, n_bins=4).prepare(y, votes=votes)


def voted_rows(n=300, seed=0):
    """Rows whose votes from 1 to 10 centre on what the first column says."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    chances = np.exp(-0.5 * ((np.arange(1, 11) - 5.5 - 1.5 * X[:, :1]) / 1.3) ** 2)
    votes = np.stack([rng.multinomial(60, row / row.sum()) for row in chances]).astype(float)
    return X, votes @ np.arange(1, 11) / 60, votes


@pytest.mark.parametrize("name", LEARNING_FROM_VOTES)
def test_an_estimator_learns_how_people_vote(name):
    X, y, votes = voted_rows()
    settings = {"n_bins": 10} if name.startswith("dldl") else {}
    model = OrdinalRegressor(
        name, method_settings=settings, preset="fast", bounds=(1, 10), max_steps=100, random_state=0, verbose=0
    ).fit(X[:200], y[:200], votes=votes[:200])
    answers = model.predict(X[200:], "mean")  # predictions need no votes
    assert np.abs(answers - y[200:]).mean() < 0.5 * np.abs(y[:200].mean() - y[200:]).mean()
    spread = model.predict_distribution(X[200:]).std.mean()
    assert spread > 0.7  # of a vote, whose deviation is 1.3, not of the mean of sixty
    np.testing.assert_array_equal(model.predict(X[200:], "mean", votes=votes[200:]), answers)


def test_votes_go_with_validation_rows_or_without():
    X, y, votes = voted_rows(120)
    model = OrdinalRegressor("nima", preset="fast", bounds=(1, 10), max_steps=10, random_state=0, verbose=0)
    for beside in ({}, {"votes_val": votes[80:]}):
        model.fit(X[:80], y[:80], X_val=X[80:], y_val=y[80:], votes=votes[:80], **beside)
    with pytest.raises(UserError, match="votes must have one value per row, 80, but got 79"):
        model.fit(X[:80], y[:80], votes=votes[:79])
    broken = votes.copy()
    broken[7, 3] = np.nan
    with pytest.raises(UserError, match="votes must be finite, but row 7"):
        model.fit(X, y, votes=broken)
    with pytest.raises(TypeError, match=r"'corn' must be given side columns that it uses, but got 'votes'"):
        OrdinalRegressor("corn", verbose=0).fit(X, y, votes=votes)


def test_the_votes_of_ava_reach_the_methods(tmp_path):
    samples = load_dataset("ava", miniatures_images.write_ava(tmp_path))
    for name in LEARNING_FROM_VOTES:
        assert list(used_by(name, samples.side)) == ["votes"]
    assert used_by("or-cnn", samples.side) == {}
    method = EarthMover(2)
    y = torch.from_numpy((samples.y - 1) / 9).float()
    method.prepare(y, votes=torch.from_numpy(samples.side["votes"]).float())
    torch.testing.assert_close(method.binning.places, torch.linspace(0, 1, 10))
