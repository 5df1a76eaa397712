import method_checks
import pytest
import torch

from diffor.core.distribution import Bins, Steps
from diffor.methods import METHODS
from diffor.methods.baselines.binning import BinnedMethod, Binning

BINNED = {name: method for name, method in METHODS.items() if issubclass(method, BinnedMethod)}
STARTING = [name for name in BINNED if name not in ("ord2seq", "poe", "mpada")]
"""Methods whose answer to features of zero is what their biases say."""


def test_grades_are_read_from_their_places_which_fitting_leaves_alone():
    binning = Binning(7, "grades")
    y = torch.arange(7) / 6
    binning.fit(torch.tensor([0.0, 0.0, 1.0]))
    assert binning.index(y).tolist() == list(range(7))
    assert torch.equal(binning.places, y)
    assert torch.allclose(binning.edges[1:-1], (y[1:] + y[:-1]) / 2)
    assert torch.allclose(binning.position(y), torch.arange(7.0))
    assert isinstance(binning.distribution(torch.full((2, 7), 1 / 7)), Steps)


def test_uniform_bins_stand_for_their_training_means_or_their_middles():
    binning = Binning(4, "uniform")
    binning.fit(torch.tensor([0.0, 0.1, 0.25, 0.9, 1.0]))
    assert binning.edges.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert torch.allclose(binning.places, torch.tensor([0.05, 0.25, 0.625, 0.95]))
    assert binning.index(torch.tensor([0.0, 0.249, 0.25, 0.75, 1.0])).tolist() == [0, 0, 1, 3, 3]
    assert binning.reachable.all()


def test_quantile_bins_hold_equally_many_targets():
    y = torch.rand(1000, generator=torch.Generator().manual_seed(0)) ** 3
    binning = Binning(10, "quantile")
    binning.fit(y)
    counts = torch.bincount(binning.index(y), minlength=10)
    assert counts.min() >= 99
    assert counts.max() <= 101
    assert (binning.edges[0], binning.edges[-1]) == (y.min(), y.max())
    means = torch.stack([y[binning.index(y) == k].mean() for k in range(10)])
    assert torch.allclose(binning.places, means)


def test_repeated_targets_leave_unreachable_bins_at_the_end():
    y = torch.cat([torch.zeros(90), torch.linspace(0.1, 1, 10)])
    binning = Binning(10, "quantile")
    binning.fit(y)
    n_reachable = int(binning.reachable.sum())
    assert 0 < n_reachable < 10
    assert binning.reachable[:n_reachable].all()
    assert (binning.edges[n_reachable:] == 1).all()
    assert int(binning.index(y).max()) == binning.index(torch.tensor([1.0])).item() == n_reachable - 1
    masked = binning.mask(torch.zeros(1, 10)).softmax(dim=1)[0]
    assert torch.allclose(masked[:n_reachable], torch.tensor(1 / n_reachable))
    assert (masked[n_reachable:] == 0).all()
    probabilities = torch.rand(3, 10).softmax(dim=1)
    distribution = binning.distribution(probabilities)
    assert isinstance(distribution, Bins)
    kept = probabilities * binning.reachable
    assert torch.allclose(distribution.mean, kept / kept.sum(dim=1, keepdim=True) @ binning.places)


def test_more_bins_than_rows_and_constant_targets_work():
    few = Binning(50, "quantile")
    few.fit(torch.tensor([0.2, 0.4, 0.9]))
    assert few.index(torch.tensor([0.2, 0.4, 0.9])).tolist() == [0, 1, 1]
    constant = Binning(5, "quantile")
    constant.fit(torch.full((20,), 0.3))
    assert constant.reachable.tolist() == [True, False, False, False, False]
    assert constant.index(torch.tensor([0.0, 0.3, 1.0])).tolist() == [0, 0, 0]
    assert constant.position(torch.tensor([0.3])).tolist() == [0.0]
    # Probability in unreachable bins alone goes to the last one before.
    distribution = constant.distribution(torch.tensor([[0.0, 0.0, 0.0, 0.5, 0.5]]))
    assert distribution.probabilities.tolist() == [[1.0, 0.0, 0.0, 0.0, 0.0]]
    assert distribution.quantile(torch.tensor([0.01, 0.5, 0.99])).tolist() == [[pytest.approx(0.3)] * 3]


def test_what_lies_beyond_the_edges_counts_in_the_outer_bins():
    binning = Binning(3, "quantile")
    binning.fit(torch.tensor([0.4, 0.5, 0.6, 0.7]))
    assert binning.index(torch.tensor([0.0, 1.0])).tolist() == [0, 2]
    assert binning.position(torch.tensor([0.0, 1.0])).tolist() == [-0.5, 2.5]


@pytest.mark.parametrize("policy", ["uniform", "quantile"])
def test_positions_rise_with_the_target_and_agree_with_the_index(policy):
    y = torch.rand(500, generator=torch.Generator().manual_seed(1)).sort().values
    binning = Binning(12, policy)
    binning.fit(y)
    position = binning.position(y)
    assert (position.diff() >= 0).all()
    assert ((position - binning.index(y)).abs() <= 0.5).all()


@pytest.mark.parametrize("name", STARTING)
def test_training_starts_from_the_shares_of_the_bins_as_if_each_held_one_more(name):
    method = BINNED[name](4, n_grades=4)
    method.prepare(torch.tensor([0.0, 0.0, 0.0, 1 / 3, 1 / 3, 1.0]))
    probabilities = method.distribution(torch.zeros(1, 4)).probabilities
    assert probabilities[0].tolist() == pytest.approx([0.4, 0.3, 0.1, 0.2], abs=1e-5)


@pytest.mark.parametrize("name", BINNED)
def test_repeated_targets_leave_bins_that_get_no_probability(name):
    method = BINNED[name](8, n_bins=12, policy="quantile")
    features, y = torch.randn(64, 8), method_checks.make_rows("grades")[1]
    method.prepare(y)
    assert not method.binning.reachable.all()
    loss = method_checks.total_loss(method, features, y)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(parameter.grad).all() for parameter in method.parameters())
    probabilities = method.distribution(features).probabilities
    assert (probabilities[:, ~method.binning.reachable] == 0).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Binning(3, "equal"), "policy must be one of grades, uniform, quantile, but got policy='equal'"),
        (lambda: Binning(1, "uniform"), "at least 2 bins or grades, but got 1"),
        (lambda: METHODS["dex"](3, policy="grades"), "needs the number of grades, but got n_grades=None; pass n_grad"),
    ],
)
def test_refusals_say_what_was_wrong(build, message):
    with pytest.raises(ValueError, match=message):
        build()
