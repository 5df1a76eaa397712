"""Engression (Shen and Meinshausen, JRSS B 2024): a network with noise among its inputs, by the energy score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from diffor.bench.peers.columns import LinearDesign
from diffor.bench.peers.problem import Fitted, FittedBy, Problem, import_package
from diffor.bench.peers.tabular_networks import reproducible
from diffor.core.prediction import Prediction

MAX_EPOCHS, MAX_STEPS = 1000, 15_000


def fit_engression(problem: Problem, batch_size: int = 256, **settings: Any) -> Fitted:
    """The authors' package; validation rows choose the epoch, and samples are the answer.

    With its own defaults, a rate of 1e-4 for 500 steps, it is far from what it can do; these are from longer training.
    """
    engression = import_package("engression")
    design = LinearDesign(problem.x)
    steps_per_epoch = -(-len(problem.y) // batch_size)
    n_epochs = max(1, min(MAX_EPOCHS, MAX_STEPS // steps_per_epoch))
    chosen = {"num_layer": 3, "lr": 1e-3, "num_epochs": n_epochs, "batch_size": batch_size, **settings}
    with reproducible(problem):
        model = engression.engression(
            design.matrix(problem.x), problem.y[:, None], x_val=design.matrix(problem.x_valid),
            y_val=problem.y_valid[:, None], verbose=False, **chosen,
        )  # fmt: skip

    def answer(x: pd.DataFrame) -> Prediction:
        with reproducible(problem):
            samples = model.sample(design.matrix(x), sample_size=problem.n_samples)
        values = samples.reshape(len(x), problem.n_samples).double().numpy()
        return Prediction(values if problem.bounds is None else np.clip(values, *problem.bounds))

    return FittedBy(answer)
