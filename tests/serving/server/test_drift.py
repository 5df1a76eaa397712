"""What is asked now beside what training rows were like."""

import numpy as np
import pandas as pd
import pytest
from serving import PLAIN, QUICK, make_flats

pytest.importorskip("fastapi")

from diffor import DiffoRClassifier, DiffoRRegressor
from diffor.serving.server.columns import columns_of
from diffor.serving.server.drift import LEAST_ROWS, RECENT_ROWS, Drift, Shares


def value(lines, start):
    found = [line for line in lines if line.startswith(start)]
    return float(found[0].rsplit(" ", 1)[1]) if found else None


@pytest.fixture(scope="module")
def model():
    random = np.random.default_rng(0)
    table = pd.DataFrame({"age": random.normal(40, 10, 3000), "city": random.choice(["Oslo", "Rome"], 3000)})
    return DiffoRRegressor("fast", **{**QUICK, "max_steps": 150}).fit(
        table, 2 * table["age"] + random.normal(size=3000)
    )


def told(model, table):
    drift = Drift(model, columns_of(model))
    for first in range(0, len(table), 500):
        part = table.iloc[first : first + 500].reset_index(drop=True)
        drift.add(part, model.predict_distribution(part), None)
    return drift.to_text()


def rows(n, centre=40.0, seed=1):
    random = np.random.default_rng(seed)
    return pd.DataFrame({"age": random.normal(centre, 10, n), "city": np.array(["Oslo"] * n, dtype=object)})


def test_rows_like_those_of_training_have_not_moved(model):
    lines = told(model, rows(2000))
    assert value(lines, 'diffor_input_drift{column="age"}') < 0.05
    assert value(lines, "diffor_prediction_drift") < 0.1
    assert value(lines, 'diffor_input_missing_total{column="age"}') == 0


def test_others_have(model):
    table = rows(2000, centre=60.0)
    table.loc[:9, "age"] = np.nan
    table.loc[:19, "city"] = "Paris"
    table.loc[20:29, "city"] = None
    lines = told(model, table)
    assert value(lines, 'diffor_input_drift{column="age"}') > 1
    assert value(lines, "diffor_prediction_drift") > 0.5
    assert value(lines, 'diffor_input_missing_total{column="age"}') == 10
    assert value(lines, 'diffor_input_missing_total{column="city"}') == 10
    assert value(lines, 'diffor_input_outside_total{column="city"}') == 20
    assert value(lines, 'diffor_input_values_total{column="age"}') == 2000


def test_few_rows_tell_nothing_and_old_ones_fade():
    shares = Shares(np.array([1.0, 3.0]))
    shares.add(np.array([LEAST_ROWS - 1.0, 0.0]))
    assert shares.index is None
    shares.add(np.array([RECENT_ROWS * 1.0, 0.0]))
    moved = shares.index
    # By hand: all rows are in the part that had a quarter of them.
    assert moved == pytest.approx((1 - 0.25) * np.log(4) + (0 - 0.75) * np.log(0.5 / shares.now.sum() / 0.75), rel=1e-2)
    for _ in range(40):
        shares.add(np.array([500.0, 1500.0]))
    assert shares.index < moved / 100


def test_grades_have_the_shares_that_training_counted():
    table, price = make_flats(n=600)
    model = DiffoRClassifier("fast", **PLAIN, prior=None).fit(table, np.digitize(price, [150, 280]))
    drift = Drift(model, columns_of(model))
    n = model.data_summary_["target"]["counts"]
    drift.add(table, None, np.tile(np.array(n) / sum(n), (600, 1)))
    assert value(drift.to_text(), "diffor_prediction_drift") < 1e-3
    drift.add(table, None, np.tile([1.0, 0.0, 0.0], (600, 1)))
    assert value(drift.to_text(), "diffor_prediction_drift") > 0.1
