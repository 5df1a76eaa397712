"""``diffor tune`` on real files."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("optuna", reason="optuna is an optional extra")

import diffor
from diffor.cli.main import main

QUICK = ["--preset", "fast", "--max-steps", "5", "--no-prior"]


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"size": np.linspace(0, 1, 60), "city": ["Oslo", "Rome", "Bern"] * 20})
    table["price"] = 10 * table["size"]
    table["quality"] = np.array(["low", "mid", "high"])[(table["size"] * 2.99).astype(int)]
    table.to_csv("rows.csv", index=False)
    return "rows.csv"


def test_it_prints_the_trials_and_saves_the_best(rows, capsys):
    command = ["tune", rows, "--target", "price", "--drop", "quality", *QUICK, "--trials", "2", "--out", "best"]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["trial", "CRPS", "seconds", "settings"]
    assert lines[1].endswith("the preset's own")
    assert "learning_rate=" in lines[2]
    assert lines[-1] == "saved in         best, fitted on all rows"
    assert main(["evaluate", "best", rows]) == 0  # the folder remembers the target
    assert main(command) == 2
    assert "must not exist yet" in capsys.readouterr().err


def test_a_study_is_continued_and_json_holds_everything(rows, capsys):
    command = ["tune", rows, "--target", "quality", "--grades", "low,mid,high", "--drop", "price", *QUICK, "--study",
               "a.db", "--folds", "2", "--json"]  # fmt: skip
    assert main([*command, "--trials", "1", "--out", "one"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main([*command, "--trials", "2", "--out", "two"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert second["trials"][:1] == first["trials"]
    assert len(second["trials"]) == 2
    assert second["preset_score"] == first["best"]["score"] >= second["best"]["score"]
    assert main([*command[:-1], "--trials", "2", "--out", "three"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[1] == "RPS"
    model = diffor.load("two")
    assert {name: model.get_params()[name] for name in second["best"]["settings"]} == second["best"]["settings"]


def test_wrong_use_is_one_line_and_leaves_no_files(rows, refused):
    command = ["tune", rows, "--target", "price", "--drop", "quality", *QUICK, "--out", "best"]
    for options, message in (
        (["--study", "best/a.db"], "--study must lie outside the model folder best"),
        (["--study", "."], "--study must be a file, but . is a folder"),
        (["--study", "no/a.db"], "study must be a file in a folder that can be written, but got no/a.db"),
        (["--trials", "0"], "must be a whole number from 1 on"),
        (["--folds", "1"], "n_folds must be at least 2"),
        (["--time-limit", "-1"], "must be a positive number of seconds"),
        (["--preset", "fats"], "did you mean 'fast'"),
    ):
        assert message in refused(*command, *options)
    assert sorted(os.listdir()) == ["rows.csv"]


def test_a_missing_package_names_its_extra(rows, monkeypatch, refused):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    told = refused("tune", rows, "--target", "price", "--drop", "quality", *QUICK, "--out", "best")
    assert 'pip install "diffor[tune]"' in told


def test_ctrl_c_saves_the_best_so_far(rows):
    command = [sys.executable, "-m", "diffor", "tune", rows, "--target", "price", "--drop", "quality", *QUICK]
    process = subprocess.Popen(
        [*command, "--trials", "100000", "--study", "a.db", "--out", "best"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    from sqlite3 import OperationalError, connect

    deadline, n_done = time.monotonic() + 180, 0
    while n_done < 2 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.2)
        try:
            with closing(connect("file:a.db?mode=ro", uri=True)) as database:
                n_done = database.execute("select count(*) from trials where state = 'COMPLETE'").fetchone()[0]
        except OperationalError:  # not there yet
            continue
    process.send_signal(signal.SIGINT)
    out, told = process.communicate(timeout=180)
    assert process.returncode == 0, told
    assert "search           interrupted" in out
    assert diffor.load("best").history_.steps == 5
