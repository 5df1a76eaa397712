import pytest
import torch

from diffor.core.distribution import Bins, Steps
from diffor.methods.baselines.binning import Binning, make_binning


def test_grades_are_read_from_their_places():
    binning = Binning(7, "grades")
    y = torch.arange(7) / 6
    binning.fit(y)
    assert binning.index(y).tolist() == list(range(7))
    assert torch.equal(binning.places, y)
    assert torch.allclose(binning.position(y), torch.arange(7.0))
    assert isinstance(binning.distribution(torch.full((2, 7), 1 / 7)), Steps)


def test_fitting_leaves_grades_alone_even_where_some_are_missing():
    binning = Binning(4, "grades")
    before = binning.edges.clone(), binning.places.clone()
    binning.fit(torch.tensor([0.0, 0.0, 1.0]))
    assert torch.equal(binning.edges, before[0])
    assert torch.equal(binning.places, before[1])


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
    assert binning.edges[0] == y.min()
    assert binning.edges[-1] == y.max()
    means = torch.stack([y[binning.index(y) == k].mean() for k in range(10)])
    assert torch.allclose(binning.places, means)


def test_repeated_targets_leave_unreachable_bins_at_the_end():
    y = torch.cat([torch.zeros(90), torch.linspace(0.1, 1, 10)])
    binning = Binning(10, "quantile")
    binning.fit(y)
    reachable = binning.reachable
    n_reachable = int(reachable.sum())
    assert 0 < n_reachable < 10
    assert reachable[:n_reachable].all()
    assert binning.edges.shape == (11,)
    assert (binning.edges[n_reachable:] == 1).all()
    assert int(binning.index(y).max()) == n_reachable - 1
    assert binning.index(torch.tensor([1.0])).item() == n_reachable - 1
    masked = binning.mask(torch.zeros(1, 10)).softmax(dim=1)[0]
    assert torch.allclose(masked[:n_reachable], torch.tensor(1 / n_reachable))
    assert (masked[n_reachable:] == 0).all()


def test_more_bins_than_rows_and_constant_targets_work():
    few = Binning(50, "quantile")
    few.fit(torch.tensor([0.2, 0.4, 0.9]))
    assert few.index(torch.tensor([0.2, 0.4, 0.9])).tolist() == [0, 1, 1]
    constant = Binning(5, "quantile")
    constant.fit(torch.full((20,), 0.3))
    assert constant.reachable.tolist() == [True, False, False, False, False]
    assert constant.index(torch.tensor([0.0, 0.3, 1.0])).tolist() == [0, 0, 0]
    assert constant.position(torch.tensor([0.3])).tolist() == [0.0]
    distribution = constant.distribution(torch.full((1, 5), 0.2))
    assert distribution.quantile(torch.tensor([0.01, 0.5, 0.99])).tolist() == [[pytest.approx(0.3)] * 3]


def test_what_lies_beyond_the_edges_counts_in_the_outer_bins():
    binning = Binning(3, "quantile")
    binning.fit(torch.tensor([0.4, 0.5, 0.6, 0.7]))
    assert binning.index(torch.tensor([0.0, 1.0])).tolist() == [0, 2]
    assert binning.position(torch.tensor([0.0, 1.0])).tolist() == [-0.5, 2.5]


def test_positions_rise_with_the_target_and_agree_with_the_index():
    y = torch.rand(500, generator=torch.Generator().manual_seed(1)).sort().values
    for policy in ("uniform", "quantile"):
        binning = Binning(12, policy)
        binning.fit(y)
        position = binning.position(y)
        assert (position.diff() >= 0).all()
        assert ((position - binning.index(y)).abs() <= 0.5).all()


def test_the_distribution_of_values_has_the_mean_of_the_places_and_no_mass_in_unreachable_bins():
    y = torch.cat([torch.zeros(50), torch.rand(50, generator=torch.Generator().manual_seed(2)) ** 4])
    binning = Binning(20, "quantile")
    binning.fit(y)
    probabilities = torch.rand(3, 20).softmax(dim=1)
    distribution = binning.distribution(probabilities)
    assert isinstance(distribution, Bins)
    kept = probabilities * binning.reachable
    kept = kept / kept.sum(dim=1, keepdim=True)
    assert torch.allclose(distribution.mean, kept @ binning.places)


def test_probability_in_unreachable_bins_alone_goes_to_the_last_one_before():
    binning = Binning(4, "quantile")
    binning.fit(torch.tensor([0.0, 0.0, 0.0, 0.5]))
    assert binning.reachable.tolist() == [True, False, False, False]
    distribution = binning.distribution(torch.tensor([[0.0, 0.0, 0.0, 1.0]]))
    assert distribution.probabilities.tolist() == [[1.0, 0.0, 0.0, 0.0]]
    assert distribution.mean.tolist() == [0.125]


def test_shares_count_one_row_more_in_each_bin():
    binning = Binning(2, "grades")
    assert binning.shares(torch.tensor([0.0, 0.0, 1.0])).tolist() == [pytest.approx(3 / 5), pytest.approx(2 / 5)]


def test_what_was_fitted_survives_saving():
    binning, fresh = Binning(8, "quantile"), Binning(8, "quantile")
    binning.fit(torch.cat([torch.zeros(30), torch.rand(20)]))
    fresh.load_state_dict(binning.state_dict())
    assert torch.equal(fresh.edges, binning.edges)
    assert torch.equal(fresh.places, binning.places)
    assert torch.equal(fresh.reachable, binning.reachable)


def test_grades_win_over_the_policy():
    assert make_binning(5, 50, "quantile").policy == "grades"
    assert make_binning(5, 50, "quantile").n_bins == 5
    assert make_binning(None, 50, "uniform").n_bins == 50


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Binning(3, "equal"), "policy must be one of grades, uniform, quantile, but got policy='equal'"),
        (lambda: Binning(1, "uniform"), "at least 2 bins or grades, but got 1"),
        (lambda: make_binning(None, 5, "grades"), "needs the number of grades, but got n_grades=None; pass n_grades"),
        (lambda: Binning(3).fit(torch.zeros(0)), r"shape \(at least one row,\), but got \(0,\)"),
        (lambda: Binning(3).fit(torch.zeros(2, 2)), r"shape \(at least one row,\), but got \(2, 2\)"),
        (lambda: Binning(3).fit(torch.tensor([0.0, 1.5])), r"must lie in \[0, 1\], but from 0.0 to 1.5"),
        (lambda: Binning(3).fit(torch.tensor([0.0, float("nan")])), r"must lie in \[0, 1\], but from nan to nan"),
    ],
)
def test_refusals_say_what_was_wrong(build, message):
    with pytest.raises(ValueError, match=message):
        build()
