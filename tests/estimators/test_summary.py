"""The summary of a fitted estimator, as text and as notebooks show it."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import diffor
from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor
from diffor.estimators.summary import as_html, facts_of

FEW = {"max_steps": 10, "random_state": 0, "verbose": 0}


def make_table(n=120):
    random = np.random.default_rng(0)
    table = pd.DataFrame({"size <m2>": random.uniform(20, 90, n), "city": random.choice(["Oslo", "Rome"], n)})
    return table, 3 * table["size <m2>"].to_numpy() + random.normal(0, 5, n)


@pytest.fixture(scope="module")
def model():
    X, y = make_table()
    return DiffoRRegressor("fast", prior=["trees"], bounds=(0, 400), **FEW).fit(X, y)


def test_the_summary_says_what_the_model_is(model):
    facts = facts_of(model)
    assert facts["model"] == "DiffoRRegressor, preset fast, method diffor"
    assert facts["target"] == "a value from 0 to 400 (by bounds)"
    assert facts["rows"] == "120 to learn from, each held out once"
    assert facts["columns"] == "1 numeric (size <m2>), 1 categorical (city)"
    assert facts["networks"] == "3 (advised), advised by trees"
    scores = model.held_out_scores_
    assert facts["held-out rows"].startswith(
        f"CRPS {scores['crps']:.4g}, MAE {scores['mae']:.4g}, 90 % intervals hold "
    )
    assert facts["training"].startswith("10 steps in ")
    assert model.summary().splitlines()[1] == "target         a value from 0 to 400 (by bounds)"
    assert len(model.summary().splitlines()) == len(facts)


def test_a_saved_model_has_the_same_summary(model, tmp_path):
    model.save(tmp_path / "model")
    assert "90 % intervals hold" in facts_of(model)["held-out rows"]
    assert facts_of(diffor.load(tmp_path / "model")) == facts_of(model)


def test_a_calibrated_model_says_so(model):
    X, y = make_table(40)
    assert "no guarantee" in facts_of(model)["intervals"]
    model.conformalize(X, y)
    assert facts_of(model)["intervals"] == "hold their coverage, calibrated on 40 rows of their own"
    model.conformal_ = None


def test_grades_are_listed_from_the_lowest():
    X, y = make_table()
    grade = np.array(["low", "mid", "high"])[np.digitize(y, [120, 200])]
    fitted = DiffoRClassifier("fast", prior=None, grades=["low", "mid", "high"], **FEW).fit(X, grade)
    assert facts_of(fitted)["target"] == "3 grades, low < mid < high"
    assert facts_of(fitted)["networks"] == "3 (advised), advised by no priors"


def test_other_methods_have_rows_to_stop_on_and_say_what_they_cannot():
    X, y = make_table()
    facts = facts_of(OrdinalRegressor("value-squared", preset="fast", **FEW).fit(X, y))
    assert facts["rows"] == "108 to learn from, 12 to stop on"
    assert facts["target"].endswith("(taken from the training rows)")
    assert facts["intervals"] == "none: the method predicts a point"


def test_notebooks_show_the_summary_of_what_is_fitted(model):
    shown = model._repr_html_()
    table = shown.split("<details>")[0]
    assert table == as_html(model).split("<details>")[0] == model._repr_mimebundle_()["text/html"].split("<details>")[0]
    assert "1 numeric (size &lt;m2&gt;), 1 categorical (city)" in shown
    assert not re.search(r"(src|href)=.https?://(?!scikit-learn)", shown)
    new = DiffoRRegressor("fast")._repr_html_()
    assert "diffor-summary" not in new
    assert "DiffoRRegressor" in new
    assert "DiffoRRegressor" in make_pipeline(StandardScaler(), DiffoRRegressor("fast"))._repr_html_()


def test_what_a_model_has_can_be_listed(model):
    assert {"predict", "summary", "held_out_scores_"} <= set(dir(model))
    assert "ensemble_" not in dir(model)
