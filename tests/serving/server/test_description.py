"""What clients are told: which columns move an answer."""

import numpy as np
import pandas as pd
import pytest
from serving import QUICK

pytest.importorskip("fastapi")

from diffor import DiffoRRegressor, OrdinalRegressor
from diffor.serving.server.columns import columns_of
from diffor.serving.server.description import influences


def test_columns_that_move_the_answer_are_found():
    random = np.random.default_rng(0)
    table = pd.DataFrame({"noise": random.normal(size=400), "main": random.normal(size=400), "same": 1.0})
    table["kind"] = random.choice(["red", "green"], 400)
    y = 10 * table["main"] + 4 * (table["kind"] == "red")
    model = DiffoRRegressor("fast", **{**QUICK, "max_steps": 200}).fit(table, y)
    found = influences(model, columns_of(model))
    assert list(found) == ["noise", "main", "same", "kind"]
    assert found["main"] == 1
    assert found["noise"] < 0.3
    assert found["kind"] > found["noise"]
    assert found["same"] == 0


def test_a_model_that_cannot_answer_typical_rows_tells_nothing():
    table = pd.DataFrame({"a": np.arange(80.0)})
    model = OrdinalRegressor("swat-geometric", max_steps=5, random_state=0, verbose=0).fit(
        table, np.arange(80.0), duration=np.arange(80.0) + 30
    )
    columns = columns_of(model, {})  # the side that its method needs is not known
    assert influences(model, columns) == {}
