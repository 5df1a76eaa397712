"""Rows and real processes for tests of commands."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd

FAST = ["--preset", "fast", "--max-steps", "30", "--quiet"]
FEATURES = ["size", "rooms", "city", "code"]
GRADES = ["low", "mid", "high"]
N_ROWS = 240


def make_rows(n=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "id": [f"{i:04d}" for i in range(n)],
            "size": rng.normal(size=n),
            "rooms": rng.integers(1, 6, size=n),
            "city": rng.choice(["Oslo", "Rome", "Bern"], size=n),
            "code": rng.choice(["1", "2", "03", "x"], size=n),
        }
    )
    table["price"] = np.clip(2 * table["size"] + table["rooms"] + rng.normal(size=n), -5, 12)
    table["quality"] = np.array(GRADES)[np.digitize(table["price"], [1.5, 4])]
    table["stars"] = table["rooms"]
    table["weight"] = rng.random(n) + 0.1
    table["size"] = table["size"].where(table.index != 5)
    return table


def command(*words):
    return [sys.executable, "-m", "diffor", *map(str, words)]


def run_process(*words):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=120, env=environment)
