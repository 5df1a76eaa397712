"""The application around models of other kinds, and around one that fails."""

import numpy as np
import pytest
from serving import PAPER, PLAIN, QUICK, as_rows, predict, send, told

pytest.importorskip("fastapi")

from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor


def test_grades_have_no_quantiles(flats, row):
    table, price = flats
    model = DiffoRClassifier("fast", **QUICK).fit(table, np.digitize(price, [150, 280]))
    good, bad = predict(model, {"rows": [row]}, {"rows": [row], "quantiles": [0.5]})
    assert good.json()["predictions"][0]["grades"].keys() == {"0", "1", "2"}
    assert (bad.status_code, told(bad)) == (
        422,
        "quantiles need a distribution of values, but method 'diffor' predicts grades; read their probabilities",
    )


def test_points_have_neither_quantiles_nor_intervals(flats, row):
    model = OrdinalRegressor("value-squared", **PLAIN).fit(*flats)
    good, quantiles, interval = predict(
        model, {"rows": [row]}, {"rows": [row], "quantiles": [0.5]}, {"rows": [row], "coverage": 0.9}
    )
    assert good.json()["coverage"] is None
    assert told(quantiles) == (
        "quantiles need a distribution of values, but method 'value-squared' predicts a point; leave them out"
    )
    assert told(interval) == (
        "an interval needs a distribution, but method 'value-squared' predicts a point; leave coverage out, or "
        "fit with --calibration"
    )
    model.conformalize(*flats)
    (calibrated,) = predict(model, {"rows": [row], "coverage": 0.9})
    assert calibrated.json()["predictions"][0]["interval"] == model.predict_interval(flats[0][:1], 0.9)[0].tolist()


def test_a_model_that_fails_is_the_servers_fault_and_ends_nothing(flats, row, monkeypatch):
    model = DiffoRRegressor("fast", **{**QUICK, "max_steps": 2}).fit(*flats)
    answer, calls = model.predict_opened, []

    def fail_once(*given, **side):
        calls.append(given)
        if len(calls) == 1:
            raise RuntimeError("out of luck")
        return answer(*given, **side)

    monkeypatch.setattr(model, "predict_opened", fail_once)
    asked = ("POST", "/predict", {"json": {"rows": [{**row, "city": "Paris"}]}})
    failed, good, figures = send(model, asked, asked, ("GET", "/metrics", {}))
    assert 'diffor_requests_total{path="/predict",status="500"} 1' in figures.text
    assert failed.headers["x-content-type-options"] == "nosniff"
    assert (failed.status_code, told(failed)) == (500, "the server must answer, but it failed; its log says why")
    assert good.status_code == 200
    assert "'city' is 'Paris', which no training row had" in good.json()["warnings"][0]


def test_what_the_model_says_about_rows_is_passed_on(flats, row):
    table, price = flats
    model = OrdinalRegressor("swat-geometric", **PLAIN).fit(table, price, duration=price + 30)
    without, given = predict(model, {"rows": [row]}, {"rows": [{**row, "duration": 300.0}]})
    assert (without.status_code, given.status_code) == (422, 200)
    assert "needs the column 'duration' beside features and targets, but no column was given" in told(without)


# --- limits of rows ---


def test_answers_keep_to_the_limits_that_a_request_has(flats, row):
    model, table = DiffoRRegressor("fast", bounds=(0, 500), **QUICK).fit(*flats), flats[0].head(3)
    rows = as_rows(table)
    free, one, each, both = predict(
        model, {"rows": rows}, {"rows": rows, "upper": 90}, {"rows": rows, "upper": [150, None, 90.5]},
        {"rows": rows, "lower": [400, 400, None], "upper": None},
    )  # fmt: skip
    for answer, limits in (
        (free, {}), (one, {"upper": 90}), (each, {"upper": [150, np.nan, 90.5]}), (both, {"lower": [400, 400, np.nan]}),
    ):  # fmt: skip
        found = answer.json()["predictions"]
        assert [row["point"] for row in found] == pytest.approx(model.predict(table, **limits), rel=1e-5)
        interval = model.predict_interval(table, 0.9, **limits)
        assert np.array([row["interval"] for row in found]) == pytest.approx(interval, rel=1e-5)
        increments = model.predict_increments(table, **limits)
        assert np.array([row["increments"] for row in found]) == pytest.approx(increments, abs=1e-2)
        ends = np.nan_to_num(np.broadcast_to(limits.get("upper", 500.0), 3), nan=500.0)
        assert (np.array([max(row["quantiles"].values()) for row in found]) <= ends).all()
    (document,) = send(model, ("GET", "/openapi.json", {}))
    known = document.json()["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "a number for all rows, or one or null for each" in known["properties"]["upper"]["description"]


WRONG_LIMITS = [
    (
        {"upper": [1]},
        "or a list with a number or null for each of the 2 rows, but got 1 of them; null stands for no limit",
    ),
    ({"upper": [1, "9"]}, "but got '9'; null stands for no limit"),
    ({"lower": {}}, "lower must be a number, or a list"),
    ({"upper": [5, -1]}, "range from 0.0 to 500.0, but row 1 has upper=-1.0; correct the row, or fit with"),
    ({"lower": 7, "upper": [8, 6]}, "lower must not be above upper, but row 1 has lower=7.0 and upper=6.0"),
]


@pytest.mark.parametrize(("limits", "message"), WRONG_LIMITS)
def test_wrong_limits_of_rows_are_refused(flats, row, limits, message):
    model = DiffoRRegressor("fast", bounds=(0, 500), **PLAIN, prior=None).fit(*flats)
    (bad,) = predict(model, {"rows": [row, row], **limits})
    assert bad.status_code == 422
    assert message in told(bad)
    assert bad.json()["detail"][0]["loc"][0] in limits


def test_grades_and_chains_have_no_limits(flats, row):
    table, price = flats
    (bad,) = predict(DiffoRClassifier("fast", **QUICK).fit(table, price > 200), {"rows": [row], "upper": 3})
    assert told(bad) == "upper is a limit of values, but this model predicts grades; leave it out"
    model = OrdinalRegressor("diffor-paper", **PAPER).fit(table, price)
    (bad,) = send(model, ("POST", "/trajectory", {"json": {"rows": [row], "upper": 300}}))
    assert (bad.status_code, told(bad)) == (
        422, "a chain is not cut, but the request has upper; leave it out, or ask /predict",
    )  # fmt: skip


def test_a_model_of_shares_reads_each_limit_from_its_row(flats, row):
    table, price = flats
    limit = price + np.linspace(1, 50, len(price))
    model = DiffoRRegressor("fast", limit="share", **QUICK).fit(table, price, upper=limit)
    rows = [{**one, "upper": end} for one, end in zip(as_rows(table.head(3)), limit[:3].tolist(), strict=True)]
    good, longer, missing, nothing, beside, about = send(
        model, *(("POST", "/predict", {"json": body}) for body in (
            {"rows": rows}, {"rows": rows, "lower": 30}, {"rows": [row]}, {"rows": [{**row, "upper": 0}]},
            {"rows": rows, "upper": 9},
        )), ("GET", "/model", {}),
    )  # fmt: skip
    for answer, limits in ((good, {}), (longer, {"lower": 30})):
        found = answer.json()["predictions"]
        expected = model.predict(table.head(3), upper=limit[:3], **limits)
        assert [one["point"] for one in found] == pytest.approx(expected, rel=1e-5)
        assert all(one["interval"][1] <= end["upper"] for one, end in zip(found, rows, strict=True))
    assert sum(good.json()["predictions"][0]["increments"]) == pytest.approx(
        model.predict(table.head(1), "mean", upper=limit[:1])[0], rel=1e-4
    )
    assert told(missing) == "row 0 must have the column 'upper', but it is missing; add it (null if it is not known)"
    assert told(nothing) == "'upper' of row 0, the limit, must be a number above 0, but got 0"
    assert "this model reads it from a column; send it in the rows" in told(beside)
    facts = about.json()
    assert (facts["limit"], facts["bounds"], facts["increment_edges"][-1]) == ("share", [0, limit.max()], limit.max())


def test_a_chain_of_a_model_of_shares_ends_at_the_limit(flats, row):
    table, price = flats
    model = OrdinalRegressor("diffor-paper", limit="share", **PAPER).fit(table, price, upper=price + 1)
    (answer,) = send(model, ("POST", "/trajectory", {"json": {"rows": [{**row, "upper": 40}]}}))
    values = np.array([step["values"] for step in answer.json()["steps"]])
    assert 1 < values.max() <= 40
