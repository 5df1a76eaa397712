import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ("age", "grades", "guarantees")


@pytest.mark.parametrize("name", SMALL)
def test_the_example_runs_and_shows_its_medians(name):
    done = subprocess.run([sys.executable, str(EXAMPLES / f"{name}.py")], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "median:" in done.stdout


def test_every_example_is_run_by_a_test():
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for path in EXAMPLES.glob("*.py"):
        assert path.stem in tests, path.name
