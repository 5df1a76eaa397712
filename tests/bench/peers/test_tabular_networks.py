from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from diffor.bench.peers.constants import fit_constant
from diffor.bench.peers.problem import Peer, Problem
from diffor.bench.peers.tabular_networks import TABULAR_NETWORKS, FilledColumns, cross_entropy, fit_tabm, pinball_loss

QUICK: dict[str, dict[str, Any]] = {
    "realmlp": {"n_epochs": 15, "hidden_sizes": [32, 32]},
    "tabm": {"max_epochs": 25, "k": 4, "d_block": 32, "batch_size": 32},
}


def rows_of(n_rows: int, seed: int, kinds: str) -> tuple[pd.DataFrame, Any]:
    random = np.random.default_rng(seed)
    number, kind = random.normal(size=n_rows), random.choice(list(kinds), n_rows)
    y = 50 + 10 * number + 10 * (kind == "a") + random.normal(size=n_rows)
    number[::19] = np.nan
    table = pd.DataFrame({"size": number, "kind": pd.Categorical(np.where(np.arange(n_rows) % 23, kind, None))})
    return table.assign(same=1.0, empty=np.nan), y


def problem_of(task: str) -> tuple[Problem, pd.DataFrame, Any]:
    (x, y), (x_valid, y_valid), (x_test, y_test) = rows_of(150, 0, "abc"), rows_of(60, 1, "abc"), rows_of(40, 2, "abz")
    if task == "value":
        return Problem(x, y, x_valid, y_valid), x_test, y_test
    cuts = np.quantile(y, [0.3, 0.6, 0.8])
    graded = np.digitize(y_valid, cuts) * 1.0
    graded[:2] = 4  # a grade that no training row has
    return Problem(x, np.digitize(y, cuts) * 1.0, x_valid, graded, n_grades=5), x_test, np.digitize(y_test, cuts) * 1.0


@pytest.mark.parametrize(
    ("peer", "task"), [pytest.param(p, task, id=f"{p.name}-{task}") for p in TABULAR_NETWORKS for task in p.tasks]
)
def test_peer_beats_the_constant_and_repeats_itself(peer: Peer, task: str) -> None:
    pytest.importorskip(str(peer.package))
    problem, x_test, y_test = problem_of(task)
    state, n_threads = torch.random.get_rng_state(), torch.get_num_threads()
    prediction = peer.fit(problem, **QUICK[peer.name]).predict(x_test)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == n_threads
    assert prediction.samples.shape == (len(x_test), problem.n_samples)
    constant = fit_constant(problem).predict(x_test)
    assert prediction.crps(y_test).mean() < 0.8 * constant.crps(y_test).mean()
    if task == "grades":
        assert set(np.unique(prediction.samples)) <= set(range(5))
    again = peer.fit(problem, **QUICK[peer.name]).predict(x_test)
    np.testing.assert_array_equal(prediction.samples, again.samples)


@pytest.mark.parametrize("peer", TABULAR_NETWORKS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("column", ["size", "kind"])
def test_tables_of_one_kind_of_columns_work(peer: Peer, column: str) -> None:
    pytest.importorskip(str(peer.package))
    problem, x_test, _ = problem_of("value")
    narrow = replace(problem, x=problem.x[[column]], x_valid=problem.x_valid[[column]])
    quick = {**QUICK[peer.name], **({"n_epochs": 1} if peer.name == "realmlp" else {"max_epochs": 1})}
    assert np.isfinite(peer.fit(narrow, **quick).predict(x_test[[column]]).samples).all()


def test_tabm_keeps_the_best_epoch_of_the_validation_rows() -> None:
    pytest.importorskip("tabm")
    problem, x_test, y_test = problem_of("value")
    misled = replace(problem, y_valid=np.random.default_rng(0).permutation(problem.y_valid))
    good, bad = (fit_tabm(given, **QUICK["tabm"]).predict(x_test).crps(y_test).mean() for given in (problem, misled))
    assert good < 0.8 * bad


def test_tabm_stops_when_the_time_is_up() -> None:
    pytest.importorskip("tabm")
    problem, x_test, _ = problem_of("value")
    start = time.monotonic()
    fitted = fit_tabm(problem, max_epochs=10**6, patience=10**6, time_limit=0.2, k=2, d_block=8)
    assert time.monotonic() - start < 10
    assert np.isfinite(fitted.predict(x_test).samples).all()


def test_filled_columns_drop_constants_and_share_a_code_for_rare_levels() -> None:
    x, _ = rows_of(150, 0, "aaab")
    columns = FilledColumns(x, max_levels=1)
    assert columns.cardinalities == [2]
    np.testing.assert_array_equal(columns.codes(x)[:, 0], (x["kind"] != "a").astype(int))
    numbers = columns.numbers(x)
    assert numbers.shape == (150, 2)
    np.testing.assert_array_equal(numbers[:, 1], x["size"].isna())
    assert numbers[0, 0] == x["size"].median()


def test_losses_are_those_of_the_textbook() -> None:
    outputs = torch.zeros(1, 2, 19)
    assert float(pinball_loss(outputs, torch.tensor([1.0]))) == pytest.approx(0.5)
    logits = torch.log(torch.tensor([[[0.5, 0.5], [0.25, 0.75]]]))
    assert float(cross_entropy(logits, torch.tensor([1.0]))) == pytest.approx(-np.log([0.5, 0.75]).mean())
