"""Explanations of laws that are known: what matters is found, what does not is not, and parts sum to the whole."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor, explain
from diffor.reports.explanation.measuring import N_CATEGORIES, N_VALUES

QUICK = {"random_state": 0, "verbose": 0}


def make_rows(n=400):
    """A place that moves the answer, a noise that makes it unsure, a group, a date and a column of nothing."""
    random = np.random.default_rng(0)
    table = pd.DataFrame({"place": random.uniform(0, 1, n), "noise": random.uniform(0, 1, n)})
    table["group"] = random.choice(["a", "b"], n)
    table["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 500, n), "D")
    table.loc[::40, "noise"] = np.nan
    doubt = 0.5 + 6 * table["noise"].fillna(0.5)
    return table, 40 * table["place"] + 8 * (table["group"] == "a") + doubt * random.normal(size=n)


@pytest.fixture(scope="module")
def rows():
    return make_rows()


@pytest.fixture(scope="module")
def model(rows):
    return DiffoRRegressor("fast", **QUICK).fit(*rows)


@pytest.fixture(scope="module")
def found(model, rows):
    return explain(model, *rows, rows=[3, 7, 50])


def test_the_column_that_moves_answers_and_the_one_that_makes_them_unsure_are_told_apart(found):
    by_name = {one.column: one for one in found.importances}
    assert [one.column for one in found.importances][:2] == ["place", "group"]
    assert by_name["place"].crps > 20 * abs(by_name["day"].crps)
    assert max(by_name.values(), key=lambda one: one.width).column == "noise"
    assert by_name["day"].width < 0.5 * by_name["noise"].width
    assert all(0 < one.crps_error < 1 for one in found.importances)


def test_shuffling_nothing_changes_nothing(rows):
    table, y = rows
    table = table[["place"]].assign(same=1.0)
    found = explain(DiffoRRegressor("fast", max_steps=30, **QUICK).fit(table, y), table, y, n_repeats=1, n_rows=50)
    (same,) = [one for one in found.importances if one.column == "same"]
    assert (same.crps, same.crps_error, same.width) == (pytest.approx(0.0, abs=1e-12), None, pytest.approx(0.0))
    assert found.n_rows == 50


def test_bands_follow_the_law(found, rows):
    by_name = {band.column: band for band in found.bands}
    place = np.array(by_name["place"].quantiles)
    assert len(by_name["place"].values) == N_VALUES
    assert by_name["place"].values == sorted(by_name["place"].values)
    assert (np.diff(place, axis=1) > 0).all()
    assert 25 < place[-1, 2] - place[0, 2] < 45
    noise = np.array(by_name["noise"].quantiles)
    assert noise[-1, -1] - noise[-1, 0] > 2 * (noise[0, -1] - noise[0, 0])
    assert sorted(by_name["group"].values) == ["a", "b"]
    assert all(value.startswith("202") for value in by_name["day"].values)


def test_contributions_sum_to_the_answers(found, model, rows):
    parts, table = found.contributions, rows[0].iloc[[3, 7, 50]]
    assert (parts.rows, parts.columns) == ([3, 7, 50], list(table.columns))
    np.testing.assert_allclose(parts.answers, model.predict(table))
    low, high = model.predict_interval(table).T
    np.testing.assert_allclose(parts.widths, high - low)
    np.testing.assert_allclose(parts.mean_answer + np.sum(parts.centre, axis=1), parts.answers)
    np.testing.assert_allclose(parts.mean_width + np.sum(parts.width, axis=1), parts.widths)


def test_contributions_of_a_sum_are_its_terms(rows):
    """Of a sum of columns each contributes its distance from the mean of the background rows, whatever the order."""
    table = rows[0][["place", "noise"]].fillna(0.5)
    y = 10 * table["place"] + 20 * table["noise"]
    found = explain(DiffoRRegressor("fast", **QUICK).fit(table, y), table, y, rows=20).contributions
    away = np.array(found.centre)
    for place, (name, slope) in enumerate((("place", 10), ("noise", 20))):
        true = slope * table[name][:20].to_numpy()
        assert np.abs(away[:, place] - true - (away[:, place] - true).mean()).max() < 1.5


def test_it_is_json_and_text(found):
    told = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert told["levels"] == [0.05, 0.25, 0.5, 0.75, 0.95]
    assert told["importances"][0]["column"] == "place"
    text = str(found)
    assert text.startswith("What moves the answers\n\nMeasured on 400 rows, whose mean CRPS is ")
    assert "row 51" in text


def test_without_targets_the_width_ranks(model, rows):
    found = explain(model, rows[0], columns=["place", "noise"], n_repeats=2, rows=0, n_bands=1)
    assert [one.column for one in found.importances] == ["noise", "place"]
    assert found.importances[0].crps is None
    assert [band.column for band in found.bands] == ["noise"]
    assert (found.crps, found.contributions.answers) == (None, [])
    assert "CRPS" not in str(found)


def test_grades_and_other_methods_with_their_side_columns(rows):
    table, y = rows
    codes = np.digitize(y, [15, 30])
    names = np.array(["low", "mid", "high"])[codes]
    graded = DiffoRClassifier("fast", grades=["low", "mid", "high"], max_steps=100, **QUICK).fit(table, names)
    found = explain(graded, table, names, n_repeats=2)
    assert (found.importances[0].column, found.statistic) == ("place", "mean grade")
    np.testing.assert_allclose(found.contributions.answers, graded.predict_distribution(table[:3]).mean)
    watched = np.clip(y, 1, None)
    other = OrdinalRegressor("swat-geometric", preset="fast", max_steps=30, **QUICK)
    other.fit(table, watched, duration=watched + 20)
    assert len(explain(other, table[:60], watched[:60], n_repeats=1, duration=watched[:60] + 20).importances) == 4


def test_many_categories_are_cut_to_the_most_frequent(rows):
    random = np.random.default_rng(0)
    names = random.choice([f"level-{place}" for place in range(30)], 300, p=np.arange(1, 31) / 465)
    table = pd.DataFrame({"name": pd.Categorical(names)})
    y = random.normal(size=300)
    (band,) = explain(DiffoRRegressor("fast", max_steps=5, **QUICK).fit(table, y), table, y).bands
    assert band.values == table["name"].value_counts().index[:N_CATEGORIES].tolist()


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"columns": ["plase"]}, "columns must be among the model's, but got 'plase' (did you mean 'place'?)"),
        ({"rows": [400]}, "rows must be places from 0 to 399, or how many, but got 400"),
        ({"rows": -1}, "rows must be places from 0 to 399, or how many, but got -1"),
        ({"n_rows": 1}, "n_rows must be at least 2, but got n_rows=1"),
        ({"coverage": 1.0}, "coverage must lie strictly between 0 and 1, but got coverage=1.0"),
        ({"y": np.full(400, np.nan)}, "y must be finite, but row 0 is not; leave it out"),
        ({"y": np.zeros(3)}, "X, y and side columns must be equally long, but got 400 and 3 rows"),
    ],
)
def test_wrong_arguments_are_refused(model, rows, arguments, rule):
    with pytest.raises(ValueError, match=re.escape(rule)):
        explain(model, rows[0], **{"y": rows[1], **arguments})


def test_models_that_are_not_for_it_are_refused(rows, face_model):
    table, y = rows
    point = OrdinalRegressor("value-squared", preset="fast", max_steps=2, **QUICK).fit(table, y)
    with pytest.raises(ValueError, match="but method 'value-squared' predicts a point; explain another"):
        explain(point, table, y)
    with pytest.raises(ValueError, match="but it reads images; explain another"):
        explain(face_model, table, y)
