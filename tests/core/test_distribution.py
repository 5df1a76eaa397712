import numpy as np
import pytest
import torch
from scipy.stats import norm

from diffor.core.distribution import (
    Bins,
    ClippedNormal,
    Distribution,
    PointMethod,
    Steps,
    decide_as_class,
    even_samples,
    middle_place,
    most_probable_place,
)

LEVELS = torch.linspace(0, 1, 41)


def random_probabilities(n_rows, n_bins, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(n_rows, n_bins, generator=generator)).softmax(dim=1)


def random_edges(n_bins, seed=0):
    inner = torch.rand(n_bins - 1, generator=torch.Generator().manual_seed(seed)).sort().values
    return torch.cat([torch.zeros(1), inner, torch.ones(1)])


class Triangle(Distribution):
    """Density 2y, known only by its cdf, with an atom of 0.2 at zero."""

    def cdf(self, values):
        return torch.where(values < 0, 0.0, 0.2 + 0.8 * values.clamp(0, 1).square()).expand(3, -1)

    @property
    def mean(self):
        return torch.full((3,), 0.8 * 2 / 3)


def make_all():
    edges = random_edges(7)
    places = edges[:-1] + torch.tensor([0.1, 0.9, 0.5, 0.0, 1.0, 0.3, 0.02]) * edges.diff()
    return {
        "steps": Steps(random_probabilities(4, 6), torch.arange(6) / 5),
        "bins": Bins(random_probabilities(4, 7), edges),
        "bins with places": Bins(random_probabilities(4, 7), edges, places),
        "bins of each row": Bins(random_probabilities(2, 3), torch.stack([random_edges(3, 1), random_edges(3, 2)])),
        "bins with atoms": Bins(random_probabilities(4, 4), torch.tensor([0.0, 0.0, 0.4, 0.4, 1.0])),
        "bins with an atom at the end": Bins(random_probabilities(4, 3), torch.tensor([0.2, 0.6, 0.9, 0.9])),
        "normal": ClippedNormal(torch.tensor([-0.1, 0.5, 0.9]), torch.tensor([0.5, 0.01, 0.3])),
        "bisection": Triangle(),
    }


@pytest.mark.parametrize("name", make_all())
def test_the_cdf_rises_from_zero_to_one(name):
    distribution = make_all()[name]
    cdf = distribution.cdf(torch.linspace(0, 1, 201)[None])
    assert cdf.dtype == torch.float32
    assert (cdf.diff(dim=1) >= 0).all()
    assert (distribution.cdf(torch.tensor([[-1e-6]])) == 0).all()
    assert (distribution.cdf(torch.tensor([[1.0, 2.0]])) == 1).all()


@pytest.mark.parametrize("name", make_all())
def test_quantiles_are_the_smallest_values_that_reach_their_levels(name):
    distribution = make_all()[name]
    quantiles = distribution.quantile(LEVELS)
    assert quantiles.dtype == torch.float32
    assert ((quantiles >= 0) & (quantiles <= 1)).all()
    assert (quantiles.diff(dim=1) >= 0).all()
    assert (distribution.cdf(quantiles + 1e-6) >= LEVELS - 1e-5).all()
    inner = LEVELS[1:-1]
    assert (distribution.cdf(quantiles[:, 1:-1] - 1e-5) <= inner + 1e-5).all()


@pytest.mark.parametrize("name", make_all())
def test_levels_of_each_row_are_answered_as_shared_ones(name):
    distribution = make_all()[name]
    n = len(distribution.mean)
    assert torch.equal(distribution.quantile(LEVELS.expand(n, -1)), distribution.quantile(LEVELS))
    values = torch.linspace(0, 1, 11)[None]
    assert torch.equal(distribution.cdf(values.expand(n, -1)), distribution.cdf(values))


@pytest.mark.parametrize("name", make_all())
def test_the_mean_is_that_of_evenly_spread_quantiles(name):
    distribution = make_all()[name]
    quantiles = distribution.quantile((torch.arange(20_000) + 0.5) / 20_000)
    assert torch.allclose(quantiles.mean(dim=1), distribution.mean, atol=1e-4)


def test_level_one_is_the_last_possible_place_not_the_last_place():
    probabilities = torch.tensor([[0.1] * 7 + [0.3, 0.0, 0.0]])  # rounding makes their sum miss one
    steps = Steps(probabilities, torch.arange(10) / 9)
    assert steps.quantile(torch.tensor([1.0])).item() == pytest.approx(7 / 9)
    bins = Bins(probabilities, torch.arange(11) / 10)
    assert bins.quantile(torch.tensor([1.0])).item() == pytest.approx(0.8)


def test_an_atom_is_jumped_at_its_place():
    bins = Bins(torch.tensor([[0.6, 0.4]]), torch.tensor([0.0, 0.0, 1.0]))
    assert bins.cdf(torch.tensor([[-0.01, 0.0, 0.5]])).tolist() == [[0.0, pytest.approx(0.6), pytest.approx(0.8)]]
    assert bins.quantile(torch.tensor([0.3, 0.6, 0.8])).tolist() == [[0.0, 0.0, pytest.approx(0.5)]]
    last = Bins(torch.tensor([[0.5, 0.5]]), torch.tensor([0.0, 0.4, 0.4]))
    assert last.cdf(torch.tensor([[0.2, 0.39999, 0.4]])).tolist() == [[0.25, pytest.approx(0.5, abs=1e-4), 1.0]]
    assert last.quantile(torch.tensor([0.75, 1.0])).tolist() == [[pytest.approx(0.4)] * 2]


def test_a_bin_with_a_mean_is_split_there_in_the_proportion_that_has_this_mean():
    bins = Bins(torch.tensor([[1.0]]), torch.tensor([0.0, 1.0]), torch.tensor([0.2]))
    assert bins.mean.item() == pytest.approx(0.2)
    # 0.8 lies evenly below the mean of 0.2, the rest evenly above.
    cdf = bins.cdf(torch.tensor([[0.1, 0.2, 0.6]]))
    assert cdf.tolist() == [[pytest.approx(0.4), pytest.approx(0.8), pytest.approx(0.9)]]


def test_a_bin_whose_mean_is_its_edge_is_an_atom():
    bins = Bins(torch.tensor([[0.5, 0.5]]), torch.tensor([0.0, 0.5, 1.0]), torch.tensor([0.0, 0.75]))
    assert bins.quantile(torch.tensor([0.1, 0.5, 0.75])).tolist() == [[0.0, 0.0, pytest.approx(0.75)]]
    assert bins.cdf(torch.tensor([[0.0, 0.3]])).tolist() == [[0.5, 0.5]]


def test_the_clipped_normal_agrees_with_scipy():
    centre, spread = np.array([-0.2, 0.4, 1.3]), np.array([0.3, 0.1, 0.8])
    normal = ClippedNormal(torch.tensor(centre), torch.tensor(spread))
    values = np.array([0.0, 0.3, 0.9])
    assert normal.cdf(torch.tensor(values)[None]).numpy() == pytest.approx(
        norm.cdf(values, centre[:, None], spread[:, None])
    )
    levels = np.array([0.1, 0.5, 0.9])
    expected = np.clip(norm.ppf(levels, centre[:, None], spread[:, None]), 0, 1)
    assert normal.quantile(torch.tensor(levels)).numpy() == pytest.approx(expected)
    assert normal.quantile(torch.tensor([0.0, 1.0], dtype=torch.float64)).tolist() == [[0.0, 1.0]] * 3


def test_samples_are_the_quantiles_in_an_order_of_each_row():
    steps = Steps(random_probabilities(3, 5), torch.arange(5) / 4)
    keys = torch.tensor([1, 2, 3])
    samples = even_samples(steps, keys, 16)
    assert torch.equal(samples.sort(dim=1).values, steps.quantile((torch.arange(16) + 0.5) / 16))
    assert torch.equal(samples, even_samples(steps, keys, 16))
    assert not torch.equal(samples.argsort(dim=1)[0], samples.argsort(dim=1)[1])


def test_places_of_decisions():
    steps = Steps(torch.tensor([[0.4, 0.3, 0.3], [0.5, 0.5, 0.0]]), torch.tensor([0.0, 0.5, 1.0]))
    assert most_probable_place(steps).tolist() == [0.0, 0.0]
    assert middle_place(steps).tolist() == [0.5, 0.0]
    assert decide_as_class(steps).tolist() == [0.0, 0.0]
    bins = Bins(torch.tensor([[0.4, 0.3, 0.3]]), torch.tensor([0.0, 0.2, 0.6, 1.0]), torch.tensor([0.1, 0.3, 0.7]))
    assert most_probable_place(bins).tolist() == [pytest.approx(0.1)]
    assert middle_place(bins).tolist() == [pytest.approx(0.3)]
    assert decide_as_class(bins).tolist() == [pytest.approx(0.34)]


def test_a_point_method_repeats_its_value_inside_the_range():
    class FirstFeature(PointMethod):
        def loss(self, features, y, weights=None, **side):
            return {}

        def value(self, features, **side):
            return features[:, 0]

    prediction = FirstFeature().predict(torch.tensor([[0.3], [1.7], [-2.0]]), torch.tensor([1, 2, 3]), 4)
    assert prediction.samples.tolist() == [[pytest.approx(0.3)] * 4, [1.0] * 4, [0.0] * 4]
    assert prediction.statistic("native").tolist() == [pytest.approx(0.3), 1.0, 0.0]


@pytest.mark.parametrize("name", ["steps", "bins", "bins with places", "bisection"])
def test_double_precision_questions_are_answered(name):
    distribution = make_all()[name]
    double = (
        distribution.quantile(LEVELS.double()),
        distribution.cdf(torch.linspace(0, 1, 9, dtype=torch.float64)[None]),
    )
    single = distribution.quantile(LEVELS), distribution.cdf(torch.linspace(0, 1, 9)[None])
    assert torch.allclose(double[0].float(), single[0])
    assert torch.allclose(double[1].float(), single[1])
