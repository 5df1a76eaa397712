from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from diffor import OrdinalRegressor
from diffor.core.grades import Spread
from diffor.core.method import Encoder, Method, OrdinalEnsemble, OrdinalModel
from diffor.core.prediction import Prediction
from diffor.core.target import GradeScale, TargetScale
from diffor.encoders import TabularEncoder
from diffor.encoders.tabular.networks import WIDE_TABLE
from diffor.estimators.ensemble import ValidationScore, calibrate, name_encoder
from diffor.estimators.rows import PassedRows
from diffor.estimators.settings import PRESETS
from diffor.methods.diffor import IncrementDiffusion
from diffor.training.loop import Rows

QUICK = {"preset": "fast", "encoder": "plain", "max_steps": 10, "random_state": 0, "verbose": 0}


def make_data(n=200):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 2))
    return X, X[:, 0] + 0.3 * generator.normal(size=n)


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


def test_members_answer_together_with_samples_of_their_own():
    X, y = make_data()
    settings = {"denoiser": "mlp", "width": 16, "parameterization": "velocity", "decoding": "chain"}
    model = OrdinalRegressor("diffor-paper", method_settings=settings, n_members=3, **QUICK).fit(X, y)
    assert len(model.model_.members) == 3
    assert model.encoders_ == ["plain"] * 3
    samples = model.sample(X[:20], 30)
    parts = [samples[:, place * 10 : (place + 1) * 10] for place in range(3)]
    assert not np.allclose(parts[0].mean(axis=1), parts[1].mean(axis=1))
    assert len(np.unique(samples[0])) == 30
    assert model.sample(X[:20], 2).shape == (20, 2)  # fewer samples than members
    assert model.predict_increments(X[:5]).shape == (5, 8)


def test_members_in_closed_form_are_pooled():
    X, y = make_data()
    model = OrdinalRegressor("diffor", n_members=2, **QUICK).fit(X, y)
    inputs, keys = model.reader.tensors(PassedRows(pd.DataFrame(X)))
    cdfs = [member.predict(inputs, keys, 1).cdf(np.full(200, 0.4)) for member in model.model_.models]
    assert not np.allclose(*cdfs)
    pooled = model.predict_distribution(X).cdf(model.scale_.from_unit(np.full(200, 0.4)))
    assert pooled == pytest.approx(np.mean(cdfs, axis=0), abs=1e-5)


def test_the_encoder_is_the_named_one_or_follows_the_number_of_columns():
    narrow, wide = (Rows((torch.zeros(3, n),), torch.zeros(3), None, torch.arange(3)) for n in (2, WIDE_TABLE + 1))
    assert [name_encoder(PRESETS["balanced"], rows) for rows in (narrow, wide)] == ["piecewise", "plain"]
    assert name_encoder(PRESETS["paper"], narrow) == "plain"
    assert name_encoder(PRESETS["balanced"], replace(narrow, inputs=())) == "images"


# --- validation rows ---


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


class Opened(Always):
    """Notes the rows that it is shown after training."""

    def calibrate(self, features, y, keys, n_samples, **side):
        self.shown = features.shape[0], y.tolist(), n_samples


def test_each_method_is_shown_the_validation_rows_once_training_is_over():
    y = np.array([0.2, 0.4, 0.6])
    members = [OrdinalModel(Rowwise(), Opened(value)) for value in (0.4, 0.5)]
    calibrate(OrdinalEnsemble(members), make_score(y, TargetScale(bounds=(0, 1)).fit(y)))
    assert [member.method.shown for member in members] == [(3, pytest.approx([0.2, 0.4, 0.6]), 16)] * 2


def test_the_score_is_the_weighted_crps_in_the_users_units():
    y = np.array([10.0, 40.0])
    rows = Rows((torch.zeros(2, 1),), torch.tensor([0.1, 0.4]), torch.tensor([3.0, 1.0]), torch.arange(2))
    score = ValidationScore(rows, y, TargetScale(bounds=(0, 100)).fit(y))
    assert score(OrdinalEnsemble([OrdinalModel(Rowwise(), Always(0.2))])) == pytest.approx((3 * 10 + 20) / 4)


def test_grades_that_hardly_differ_are_to_be_moved_apart():
    grades, scale = np.arange(90) % 3, GradeScale(3)
    score = make_score(grades, scale)
    calibrate(OrdinalEnsemble([OrdinalModel(Rowwise(), Opened(1 / 2))]), score)
    assert scale.spread == Spread.of(np.tile([0.0, 1.0, 0.0], (90, 1)))
