"""The example of photos and their scores, run as a user runs it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("PIL")
pytest.importorskip("pyarrow")

import miniatures_images

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "aesthetics.py"


def run_example(*words):
    done = subprocess.run([sys.executable, str(EXAMPLE), *words], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_learned_scores_are_nearer_than_a_constant():
    shown = run_example()
    assert "256 features by 'small'" in shown
    constant = float(re.search(r"constant: ([\d.]+) points off", shown)[1])
    error, order = map(
        float, re.search(r"median: ([\d.]+) points off on average, rank correlation ([\d.]+)", shown).groups()
    )
    assert error < 0.7 * constant
    assert order > 0.7


def test_a_root_takes_the_place_of_the_made_up_photos(tmp_path):
    miniatures_images.write_spaq(tmp_path)
    shown = run_example("--root", str(tmp_path))
    assert "27 photos to learn from, 3 to test on" in shown
    assert list((tmp_path / ".diffor-cache" / "features").glob("spaq-small-*.parquet"))
