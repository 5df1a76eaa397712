"""The examples of the domains, each as a process of its own, as a reader would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import diffor

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHOWN = {
    "watch_time.py": ("XAUC", ["diffor", "cread", "cwm"]),
    "lifetime_value.py": ("SRCC", ["diffor", "ziln", "two-stage"]),
}


@pytest.mark.parametrize("script", SHOWN)
def test_an_example_compares_three_methods(script, tmp_path):
    source = str(Path(diffor.__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), "--quick"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": source}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    second, titles = SHOWN[script]
    first_line, _, head, *rows = done.stdout.splitlines()
    assert re.match(r"300 \w+ to learn from, 200 new ones", first_line)
    assert head.split() == ["method", "MAE", second, "seconds"]
    found = [(line.split()[0], float(line.split()[1]), float(line.split()[2])) for line in rows]
    assert [title for title, *_ in found] == titles
    for _, error, order in found:
        assert 0 < error < 100
        assert 0.1 < order < 1  # even a few steps order rows better than chance would
    assert list(tmp_path.iterdir()) == []
