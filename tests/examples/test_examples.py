"""The examples of one page, each as a process of its own, as a reader would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import diffor

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = {"age": ["--seconds", "4"], "grades": [], "guarantees": []}
COMPARED = {
    "watch_time": ("XAUC", ["diffor", "cread", "cwm"]),
    "lifetime_value": ("SRCC", ["diffor", "ziln", "two-stage"]),
}


def run_example(name, *words, folder=None):
    """What the example prints, where it must end well and say nothing else."""
    environment = {**os.environ, "PYTHONPATH": str(Path(diffor.__file__).resolve().parents[1])}
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_every_example_is_run_by_a_test():
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for path in EXAMPLES.glob("*.py"):
        assert path.stem in tests, path.name


@pytest.mark.parametrize("name", SMALL)
def test_a_small_example_shows_its_medians(name):
    assert "median:" in run_example(name, *SMALL[name])


@pytest.mark.parametrize("name", COMPARED)
def test_an_example_compares_three_methods_and_leaves_nothing_behind(name, tmp_path):
    second, titles = COMPARED[name]
    first_line, _, head, *rows = run_example(name, "--quick", folder=tmp_path).splitlines()
    assert re.match(r"300 \w+ to learn from, 200 new ones", first_line)
    assert head.split() == ["method", "MAE", second, "seconds"]
    found = [line.split() for line in rows]
    assert [title for title, *_ in found] == titles
    for _, error, order, _ in found:
        assert 0 < float(error) < 100
        assert 0.1 < float(order) < 1  # even a few steps order rows better than chance would
    assert list(tmp_path.iterdir()) == []


def test_scores_of_photos_are_nearer_than_a_constant_and_a_root_takes_the_place_of_made_up_ones(tmp_path):
    for package in ("PIL", "pyarrow"):
        pytest.importorskip(package)
    import miniatures_images

    shown = run_example("aesthetics")
    assert "256 features by 'small'" in shown
    constant = float(re.search(r"constant: ([\d.]+) points off", shown)[1])
    error, order = re.search(r"median: ([\d.]+) points off on average, rank correlation ([\d.]+)", shown).groups()
    assert float(error) < 0.7 * constant
    assert float(order) > 0.7
    miniatures_images.write_spaq(tmp_path)
    assert "27 photos to learn from, 3 to test on" in run_example("aesthetics", "--root", str(tmp_path))
    assert list((tmp_path / ".diffor-cache" / "features").glob("spaq-small-*.parquet"))
