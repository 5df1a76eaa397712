from dataclasses import replace

import numpy as np
import pytest
import torch

from diffor import DiffoRClassifier, DiffoRRegressor
from diffor.baselines.densities import MixtureDensity
from diffor.diffusion import IncrementDiffusion
from diffor.encoders import TabularEncoder
from diffor.ensemble import (
    KINDS,
    MIN_NARROWING_ROWS,
    ValidationScore,
    choose_encoders,
    fit_dispersion,
    keep_better,
    name_encoders,
    own_part,
    partner_part,
    set_fineness,
)
from diffor.method import Encoder, Method, OrdinalEnsemble, OrdinalModel
from diffor.prediction import Prediction
from diffor.presets import PRESETS, WIDE_TABLE, count_members, settle_partner
from diffor.target import TargetScale
from diffor.train import History, Rows, TrainConfig

QUICK = {"preset": "fast", "max_steps": 40, "random_state": 0, "verbose": 0}


def make_data(n=200):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 2))
    return X, X[:, 0] + 0.3 * generator.normal(size=n)


def test_small_tables_get_more_members_and_a_number_is_obeyed():
    assert count_members(PRESETS["balanced"], 100) == 4
    assert count_members(PRESETS["balanced"], 10**6) == 2
    assert count_members(PRESETS["fast"], 100) == 1


@pytest.mark.parametrize(
    ("n_rows", "spread", "of_grades", "kinds"),
    [
        (100, 0.01, False, KINDS["sharp"]),
        (100, 0.20, False, KINDS["blurred"]),
        (100, 0.20, True, KINDS["grades"]),
        (100, None, False, ["piecewise", "periodic+coarse", "periodic", "piecewise+coarse"]),
        (100, None, True, ["plain", "periodic", "piecewise"]),
        (10_000, 0.01, False, KINDS["many rows"]),
        (10_000, 0.01, True, KINDS["many rows of grades"]),
    ],
)
def test_members_are_of_kinds_that_suit_the_table_in_turn(n_rows, spread, of_grades, kinds):
    assert choose_encoders(len(kinds) + 1, n_rows, spread, of_grades) == [*kinds, kinds[0]]


@pytest.mark.parametrize("guide", [True, False])
def test_a_named_encoder_is_that_of_all_members(guide):
    X = np.random.default_rng(0).normal(size=(150, 2))
    model = DiffoRRegressor(encoder="plain", guide=guide, n_members=2, max_steps=2, verbose=0).fit(X, X[:, 0])
    assert model.encoders_ == ["plain+guide" if guide else "plain"] * 2


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


def test_the_joint_loss_lets_each_member_learn_as_if_alone():
    torch.manual_seed(0)
    encoders = [TabularEncoder(2, [], width=16, n_layers=1, dropout=0.0) for _ in range(2)]
    members = [OrdinalModel(one, IncrementDiffusion(16, width=16, n_layers=1, dropout=0.0)) for one in encoders]
    inputs, y = (torch.randn(8, 2), torch.zeros(8, 0, dtype=torch.int64)), torch.rand(8)

    def gradients(model):
        members[0].zero_grad()
        torch.manual_seed(1)
        sum(model(inputs, y).values()).backward()
        return [parameter.grad.clone() for parameter in members[0].parameters()]

    together = gradients(OrdinalEnsemble(members))
    alone = gradients(members[0])
    assert all(torch.allclose(one, other, atol=1e-7) for one, other in zip(together, alone, strict=True))


def make_score(y, scale):
    rows = Rows((torch.zeros(len(y), 1),), torch.from_numpy(scale.to_unit(y)).float(), None, torch.arange(len(y)))
    return ValidationScore(rows, y, scale)


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


def test_members_answer_together_with_samples_of_their_own():
    X, y = make_data()
    model = DiffoRRegressor(**QUICK | {"n_members": 3, "encoder": "plain"}).fit(X, y)
    assert len(model.model_.members) == 3
    assert model.encoders_ == ["plain+guide"] * 3
    samples = model.sample(X[:20], 30)
    parts = [samples[:, place * 10 : (place + 1) * 10] for place in range(3)]
    assert not np.allclose(parts[0].mean(axis=1), parts[1].mean(axis=1))
    assert len(np.unique(samples[0])) == 30
    assert model.sample(X[:20], 2).shape == (20, 2)  # fewer samples than members
    assert model.predict_increments(X[:5]).shape == (5, 8)


@pytest.mark.parametrize(
    ("kind", "spread", "can_halve", "expected"),
    [
        ("periodic+coarse", 0.04, True, "periodic"),
        ("periodic", 0.04, True, "periodic"),
        ("periodic+coarse", 0.08, True, "periodic+coarse"),
        ("periodic", 0.08, True, "periodic"),
        ("periodic+guide", 0.12, True, "periodic+guide+coarse"),
        ("periodic+coarse", 0.12, True, "periodic+coarse"),
        ("periodic+coarse", 0.12, False, "periodic"),
        ("periodic+coarse", None, True, "periodic+coarse"),
    ],
)
def test_members_are_as_fine_as_the_target_deserves(kind, spread, can_halve, expected):
    assert set_fineness(kind, spread, can_halve) == expected


@pytest.mark.parametrize("n_increments", [8, 5, 1])
def test_increments_of_coarse_and_fine_members_are_joined(n_increments):
    X, y = make_data()
    model = DiffoRRegressor(**QUICK | {"n_members": 2, "n_increments": n_increments, "guide": False}).fit(X, y)
    coarse = {8: 4, 5: 5, 1: 1}[n_increments]
    counts = [coarse if "coarse" in kind else n_increments for kind in model.encoders_]
    assert [member.method.n_increments for member in model.model_.members] == counts
    assert model.predict_increments(X[:5]).shape == (5, n_increments)


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


@pytest.mark.parametrize("wrong", [0, "many", 1.5])
def test_wrong_numbers_of_members_are_named(wrong):
    with pytest.raises(ValueError, match="n_members must be 'auto' or at least 1, however: n_members="):
        DiffoRRegressor(**QUICK | {"n_members": wrong}).fit(*make_data())


@pytest.mark.parametrize(("n_columns", "embedding"), [(WIDE_TABLE, "periodic"), (WIDE_TABLE + 1, "plain")])
def test_numbers_of_wide_tables_are_not_embedded(n_columns, embedding):
    rows = Rows((torch.zeros(9, n_columns), torch.zeros(9, 0, dtype=torch.int64)), torch.rand(9), None, torch.arange(9))
    kinds = name_encoders(PRESETS["balanced"], rows, has_fineness=True)
    assert len(kinds) == 4
    assert any(embedding in kind for kind in kinds)
    assert any("periodic" in kind or "piecewise" in kind for kind in kinds) == (embedding == "periodic")


# --- a partner ---


def test_each_member_has_a_partner_of_its_kind_and_both_draw():
    X, y = make_data()
    model = DiffoRRegressor(**QUICK | {"partner": "mdn", "encoder": "plain", "n_members": 2}).fit(X, y)
    assert model.encoders_ == ["plain+guide"] * 2 + ["plain+guide+partner"] * 2
    methods = [type(member.method) for member in model.model_.members]
    assert methods == [IncrementDiffusion] * 2 + [MixtureDensity] * 2
    assert [share for _, _, share in model.model_.shares(8)] == [2] * 4
    assert {"denoise", "increment"} < model.history_.records[0].keys()  # the history is DiffoR's
    distribution = model.predict_distribution(X[:5])
    assert np.allclose(model.predict(X[:5]), distribution.median)  # not the mean that the partner alone decides by


def test_with_a_partner_increments_are_those_of_diffor_and_files_keep_all(tmp_path):
    X, y = make_data()
    settings = QUICK | {"encoder": "plain", "guide": False, "calibrate": False, "max_steps": 10}
    model = DiffoRRegressor(**settings, partner="mdn").fit(X, y)
    increments = model.predict_increments(X[:6])
    assert increments.shape == (6, 8)
    assert (increments >= 0).all()
    model.save(tmp_path / "model")
    again = DiffoRRegressor.load(tmp_path / "model")
    assert np.array_equal(again.sample(X[:6], 9), model.sample(X[:6], 9))


def test_the_accurate_preset_has_a_partner_and_none_switches_it_off():
    X, y = make_data(120)
    grades = np.digitize(y, [-0.5, 0.5])
    accurate = QUICK | {"preset": "accurate", "max_steps": 2}
    of_values = DiffoRRegressor(**accurate).fit(X, y)
    of_grades = DiffoRClassifier(**accurate).fit(X, grades)
    alone = DiffoRRegressor(**accurate, partner="none").fit(X, y)
    assert [kind.endswith("+partner") for kind in of_values.encoders_] == [False] * 4 + [True] * 4
    assert (of_values.settings_.partner, of_grades.settings_.partner) == ("mdn", "cross-entropy")
    assert of_grades.model_.members[-1].method.binning.n_bins == 3
    assert of_grades.predict_proba(X[:4]).shape == (4, 3)
    assert not any("partner" in kind for kind in alone.encoders_)


def test_many_numbers_have_another_partner_than_few():
    assert settle_partner(PRESETS["accurate"], WIDE_TABLE).partner == "mdn"
    assert settle_partner(PRESETS["accurate"], WIDE_TABLE + 1).partner == "cross-entropy"
    assert settle_partner(replace(PRESETS["accurate"], encoder="small"), 0).partner == "cross-entropy"
    assert settle_partner(replace(PRESETS["accurate"], partner="sord"), 0).partner == "sord"
    assert settle_partner(replace(PRESETS["accurate"], method="corn"), 0).partner == "none"


def test_partners_have_what_time_is_left_and_a_checkpoint_of_their_own(tmp_path):
    config = TrainConfig(time_limit=100.0, checkpoint_dir=str(tmp_path), seed=3)
    assert own_part(config, "none") == config
    assert own_part(config, "mdn").time_limit == 75
    later = partner_part(config, History(seconds=40.0))
    assert (later.time_limit, later.seed, later.checkpoint_dir) == (60, 4, str(tmp_path / "partner"))
    assert partner_part(config, History(seconds=200.0)).time_limit > 0
    assert partner_part(TrainConfig(), History(seconds=40.0)).time_limit is None


def test_a_run_with_partners_resumes_from_its_checkpoints(tmp_path):
    X, y = make_data()
    settings = QUICK | {"partner": "mdn", "encoder": "plain", "max_steps": 60, "checkpoint_dir": tmp_path}
    first = DiffoRRegressor(**settings).fit(X, y)
    assert (tmp_path / "partner").is_dir()
    again = DiffoRRegressor(**settings).fit(X, y)
    assert again.history_.records == first.history_.records
    assert np.array_equal(again.sample(X[:6], 9), first.sample(X[:6], 9))


def test_an_interrupted_partner_is_left_out(monkeypatch):
    X, y = make_data()

    def interrupt(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(MixtureDensity, "loss", interrupt)
    with pytest.warns(UserWarning, match="training was interrupted at step 0"):
        model = DiffoRRegressor(**QUICK | {"partner": "mdn", "encoder": "plain"}).fit(X, y)
    assert model.encoders_ == ["plain+guide"]


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
