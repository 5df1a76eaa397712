import itertools
import math
import pickle
import re
import subprocess
import sys
import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, RegressorMixin

from diffor import metrics
from diffor.core.cdf_prediction import CdfPrediction
from diffor.metrics import METRICS, scorer

TIES = ("skip", "strict", "correct")
close = pytest.approx


def gaussian_crps(y, mean, sd):
    """The closed form."""
    from scipy.stats import norm

    z = (np.asarray(y) - mean) / sd
    return np.mean(sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / math.sqrt(math.pi)))


# Pairs.


def brute_xauc(y, p, ties="skip", w=None):
    w = np.ones(len(y)) if w is None else w
    right = total = 0.0
    for i, j in itertools.combinations(range(len(y)), 2):
        weight = w[i] * w[j]
        if y[i] == y[j]:
            score = {"skip": None, "strict": 0.0, "correct": 1.0}[ties]
        else:
            score = 0.5 if p[i] == p[j] else float((y[i] < y[j]) == (p[i] < p[j]))
        if score is not None:
            right, total = right + weight * score, total + weight
    if ties != "skip":  # the copies that a count stands for are tied pairs
        copies = sum(weight * (weight - 1) / 2 for weight in w)
        right, total = right + copies * (ties == "correct"), total + copies
    return right / total if total else None


@st.composite
def labelled(draw, min_size=2, max_size=24):
    n = draw(st.integers(min_size, max_size))
    top = draw(st.sampled_from([1, 3, 50]))
    numbers = st.lists(st.integers(0, top), min_size=n, max_size=n)
    return np.array(draw(numbers), float), np.array(draw(numbers), float) / 2, draw(st.randoms(use_true_random=False))


@settings(deadline=None, max_examples=80)
@given(labelled(), st.sampled_from(TIES), st.sampled_from(["none", "counts", "fractions"]))
def test_xauc_equals_all_pairs(data, ties, kind):
    y, p, random = data
    w = {"none": None, "counts": [random.randint(1, 3) for _ in y], "fractions": [random.random() + 0.01 for _ in y]}[
        kind
    ]
    ties = "skip" if kind == "fractions" else ties
    expected = brute_xauc(y, p, ties, w)
    if expected is None:
        with pytest.raises(ValueError, match="xauc needs two rows with different y_true"):
            metrics.xauc(y, p, ties, sample_weight=w)
    else:
        assert metrics.xauc(y, p, ties, sample_weight=w) == close(expected, abs=1e-12)


def test_xauc_of_many_rows():
    from scipy.stats import kendalltau

    y = np.random.default_rng(0).permutation(60_000)
    p = y + np.random.default_rng(1).normal(scale=30_000, size=len(y))
    assert (metrics.xauc(y, y), metrics.xauc(y, -y), metrics.xauc(y, np.zeros(len(y)))) == (1.0, 0.0, 0.5)
    assert metrics.xauc(y, p) == close((kendalltau(y, p).statistic + 1) / 2)


# Correlation, Gini.


@settings(deadline=None, max_examples=30)
@given(labelled(min_size=3))
def test_correlations_agree_with_scipy(data):
    from scipy.stats import pearsonr, spearmanr

    y, p, _ = data
    if np.ptp(y) and np.ptp(p):
        assert metrics.lcc(y, p) == close(pearsonr(y, p).statistic, abs=1e-12)
        assert metrics.srcc(y, p) == close(spearmanr(y, p).statistic, abs=1e-12)


def test_correlation_of_extreme_scales():
    assert metrics.lcc([1e-200, 2e-200, 3e-200], [1e200, 2e200, 3e200]) == close(1.0)
    assert metrics.lcc([1, 2, 3], [1e9 + 1, 1e9 + 2, 1e9 + 3]) == close(1.0)


@pytest.mark.parametrize("metric", ["lcc", "srcc"])
def test_constant_input_scores_zero_and_says_so(metric):
    function = getattr(metrics, metric)
    with pytest.warns(RuntimeWarning, match=f"{metric} is undefined and given as 0: y_pred is constant") as caught:
        assert function([1, 2, 3], [0.1, 0.1, 0.1]) == 0.0
    assert caught[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="y_true is constant"):
        assert function([1, 1, 2], [1, 2, 3], sample_weight=[1, 1, 0]) == 0.0


@settings(deadline=None, max_examples=30)
@given(labelled(max_size=5))
def test_gini_averages_over_the_orders_of_ties(data):
    y, p, _ = data
    if not y.any():
        return

    def gini(order):
        return 2 * np.mean(np.cumsum(y[list(order)]) / y.sum()) - 1

    orders = [o for o in itertools.permutations(range(len(y))) if np.all(np.diff(p[list(o)]) <= 0)]
    expected = np.mean([gini(order) for order in orders]) / gini(np.argsort(-y))
    assert metrics.normalized_gini(y, p) == close(expected)


# Points and grades.


def test_errors_by_hand():
    y, p = [1.0, 2.0, 4.0], [2.0, 2.0, 1.0]
    assert metrics.mae(y, p) == close(4 / 3)
    assert metrics.rmse(y, p) == close(math.sqrt(10 / 3))
    assert metrics.pinball(y, p, 0.9) == close((0.1 + 0 + 2.7) / 3)
    assert metrics.pinball(y, p) == close(metrics.mae(y, p) / 2)


def test_small_integers_do_not_wrap_around():
    y, p = np.array([0, 250], np.uint8), np.array([255, 5], np.uint8)
    assert metrics.mae(y, p) == 250.0
    assert metrics.qwk(y, p) == close(metrics.qwk(y.astype(int), p.astype(int)))


def test_cs_includes_its_limit_and_rounds_on_request():
    y, p = [20, 20, 20, 20], [25, 25.4, 14.6, 26]
    assert metrics.cs(y, p) == 0.25
    assert metrics.cs(y, p, round=True) == 0.75
    assert metrics.cs(y, p, 6) == 1.0
    assert metrics.cs(y, p, limit=0) == 0.0


@settings(deadline=None, max_examples=30)
@given(labelled())
def test_qwk_agrees_with_scikit_learn(data):
    from sklearn.metrics import cohen_kappa_score

    y, p, random = data
    p, w = np.floor(p), [random.randint(1, 3) for _ in y]
    if np.ptp(np.concatenate([y, p])):
        expected = cohen_kappa_score(y, p, weights="quadratic", labels=range(51), sample_weight=w)
        assert (
            metrics.qwk(y, p, sample_weight=w) == metrics.qwk(y, p, 51, sample_weight=w) == close(expected, abs=1e-12)
        )


def test_qwk_of_one_grade_is_zero_and_says_so():
    with pytest.warns(RuntimeWarning, match="qwk is undefined and given as 0: there is only one grade"):
        assert metrics.qwk([2, 2], [2, 2]) == 0.0
    assert metrics.qwk([2, 2], [1, 1]) == 0.0  # as far apart as chance makes them


def test_accuracy_off_by_and_rps():
    y, p = [0, 1, 2, 3], [0, 2, 0, 0]
    assert [metrics.accuracy_off_by(y, p, d) for d in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert metrics.rps([4], [[1, 0, 0, 0, 0]]) == 4.0
    assert metrics.rps([0], [[1]]) == 0.0


# Distributions.


def test_crps_of_samples_equals_all_pairs():
    rng = np.random.default_rng(0)
    y, x = rng.normal(size=7), rng.integers(-3, 4, size=(7, 9)).astype(float)
    spread = np.abs(x[:, :, None] - x[:, None, :]).sum((1, 2)) / 2
    distance = np.abs(x - y[:, None]).mean(1)
    assert metrics.crps_samples(y, x) == close(np.mean(distance - spread / 81))
    assert metrics.crps_samples(y, x, fair=True) == close(np.mean(distance - spread / 72))
    assert metrics.crps_samples([1.0, 5.0], [[2.0], [2.0]]) == metrics.mae([1, 5], [2, 2])


def test_crps_meets_the_closed_form():
    from scipy.stats import norm

    y, levels = np.array([3.0, 1.0, 2.2]), (np.arange(2000) + 0.5) / 2000
    assert metrics.crps_samples(y, np.tile(norm.ppf(levels, 2, 1.5), (3, 1))) == close(
        gaussian_crps(y, 2, 1.5), abs=1e-3
    )
    grid = np.linspace(-9, 11, 20001)
    cdf = norm.cdf(grid, np.full((3, 1), 2), 1.5)
    assert metrics.crps_grid(y, cdf, grid) == close(gaussian_crps(y, 2, 1.5), rel=1e-3)
    rng = np.random.default_rng(0)
    y, few = rng.normal(size=20_000), rng.normal(size=(20_000, 3))
    exact = gaussian_crps(y, 0, 1)
    assert metrics.crps_samples(y, few, fair=True) == close(exact, abs=0.01)  # whatever the number of samples
    assert metrics.crps_samples(y, few) > exact + 0.1


def test_single_precision_samples_and_several_blocks(monkeypatch):
    from diffor.metrics import distributions as metrics  # the module that reads _BLOCK_SIZE

    rng = np.random.default_rng(0)
    y, x = rng.normal(size=50), rng.normal(size=(50, 8)).astype(np.float32)
    y[:9] = x[:9, 3]
    cases = (metrics.crps_samples, metrics.picp, metrics.qice)
    whole = [function(y, x) for function in cases]
    monkeypatch.setattr(metrics, "_BLOCK_SIZE", 24)
    assert [function(y, x) for function in cases] == close(whole)
    assert whole == close([function(y, x.astype(np.float64)) for function in cases])
    # In double precision 0.1 is not the single-precision 0.1 of the samples; both mean the same point mass.
    assert metrics.picp([0.1], np.full((1, 5), 0.1, np.float32)) == 1.0
    assert metrics.qice([0.1] * 4000, np.full((4000, 5), 0.1, np.float32)) < 0.02


def test_crps_on_a_grid_takes_away_what_lies_outside():
    half_outside, inside = [[0.5, 0.5, 0.75, 1.0]], [[0.0, 0.0, 0.5, 1.0]]
    assert metrics.crps_grid([1.5], half_outside, [0, 1, 2, 3]) == metrics.crps_grid([1.5], inside, [0, 1, 2, 3])
    assert metrics.crps_grid([1.5], [[0.0] * 4], [0, 1, 2, 3]) == close(1.5)


def test_coverage_and_width_include_the_ends():
    assert metrics.coverage([0, 1, 2], [0, 0, 0], [1, 1, 1]) == close(2 / 3)
    assert metrics.interval_width([0, 1], [4, 1]) == 2.0


def test_picp_is_the_coverage_of_percentiles():
    rng = np.random.default_rng(0)
    y, x = rng.normal(size=500), rng.normal(size=(500, 200))
    low, high = np.percentile(x, [2.5, 97.5], axis=1)
    assert metrics.picp(y, x) == metrics.coverage(y, low, high)
    assert metrics.picp(y, x) == close(0.95, abs=0.03)
    assert metrics.picp(y, x, coverage=0.5) == close(0.5, abs=0.06)


@pytest.mark.parametrize(("n_samples", "mass"), [(1, 0.7), (7, 0.0), (200, 0.7)])
def test_qice_of_a_calibrated_prediction_is_zero(n_samples, mass):
    rng = np.random.default_rng(0)  # deliberately the seed that qice itself uses

    def draw(shape):
        return np.where(rng.random(shape) < mass, 0.0, rng.lognormal(size=shape))

    assert metrics.qice(draw(20_000), draw((20_000, n_samples))) < 0.005


def test_qice_by_hand():
    x = np.tile(np.arange(1, 100), (4, 1))
    assert metrics.qice([-1, 0.5, 0, -9], x) == close((0.9 + 9 * 0.1) / 10)  # all below: the first interval
    assert metrics.qice([100] * 4, x) == close((0.9 + 9 * 0.1) / 10)  # all above: the last one
    assert metrics.qice([5.5, 15.5, 25.5, 35.5], x, n_bins=4) == close((0.25 + 0.25 + 0.5) / 4)  # 2, 2, 0, 0 rows


def test_pit_values_lie_in_the_stretch_of_their_rank():
    samples = np.tile([1.0, 2.0, 2.0, 3.0], (1000, 1))
    for y, (low, high) in {0.0: (0, 1), 1.0: (0, 2), 2.0: (1, 4), 2.5: (3, 4), 9.0: (4, 5)}.items():
        places = metrics.pit_values(np.full(1000, y), samples) * 5
        assert low <= places.min() < low + 0.1
        assert high - 0.1 < places.max() <= high


def test_qice_repeats_for_the_same_random_state():
    y, x = np.zeros(50), np.zeros((50, 4))
    assert metrics.qice(y, x) == metrics.qice(y, x, random_state=0)
    first, second = (metrics.qice(y, x, random_state=np.random.default_rng(1)) for _ in range(2))
    assert first == second
    assert len({metrics.qice(y, x, random_state=seed) for seed in range(9)}) > 1


# Weights.


def make_rows(seed, n):
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 4, n)
    return {
        "y": rng.integers(0, 5, n),
        "grades": rng.integers(0, 5, n),
        "p": rng.integers(0, 6, n) / 2,
        "samples": rng.integers(0, 5, (n, 4)),
        "probabilities": rng.dirichlet(np.ones(5), n),
        "low": low,
        "high": low + rng.integers(0, 3, n),
    }


COLUMNS = {"point": ("y", "p"), "grade": ("y", "grades"), "samples": ("y", "samples"), "interval": ("y", "low", "high")}
WEIGHTED = {name: (each.function, COLUMNS[each.kind]) for name, each in METRICS.items() if each.takes_weight} | {
    "cs": (partial(metrics.cs, limit=1), COLUMNS["point"]),
    "pinball": (partial(metrics.pinball, level=0.8), COLUMNS["point"]),
    "rps": (metrics.rps, ("y", "probabilities")),
    "picp": (partial(metrics.picp, coverage=0.5), COLUMNS["samples"]),
}


def value_of(name, rows, **weight):
    function, columns = WEIGHTED[name]
    return function(*(rows[column] for column in columns), **weight)


def outcome(name, rows, **weight):
    """The value, or the kind of refusal: without a comparable pair both sides must refuse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            return value_of(name, rows, **weight)
        except ValueError as error:
            return str(error).split(",")[0]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 3), min_size=1, max_size=9).filter(any))
def test_whole_weights_equal_repeated_rows(seed, weights):
    rows = make_rows(seed, len(weights))
    repeated = {name: np.repeat(values, weights, axis=0) for name, values in rows.items()}
    for name in WEIGHTED:
        left, right = outcome(name, rows, sample_weight=weights), outcome(name, repeated)
        assert left == (right if isinstance(right, str) else close(right, abs=1e-9)), name


COUNTING = ("strict", "correct", "normalized_gini")  # where weights are numbers of copies


@pytest.mark.parametrize("name", [name for name in WEIGHTED if not name.endswith(COUNTING)])
def test_the_unit_of_the_weights_does_not_matter(name):
    rows = make_rows(3, 30)
    weights = np.random.default_rng(0).random(30)
    value = value_of(name, rows, sample_weight=weights)
    assert type(value) is float
    assert value == close(value_of(name, rows, sample_weight=weights * 1e-3))
    assert value != close(value_of(name, rows), abs=1e-12)


@pytest.mark.parametrize("name", [name for name in WEIGHTED if name.endswith(COUNTING)])
def test_counting_metrics_refuse_half_a_copy(name):
    message = r"whole numbers for .*, where a weight counts copies of a row, but .*=0\.5; scale and round"
    with pytest.raises(ValueError, match=message):
        value_of(name, make_rows(0, 3), sample_weight=[1, 0.5, 1])


# Refusals.

ONE = [1.0, 2.0]
BINS = [[0.5, 0.5], [0.5, 0.5]]
REFUSED = [
    (lambda: metrics.mae([1, 2, 3], [1, 2]), "len(y_true)=3, len(y_pred)=2; pass them row by row"),
    (lambda: metrics.mae([], []), "y_true.shape=(0,); give at least one row"),
    (lambda: metrics.mae([[1]], [1]), "y_true.shape=(1, 1); reshape it"),
    (lambda: metrics.mae(ONE, [1, math.nan]), "y_pred[1]=nan; drop or fill"),
    (lambda: metrics.mae([math.inf, 1], ONE), "y_true[0]=inf; drop or fill"),
    (lambda: metrics.mae(["a", "b"], ONE), "y_true must be an array of numbers, but got list; convert it first"),
    (lambda: metrics.mae(np.array(["1"]), [1]), "<U1; convert it first"),
    (lambda: metrics.mae([object()], [1]), "list; convert it first"),
    (lambda: metrics.mae(ONE, ONE, sample_weight=[1, -2]), "sample_weight[1]=-2.0; give rows to ignore the weight 0"),
    (lambda: metrics.mae(ONE, ONE, sample_weight=[0, 0]), "sum=0.0; give some row a positive weight"),
    (lambda: metrics.mae(ONE, ONE, sample_weight=[1]), "len(y_true)=2, len(sample_weight)=1; pass them"),
    (lambda: metrics.mae(ONE, ONE, sample_weight=[1, math.nan]), "sample_weight[1]=nan; drop or fill"),
    (lambda: metrics.cs(ONE, ONE, limit=-1), "limit=-1; give the largest accepted"),
    (lambda: metrics.pinball(ONE, ONE, level=1), "level=1; give 0.9"),
    (lambda: metrics.xauc(ONE, ONE, ties="half"), "ties='half'; 'skip' is the default"),
    (lambda: metrics.xauc([3, 3], ONE), "y_true=3.0 in all of 2 row(s); give more rows"),
    (lambda: metrics.xauc([3], [1], "strict"), "y_true=3.0 in all of 1 row(s); give more"),
    (lambda: metrics.normalized_gini([-1, 2], ONE), "y_true[0]=-1.0; shift it or choose xauc"),
    (lambda: metrics.normalized_gini([0, 0], ONE), "sum=0.0; choose another metric"),
    (lambda: metrics.qwk([0, 1], [0.2, 1]), "y_pred[0]=0.2; round or bin it first"),
    (lambda: metrics.qwk([0, 3], [0, 1], n_grades=3), "y_true[1]=3; count grades from 0"),
    (lambda: metrics.qwk([0, 3], [0, 1], n_grades=0), "n_grades=0; count all grades"),
    (lambda: metrics.accuracy_off_by([0], [0], -1), "distance=-1; 0 gives plain"),
    (lambda: metrics.accuracy_off_by([0], [0.5]), "y_pred[0]=0.5; round or bin"),
    (lambda: metrics.rps([0, 2], BINS), "y_true[1]=2; count grades from 0"),
    (lambda: metrics.rps([0], [[-0.5, 1.5]]), "probabilities[0, 0]=-0.5; apply a softmax first"),
    (lambda: metrics.rps([0], [[0.5, 0.25]]), "probabilities.sum(axis=1)[0]=0.75; divide each row by its sum"),
    (lambda: metrics.coverage(ONE, [0, 3], [1, 2]), "low=3.0 and high=2.0 in row 1; swap them"),
    (lambda: metrics.crps_samples(ONE, ONE), "samples.shape=(2,); reshape"),
    (lambda: metrics.crps_samples([1], [[]]), "samples.shape=(1, 0); give at least"),
    (lambda: metrics.crps_samples([1], [[1, math.nan]]), "samples[0, 1]=nan; drop"),
    (lambda: metrics.crps_samples([1], [[1]], fair=True), "but got 1; draw more samples"),
    (lambda: metrics.crps_grid(ONE, [[0.5, 1.0]] * 2, [0, 1, 2]), "but got 3 points from 0 to 2; give the points"),
    (lambda: metrics.crps_grid(ONE, [[0.5, 1.0]] * 2, [1, 0]), "but got 2 points from 1 to 0; give the points"),
    (lambda: metrics.crps_grid(ONE, [[0.5, 1.5]] * 2, [0, 1]), "cdf[0, 1]=1.5; give"),
    (lambda: metrics.qice(ONE, BINS, n_bins=1), "n_bins=1; 10 is customary"),
    (lambda: metrics.picp(ONE, BINS, coverage=95), "coverage=95; give 0.9"),
    (lambda: scorer("mea"), "name='mea' (did you mean 'mae'?)"),
    (lambda: scorer("crps_samples"), "name='crps_samples' (did you mean 'crps_fair'?)"),
    (lambda: scorer("zzz"), "must be one of mae, rmse, cs, xauc"),
    (lambda: scorer("coverage", 90), "coverage=90; give 0.9"),
    (
        lambda: scorer("qice")(Gaussian().fit([[0], [1]], ONE), [[0], [1]], ONE, sample_weight=[1, 1]),
        "sample_weight must be None for qice, but it was given; leave it out",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_refusals_name_the_value_and_its_cure(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


# The table and the scorers.


class Gaussian(RegressorMixin, BaseEstimator):
    """A line with normal noise around it; grades are its rounded value."""

    def __init__(self, whole=False, pair=True):
        self.whole = whole
        self.pair = pair

    def fit(self, X, y, sample_weight=None):
        self.slope_, self.start_ = np.polyfit(np.ravel(X), y, 1, w=sample_weight)
        self.sd_ = max(np.std(y - self.predict(X)), 0.1)
        return self

    def predict(self, X):
        line = self.start_ + self.slope_ * np.ravel(X)
        return np.rint(line) if self.whole else line

    def predict_distribution(self, X):
        noise = np.random.default_rng(0).normal(scale=self.sd_, size=(len(X), 50))
        return SimpleNamespace(samples=self.predict(X)[:, None] + noise)

    def predict_interval(self, X, coverage):
        half = 3 * self.sd_ * coverage
        low, high = self.predict(X) - half, self.predict(X) + half
        return (low, high) if self.pair else np.stack([low, high], axis=1)


def line_data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 8, (120, 1))
    return X, np.rint(np.clip(X[:, 0] + rng.normal(size=120), 0, 9)).astype(int)


def test_the_table_is_complete_and_described():
    names = ["mae", "rmse", "cs", "xauc", "xauc_strict", "xauc_correct", "lcc", "srcc", "normalized_gini"]
    assert [metric.name for metric in METRICS.values() if metric.kind == "point"] == names
    assert [metric.name for metric in METRICS.values() if metric.kind == "grade"] == ["qwk", "accuracy_off_by"]
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.description.endswith(".")
        assert metric.takes_weight == (name != "qice")


@pytest.mark.parametrize("name", METRICS)
def test_scorers_rank_models_survive_pickling_and_take_weights(name):
    X, y = line_data()
    metric = METRICS[name]
    good, bad = (Gaussian(whole=metric.kind == "grade").fit(X, y) for _ in range(2))
    bad.slope_, bad.start_ = -0.7 * good.slope_, 9.0
    bad.sd_ *= 1 + (name == "interval_width")
    original = scorer(name)
    value = pickle.loads(pickle.dumps(original))(good, X, y)
    assert type(value) is float
    assert value == original(good, X, y) > original(bad, X, y)
    if metric.takes_weight and metric.kind != "samples":  # the model draws other samples for other rows
        weights = np.arange(len(y)) % 3
        expected = original(good, np.repeat(X, weights, axis=0), np.repeat(y, weights))
        assert original(good, X, y, sample_weight=weights) == close(expected)


def test_scorers_work_in_cross_validation():
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import cross_val_score

    X, y = line_data()
    values = cross_val_score(LinearRegression(), X, y, cv=3, scoring=scorer("mae"), n_jobs=2, error_score="raise")
    assert (values < 0).all()
    with pytest.raises(TypeError, match="needs predict_distribution, but LinearRegression has none; choose another"):
        scorer("crps")(LinearRegression().fit(X, y), X, y)


def test_the_interval_scorer_passes_its_coverage_on():
    X, y = line_data()
    model = Gaussian().fit(X, y)
    widths = [scorer("interval_width", coverage)(model, X, y) for coverage in (0.5, 0.9)]
    assert widths == close([-6 * model.sd_ * 0.5, -6 * model.sd_ * 0.9])
    array, as_list = Gaussian(pair=False).fit(X, y), Gaussian().fit(X, y)
    as_list.predict_interval = lambda X, coverage: list(model.predict_interval(X, coverage))
    assert scorer("coverage")(array, X[:2], y[:2]) == scorer("coverage")(model, X[:2], y[:2])
    assert scorer("interval_width")(as_list, X[:2], y[:2]) == scorer("interval_width")(model, X[:2], y[:2])


def test_weights_reach_the_scorer_through_metadata_routing():
    import sklearn
    from sklearn.exceptions import UnsetMetadataPassedError
    from sklearn.model_selection import KFold, cross_val_score

    X, y = line_data()
    weights = np.where(X[:, 0] > 4, 1.0, 0.0)
    weights[::7] = 2.0
    with sklearn.config_context(enable_metadata_routing=True):
        model = Gaussian().set_fit_request(sample_weight=False)
        options = {"cv": 3, "error_score": "raise", "params": {"sample_weight": weights}}
        asked = scorer("mae").set_score_request(sample_weight=True)
        weighted = cross_val_score(model, X, y, scoring=asked, **options)
        with pytest.raises(UnsetMetadataPassedError):
            cross_val_score(model, X, y, scoring=scorer("mae"), **options)
        with pytest.raises(TypeError, match="not routed to any object"):
            cross_val_score(model, X, y, scoring=scorer("qice"), **options)
    folds = [(train, test) for train, test in KFold(3).split(X)]
    models = [Gaussian().fit(X[train], y[train]) for train, _ in folds]
    expected = [
        -metrics.mae(y[test], fitted.predict(X[test]), sample_weight=weights[test])
        for fitted, (_, test) in zip(models, folds, strict=True)
    ]
    assert weighted == close(np.array(expected))


def test_the_module_imports_no_heavy_library():
    # Loaded by its file, since the package around it may import more.
    code = (
        "import importlib.util, sys; spec = importlib.util.spec_from_file_location('m', sys.argv[1]); "
        "module = importlib.util.module_from_spec(spec); sys.modules['m'] = module; spec.loader.exec_module(module); "
        "print([name for name in ('sklearn', 'scipy', 'torch', 'pandas') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code, metrics.__file__], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_crps_of_a_distribution_in_closed_form_is_exact():
    prediction = CdfPrediction([0, 0, 4, 9], np.tile([0, 0.2, 0.3, 1], (3, 1)))
    model = SimpleNamespace(predict_distribution=lambda X: prediction)
    y, weights = [0, 3, 8], [1, 0, 2]
    for name in ("crps", "crps_fair"):
        assert scorer(name)(model, [[0]] * 3, y) == close(-prediction.crps(y).mean())
        weighted = scorer(name)(model, [[0]] * 3, y, sample_weight=weights)
        assert weighted == close(-np.average(prediction.crps(y), weights=weights))
    assert scorer("picp")(model, [[0]] * 3, y) == 1
    assert 0 > scorer("qice")(model, [[0]] * 3, y) > -1
