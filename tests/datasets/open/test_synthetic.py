"""Drawn targets and draws of the truth must both follow the law that is written down in closed form."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest

from diffor import DATASETS, load_dataset
from diffor.datasets import SUITES, generate
from diffor.datasets.open.synthetic import LAWS, N_ROWS, SEED
from diffor.metrics import crps_samples, mae, rmse


def randomized_pit(law, x, y, seed=0):
    """Uniform for the true law, also where it has jumps: a place drawn inside each jump."""
    below, upto = law.cdf(x, np.nextafter(y, -np.inf)), law.cdf(x, y)
    return below + np.random.default_rng(seed).random(len(y)) * (upto - below)


@pytest.fixture(params=SUITES["synthetic"])
def name(request):
    return request.param


def test_targets_follow_the_law(name):
    samples = generate(name, 20_000, seed=3)
    pit = randomized_pit(LAWS[name], samples.x, samples.y)
    assert kstest(pit, "uniform").pvalue > 0.01
    # Also where the inputs say that something is special: the halves of every numeric column.
    for column in samples.x.select_dtypes("number"):
        upper = samples.x[column].to_numpy() > samples.x[column].median()
        assert kstest(pit[upper], "uniform").pvalue > 0.001


def test_draws_of_the_truth_follow_the_law(name):
    dataset, samples = DATASETS[name], load_dataset(name)
    draws = dataset.truth(samples.x, 4, 7)
    assert draws.shape == (N_ROWS, 4)
    for column in draws.T:
        assert kstest(randomized_pit(LAWS[name], samples.x, column), "uniform").pvalue > 0.01


def test_another_law_would_be_noticed(name):
    samples = generate(name, 20_000, seed=3)
    shuffled = np.random.default_rng(0).permutation(samples.y)
    assert kstest(randomized_pit(LAWS[name], samples.x, shuffled), "uniform").pvalue < 1e-6


def test_means_agree_with_draws(name):
    samples = generate(name, 200, seed=1)
    draws = DATASETS[name].truth(samples.x, 4_000, 1)
    law = LAWS[name]
    standard_error = np.sqrt(law.variance(samples.x) / draws.shape[1])
    deviation = (draws.mean(axis=1) - law.mean(samples.x)) / standard_error
    assert np.abs(deviation.mean()) < 4 / np.sqrt(len(deviation))
    assert np.abs(deviation).max() < 5
    assert deviation.std() == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("name", ["synthetic-zero-inflated", "synthetic-watch-time"])
def test_moments_agree_with_the_distribution_function(name):
    law, x = LAWS[name], generate(name, 3, seed=5).x
    for row in range(3):
        one = x.iloc[[row]]
        end = x["duration"].iloc[row] if "duration" in x else 1e5

        def above(value, one=one):
            return 1 - law.cdf(one, np.array([value]))[0]

        breaks = [value for value in (1.0, 10.0, 100.0, 1_000.0, 10_000.0) if value < end]
        mean = quad(above, 0, end, points=breaks, limit=200)[0]
        second = quad(lambda value, above=above: 2 * value * above(value), 0, end, points=breaks, limit=200)[0]
        assert law.mean(one)[0] == pytest.approx(mean, rel=1e-3)
        assert law.variance(one)[0] == pytest.approx(second - mean**2, rel=0.01)


def test_the_mean_of_two_modes_lies_where_nothing_is():
    law, samples = LAWS["synthetic-bimodal"], generate("synthetic-bimodal", 4_000, seed=2)
    mean = law.mean(samples.x)
    mass_near_mean = law.cdf(samples.x, mean + 0.2) - law.cdf(samples.x, mean - 0.2)
    assert mass_near_mean.mean() < 0.005
    # Nothing has a smaller squared error than the mean, and it is as far off as the modes are apart.
    assert rmse(samples.y, mean) == pytest.approx(np.sqrt(law.variance(samples.x).mean()), rel=0.02)
    assert mae(samples.y, mean) > 1.4
    draws = DATASETS["synthetic-bimodal"].truth(samples.x, 200, 0)
    assert mae(samples.y, mean) > 1.8 * crps_samples(samples.y, draws)


def test_the_spread_changes_thirtyfold():
    samples = generate("synthetic-heteroscedastic", 20_000, seed=4)
    law = LAWS["synthetic-heteroscedastic"]
    spread = law.spread(samples.x)
    assert spread.max() / spread.min() == pytest.approx(30, rel=0.02)
    standardised = (samples.y - law.mean(samples.x)) / spread
    for lower, upper in [(-1, 0), (0, 1)]:
        inside = samples.x["level"].between(lower, upper).to_numpy()
        assert standardised[inside].std() == pytest.approx(1, abs=0.03)


def test_zeros_have_their_share_and_amounts_a_heavy_tail():
    law, samples = LAWS["synthetic-zero-inflated"], generate("synthetic-zero-inflated", 50_000, seed=4)
    share = law.zero_share(samples.x)
    for chosen in (share < 0.3, share > 0.7):
        assert np.mean(samples.y[chosen] == 0) == pytest.approx(share[chosen].mean(), abs=0.015)
    amounts = samples.y[samples.y > 0]
    assert amounts.mean() > 1.8 * np.median(amounts)
    assert np.log(amounts).mean() == pytest.approx(3, abs=0.03)


def test_watch_time_ends_with_the_video():
    law, samples = LAWS["synthetic-watch-time"], generate("synthetic-watch-time", 50_000, seed=4)
    duration = samples.side["duration"]
    assert duration.tolist() == samples.x["duration"].tolist()
    assert (samples.y <= duration).all()
    completion = law.completion(samples.x)
    for chosen in (completion < 0.2, completion > 0.6):
        assert np.mean(samples.y[chosen] == duration[chosen]) == pytest.approx(completion[chosen].mean(), abs=0.015)


def test_grades_have_the_probabilities_of_the_ordered_logit():
    law, samples = LAWS["synthetic-grades"], generate("synthetic-grades", 50_000, seed=4)
    expected = np.diff(law.cumulative(samples.x), axis=1, prepend=0).mean(axis=0)
    assert np.bincount(samples.y.astype(int)) / len(samples) == pytest.approx(expected, abs=0.01)
    assert expected.min() > 0.05


def test_reading_is_repeatable_and_the_truth_does_not_repeat_the_targets(name):
    samples, again = load_dataset(name), load_dataset(name)
    assert len(samples) == N_ROWS == 5_000
    assert samples.x.equals(again.x)
    assert np.array_equal(samples.y, again.y)
    dataset = DATASETS[name]
    draws = dataset.truth(samples.x, 1, SEED)[:, 0]
    assert np.mean(draws == samples.y) < 0.6
    assert np.array_equal(draws, dataset.truth(samples.x, 1, SEED)[:, 0])
    assert not np.array_equal(draws, dataset.truth(samples.x, 1, SEED + 1)[:, 0])
    train, test = dataset.split(None, 0)
    assert (len(train), len(test)) == (4_000, 1_000)


def test_seeds_give_other_rows(name):
    assert not generate(name, 10, seed=0).x.equals(generate(name, 10, seed=1).x)


def test_a_million_rows_are_drawn_at_once():
    samples = generate("synthetic-heteroscedastic", 1_000_000, seed=0)
    assert len(samples) == 1_000_000
    assert samples.x["group"].value_counts(normalize=True).to_numpy() == pytest.approx(1 / 3, abs=0.005)


def test_wrong_names_and_sizes_are_named():
    with pytest.raises(ValueError, match=r"name must be one of synthetic-bimodal, .*, but got name='bimodal'"):
        generate("bimodal", 10)
    with pytest.raises(ValueError, match="n_rows must be 1 or more, but got n_rows=0"):
        generate("synthetic-bimodal", 0)
