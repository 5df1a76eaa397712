"""Leaderboards against figures worked out by hand and against scipy."""

import itertools
import json

import numpy as np
import pytest
from result_lines import a_line
from scipy import stats

from diffor.bench.leaderboard import (
    MEASURES,
    Measure,
    common_seeds,
    compare,
    compare_pairs,
    critical_difference,
    differences,
    fit_seconds,
    latest_cells,
    leaderboard_numbers,
    mean_calibration,
    middle_share,
    missing_cells,
    of_task,
    predict_seconds,
    ranked_methods,
    seconds_by_method,
    table_of,
)

CRPS = Measure("crps", "CRPS", "value")
QWK = Measure("qwk", "QWK", "grades", greater_is_better=True)


SCORES = {  # data set: method: scores of the seeds
    "one": {"a": [1.0, 3.0], "b": [2.0, 4.0], "c": [2.0, 4.0]},
    "two": {"a": [10.0, 10.0], "b": [5.0, 5.0], "c": [20.0, 20.0]},
    "three": {"a": [1.0, 1.0], "b": [2.0, 2.0], "c": [4.0, 4.0]},
}


@pytest.fixture
def cells():
    return latest_cells(
        a_line(dataset, method, seed, crps)
        for dataset, methods in SCORES.items()
        for method, scores in methods.items()
        for seed, crps in enumerate(scores)
    )


# Ranks and what comes of them.


def test_a_comparison_by_hand(cells):
    found = compare(cells, CRPS)
    assert (found.methods, found.datasets) == (["a", "b", "c"], ["one", "two", "three"])
    assert found.means.to_numpy().tolist() == [[2, 3, 3], [10, 5, 20], [1, 2, 4]]
    assert found.spreads.loc["one"].tolist() == pytest.approx([np.sqrt(2)] * 3)
    assert found.ranks.to_numpy().tolist() == [[1, 2.5, 2.5], [2, 1, 3], [1, 2, 3]]  # ties share their ranks
    assert found.is_best.sum().tolist() == [2, 1, 0]
    assert found.relative.tolist() == pytest.approx([(1 + 2 + 1) / 3, (1.5 + 1 + 2) / 3, (1.5 + 4 + 4) / 3])
    assert found.left_out == {}


def test_where_greater_is_better_the_order_turns():
    lines = [a_line("one", m, crps=c, task="grades") for m, c in (("a", 30.0), ("b", 10.0), ("c", 20.0))]
    found = compare(latest_cells(lines), QWK)
    assert found.methods == ["b", "c", "a"]
    assert found.is_best.sum().tolist() == [1, 0, 0]
    assert found.relative.tolist() == pytest.approx([0, 0.1, 0.2])


def test_best_scores_of_zero_have_no_ratio():
    cells = latest_cells([a_line("one", "a", crps=0.0), a_line("one", "b", crps=1.0)])
    assert compare(cells, CRPS).relative.isna().all()
    assert leaderboard_numbers(cells)["value"]["crps"]["methods"]["a"]["relative"] is None


def test_only_common_seeds_count(cells):
    del cells["one", "b", 1]
    found = compare(cells, CRPS)
    assert found.seeds["one"] == (0,)
    assert found.means.loc["one"].tolist() == [1, 2, 2]
    assert found.spreads.loc["one"].tolist() == [0, 0, 0]
    assert common_seeds(cells, "one", ["a", "c"]) == [0, 1]
    assert common_seeds(cells, "one", []) == []


def test_sets_that_some_method_lacks_are_left_out_and_named(cells):
    for seed in (0, 1):
        cells["two", "c", seed] = a_line("two", "c", seed, status="failed")
    found = compare(cells, CRPS)
    assert found.datasets == ["one", "three"]
    assert found.left_out == {"two": ("c",)}
    assert compare(cells, CRPS, ["a", "b"]).datasets == ["one", "two", "three"]
    del cells["three", "b", 0], cells["three", "a", 1]
    assert compare(cells, CRPS).left_out["three"] == ("a", "b", "c")  # all have results, but at no common seed


def test_methods_with_few_results_do_not_cost_the_others_their_sets(cells):
    cells["one", "d", 0] = a_line("one", "d")
    assert ranked_methods(cells) == ["a", "b", "c"]
    assert compare(cells, CRPS).methods == ["a", "b", "c"]
    assert compare(cells, CRPS, ["a", "d"]).datasets == ["one"]


def test_values_and_grades_are_two_competitions(cells):
    cells |= latest_cells([a_line("marks", "a", task="grades"), a_line("marks", "b", task="grades")])
    assert "marks" not in compare(cells, CRPS).datasets
    assert compare(cells, QWK).datasets == ["marks"]
    assert set(of_task(cells, "grades")) == {("marks", "a", 0), ("marks", "b", 0)}


def test_nothing_to_compare_is_nothing(cells):
    assert compare(cells, QWK) is None
    assert compare({}, CRPS) is None
    assert compare(cells, Measure("unknown", "?", "value")) is None


def test_missing_cells_are_named(cells):
    del cells["one", "b", 1]
    cells |= latest_cells([a_line("marks", "a", task="grades")])
    assert missing_cells(cells) == {"b": ["one (seed 1)"]}


# Tests.


def test_differences_of_errors_have_no_units():
    lines = [a_line(name, m, crps=c) for name, (a, b) in {"one": (1.0, 2.0), "two": (200.0, 100.0)}.items()
             for m, c in (("a", a), ("b", b))]  # fmt: skip
    found = compare(latest_cells(lines), CRPS)
    assert differences(found, "a", "b").tolist() == pytest.approx([np.log(2), -np.log(2)])
    none = compare(latest_cells([*lines, a_line("two", "a", crps=0.0)]), CRPS)
    assert differences(none, "a", "b").tolist() == [1, 100]  # without a ratio
    graded = [{**line, "task": "grades", "metrics": {"qwk": -line["metrics"]["crps"]}} for line in lines]
    assert differences(compare(latest_cells(graded), QWK), "a", "b").tolist() == [1, -100]


def test_pairs_by_hand(cells):
    pairs = {(pair["first"], pair["second"]): pair for pair in compare_pairs(compare(cells, CRPS))}
    assert list(pairs) == [("a", "b"), ("a", "c"), ("b", "c")]
    counts = {names: (pair["wins"], pair["ties"], pair["losses"]) for names, pair in pairs.items()}
    assert (counts["a", "b"], counts["b", "c"]) == ((2, 0, 1), (2, 1, 0))
    assert pairs["a", "c"]["p"] == stats.wilcoxon(np.log([2 / 3, 10 / 20, 1 / 4])).pvalue == 0.25
    assert pairs["a", "c"]["p_holm"] == 0.75


def many_cells(n_datasets, methods="abcd"):
    rng = np.random.default_rng(0)
    return latest_cells(
        a_line(f"set{d}", m, crps=float(np.exp(rng.normal(0.3 * place, 0.3))) * 10.0 ** (d % 4))
        for d in range(n_datasets)
        for place, m in enumerate(methods)
    )


def test_the_critical_difference_is_that_of_demsar():
    found = compare(many_cells(12), CRPS)
    critical = critical_difference(found)
    # Demsar 2006, table 5a: q is 2.569 for 4 classifiers at 0.05.
    assert critical.difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 12)), abs=1e-3)
    expected = stats.friedmanchisquare(*found.means.to_numpy().T)
    assert critical.statistic == pytest.approx(expected.statistic)
    assert critical.p == pytest.approx(expected.pvalue)


def test_few_sets_or_methods_have_no_critical_difference():
    assert critical_difference(compare(many_cells(4), CRPS)) is None
    assert critical_difference(compare(many_cells(12, "ab"), CRPS)) is None


# Time, calibration, JSON.


def test_seconds_are_geometric_means_over_sets():
    lines = [
        a_line("one", "a", 0, fit_seconds=1.0), a_line("one", "a", 1, fit_seconds=3.0),
        a_line("two", "a", 0, fit_seconds=8.0, predict_seconds=2.0, n_test=4000),
        a_line("two", "a", 1, fit_seconds=8.0, predict_seconds=2.0, n_test=4000),
    ]  # fmt: skip
    cells = latest_cells(lines)
    found = compare(cells, CRPS)
    assert seconds_by_method(cells, found, fit_seconds).to_dict() == {"a": pytest.approx(4.0)}
    assert seconds_by_method(cells, found, predict_seconds).to_dict() == {"a": pytest.approx(0.5)}


def test_calibration_is_averaged_over_sets_and_not_over_cells():
    def line(dataset, seed, coverage):
        return a_line(dataset, "a", seed, calibration={"levels": [0.5], "coverage": [coverage]})

    cells = latest_cells([line("one", 0, 0.2), line("one", 1, 0.4), line("two", 0, 0.9)])
    curves = mean_calibration(cells, compare(cells, CRPS))
    assert curves.to_dict() == {"a": {0.5: pytest.approx(0.6)}}


def test_coverage_by_set_and_method(cells):
    for seed, value in ((0, 0.8), (1, 0.9)):
        cells["two", "b", seed]["metrics"]["coverage_90"] = value
    table = table_of(cells, compare(cells, CRPS), middle_share)
    assert table.shape == (3, 3)
    assert table.loc["two"].tolist() == pytest.approx([0.9, 0.85, 0.9])
    # An interval that ends at a point mass holds all of it; the middle of the distribution only a part.
    line = a_line("two", "b", calibration={"pit": [0.06, *[0.88 / 18] * 18, 0.06]})
    assert middle_share(line) == pytest.approx(0.88)


def test_a_measure_counts_where_it_was_taken(cells):
    cells |= latest_cells(a_line("four", m) for m in "ab")
    for method, crps in (("a", 0.1), ("b", 0.2)):
        cells["four", method, 0]["metrics"]["crps_grid"] = crps
    found = compare(cells, Measure("crps_grid", "CRPS on the grid", "value"))
    assert (found.methods, found.datasets, found.left_out) == (["a", "b"], ["four"], {})
    assert compare(cells, CRPS, ["a", "b"]).datasets == ["one", "two", "three", "four"]


def test_all_numbers_are_json(cells):
    cells |= latest_cells(a_line("marks", m, task="grades") for m in "ab")
    numbers = json.loads(json.dumps(leaderboard_numbers(cells), allow_nan=False))
    known = {(m.task, m.name) for m in MEASURES} - {("value", "crps_grid")}
    assert {(task, name) for task, found in numbers.items() for name in found} == known
    crps = numbers["value"]["crps"]
    assert crps["methods"]["a"]["mean_rank"] == pytest.approx(4 / 3)
    assert crps["methods"]["b"]["means"] == {"one": 3.0, "two": 5.0, "three": 2.0}
    assert [(pair["first"], pair["second"]) for pair in crps["pairs"]] == list(itertools.combinations("abc", 2))
    assert crps["critical_difference"] is None
    assert crps["datasets"] == ["one", "two", "three"]
