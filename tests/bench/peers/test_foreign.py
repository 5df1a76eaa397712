import gc
import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from diffor.bench.peers import PEERS
from diffor.bench.peers.constants import fit_constant
from diffor.bench.peers.foreign import ForeignProcess, environment_python, fit_treeffuser
from diffor.bench.peers.problem import Problem

PROJECT = Path(__file__).parents[3]
QUICK = {
    "treeffuser": {"n_estimators": 60, "n_repeats": 10, "n_steps": 20},
    "ngboost": {"n_estimators": 80, "learning_rate": 0.1},
}


@pytest.fixture(autouse=True)
def _environments(monkeypatch):
    monkeypatch.setenv("DIFFOR_PEERS", os.environ.get("DIFFOR_PEERS", str(PROJECT / ".venv-peers")))


def require(name):
    try:
        environment_python(name)
    except FileNotFoundError as error:
        pytest.skip(str(error).splitlines()[0])


def mean_crps(y, prediction):
    return float(prediction.crps(y).mean())


def rows_of(n_rows, seed, kinds):
    random = np.random.default_rng(seed)
    number, kind = random.normal(size=n_rows), random.choice(list(kinds), n_rows)
    y = 50 + 10 * number + 10 * (kind == "a") + random.normal(size=n_rows)
    number[::19] = np.nan
    return pd.DataFrame({"size": number, "kind": pd.Categorical(np.where(np.arange(n_rows) % 23, kind, None))}), y


def problem_of(task):
    (x, y), (x_valid, y_valid), (x_test, y_test) = rows_of(150, 0, "abc"), rows_of(60, 1, "abc"), rows_of(20, 2, "abz")
    if task == "value":
        return Problem(x, y, x_valid, y_valid), x_test, y_test
    cuts = np.quantile(y, [0.3, 0.6, 0.8])
    graded = np.digitize(y_valid, cuts) * 1.0
    graded[:3] = 4  # a grade that no training row has
    return Problem(x, np.digitize(y, cuts) * 1.0, x_valid, graded, n_grades=5), x_test, np.digitize(y_test, cuts) * 1.0


@pytest.mark.parametrize(("name", "task"), [("treeffuser", "value"), ("ngboost", "value"), ("ngboost", "grades")])
def test_peer_beats_the_constant_and_repeats_itself(name, task):
    require(name)
    peer = PEERS[name]
    problem, x_test, y_test = problem_of(task)
    fitted = peer.fit(problem, **QUICK[peer.name])
    prediction = fitted.predict(x_test)
    assert prediction.samples.shape == (len(x_test), problem.n_samples)
    assert mean_crps(y_test, prediction) < 0.7 * mean_crps(y_test, fit_constant(problem).predict(x_test))
    assert 0 < fitted.predict_seconds < 60
    assert 0 < fitted.fit_seconds < 60
    assert fitted.peak_bytes > 1e7
    np.testing.assert_array_equal(fitted.predict(x_test).samples, prediction.samples)
    fitted.ask("fit")  # once more in the same process, which saves the start of another
    np.testing.assert_array_equal(fitted.predict(x_test).samples, prediction.samples)
    if (name, task) == ("ngboost", "value"):  # validation rows decide when to stop
        path = fitted.folder / "task.npz"
        np.savez(path, **{**np.load(path), "y_valid": np.random.default_rng(0).permutation(problem.y_valid)})
        fitted.ask("fit")
        constant = mean_crps(y_test, fit_constant(problem).predict(x_test))
        assert mean_crps(y_test, fitted.predict(x_test)) > 0.8 * constant
    fitted.close()


def test_treeffuser_of_a_table_without_numbers_draws_no_sample_twice():
    require("treeffuser")
    problem, x_test, _ = problem_of("value")
    kinds = Problem(problem.x[["kind"]], problem.y, problem.x_valid[["kind"]], problem.y_valid)
    samples = fit_treeffuser(kinds, **QUICK["treeffuser"]).predict(x_test[["kind"]][:3]).samples
    assert [len(np.unique(row)) for row in samples] == [100, 100, 100]


def test_treeffuser_draws_the_same_samples_from_tables_of_its_scores():
    require("treeffuser")
    problem, x_test, _ = problem_of("value")
    usual, looked_up = (fit_treeffuser(problem, **QUICK["treeffuser"], tables=tables) for tables in (False, True))
    np.testing.assert_allclose(looked_up.predict(x_test).samples, usual.predict(x_test).samples, rtol=1e-9)
    many = pd.concat([x_test] * 30, ignore_index=True)  # more rows than tables are held of at a time
    samples = looked_up.predict(many).samples
    assert len(np.unique(samples)) == samples.size
    np.testing.assert_allclose(samples.mean(), usual.predict(many).samples.mean(), atol=0.5)


def test_errors_of_the_process_are_told_here(tmp_path, monkeypatch):
    (tmp_path / "treeffuser" / "bin").mkdir(parents=True)
    (tmp_path / "treeffuser" / "bin" / "python").symlink_to(sys.executable)  # a Python without the library
    monkeypatch.setenv("DIFFOR_PEERS", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"must answer 'fit', but it ended with status 1:(.|\n)*No module named"):
        fit_treeffuser(problem_of("value")[0])


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_process_ends_when_the_object_is_forgotten_or_closed():
    require("ngboost")
    forgotten, closed = ForeignProcess("ngboost", 1), ForeignProcess("ngboost", 1)
    pids, folders = [p._process.pid for p in (forgotten, closed)], [p.folder for p in (forgotten, closed)]
    assert all(alive(pid) for pid in pids)
    closed.close()
    del forgotten
    gc.collect()
    deadline = time.monotonic() + 5
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)
    assert not any(folder.exists() for folder in folders)
    with pytest.raises(RuntimeError, match="but it was closed"):
        closed.ask("predict")


def test_a_missing_environment_is_told_with_the_commands_that_make_it(tmp_path, monkeypatch):
    monkeypatch.setenv("DIFFOR_PEERS", str(tmp_path / "none"))
    with pytest.raises(
        FileNotFoundError, match=r"but there is none at .*none.*ngboost(.|\n)*-m venv(.|\n)*pip install"
    ):
        environment_python("ngboost")


def test_the_environments_stand_in_the_current_folder_by_default(tmp_path, monkeypatch):
    monkeypatch.delenv("DIFFOR_PEERS")
    monkeypatch.chdir(tmp_path)
    python = tmp_path / ".venv-peers" / "ngboost" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert environment_python("ngboost") == python
