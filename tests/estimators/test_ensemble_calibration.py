import numpy as np
import pytest
import torch

from diffor.core.grades import Spread
from diffor.core.method import Encoder, Method, OrdinalEnsemble, OrdinalModel
from diffor.core.prediction import Prediction
from diffor.core.target import GradeScale, TargetScale
from diffor.estimators.ensemble import ValidationScore, calibrate
from diffor.training.loop import Rows


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
