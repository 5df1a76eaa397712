"""Rows unlike those of training, and answers at the end of what it had: said once per call, and named by row."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

import diffor
from diffor import DiffoRClassifier, DiffoRRegressor, OrdinalRegressor
from diffor.errors import CeilingWarning, NoveltyWarning, RowsWarning
from diffor.estimators import rows

QUICK = {"max_steps": 40, "random_state": 0, "verbose": 0}


def make_flats(n=300):
    random = np.random.default_rng(0)
    built = pd.Timestamp("2000-01-01") + pd.to_timedelta(random.permutation(n), "D")
    table = pd.DataFrame({"size": random.permutation(n) / 3, "city": random.choice(["Oslo", "Rome"], n)})
    table = table.assign(built=built, floor=np.where(random.random(n) < 0.1, np.nan, random.integers(0, 5, n)), land=1)
    return table, 3 * table["size"] + random.normal(0, 5, n)


@pytest.fixture(scope="module")
def flats():
    return make_flats()


@pytest.fixture(scope="module")
def model(flats):
    return DiffoRRegressor("fast", **QUICK).fit(*flats)


def changed(table, **cells):
    """Four rows, of which each named column changes one, in turn."""
    rows = table.iloc[[100, 110, 120, 130]].reset_index(drop=True)
    for place, (name, value) in enumerate(cells.items()):
        rows.loc[place, name] = value
    return rows


def said(function, *arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*arguments)
    return [one.message for one in caught if isinstance(one.message, RowsWarning)]


def test_each_novel_value_is_named_with_what_training_had(flats, model):
    rows = changed(flats[0], size=400.0, city="Lima", built=pd.Timestamp("2030-05-01"), floor=-9.0)
    found = diffor.novelty(model, rows[reversed(rows.columns)])
    assert found.columns.tolist() == flats[0].columns.tolist()
    assert found.to_numpy().tolist() == [[place == row for place in range(5)] for row in range(4)]
    (warning,) = [one for one in said(model.predict, rows) if isinstance(one, NoveltyWarning)]
    assert str(warning).startswith(
        "column 'size' is far outside the training range, 0 to 99.667, in 1 row; column 'city' has a level that "
        "training did not have in 1 row; column 'built' is far outside the training range, 2000-01-01 to 2000-10-26, "
        "in 1 row; column 'floor' is far outside the training range, 0 to 4, in 1 row: answers to such rows are guesses"
    )


def test_rows_like_those_of_training_are_not_novel(flats, model):
    assert not diffor.novelty(model, flats[0]).to_numpy().any()
    assert said(model.predict, flats[0]) == []
    near = changed(flats[0], size=120.0, city=None, built=pd.Timestamp("2000-11-30"), floor=np.nan)  # below a quarter
    near["land"] = 2  # the model does not read what was constant
    assert not diffor.novelty(model, near).to_numpy().any()


def test_a_call_warns_once_however_many_blocks_it_reads(flats, model, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK_ROWS", 16)
    table = flats[0].assign(size=500.0)
    for ask in (model.predict, model.predict_interval, model.predict_proba, model.sample):
        (warning,) = [one for one in said(ask, table) if isinstance(one, NoveltyWarning)]
        assert list(warning.counts.values()) == [300]


def test_ranges_are_saved(flats, model, tmp_path):
    model.save(tmp_path / "model")
    loaded = diffor.load(tmp_path / "model")
    assert loaded.inputs_.columns[0].range == pytest.approx((flats[0]["size"].min(), flats[0]["size"].max()), abs=1e-3)
    rows = changed(flats[0], size=400.0, city="Lima")
    pd.testing.assert_frame_equal(diffor.novelty(loaded, rows), diffor.novelty(model, rows))


def test_other_methods_and_grades_warn_too(flats):
    table, price = flats
    graded = DiffoRClassifier("fast", **QUICK).fit(table, (price > 150).astype(int))
    other = OrdinalRegressor("value-squared", preset="fast", **QUICK).fit(table, price)
    for model in (graded, other):
        assert [type(one) for one in said(model.predict, changed(table, city="Lima"))] == [NoveltyWarning]


def test_models_of_images_have_no_novelty(face_model):
    with pytest.raises(ValueError, match="novelty is for models of tables, but this one reads images; leave it out"):
        diffor.novelty(face_model, [])


# The ends of what training had.


def line(n=400):
    random = np.random.default_rng(1)
    x = random.uniform(0, 1, n)
    return pd.DataFrame({"x": x}), 100 * x + random.normal(0, 1, n)


def test_answers_that_pile_up_at_the_largest_target_are_told():
    table, y = line()
    low, high = table["x"].between(0.1, 0.9), table["x"] > 0.9
    model = DiffoRRegressor("fast", random_state=0, verbose=0).fit(table[low], y[low])
    (warning,) = [one for one in said(model.predict, table[high]) if isinstance(one, CeilingWarning)]
    assert str(warning).startswith("the top increment, ")
    assert f", to {y[low].max():.6g}, " in str(warning).replace(" to ", ", to ", 1)
    assert str(warning).endswith("no answer goes further than the training targets; learn from rows that do")
    assert sum(warning.counts.values()) > 0.5 * high.sum()
    assert said(model.predict, table[low]) == []
    # Where nothing can lie beyond, it is no ceiling: a legal bound, or a value that many rows share.
    legal = DiffoRRegressor("fast", bounds=(y[low].min(), y[low].max()), random_state=0, verbose=0)
    assert not any(isinstance(one, CeilingWarning) for one in said(legal.fit(table[low], y[low]).predict, table[high]))
    capped = DiffoRRegressor("fast", **QUICK).fit(table, np.minimum(y, 80))
    assert said(capped.predict, table) == []


def test_a_bound_beyond_the_training_targets_does_not_hide_the_ceiling():
    table, y = line()
    low = table["x"] < 0.9
    model = DiffoRRegressor("fast", bounds=(-1000, 1000), random_state=0, verbose=0).fit(table[low], y[low])
    assert any(isinstance(one, CeilingWarning) for one in said(model.predict, table[~low]))


def test_of_very_many_columns_nothing_is_said_unasked():
    X = pd.DataFrame(np.random.default_rng(0).random((40, 101))).add_prefix("x")
    model = DiffoRRegressor("fast", prior=None, **QUICK).fit(X, X["x0"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoveltyWarning)
        model.predict(X.assign(x7=9.0))
    assert diffor.novelty(model, X.assign(x7=9.0))["x7"].all()


def test_a_warning_reaches_other_processes_whole():
    said = NoveltyWarning({"column 'size' is far outside": 2})
    again = pickle.loads(pickle.dumps(said))
    assert (type(again), again.counts, str(again)) == (NoveltyWarning, said.counts, str(said))
    assert "is far outside in 2 rows: answers to such rows are guesses" in str(again)
    assert type(said)(*said.args).counts == said.counts
