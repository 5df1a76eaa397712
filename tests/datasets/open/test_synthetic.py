"""Drawn targets and draws of the truth must both follow the law that is written down in closed form."""

import numpy as np
import pytest
from scipy.stats import kstest

from diffor import DATASETS, load_dataset
from diffor.datasets import SUITES, generate
from diffor.datasets.open.synthetic import LAWS, N_ROWS, SEED
from diffor.metrics import crps_samples, mae


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
    law, samples = LAWS[name], generate(name, 200, seed=1)
    draws = DATASETS[name].truth(samples.x, 4_000, 1)
    deviation = (draws.mean(axis=1) - law.mean(samples.x)) / (draws.std(axis=1) / np.sqrt(draws.shape[1]))
    assert np.abs(deviation.mean()) < 4 / np.sqrt(len(deviation))
    assert np.abs(deviation).max() < 5
    assert deviation.std() == pytest.approx(1, abs=0.2)


def test_the_mean_of_two_modes_lies_where_nothing_is():
    law, samples = LAWS["synthetic-bimodal"], generate("synthetic-bimodal", 4_000, seed=2)
    mean = law.mean(samples.x)
    mass_near_mean = law.cdf(samples.x, mean + 0.2) - law.cdf(samples.x, mean - 0.2)
    assert mass_near_mean.mean() < 0.005
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


def test_amounts_have_a_heavy_tail_and_watch_time_ends_with_the_video():
    amounts = generate("synthetic-zero-inflated", 50_000, seed=4).y
    amounts = amounts[amounts > 0]
    assert amounts.mean() > 1.8 * np.median(amounts)
    watched = generate("synthetic-watch-time", 1_000, seed=4)
    assert watched.side["duration"].tolist() == watched.x["duration"].tolist()
    assert (watched.y <= watched.side["duration"]).all()
    assert np.mean(watched.y == watched.side["duration"]) > 0.1


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
    assert not generate(name, 10, seed=0).x.equals(generate(name, 10, seed=1).x)


def test_wrong_names_and_sizes_are_named():
    with pytest.raises(ValueError, match=r"name must be one of synthetic-bimodal, .*, but got name='bimodal'"):
        generate("bimodal", 10)
    with pytest.raises(ValueError, match="n_rows must be 1 or more, but got n_rows=0"):
        generate("synthetic-bimodal", 0)
