import numpy as np
import pytest
import torch

from diffor import DiffoRRegressor
from diffor.calibration import MIN_NARROWING_ROWS, ValidationScore, fit_atoms, fit_dispersion, keep_better
from diffor.method import Encoder, Method, OrdinalEnsemble, OrdinalModel
from diffor.prediction import Prediction
from diffor.target import TargetScale
from diffor.train import Rows

QUICK = {"preset": "fast", "max_steps": 40, "random_state": 0, "verbose": 0}


def make_data(n=200):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 2))
    return X, X[:, 0] + 0.3 * generator.normal(size=n)


class Rowwise(Encoder):
    out_features = 1

    def forward(self, *inputs):
        return inputs[0]


class Always(Method):
    """Predicts one value, whatever the row."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def loss(self, features, y, weights=None, **side):
        raise NotImplementedError

    def predict(self, features, keys, n_samples, **side):
        return Prediction(np.full((len(features), n_samples), self.value))


def make_score(y, scale):
    rows = Rows((torch.zeros(len(y), 1),), torch.from_numpy(scale.to_unit(y)).float(), None, torch.arange(len(y)))
    return ValidationScore(rows, y, scale)


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([0.5, 0.5, 0.5, 0.5], [0, 1, 2, 3]),  # no difference: all stay
        ([0.5, 0.8, 0.5, 0.8], [0, 2]),  # the guide helps
        ([0.8, 0.5, 0.8, 0.5], [1, 3]),  # the guide misleads
        ([0.9, 0.5, 0.5, 0.9], [1, 2]),  # waves help
        ([0.4, 0.6, 0.4, 0.6], [0, 1, 2, 3]),  # wrong on either side: better together
    ],
)
def test_validation_rows_decide_which_encoders_stay(values, kept):
    kinds = ["piecewise+guide", "periodic", "periodic+guide", "piecewise"]
    members = [OrdinalModel(Rowwise(), Always(value)) for value in values]
    ensemble = OrdinalEnsemble(members)
    y = np.tile([0.5, 0.3, 0.7, 0.5, 0.5], 20)
    score = make_score(y, TargetScale(bounds=(0, 1)).fit(y))
    assert keep_better(ensemble, kinds, score) == [kinds[place] for place in kept]
    assert [id(member) for member in ensemble.members] == [id(members[place]) for place in kept]


def test_few_rows_do_not_decide_which_encoders_stay():
    kinds, values = ["piecewise+guide", "periodic"], [0.5, 0.62]
    y = np.array([0.5, 0.62, 0.45])  # the first is better on average, by less than its error
    score = make_score(y, TargetScale(bounds=(0, 1)).fit(y))
    ensemble = OrdinalEnsemble([OrdinalModel(Rowwise(), Always(value)) for value in values])
    assert keep_better(ensemble, kinds, score) == kinds


@pytest.mark.parametrize(
    ("values", "kept"),
    [([0.5, 0.9], ["plain"]), ([0.9, 0.5], ["plain", "plain+partner"])],  # DiffoR stays, right or wrong
)
def test_a_partner_that_makes_answers_worse_is_left_out(values, kept):
    y = np.tile([0.5, 0.3, 0.7, 0.5, 0.5], 20)
    score = make_score(y, TargetScale(bounds=(0, 1)).fit(y))
    ensemble = OrdinalEnsemble([OrdinalModel(Rowwise(), Always(value)) for value in values])
    assert keep_better(ensemble, ["plain", "plain+partner"], score) == kept


def test_no_trait_leaves_only_partners():
    kinds = ["plain+coarse", "plain+partner"]
    y = np.tile([0.5, 0.3, 0.7, 0.5, 0.5], 20)
    score = make_score(y, TargetScale(bounds=(0, 1)).fit(y))
    ensemble = OrdinalEnsemble([OrdinalModel(Rowwise(), Always(value)) for value in (0.9, 0.5)])
    assert keep_better(ensemble, kinds, score) == kinds


@pytest.mark.parametrize("truth", [0.5, 1.0, 2.0])
def test_dispersion_finds_the_spread_of_the_truth(truth):
    generator = np.random.default_rng(0)
    scale = TargetScale(bounds=(-10, 10)).fit([0.0])
    centre = generator.normal(size=1000)
    y = centre + truth * 0.4 * generator.normal(size=1000)
    samples = centre[:, None] + 0.4 * generator.normal(size=(1000, 64))
    factor = fit_dispersion(Prediction(scale.to_unit(samples)), make_score(y, scale))
    assert factor == pytest.approx(np.clip(truth, 0.75, 3), rel=0.15)


def test_dispersion_grows_until_intervals_hold_their_share():
    generator = np.random.default_rng(0)
    scale = TargetScale(bounds=(-10, 10)).fit([0.0])
    centre = generator.normal(size=1000)
    # The middle is right and the tails are heavier than predicted: the score alone would leave intervals too narrow.
    y = centre + 0.4 * generator.standard_t(df=4, size=1000)
    unit = Prediction(scale.to_unit(centre[:, None] + 0.4 * generator.normal(size=(1000, 64))))
    score = make_score(y, scale)
    chosen = unit.widen(fit_dispersion(unit, score), 0.0, 1.0)
    assert score.covered(unit) < 0.88
    assert score.covered(chosen) >= 0.89
    assert score.of(chosen) <= score.of(unit) * 1.011


def test_dispersion_shrinks_intervals_that_hold_too_much():
    generator = np.random.default_rng(0)
    scale = TargetScale(bounds=(-10, 10)).fit([0.0])
    centre = generator.normal(size=1000)
    # The middle is right and there are no tails at all: the score alone would leave intervals too wide.
    y = centre + 0.4 * generator.uniform(-1.5, 1.5, size=1000)
    unit = Prediction(scale.to_unit(centre[:, None] + 0.4 * generator.normal(size=(1000, 64))))
    score = make_score(y, scale)
    chosen = unit.widen(fit_dispersion(unit, score), 0.0, 1.0)
    assert score.covered(unit) > 0.93
    assert 0.9 <= score.covered(chosen) < 0.92
    assert score.of(chosen) <= score.of(unit) * 1.011


def test_few_rows_do_not_narrow_intervals_below_what_the_score_asks_for():
    scale = TargetScale(bounds=(-10, 10)).fit([0.0])
    factors = {}
    for n in (MIN_NARROWING_ROWS - 1, MIN_NARROWING_ROWS):
        generator = np.random.default_rng(3)
        centre = generator.normal(size=200)[:n]
        y = centre + 0.4 * generator.uniform(-1.5, 1.5, size=200)[:n]
        unit = Prediction(scale.to_unit(centre[:, None] + 0.4 * generator.normal(size=(200, 64))[:n]))
        factors[n] = fit_dispersion(unit, make_score(y, scale))
    assert factors[MIN_NARROWING_ROWS] < factors[MIN_NARROWING_ROWS - 1]


def test_samples_beside_an_atom_are_no_reason_to_widen_intervals():
    generator = np.random.default_rng(0)

    def draw(zero, *shape):
        return np.where(generator.random(shape) < 0.3, zero, generator.uniform(2, 8, shape))

    y = draw(0.0, 1000)
    scale = TargetScale(bounds=(0, 10)).fit(y)
    # The law is right, but no sample is equal to zero: by themselves they would hold none of the zeros.
    unit = Prediction(scale.to_unit(draw(generator.uniform(0.01, 0.1, (1000, 64)), 1000, 64)))
    score = make_score(y, scale)
    without = fit_dispersion(unit, score)
    assert score.covered(unit) < 0.75
    fit_atoms(unit, score)
    factor = fit_dispersion(unit, score)
    chosen = unit.widen(factor, 0.0, 1.0)
    assert factor < without
    assert 0.9 <= score.covered(chosen) < 0.92
    assert (scale.from_samples(chosen.samples) == 0).mean() == pytest.approx((y == 0).mean(), abs=0.01)


def test_an_interval_that_ends_at_an_atom_holds_it():
    y = np.zeros(1000)
    scale = TargetScale(bounds=(0, 10)).fit(y)
    score = make_score(y, scale)

    def of_zeros(n_zeros):
        samples = np.r_[np.zeros(n_zeros), np.linspace(1, 9, 100 - n_zeros)]
        return Prediction(np.tile(scale.to_unit(samples), (1000, 1)))

    assert score.covered(of_zeros(8)) == pytest.approx((9 - 5.05) / 9, abs=0.05)  # a place among the eight is drawn
    assert score.covered(of_zeros(8), with_ends=True) == 1  # 5 % of the samples are zero, so intervals begin there
    assert score.covered(of_zeros(2), with_ends=True) == 0


def test_coverage_of_few_samples_is_counted_without_bias():
    generator = np.random.default_rng(0)
    scale = TargetScale(bounds=(-10, 10)).fit([0.0])
    y, samples = generator.normal(size=1000), generator.normal(size=(1000, 16))
    unit = Prediction(scale.to_unit(samples))
    low, high = unit.interval(0.9).T
    inside = (low <= scale.to_unit(y)) & (scale.to_unit(y) <= high)
    assert inside.mean() == pytest.approx(0.9 * 16 / 17, abs=0.03)  # a little narrow, as any between few samples
    assert make_score(y, scale).covered(unit) == pytest.approx(0.9, abs=0.02)


def test_validation_rows_are_drawn_from_the_whole_table_not_cut_off():
    y = np.arange(10_000.0)
    score = make_score(y, TargetScale().fit(y))
    assert len(score.rows) == 1024
    assert score.y.mean() == pytest.approx(5000, rel=0.05)


@pytest.mark.parametrize(("n_rows", "n_samples"), [(50, 256), (500, 131), (5000, 64)])
def test_choices_after_training_draw_more_samples_where_rows_are_few(n_rows, n_samples):
    y = np.arange(float(n_rows))
    score = make_score(y, TargetScale().fit(y))
    assert score.finer().n_samples == n_samples
    assert score.n_samples == 16
    assert score.finer().rows is score.rows


def test_calibration_can_be_left_out():
    X, y = make_data()
    model = DiffoRRegressor(calibrate=False, **QUICK).fit(X, y)
    assert float(model.model_.dispersion) == 1.0


def test_calibrated_intervals_are_no_worse_on_validation_rows():
    X, y = make_data(400)
    fitted = [
        DiffoRRegressor(calibrate=calibrate, **QUICK).fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
        for calibrate in (True, False)
    ]
    crps = [model.predict_distribution(X[300:], 64).crps(y[300:]).mean() for model in fitted]
    assert crps[0] <= crps[1] * 1.01
