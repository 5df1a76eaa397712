"""Methods, encoders and data sets of another package: a real one, in a folder on the path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from diffor.core.registry import Registry

MODULE = '''
from functools import partial

import numpy as np
import pandas as pd

from diffor.core.distribution import Distribution, DistributionMethod
from diffor.datasets.samples import Dataset, Samples, split_read
from diffor.encoders.tabular.networks import TabularEncoder
from diffor.methods.baselines.point import GaussianValue

wide = partial(TabularEncoder, embedding="none")


class Own(GaussianValue):
    """A Gaussian under another name."""

    title = "own title"


def read(root=None):
    x = pd.DataFrame({"size": np.linspace(0, 1, 60)})
    return Samples(x, 10 * x["size"].to_numpy())


line = Dataset("own-line", "A line, 60 rows.", "made here", ("mae", "crps"), read, partial(split_read, read=read))
nothing = 3
'''
ENTRIES = """[diffor.methods]
own-gaussian = own_things:Own
broken = own_things:NotThere
number = own_things:nothing
absent = no_such_module:thing
diffor = own_things:Own

[diffor.datasets]
own-line = own_things:line
other-name = own_things:line

[diffor.encoders]
own-wide = own_things:wide
number = own_things:nothing
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with a package and what tells Python what it registers."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "own_things.py").write_text(MODULE)
    (folder / "own_things-1.0.dist-info").mkdir()
    (folder / "own_things-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: own-things\nVersion: 1\n"
    )
    (folder / "own_things-1.0.dist-info" / "entry_points.txt").write_text(ENTRIES)
    return folder


def run(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A new process that finds the package."""
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, *arguments], cwd=folder, env={**os.environ, "PYTHONPATH": path},
                          capture_output=True, text=True)  # fmt: skip


SCRIPT = """
import json, warnings
import own_things, sys  # first, as its own tests would: nothing is looked for before it is complete
import diffor
from diffor.bench.plan import expand, plan_from

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    x, y = diffor.load_dataset("own-line").x, diffor.load_dataset("own-line").y
    model = diffor.OrdinalRegressor("own-gaussian", encoder="own-wide", max_steps=5, random_state=0, verbose=0)
    answers = model.fit(x, y).predict(x)
model.save("model")
plan = plan_from({"suites": ["installed"], "methods": ["method:own-gaussian"]}, "here")
print(json.dumps({
    "same": bool((diffor.load("model").predict(x) == answers).all()),
    "class": type(model.ensemble_.models[0].method).__name__,
    "expanded": "method:own-gaussian" in expand("method:all"),
    "cells": plan.dataset_names(),
    "said": [str(one.message) for one in caught],
}))
"""


def test_estimators_and_bench_see_what_a_package_registers_and_what_is_broken_is_named(installed, tmp_path):
    ran = run(installed, tmp_path, "-c", SCRIPT)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["same"], found["class"], found["expanded"], found["cells"]) == (True, "Own", True, ["own-line"])
    said = "\n".join(found["said"])
    for name, group, place, fault in (
        ("broken", "methods", "own_things:NotThere", "AttributeError: "),
        ("number", "methods", "own_things:nothing", "it must be a class of Method, not 3"),
        ("absent", "methods", "no_such_module:thing", "ModuleNotFoundError: No module"),
        ("diffor", "methods", "own_things:Own", "the name is taken by diffor itself"),
        ("other-name", "datasets", "own_things:line", "it must be a Dataset of that name, not 'own-line'"),
        ("number", "encoders", "own_things:nothing", "it must make an encoder, not be 3"),
    ):
        assert f"{name!r} of own-things (diffor.{group}, {place}) cannot be used: {fault}" in said
    assert len(found["said"]) == 6


def test_the_command_line_sees_it(installed, tmp_path):
    listed = run(installed, tmp_path, "-m", "diffor", "datasets")
    assert listed.returncode == 0, listed.stderr
    assert "installed: registered by other packages\n  own-line  value  found  A line, 60 rows." in listed.stdout
    methods = json.loads(run(installed, tmp_path, "-m", "diffor", "methods", "--json").stdout)
    assert "own title" in [method["title"] for method in methods]
    (tmp_path / "train.csv").write_text("size,price\n" + "".join(f"{row},{2 * row}\n" for row in range(40)))
    fitted = run(installed, tmp_path, "-m", "diffor", "fit", "train.csv", "--target", "price", "--method",
                 "own-gaussian", "--max-steps", "3", "--quiet", "--out", "fitted")  # fmt: skip
    assert fitted.returncode == 0, fitted.stderr
    assert fitted.stderr.startswith("diffor: warning: 'broken' of own-things")


def test_a_table_is_a_mapping_that_can_be_changed():
    table = Registry("diffor.nothing", {"one": 1}, lambda name, thing: "")
    table["two"] = 2
    assert (dict(table), len(table), "two" in table, table.registered) == ({"one": 1, "two": 2}, 2, True, {})
    del table["one"]
    assert repr(table) == "Registry('diffor.nothing', ['two'])"


def test_importing_the_package_looks_for_nothing(installed, tmp_path):
    script = "import sys, diffor, diffor.methods; print('own_things' in sys.modules)"
    assert run(installed, tmp_path, "-c", script).stdout == "False\n"
