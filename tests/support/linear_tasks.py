"""Linear heads on made-up rows, which tests of the paper's theorems share."""

import numpy as np

from diffor.methods.diffor.process import Diffusion
from diffor.paper.theory.linear_heads import time_tasks

TIMES, WEIGHTS = (90, 50, 10), (1.0, 2.0, 0.5)


def make_tasks(n=60, d=3, times=TIMES, weights=WEIGHTS, seed=0, clean=None, signal=0.0):
    """Three features of each row; ``signal`` lets the first of them tell the target."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, d))
    clean = rng.random(n) if clean is None else clean
    features[:, 0] += signal * clean
    return time_tasks(features, clean, Diffusion(100), times, weights, seed)
