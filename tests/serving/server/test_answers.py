"""What the server answers is what the model says: the same rows, put to it alone or with others."""

import numpy as np
import pytest
from serving import PAPER, PLAIN, QUICK, as_rows

pytest.importorskip("fastapi")

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalClassifier, OrdinalRegressor
from diffor.estimators.chain import trajectory_of
from diffor.serving.server.answers import Asked, ModelAnswers, Question
from diffor.serving.server.columns import columns_of
from diffor.serving.server.rows import check_rows

LEVELS = (0.1, 0.5, 0.123456789)


def question(model, table, side=None, **asked):
    rows = as_rows(table)
    for name, values in (side or {}).items():
        for row, value in zip(rows, values, strict=True):
            row[name] = float(value)
    return Question(check_rows(rows, columns_of(model), 1000), Asked(**asked))


def part(answer, name):
    return [prediction[name] for prediction in answer["predictions"]]


@pytest.fixture(scope="module")
def values(flats):
    return DiffoRRegressor("fast", bounds=(0, 500), **QUICK).fit(*flats)


@pytest.fixture(scope="module")
def graded(flats):
    table, price = flats
    names = np.array(["low", "mid", "high"])[np.digitize(price, [150, 280])]
    return DiffoRClassifier("fast", grades=["low", "mid", "high"], **QUICK).fit(table, names)


def test_values_are_those_of_predict(values, flats):
    table = flats[0].head(9)
    (answer,) = ModelAnswers(values)([question(values, table, levels=LEVELS, coverage=0.8)])
    assert part(answer, "point") == values.predict(table).tolist()
    assert part(answer, "interval") == values.predict_interval(table, coverage=0.8).tolist()
    expected = values.predict_quantiles(table, LEVELS).tolist()
    assert [list(found.values()) for found in part(answer, "quantiles")] == expected
    assert list(part(answer, "quantiles")[0]) == ["0.1", "0.5", "0.123456789"]
    assert part(answer, "increments") == values.predict_increments(table).tolist()
    assert set(part(answer, "grades")) == {None}
    assert answer["coverage"] == 0.8


def test_grades_are_those_of_predict(graded, flats):
    table = flats[0].head(9)
    (answer,) = ModelAnswers(graded)([question(graded, table, levels=None, coverage=0.7)])
    assert part(answer, "point") == graded.predict(table).tolist()
    assert [list(found.values()) for found in part(answer, "grades")] == (
        graded.predict_proba(table)[:, np.searchsorted(graded.classes_, graded.grades_)].tolist()
    )
    assert list(part(answer, "grades")[0]) == ["low", "mid", "high"]
    for (low, high), held in zip(part(answer, "interval"), graded.predict_set(table, coverage=0.7), strict=True):
        assert [low, high] == [graded.grades_[held][0], graded.grades_[held][-1]]
    assert part(answer, "increments") == graded.predict_increments(table).tolist()
    assert set(part(answer, "quantiles")) == {None}


def test_joined_questions_are_answered_as_if_alone(values, flats):
    answers, table = ModelAnswers(values), flats[0]
    questions = [
        question(values, table[:1]),
        question(values, table[1:4], levels=LEVELS, coverage=0.5),
        question(values, table[4:21], increments=False),
        question(values, table[21:30]),
    ]
    together = answers(questions)
    for ours, alone in zip(together, (answers([one])[0] for one in questions), strict=True):
        for mine, theirs in zip(ours["predictions"], alone["predictions"], strict=True):
            # Kernels may round differently in the last digits of single precision, see KERNEL_ROWS.
            assert mine["point"] == pytest.approx(theirs["point"], rel=1e-5)
            assert mine["quantiles"] == pytest.approx(theirs["quantiles"], rel=1e-5)
            assert mine["interval"] == pytest.approx(theirs["interval"], rel=1e-5)
            assert (mine["increments"] is None) == (theirs["increments"] is None)
    assert part(together[2], "increments")[0] is None


@pytest.mark.parametrize("kind", ["values", "graded"])
def test_guaranteed_answers_are_those_of_the_calibrated_model(kind, flats, request, tmp_path):
    request.getfixturevalue(kind).save(tmp_path / "model")
    model = type(request.getfixturevalue(kind)).load(tmp_path / "model")
    table, price = flats
    y = price if kind == "values" else np.array(["low", "mid", "high"])[np.digitize(price, [150, 280])]
    model.conformalize(table, y)
    rows = table.head(7)
    levels = LEVELS if kind == "values" else None
    answer, other = ModelAnswers(model)([
        question(model, rows, levels=levels, coverage=0.8),
        question(model, rows, levels=levels, coverage=0.6),
    ])  # fmt: skip
    for told, coverage in ((answer, 0.8), (other, 0.6)):
        if kind == "values":
            assert part(told, "interval") == model.predict_interval(rows, coverage=coverage).tolist()
        else:
            held = model.predict_set(rows, coverage=coverage)
            assert [low for low, _ in part(told, "interval")] == model.grades_[held.argmax(axis=1)].tolist()
    assert answer["warnings"] == []
    (wide,) = ModelAnswers(model)([question(model, rows, levels=levels, coverage=0.999)])
    assert "coverage=0.999 needs at least 999 calibration rows, but there are 120" in wide["warnings"][0]


def test_a_method_of_points_has_no_spread(flats):
    table, price = flats
    model = OrdinalRegressor("value-squared", **PLAIN).fit(table, price)
    (answer,) = ModelAnswers(model)([question(model, table[:3], levels=None, coverage=None)])
    assert part(answer, "point") == model.predict(table[:3]).tolist()
    for name in ("quantiles", "interval", "grades", "increments"):
        assert part(answer, name) == [None] * 3


def test_methods_with_side_columns_get_them(flats):
    table, price = flats
    model = OrdinalRegressor("cwm", **PLAIN).fit(table, price, duration=price + 30)
    (answer,) = ModelAnswers(model)([question(model, table[:5], side={"duration": price[:5] + 30})])
    assert part(answer, "point") == model.predict(table[:5], duration=price[:5] + 30).tolist()


def test_questions_with_and_without_an_optional_side_are_not_joined(flats):
    table, price = flats
    model = OrdinalRegressor("swat-geometric", **PLAIN).fit(table, price)
    with_side = question(model, table[:2], side={"duration": price[:2] + 30})
    answers = ModelAnswers(model)([with_side, question(model, table[:2])])
    assert part(answers[0], "point") == model.predict(table[:2], duration=price[:2] + 30).tolist()
    assert part(answers[1], "point") == model.predict(table[:2]).tolist()


def test_other_methods_of_grades_decide_in_their_own_way(flats):
    table, price = flats
    model = OrdinalClassifier("corn", **PLAIN).fit(table, np.digitize(price, [150, 280]))
    (answer,) = ModelAnswers(model)([question(model, table[:6], levels=None)])
    assert part(answer, "point") == model.predict(table[:6]).tolist()
    assert list(part(answer, "grades")[0]) == ["0", "1", "2"]


def test_the_chain_of_a_row_is_that_of_its_model(flats):
    table, price = flats
    values = DiffoRRegressor("paper", bounds=(0, 500), **PAPER).fit(table, price)
    graded = DiffoRClassifier("paper", **PAPER).fit(table, np.digitize(price, [150, 280]))
    for model in (values, graded):
        asked = question(model, flats[0][:1])
        told = ModelAnswers(model)([Question(asked.rows, asked.asked, along_chain=True)])[0]
        expected = trajectory_of(model, flats[0][:1], n_chains=64)
        assert [step["time"] for step in told["steps"]] == list(expected.times)
        assert np.array([step["values"] for step in told["steps"]]) == pytest.approx(expected.values.T, rel=1e-5)
        for step in told["steps"]:
            assert step["levels"][-1] == pytest.approx(np.mean(step["values"]), rel=1e-5)
            assert (np.diff([0.0, *step["levels"]]) >= 0).all()
        assert told["steps"][0]["noise"] > 0.9 > 0.1 > told["steps"][-1]["noise"]


def test_rows_unlike_training_are_named_and_those_of_others_are_not(values, flats):
    table = flats[0].head(2)
    odd = table.assign(size=[9_000.0, table["size"].iloc[1]], city=["Oslo", "Paris"])
    usual, told = ModelAnswers(values)([question(values, table), question(values, odd)])
    assert (part(usual, "novel"), usual["warnings"]) == ([[], []], [])
    assert part(told, "novel") == [["size"], ["city"]]
    low, high = values.inputs_.columns[0].range
    first, second = told["warnings"][:2]
    assert first == f"row 0: 'size' is 9000.0, which is far outside the training range, {low:.6g} to {high:.6g}"
    assert second == "row 1: 'city' is 'Paris', which no training row had; the answer takes it for unknown"
