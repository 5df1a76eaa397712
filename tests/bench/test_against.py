"""Baselines beside a model: real ones, on tables whose answer is known."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from diffor.bench.against import (
    as_lines,
    check_baselines,
    compare,
    difference,
    fit_linear,
    graded_crps,
    make_problem,
    plain_columns,
)
from diffor.encoders import TabularInputs
from diffor.metrics import rps


def make_rows(n=400):
    random = np.random.default_rng(0)
    table = pd.DataFrame({"size": random.normal(size=n), "city": random.choice(["Oslo", "Rome"], n)})
    table["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 500, n), "D")
    table.loc[::50, "size"] = np.nan
    return table, 3 * table["size"].fillna(0).to_numpy() + (table["city"] == "Oslo") + random.normal(size=n)


@pytest.fixture(scope="module")
def rows():
    table, y = make_rows()
    return plain_columns(table, TabularInputs().fit(table).columns), np.asarray(y)


def test_the_linear_baseline_finds_a_linear_law_with_its_noise(rows):
    x, y = rows
    prediction = fit_linear(make_problem(x, y, None, (-5.0, 5.0))).predict(x)
    truth = 3 * x["size"].to_numpy() + (x["city"] == "Oslo").to_numpy()
    inside = np.abs(truth) < 3  # False where the size is not known
    assert np.abs(prediction.median - truth)[inside].max() < 0.5
    low, high = prediction.interval(0.9).T
    assert 0.85 < ((low <= y) & (y <= high))[np.abs(y) < 5].mean() < 0.96
    assert prediction.samples.min() == -5.0


@pytest.mark.parametrize("name", ["linear", "lightgbm"])
@pytest.mark.parametrize("n_grades", [None, 3])
def test_baselines_beat_a_constant(rows, name, n_grades):
    if name == "lightgbm":
        pytest.importorskip("lightgbm")
    x, y = rows
    y = y if n_grades is None else np.digitize(y, [-1, 1]).astype(np.float64)
    constant = np.abs(y - np.median(y))[300:]
    baselines = check_baselines([name], n_grades is not None)
    (found,) = compare(baselines, make_problem(x[:300], y[:300], n_grades, None), x[300:], y[300:], constant, constant)
    assert found.name == name
    assert found.crps.value <= found.mae.value < 0.7 * constant.mean()
    assert found.mae.more == pytest.approx(found.mae.value - constant.mean())
    assert found.mae.interval[0] < found.mae.more < found.mae.interval[1] < 0
    assert found.to_json()["crps"]["value"] == found.crps.value


def test_the_interval_of_a_difference_is_that_of_its_mean():
    random = np.random.default_rng(0)
    ours = random.exponential(size=900)
    low, high = difference(ours + 0.1 + random.normal(0, 0.3, 900), ours).interval
    assert low < 0.1 < high
    assert high - low == pytest.approx(2 * 1.96 * 0.3 / 30, rel=0.15)
    low, high = difference(random.normal(0, 1, 80_000), np.zeros(80_000)).interval
    assert high - low == pytest.approx(2 * 1.96 / np.sqrt(80_000), rel=0.15)  # although fewer rows are drawn


def test_crps_of_grades_is_that_of_ranked_probabilities():
    random = np.random.default_rng(0)
    shares, codes = random.dirichlet(np.ones(4), 50), random.integers(0, 4, 50)
    assert graded_crps(codes, shares).mean() == pytest.approx(rps(codes, shares))


def test_lines_name_each_baseline():
    found = difference(np.array([2.0, 4.0]), np.array([1.0, 2.0]))
    lines = as_lines([SimpleNamespace(name="linear", crps=found, mae=found)], 1.5, 1.5)
    assert lines[1].split() == ["the", "model", "1.5", "1.5"]
    assert lines[2].split() == ["linear", *["3", "+1.5", "(+1", "to", "+2)"] * 2]


def test_what_cannot_be_compared_is_refused(rows):
    with pytest.raises(ValueError, match=r"but got 'lightgmb' \(did you mean 'lightgbm'\?\)"):
        check_baselines(["lightgmb"], is_graded=False)
    with pytest.raises(ValueError, match="baseline 'mord' predicts no values, which the model does; choose another"):
        check_baselines(["mord"], is_graded=False)
    with pytest.raises(ValueError, match="baselines need at least 30 training rows, but got 12; pass more"):
        make_problem(rows[0][:12], rows[1][:12], None, None)
