"""The application around models of other kinds, and around one that fails."""

import numpy as np
import pytest
from serving import PLAIN, QUICK, predict, send, told

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
