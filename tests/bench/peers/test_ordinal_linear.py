from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from diffor.bench.peers.constants import fit_constant
from diffor.bench.peers.ordinal_linear import ORDINAL_LINEAR, LinearDesign, independent_columns
from diffor.bench.peers.problem import Peer, Problem

CUTS = [45.0, 55.0, 65.0]


def rows_of(n_rows: int, seed: int, kinds: str) -> tuple[pd.DataFrame, Any]:
    random = np.random.default_rng(seed)
    number, kind = random.normal(size=n_rows), random.choice(list(kinds), n_rows)
    y = 50 + 10 * number + 10 * (kind == "a") + random.normal(size=n_rows)
    number[::19] = np.nan
    table = pd.DataFrame({"size": number, "kind": pd.Categorical(np.where(np.arange(n_rows) % 23, kind, None))})
    # A column twice, one that is the same everywhere and one without a value: none may harm.
    return table.assign(double=2 * number, same=1.0, empty=np.nan), np.digitize(y, CUTS) * 1.0


def problem_of(skipped_grade: bool = False) -> tuple[Problem, pd.DataFrame, Any]:
    (x, y), (x_valid, y_valid), (x_test, y_test) = rows_of(150, 0, "abc"), rows_of(60, 1, "abc"), rows_of(40, 2, "abz")
    if skipped_grade:
        y, y_valid, y_test = (np.where(grades > 1, grades + 1, grades) for grades in (y, y_valid, y_test))
    return Problem(x, y, x_valid, y_valid, n_grades=5), x_test, y_test


@pytest.mark.parametrize("skipped_grade", [False, True])
@pytest.mark.parametrize("peer", ORDINAL_LINEAR, ids=lambda peer: peer.name)
def test_peer_beats_the_constant_and_repeats_itself(peer: Peer, skipped_grade: bool) -> None:
    pytest.importorskip(str(peer.package))
    problem, x_test, y_test = problem_of(skipped_grade)
    prediction = peer.fit(problem).predict(x_test)
    assert prediction.samples.shape == (len(x_test), problem.n_samples)
    assert set(np.unique(prediction.samples)) <= set(np.unique(problem.y))
    constant = fit_constant(problem).predict(x_test)
    assert prediction.crps(y_test).mean() < 0.6 * constant.crps(y_test).mean()
    np.testing.assert_array_equal(peer.fit(problem).predict(x_test).samples, prediction.samples)


def test_ordered_model_finds_the_known_slope() -> None:
    pytest.importorskip("statsmodels")
    random = np.random.default_rng(0)
    x = pd.DataFrame({"size": random.normal(size=2000)})
    y = np.digitize(2 * x["size"].to_numpy() + random.logistic(size=2000), [-1.0, 1.0]) * 1.0
    peer = next(peer for peer in ORDINAL_LINEAR if peer.name == "ordered-model")
    samples = (
        peer.fit(Problem(x, y, x, y, n_grades=3, n_samples=1000)).predict(pd.DataFrame({"size": [0.0, 1.0]})).samples
    )
    np.testing.assert_allclose((samples == 0).mean(axis=1), 1 / (1 + np.exp([1.0, 3.0])), atol=0.03)
    np.testing.assert_allclose((samples == 2).mean(axis=1), 1 / (1 + np.exp([1.0, -1.0])), atol=0.04)


def test_design_standardises_numbers_and_spells_out_the_commonest_levels() -> None:
    x = pd.DataFrame({"kind": pd.Categorical(["a", "a", "b", "b", "c"]), "size": [1.0, 2.0, 3.0, 4.0, np.nan]})
    matrix = LinearDesign(x, max_levels=2).matrix(x)
    assert matrix.shape == (5, 4)  # size, its flag, and two of the three kinds
    np.testing.assert_allclose(matrix[:, :2].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_array_equal(matrix[:, 2:], [[1, 0], [1, 0], [0, 1], [0, 1], [0, 0]])


def test_columns_that_others_stand_for_are_dropped() -> None:
    random = np.random.default_rng(0)
    first, second = random.normal(size=(2, 50))
    levels = np.eye(3)[np.arange(50) % 3]  # the three add up to a constant
    matrix = np.column_stack([first, first + second, second, np.ones(50), levels])
    assert len(independent_columns(matrix)) == 4
