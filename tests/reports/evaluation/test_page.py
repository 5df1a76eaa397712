"""The page about real models, fitted for a moment: of values, of grades, of another method, and of points."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("matplotlib")

from browser import CHROMIUM, measured

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor
from diffor.core.cdf_prediction import CdfPrediction
from diffor.estimators.chain import true_increments
from diffor.methods.diffor import IncrementDiffusion
from diffor.reports.evaluation import Evaluation, model_page, picked_rows
from diffor.reports.evaluation.evaluation import row_errors
from diffor.reports.evaluation.grades import grade_sections
from diffor.reports.evaluation.page import about, increment_sections, score_table, slice_sections, value_sections
from diffor.reports.evaluation.scores import (
    AMOUNT_MEASURES,
    GRADE_MEASURES,
    Amounts,
    Graded,
    Score,
    constant_amounts,
    constant_grades,
    plain_scores,
    with_intervals,
)
from diffor.reports.html import Figure, Paragraph, Table

QUICK = {"max_steps": 30, "random_state": 0, "verbose": 0}
PAPER = {**QUICK, "n_samples": 16, "method_settings": {"n_increments": 4, "width": 32, "denoiser": "mlp"}}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(size=240), "city": rng.choice(["Oslo", "Rome", "Bern"], size=240)})
    noise = np.where(table["city"] == "Rome", 3.0, 0.5) * rng.normal(size=240)
    return table, np.clip(2 * table["size"].to_numpy() + noise, -9, 9)


def evaluation_of(model, table, truth):
    """What the command line hands on, of a model and rows that are in memory."""
    prediction = model.predict_distribution(table)
    numbers = np.arange(len(truth))
    if hasattr(model, "classes_"):
        shares = prediction.grade_probabilities(len(model.classes_))
        answers = Graded(truth, pd.Index(model.grades_).get_indexer(model.predict(table)), shares)
        measures, constants = GRADE_MEASURES, constant_grades(truth, len(model.classes_))
        answered = answers.chosen
    else:
        low, high = prediction.interval(0.9).T
        answered = model.predict(table)
        answers = Amounts(truth, answered, low, high, prediction.crps(truth))
        measures, constants = AMOUNT_MEASURES, constant_amounts(truth, 0.9)
    scores = with_intervals(answers, measures, plain_scores(answers, measures, constants), 20)
    return Evaluation(model, "flats", "test.csv", "price", len(truth), scores, numbers, table, truth, prediction,
                      answered, "median")  # fmt: skip


@pytest.fixture(scope="module")
def values(rows):
    model = DiffoRRegressor("fast", prior=None, bounds=(-9, 9), **QUICK).fit(*rows)
    return evaluation_of(model, *rows)


@pytest.fixture(scope="module")
def chained(rows):
    return evaluation_of(DiffoRRegressor("paper", bounds=(-9, 9), **PAPER).fit(*rows), *rows)


@pytest.fixture(scope="module")
def graded(rows):
    table, y = rows
    codes = np.digitize(y, [-1.0, 1.0])
    return evaluation_of(DiffoRClassifier("fast", prior=None, **QUICK).fit(table, codes), table, codes)


@pytest.fixture(scope="module")
def value_page(values):
    return model_page(values)


@pytest.fixture(scope="module")
def grade_page(graded):
    return model_page(graded)


def test_the_page_of_values_has_all_parts(value_page):
    assert re.findall("<h2>(.*?)</h2>", value_page) == [
        "How well it predicts", "Predicted and true values", "Error by range of the target", "Whole distributions",
        "Calibration", "Where it is wrong", "What moves the answers", "Where the uncertainty comes from",
        "From coarse to fine", "Training",
    ]  # fmt: skip
    assert value_page.count("<figure>") == 12  # and another where there is a chain
    assert value_page.count("<table") == 6
    assert "240 rows of test.csv" in value_page
    assert "http" not in value_page


def test_the_bad_city_is_named(value_page):
    first = re.search(r'<th scope="row">(city|size): [^<]*</th>.*', value_page)
    assert "city: Rome" in first[0]
    assert "<strong>&lt; 0.001</strong>" in first[0]


def test_the_page_of_grades_has_all_parts(graded, grade_page):
    assert re.findall("<h2>(.*?)</h2>", grade_page) == [
        "How well it predicts", "Answers and truth", "Calibration", "Where it is wrong", "What moves the answers",
        "Where the uncertainty comes from", "From coarse to fine", "Training",
    ]  # fmt: skip
    counts = pd.crosstab(graded.truth, graded.answered).reindex(index=range(3), columns=range(3), fill_value=0)
    for code, row in zip(range(3), counts.to_numpy(), strict=True):
        cells = re.search(rf'<th scope="row">{code}</th>(.*?)</tr>', grade_page).group(1)
        assert [int(cell) for cell in re.findall(r">(\d+)<", cells)] == [*row, row.sum()]
    assert "Mean absolute error of the rows" in grade_page
    assert "Grades are counted from 0." in grade_page


def test_another_method_with_a_distribution_has_all_but_a_chain(rows):
    page = model_page(evaluation_of(OrdinalRegressor("mdn", **QUICK).fit(*rows), *rows))
    assert "From coarse to fine" in page
    assert "along the chain" not in page
    assert "method mdn" in page
    assert "Calibration" in page


def test_a_method_that_predicts_points_says_what_is_missing(rows):
    model = OrdinalRegressor("value-squared", **QUICK).fit(*rows)
    page = model_page(replace(evaluation_of(model, *rows), statistic="native"))
    assert "The method value-squared predicts a point and no distribution, so there are no densities" in page
    assert "Calibration" not in page
    assert "From coarse to fine" not in page
    assert "answers with its method&#x27;s own decision" in page
    assert "Mean absolute error of the rows" in page


def test_bent_scales_show_increments_as_parts_of_the_scale(rows):
    table, y = rows
    model = OrdinalRegressor("mdn", transform="log", **QUICK).fit(table, np.exp(y / 3))
    sections = list(increment_sections(evaluation_of(model, table, np.exp(y / 3))))
    assert "scale is bent (log), so parts of the whole scale are shown" in sections[2].caption
    assert sections[2].label.startswith("8 cells")


def test_calibrated_intervals_are_told_from_the_model_s_own(values):
    from diffor.estimators.conformal import Calibration

    model = DiffoRRegressor.__new__(DiffoRRegressor)
    vars(model).update(vars(values.model))
    model.conformal_ = Calibration.of(np.linspace(0, 1, 50), (-9.0, 9.0))
    sections = list(value_sections(replace(values, model=model, intervals=np.tile([-9.0, 9.0], (240, 1)))))
    told = [part.text for part in sections if isinstance(part, Paragraph)]
    (held,) = [part.rows for part in sections if isinstance(part, Table)]
    assert held[0][1:3] == ("240", "240")
    assert told[0].startswith("These intervals are opened as far as calibration rows asked for.")


def test_scores_that_clearly_beat_the_constant_are_bold(values):
    scores = [
        Score("MAE", 2.0, (1.5, 2.5), 4.0),
        Score("SRCC", 0.5, (0.4, 0.6), 0.0, "higher"),
        Score("RMSE", 3.0, (2.0, 5.0), 4.0),
        Score("coverage", 0.5, (0.4, 0.6), 0.9, "nominal"),
        Score("XAUC", None, None, None, "higher"),
    ]
    table = score_table(replace(values, scores=scores))
    assert table.strong == {(0, 1), (1, 1)}
    assert table.rows[0] == ("MAE", "2.00", "1.50 to 2.50", "4.00")
    assert table.rows[4] == ("XAUC", "-", "-", "-")


def test_a_table_of_few_rows_has_no_slices(values):
    few = slice(12)
    short = replace(values, table=values.table[few], truth=values.truth[few], prediction=values.prediction[few],
                    answered=values.answered[few])  # fmt: skip
    assert [type(part).__name__ for part in slice_sections(short)] == ["Heading", "Paragraph"]


def test_picked_rows_are_said_to_be_picked(values):
    words = "The scores are those of all 50,000 rows. Figures and slices look at 240 of them, picked at random."
    assert about(replace(values, n_rows=50_000))[1].text == words
    assert len(about(values)) == 1


def test_rows_are_picked_in_order_and_always_the_same():
    rows = picked_rows(25_000)
    assert len(rows) == 20_000
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, picked_rows(25_000))


def test_rows_are_named_as_in_the_file(values):
    moved = replace(values, rows=np.arange(240) + 1000)
    assert moved.row_name(3) == "row 1004"
    captions = [part.caption for part in increment_sections(moved) if isinstance(part, Figure)]
    assert re.match(r"Of row 1[012]\d\d, whose error is the median error of all", captions[1])


def test_errors_are_those_of_distributions_where_there_are_some(values, graded):
    errors, words = row_errors(values)
    np.testing.assert_allclose(errors, values.prediction.crps(values.truth))
    assert words == "CRPS"
    errors, words = row_errors(graded)
    np.testing.assert_array_equal(errors, np.abs(graded.answered - graded.truth))
    assert words == "absolute error"


# Reading DiffoR's own models.


def test_true_increments_sum_to_the_truth_and_fill_cells_in_turn(values, graded):
    found = true_increments(values.model, values.truth, 4)
    assert found.shape == (240, 4)
    np.testing.assert_allclose(-9 + found.sum(axis=1), values.truth, atol=1e-6)
    assert ((found[:, 1:] < 1e-9) | (found[:, :-1] > 4.5 - 1e-6)).all()
    assert true_increments(graded.model, np.array([0, 1, 2]), 2).round(6).tolist() == [[0, 0], [1, 0], [1, 1]]


def test_a_chain_is_drawn_for_the_typical_row(chained):
    assert isinstance(chained.model.ensemble_.models[0].method, IncrementDiffusion)
    *_, last = increment_sections(chained)
    assert last.caption.startswith("The same row, along the chain of the model's first member")


# In a browser.


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium to lay pages out")
def test_nothing_leaves_the_page_sideways_on_a_phone_or_a_desk(value_page, grade_page, tmp_path):
    svgs = "[...inner.querySelectorAll('svg')]"
    beyond = "inner.documentElement.scrollWidth - inner.documentElement.clientWidth"
    narrowest = f"Math.min(...{svgs}.map((svg) => svg.getBoundingClientRect().width))"
    pages = {"values": value_page, "grades": grade_page}
    found = measured(tmp_path, pages, (390, 1200), f"[{beyond}, {svgs}.length, {narrowest}].join(' ')")
    for part, n_figures in zip(found, (12, 7, 12, 7), strict=True):
        sideways, n_svgs, width = part.split()
        assert (int(sideways), int(n_svgs)) == (0, n_figures)
        assert float(width) > 300


def test_pages_take_distributions_in_closed_form(values, graded, rows):
    knots = np.linspace(-9, 9, 40)
    heights = 1 / (1 + np.exp(values.prediction.mean[:, None] - knots))
    heights[:, 0], heights[:, -1] = 0, 1
    exact = replace(values, prediction=CdfPrediction(knots, heights))
    assert len([part for part in value_sections(exact) if isinstance(part, Figure)]) >= 3
    assert row_errors(exact)[0] == pytest.approx(exact.prediction.crps(values.truth))
    sums = np.concatenate([np.zeros((len(graded.truth), 1)), graded.prediction.cdf([[0.0, 1.0, 2.0]])], axis=1)
    steps = CdfPrediction([0, 0, 1, 1, 2, 2], np.repeat(sums, 2, axis=1)[:, 1:-1])
    sections = [list(grade_sections(replace(graded, prediction=one))) for one in (graded.prediction, steps)]
    assert [type(part) for part in sections[0]] == [type(part) for part in sections[1]]
