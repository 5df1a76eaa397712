"""Cells: rows by the seed, figures by hand, honest clocks."""

import math
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from diffor import metrics
from diffor.bench import cell as cell_module
from diffor.bench.cell import (
    Cell,
    calibration,
    check_prediction,
    choose_rows,
    choose_valid,
    fit_tuned,
    make_problem,
    own_measurements,
    run_cell,
    score,
    score_grades,
)
from diffor.bench.peers import PEERS, Peer, Problem
from diffor.core.cdf_prediction import CdfPrediction
from diffor.core.prediction import Prediction
from diffor.datasets import DATASETS, Dataset, Samples


def a_cell(**changes):
    return Cell(**{"dataset": "diabetes", "method": "constant", "seed": 0, "peer": "constant", **changes})


def a_dataset(**changes):
    facts = {"name": "d", "description": "", "source": "", "metrics": (), "read": lambda root: None,
             "split": lambda root, index: (np.arange(0), np.arange(0))}  # fmt: skip
    return Dataset(**{**facts, **changes})


# Rows.


def test_rows_depend_on_the_seed_only():
    dataset = DATASETS["diabetes"]
    samples = dataset.read(None)
    one = choose_rows(dataset, samples, a_cell(max_train_rows=200, max_test_rows=50))
    other = choose_rows(dataset, samples, a_cell(method="x", peer="diffor", max_train_rows=200, max_test_rows=50))
    later = choose_rows(dataset, samples, a_cell(seed=1, max_train_rows=200, max_test_rows=50))
    for part in ("train", "valid", "test"):
        assert getattr(one, part).tolist() == getattr(other, part).tolist() != getattr(later, part).tolist()
    assert (len(one.train), len(one.valid), len(one.test)) == (180, 20, 50)
    whole = choose_rows(dataset, samples, a_cell(seed=3))
    train, test = dataset.split(None, 3)
    assert whole.test.tolist() == test.tolist()
    assert sorted([*whole.train, *whole.valid]) == sorted(train)  # no row has two roles


def test_columns_are_standardised_by_all_rows_to_learn_from(monkeypatch):
    seen = {}

    def fit(problem):
        seen["x"] = pd.concat([problem.x, problem.x_valid])
        return PEERS["constant"].fit(problem)

    monkeypatch.setitem(DATASETS, "diabetes", replace(DATASETS["diabetes"], standardised=True))
    monkeypatch.setattr(cell_module, "find_peer", lambda name: Peer("seeing", "", ("value",), fit))
    run_cell(a_cell())
    assert np.abs(seen["x"].mean()).max() < 1e-12
    assert seen["x"].std(ddof=0).to_numpy() == pytest.approx(1.0)


def test_the_grid_metric_reads_the_range_of_all_rows_to_learn_from(monkeypatch):
    dataset = DATASETS["diabetes"]
    monkeypatch.setitem(DATASETS, "diabetes", replace(dataset, metrics=("crps_grid", "crps")))
    line = run_cell(a_cell())
    train, test = dataset.split(None, 0)
    y = dataset.read(None).y
    grid = metrics.training_grid(y[train])
    parts = choose_rows(dataset, dataset.read(None), a_cell())
    samples = np.tile(np.quantile(y[parts.train], (np.arange(100) + 0.5) / 100), (len(test), 1))
    expected = metrics.crps_grid(y[test], Prediction(samples).cdf(grid[None]), grid)
    assert line["metrics"]["crps_grid"] == pytest.approx(expected, rel=0.01)
    assert "crps_grid" not in run_cell(a_cell(dataset="synthetic-grades"))["metrics"]


def test_an_answer_in_closed_form_is_scored_exactly():
    codes = CdfPrediction([0, 0, 1, 1, 2, 2], [[0, 0.125, 0.125, 0.375, 0.375, 1.0]])
    exact = score_grades(codes, np.array([1.0]), 3)
    assert exact["rps"] == pytest.approx(0.125**2 + 0.625**2)
    flat = CdfPrediction([0.0, 1.0], [[0.0, 1.0]])
    with pytest.warns(RuntimeWarning, match="srcc"):
        scores = score(a_dataset(), flat, pd.DataFrame(), np.array([0.5]), a_cell())
    assert scores["crps"] == pytest.approx(1 / 12)
    assert calibration(flat, np.array([0.32]), seed=0)["pit"][6] == 1


def test_a_problem_names_the_groups_of_its_rows():
    groups = np.repeat(np.arange(20), 5)
    samples = Samples(pd.DataFrame({"a": np.arange(100.0)}), np.arange(100.0), groups=groups)
    dataset = a_dataset(split=lambda root, index: (np.arange(80), np.arange(80, 100)))
    parts = choose_rows(dataset, samples, a_cell())
    problem = make_problem(dataset, samples, parts, a_cell())
    assert problem.groups.tolist() == (problem.x["a"] // 5).tolist()
    assert problem.groups_valid.tolist() == (problem.x_valid["a"] // 5).tolist()
    assert make_problem(dataset, replace(samples, groups=None), parts, a_cell()).groups is None


def test_validation_takes_whole_groups():
    groups = np.repeat(np.arange(20), 5)
    chosen = choose_valid(100, 0.23, [0], groups)
    by_group = chosen.reshape(20, 5)
    assert (by_group.all(axis=1) | ~by_group.any(axis=1)).all()
    assert chosen.sum() == 25
    assert choose_valid(3, 0.01, [0]).sum() == 1


# Scores by hand.


def test_scores_of_values_by_hand():
    y = np.array([1.0, 5.0])
    prediction = Prediction([[0.0, 2.0], [2.0, 4.0]])  # medians and means 1 and 3; 90% intervals are the samples
    scores = score(a_dataset(metrics=("xauc", "crps", "cs")), prediction, pd.DataFrame(), y, a_cell())
    assert scores["mae"] == 1.0
    assert scores["rmse"] == pytest.approx(math.sqrt(2))
    assert scores["crps"] == pytest.approx(((1 - 0.5) + (2 - 0.5)) / 2)
    assert scores["coverage_90"] == 0.5
    assert scores["width_90"] == 2.0
    assert scores["interval_score_90"] == pytest.approx((2 + (2 + 2 / 0.1 * 1)) / 2)
    assert scores["srcc"] == pytest.approx(1.0)
    assert (scores["xauc"], scores["cs"]) == (1.0, 1.0)  # all errors within five units, counted from the median
    assert "qwk" not in scores
    assert "crps_truth" not in scores


def test_intervals_that_users_get_are_scored_beside_those_between_quantiles():
    # Of the samples 40 % are zero: the quantiles lie at 0 and 95.5, what a user gets ends at 91, and 93 lies between.
    samples = np.concatenate([np.zeros(40), np.arange(41, 101)])
    higher = np.append(samples[:-1], 200)
    scores = score(a_dataset(), Prediction([samples, higher]), pd.DataFrame(index=range(2)), np.array([0.0, 93.0]),
                   a_cell())  # fmt: skip
    assert (scores["coverage_90"], scores["width_90"]) == (1.0, 95.5)
    assert (scores["held_90"], scores["held_width_90"]) == (0.5, 91.0)


def test_scores_of_grades_by_hand():
    y = np.array([0.0, 2.0, 1.0])
    shares = Prediction([[0.0, 0.0, 0.0, 2.0], [0.0, 0.0, 2.0, 2.0], [0.0, 1.0, 1.0, 2.0]])
    scores = score_grades(shares, y, 3)
    assert scores["mae"] == pytest.approx(2 / 3)  # median grades 0, 0, 1
    assert scores["accuracy"] == pytest.approx(2 / 3)  # modes 0, 0, 1
    # Means 0.5, 1 and 1 vary by 1/18, grades around them by 3/4: moved by sqrt(14.5) to -0.44, 1.47, 1.47: 0, 1, 1.
    assert scores["qwk"] == pytest.approx(1 - (1 / 3) / ((2 / 3) + (2 / 9) + (1 - 2 / 3) ** 2))
    # Cumulative errors: (0.25, 0.25), (0.5, 0.5), (0.25, 0.25).
    assert scores["rps"] == pytest.approx((2 / 16 + 2 / 4 + 2 / 16) / 3)


def test_the_truth_is_scored_beside_the_method():
    def truth(x, n_samples, seed):
        assert (len(x), n_samples, seed) == (2, 7, 4)
        return np.tile([[1.0], [5.0]], 7)

    x, y = pd.DataFrame({"a": [0, 1]}), np.array([1.0, 6.0])
    cell = a_cell(n_samples=7, seed=4)
    assert score(a_dataset(truth=truth), Prediction([[0.0], [1.0]]), x, y, cell)["crps_truth"] == 0.5


def test_calibration_by_hand():
    samples = np.tile(np.arange(1.0, 101.0), (4, 1))
    y = np.array([52.5, 25.0, 99.9, 200.0])
    found = calibration(Prediction(samples), y, seed=0)
    inside = dict(zip(found["levels"], found["coverage"], strict=True))
    assert (inside[0.1], inside[0.5], inside[0.6], inside[0.95]) == (0.25, 0.25, 0.5, 0.5)
    assert len(found["levels"]) == 10
    places = [place for place, share in enumerate(found["pit"]) for _ in range(round(4 * share))]
    assert places[0] in (4, 5)  # 24 samples lie below 25 and one equals it: between 24 / 101 and 26 / 101
    assert places[1:] == [10, 19, 19]


@pytest.mark.parametrize(
    ("samples", "n_grades", "message"),
    [
        ([[0.0]], None, "one row for each of 2 test rows, but got 1"),
        ([[0.0], [math.nan]], None, "finite numbers, but 1 of 2"),
        ([[0.0], [0.5]], 3, "grade codes 0 to 2, but 1 of 2 are not, the first is np.float64\\(0.5\\)"),
        ([[0.0], [3.0]], 3, "grade codes 0 to 2, but 1 of 2"),
    ],
)
def test_what_is_no_answer_is_refused(samples, n_grades, message):
    with pytest.raises(ValueError, match=message):
        check_prediction(Prediction(samples), 2, n_grades)


# Whole cells.


def test_grades_are_given_as_grades():
    line = run_cell(a_cell(dataset="synthetic-grades", max_train_rows=300, max_test_rows=100))
    assert line["n_grades"] == DATASETS["synthetic-grades"].n_grades
    assert {"accuracy", "qwk", "rps", "crps_truth"} <= line["metrics"].keys()
    assert line["metrics"]["rps"] == pytest.approx(line["metrics"]["crps"])


# Time.


def test_imports_are_done_before_the_clock_starts(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.3)\n")
    monkeypatch.syspath_prepend(tmp_path)

    def fit(problem):
        import slow_to_import  # noqa: F401

        return PEERS["constant"].fit(problem)

    peer = Peer("slow", "", ("value",), fit, imports=("slow_to_import", "a_package_that_is_not_there"))
    monkeypatch.setattr(cell_module, "find_peer", lambda name: peer)
    line = run_cell(a_cell())
    del sys.modules["slow_to_import"]
    assert line["fit_seconds"] < 0.3 <= line["import_seconds"]


def test_a_method_in_another_process_measures_itself():
    class Foreign:
        fit_seconds, predict_seconds, peak_bytes, closed = 2.0, None, 3 * 2**20, False

        def close(self):
            self.closed = True

    fitted = Foreign()
    assert own_measurements(fitted) == {"fit_seconds": 2.0, "peak_bytes": 3 * 2**20}
    assert fitted.closed
    assert own_measurements(object()) == {}


# Tuning.


def tuned_problem():
    x = pd.DataFrame({"a": np.arange(10.0)})
    return Problem(x[:6], np.zeros(6), x[6:], np.zeros(4))


class Shifted:
    def __init__(self, by):
        self.by = by

    def predict(self, x):
        return Prediction(np.full((len(x), 3), float(self.by)))


def fit_shifted(problem, by, base=0):
    if by == 3:
        raise ValueError("three is no number")
    return Shifted(by + base)


def test_the_best_trial_by_validation_crps_is_kept():
    peer = Peer("shifted", "", ("value",), fit_shifted)
    cell = a_cell(settings={"base": 1}, trials=4, search={"by": [3, -3, 5, 0]})
    fitted, facts = fit_tuned(peer, tuned_problem(), cell)
    assert fitted.by == 1
    assert facts["chosen"] == {"by": 0}
    assert facts["valid_crps"] == 1.0
    by = {trial["settings"]["by"]: trial for trial in facts["trials"]}
    assert by[3]["error"] == "ValueError: three is no number"
    assert (by[-3]["valid_crps"], by[5]["valid_crps"]) == (2.0, 6.0)
    assert all(trial["seconds"] >= 0 for trial in facts["trials"])
    assert len(by) == 4  # no trial comes twice
    _, again = fit_tuned(peer, tuned_problem(), replace(cell, trials=50))
    assert [trial["settings"] for trial in again["trials"]] == [trial["settings"] for trial in facts["trials"]]


def test_a_search_without_success_is_a_failure():
    peer = Peer("shifted", "", ("value",), fit_shifted)
    with pytest.raises(RuntimeError, match="all 1 failed; the last with ValueError: three"):
        fit_tuned(peer, tuned_problem(), a_cell(trials=3, search={"by": [3]}))
