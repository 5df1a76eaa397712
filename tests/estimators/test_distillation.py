"""Students: one network that learns what priors and many networks answer together."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

import diffor
from diffor import DiffoRClassifier, DiffoRRegressor
from diffor.encoders.tabular.fold_networks import FoldNetworks
from diffor.estimators.distillation import Pupil

QUICK = {"random_state": 0, "verbose": 0}


def make_table(n, seed=0):
    random = np.random.default_rng(seed)
    table = pd.DataFrame({"size": random.normal(size=n), "noise": random.uniform(0, 1, n),
                          "city": random.choice(["Oslo", "Rome"], n)})  # fmt: skip
    y = np.clip(table["size"] + (table["city"] == "Rome") + 0.4 * random.normal(size=n) * table["noise"], -3, 4)
    return table, y.to_numpy()


@pytest.fixture(scope="module")
def teacher():
    X, y = make_table(400)
    return DiffoRRegressor("fast", bounds=(-3, 4), prior="trees", max_steps=100, **QUICK).fit(X, y)


@pytest.fixture(scope="module")
def student(teacher):
    return teacher.distill(make_table(400)[0], max_steps=300)


def test_a_student_answers_as_its_teacher_does(teacher, student):
    X, y = make_table(300, seed=1)
    ours, theirs = student.predict_distribution(X), teacher.predict_distribution(X)
    assert np.abs(ours.samples - theirs.samples).mean() < 0.15 * y.std()
    assert ours.crps(y).mean() < 1.1 * theirs.crps(y).mean()
    constant = np.abs(y[:, None] - y).mean() / 2
    assert ours.crps(y).mean() < 0.6 * constant


def test_a_student_is_an_ordinary_estimator_of_one_network_without_priors(teacher, student, tmp_path):
    X, _ = make_table(50, seed=2)
    assert type(student) is DiffoRRegressor
    assert (student.encoders_, student.priors_) == (["student"], None)
    assert (student.bounds, student.feature_names_in_.tolist()) == ((-3, 4), ["size", "noise", "city"])
    assert [(kind.n_folds, kind.factors.shape[1]) for kind in student.model_.networks] == [(1, 0)]
    assert student.model_.borders == teacher.model_.borders
    student.save(tmp_path / "student")
    again = diffor.load(tmp_path / "student")
    np.testing.assert_array_equal(again.sample(X, 20), student.sample(X, 20))


def test_the_seed_fixes_a_student_and_the_teacher_stays_as_it_was(teacher):
    X, _ = make_table(60)
    before = teacher.predict(X)
    first, second, other = (teacher.distill(X, max_steps=5, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    assert not np.array_equal(first.predict(X), other.predict(X))
    np.testing.assert_array_equal(teacher.predict(X), before)


def test_a_student_of_grades_has_its_teachers_probabilities():
    X, y = make_table(400)
    order = ["low", "mid", "high"]
    grades = np.array(order)[np.digitize(y, [0, 1])]
    teacher = DiffoRClassifier("fast", grades=order, decision="mode", max_steps=100, prior=None, **QUICK)
    student = teacher.fit(X, grades).distill(X, max_steps=200)
    fresh, _ = make_table(200, seed=1)
    assert type(student) is DiffoRClassifier
    assert (student.grades_.tolist(), student.decision) == (order, "mode")
    assert np.abs(student.predict_proba(fresh) - teacher.predict_proba(fresh)).mean() < 0.05
    assert (student.predict(fresh) == teacher.predict(fresh)).mean() > 0.85


def test_a_student_promises_no_more_than_it_was_calibrated_for():
    X, y = make_table(80)
    teacher = DiffoRRegressor(max_steps=2, prior=None, keep_out_of_fold=True, **QUICK).fit(X, y).conformalize(X, y)
    student = teacher.distill(X, max_steps=2)
    assert (student.conformal_, student.out_of_fold_) == (None, None)
    assert teacher.conformal_ is not None
    assert teacher.out_of_fold_ is not None


def test_the_distance_is_smallest_at_the_answers_themselves():
    networks = FoldNetworks(1, [[0.0, 1.0]], [], torch.zeros(3), [])
    inputs = torch.zeros(5, 1), torch.zeros(5, 0, dtype=torch.int64)
    wanted = torch.tensor([0.8, 0.5, 0.1]).expand(5, 3)
    pupil, found = Pupil(networks), []
    for off in (-0.5, 0.0, 0.5):
        networks.out.bias.data.copy_(torch.logit(wanted[0]) + off)
        found.append(pupil(inputs, torch.zeros(5), None, wanted)["distance"].item())
    entropy = -(wanted[0] * wanted[0].log() + (1 - wanted[0]) * (1 - wanted[0]).log()).sum().item()
    assert found[1] == pytest.approx(entropy)
    assert found[1] < min(found[0], found[2])


# --- wrong use ---


def test_what_cannot_be_distilled_says_why(teacher):
    X, y = make_table(30)
    with pytest.raises(NotFittedError, match="distill needs a trained model, but this DiffoRRegressor is not"):
        DiffoRRegressor().distill(X)
    chain = DiffoRRegressor("paper", max_steps=1, **QUICK).fit(X, y)
    with pytest.raises(ValueError, match=r"distill is for priors and cross-fitted .*but .*'diffor-paper'"):
        chain.distill(X)
    with pytest.raises(ValueError, match="distill needs at least 20 rows, but X has 19"):
        teacher.distill(X[:19])
    with pytest.raises(ValueError, match="missing: 'city'"):
        teacher.distill(X.drop(columns="city"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_steps": 0}, "max_steps must be at least 1, but got max_steps=0"),
        ({"max_rows": 5}, "max_rows must be at least 20, but got max_rows=5"),
        ({"learning_rate": 0.0}, "learning_rate must be positive, but got learning_rate=0.0"),
    ],
)
def test_wrong_arguments_say_the_rule(teacher, wrong, message):
    with pytest.raises(ValueError, match=message):
        teacher.distill(make_table(30)[0], **wrong)
