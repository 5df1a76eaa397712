"""Students that learn in one pass what a model answers by its chain."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

import diffor
from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalClassifier, OrdinalRegressor
from diffor.baselines.bins import MiddleClass
from diffor.baselines.quantiles import QuantileRegression
from diffor.distillation import GradeLesson, QuantileLesson, count_trees, quicker_guide

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
    return DiffoRRegressor("fast", bounds=(-3, 4), n_members=2, max_steps=150, guide=False, **QUICK).fit(X, y)


@pytest.fixture(scope="module")
def student(teacher):
    return teacher.distill(make_table(400)[0], max_steps=200)


def test_a_student_answers_as_its_teacher_does(teacher, student):
    X, y = make_table(300, seed=1)
    ours, theirs = student.predict_distribution(X, 64), teacher.predict_distribution(X, 64)
    between = np.abs(ours.ordered - theirs.ordered).mean()
    assert between < 0.15 * y.std()
    assert ours.crps(y).mean() < 1.1 * theirs.crps(y).mean()
    constant = np.abs(np.sort(theirs.samples.ravel())[None] - y[:, None]).mean()
    assert ours.crps(y).mean() < 0.6 * constant


def test_a_student_is_an_ordinary_estimator_of_one_pass(teacher, student, tmp_path):
    X, _ = make_table(50, seed=2)
    assert type(student) is OrdinalRegressor
    assert student.settings_.method == "quantile-regression"
    assert (student.bounds, student.feature_names_in_.tolist()) == ((-3, 4), ["size", "noise", "city"])
    assert {type(member.method) for member in student.model_.models} == {QuantileRegression}
    assert len(student.model_.members) == len(teacher.model_.members)
    assert float(student.model_.dispersion) == float(teacher.model_.dispersion)
    student.save(tmp_path / "student")
    again = diffor.load(tmp_path / "student")
    np.testing.assert_array_equal(again.sample(X, 20), student.sample(X, 20))


def test_quantiles_neither_cross_nor_leave_the_bounds(student):
    far = pd.DataFrame({"size": [-1e6, 1e6, 0.0], "noise": [1e6, -1e6, 0.5], "city": ["Oslo", "nowhere", None]})
    quantiles = student.predict_quantiles(far, np.linspace(0, 1, 41))
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert quantiles.min() >= -3
    assert quantiles.max() <= 4


def test_the_seed_fixes_a_student_and_the_teacher_stays_as_it_was(teacher):
    X, _ = make_table(60)
    before = teacher.predict(X)
    first, second, other = (teacher.distill(X, max_steps=5, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    assert not np.array_equal(first.predict(X), other.predict(X))
    np.testing.assert_array_equal(teacher.predict(X), before)


def test_a_student_of_grades_has_its_teachers_probabilities():
    X, y = make_table(400)
    grades = np.array(["low", "mid", "high"])[np.digitize(y, [0, 1])]
    order = ["low", "mid", "high"]
    teacher = DiffoRClassifier("fast", grades=order, decision="mode", max_steps=150, guide=False, **QUICK)
    student = teacher.fit(X, grades).distill(X, max_steps=200)
    fresh, _ = make_table(200, seed=1)
    assert type(student) is OrdinalClassifier
    assert (student.classes_.tolist(), student.decision) == (order, "mode")
    assert isinstance(student.model_.models[0].method, MiddleClass)
    assert np.abs(student.predict_proba(fresh) - teacher.predict_proba(fresh)).mean() < 0.05
    assert (student.predict(fresh) == teacher.predict(fresh)).mean() > 0.85


def test_a_partner_and_a_part_of_the_guide_are_learned_from():
    X, y = make_table(150)
    teacher = DiffoRRegressor("accurate", n_members=1, max_steps=3, **QUICK).fit(X, y)
    student = teacher.distill(X, max_steps=3)
    assert all("+partner" not in kind for kind in student.encoders_)
    assert len(student.model_.members) == len(teacher.model_.members)
    assert len(student.guide_.folds) <= len(teacher.guide_.folds)
    assert student.predict(X).shape == (150,)


def test_the_quicker_guide_has_the_folds_with_the_fewest_trees():
    X, y = make_table(150)
    guide = DiffoRRegressor("fast", max_steps=1, **QUICK).fit(X, y).guide_
    counts = sorted(count_trees(fold) for fold in guide.folds)
    for limit, n_folds in ((sum(counts), 5), (sum(counts) - 1, 4), (sum(counts[:2]), 2), (0, 1)):
        assert [count_trees(fold) for fold in quicker_guide(guide, limit).folds] == counts[:n_folds]


def test_a_student_reads_as_many_trees_as_asked_for():
    X, y = make_table(150)
    teacher = DiffoRRegressor("fast", max_steps=1, **QUICK).fit(X, y)
    counts = [count_trees(fold) for fold in teacher.guide_.folds]
    for limit, expected in ((1, min(counts)), (sum(counts), sum(counts))):
        student = teacher.distill(X, max_steps=1, max_trees=limit)
        assert sum(count_trees(fold) for fold in student.guide_.folds) == expected


def test_a_student_of_images(faces, face_model):
    _, paths, _ = faces
    student = face_model.distill(paths, max_steps=2)
    assert student.predict(paths[:3]).shape == (3,)
    np.testing.assert_allclose(student.predict(paths[:3]), student.predict(paths)[:3], atol=1e-4)


# --- lessons ---


def test_the_distance_of_quantiles_is_that_between_distributions():
    method = QuantileRegression(1, n_quantiles=3)
    lesson = QuantileLesson(method, place=1)
    answers = torch.tensor([[[9.0, 9.0, 9.0], [0.1, 0.2, 0.6]]])
    lesson.prepare(torch.zeros(1), answers=answers)
    with torch.no_grad():
        method.head.weight.zero_()
        method.head.bias.zero_()
    start = np.quantile([0.1, 0.2, 0.6], [0.25, 0.5, 0.75])
    spread = np.std([0.1, 0.2, 0.6])
    expected = np.abs(start - [0.1, 0.2, 0.6]).mean() / spread
    found = lesson.loss(torch.zeros(1, 1), torch.zeros(1), answers=answers)["distance"].item()
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_distance_of_grades_is_smallest_at_the_answers_themselves():
    method = MiddleClass(1, n_grades=3)
    lesson = GradeLesson(method, place=0)
    wanted = torch.tensor([[[0.2, 0.5, 0.3]]]).expand(100, 1, 3)
    lesson.prepare(torch.zeros(100), answers=wanted)
    features = torch.zeros(100, 1)
    assert torch.allclose(method.distribution(features).probabilities, wanted[:, 0], atol=0.01)
    with torch.no_grad():
        method.head.bias.copy_(wanted[0, 0].log())
    entropy = -(wanted[0, 0] * wanted[0, 0].log()).sum().item()
    assert lesson.loss(features, torch.zeros(100), answers=wanted)["distance"].item() == pytest.approx(entropy)


# --- wrong use ---


def test_what_cannot_be_distilled_says_why(teacher, student):
    X, _ = make_table(30)
    with pytest.raises(NotFittedError, match="distill needs a trained model, however: this DiffoRRegressor is not"):
        DiffoRRegressor().distill(X)
    with pytest.raises(ValueError, match="distill is for DiffoR's chains, however: method='quantile-regression'"):
        student.distill(X)
    with pytest.raises(ValueError, match="distill needs at least 20 rows, however: X has 19"):
        teacher.distill(X[:19])
    with pytest.raises(ValueError, match="missing: 'city'"):
        teacher.distill(X.drop(columns="city"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_samples": 0}, "n_samples must be at least 1, however: n_samples=0"),
        ({"max_steps": 0}, "max_steps must be at least 1, however: max_steps=0"),
        ({"max_trees": 0}, "max_trees must be at least 1, however: max_trees=0"),
        ({"max_rows": 5}, "max_rows must be at least 20, however: max_rows=5"),
        ({"learning_rate": 0.0}, "learning_rate must be positive, however: learning_rate=0.0"),
        ({"n_quantiles": 1}, "n_quantiles must be at least 2, however: n_quantiles=1"),
    ],
)
def test_wrong_arguments_say_the_rule(teacher, wrong, message):
    with pytest.raises(ValueError, match=message):
        teacher.distill(make_table(30)[0], **wrong)
