"""Quantisation error: an answer that names a bin cannot be better than half a bin's width allows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from diffor.core.prediction import Prediction
from diffor.datasets.open.synthetic import Heteroscedastic
from diffor.metrics import mae, rmse
from diffor.paper.paradigms.fitting import (
    DIFFOR,
    FULL,
    QUICK,
    Found,
    Size,
    Values,
    draw_rows,
    fit_method,
    over_seeds,
    side_by_side,
    table_rows,
    trials,
)
from diffor.reports.html import Table

CLASSES = "cross-entropy"
BIN_COUNTS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
INCREMENT_COUNTS = (2, 4, 8, 32)
BOUNDS = (-4.5, 5.5)
"""A little wider than the means of the law reach."""


class Quiet(Heteroscedastic):
    """The waves of the heteroscedastic law with little noise: coarse bins, not chance, limit what can be known."""

    name = "quiet"
    description = "Gaussian with little noise"
    noise = 0.05

    def spread(self, x: pd.DataFrame) -> Values:
        """The same for all rows."""
        return np.full(len(x), self.noise)


def bin_floor(width: float) -> tuple[float, float]:
    """Mean squared and mean absolute error of answering with the middle of the right bin, for an even density."""
    return width**2 / 12, width / 4


def by_place_in_bin(errors: Values, y: Values, n_bins: int) -> tuple[float, float]:
    """Mean error of the targets in the inner half of their bins, and of those in the outer half.

    Of the right bins' middles these are an eighth and three eighths of the width. **Shape:** ``(n,)``, ``(n,)``.
    """
    share = np.mod((y - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0]) * n_bins, 1.0)
    is_inner = np.abs(share - 0.5) < 0.25
    return float(errors[is_inner].mean()), float(errors[~is_inner].mean())


def quantisation_error(seed: int = 0, quick: bool = False) -> Found:
    """Measure the errors of trained bins of many widths, and of DiffoR with many numbers of increments."""
    size = QUICK if quick else FULL
    bin_counts, increment_counts = (BIN_COUNTS[:3], INCREMENT_COUNTS[1:2]) if quick else (BIN_COUNTS, INCREMENT_COUNTS)
    law, width = Quiet(), BOUNDS[1] - BOUNDS[0]
    targets = [draw_rows(law, size.n_test_rows, [seed, number, 1])[1] for number in range(size.n_seeds)]
    oracles = [over_seeds([_oracle(y, width / count) for y in targets]) for count in bin_counts]
    return {
        "n_rows": size.n_rows,
        "n_seeds": size.n_seeds,
        "noise_mae": law.noise * float(np.sqrt(2 / np.pi)),
        "noise_rmse": law.noise,
        "counts": list(bin_counts),
        "floor_mae": [bin_floor(width / count)[1] for count in bin_counts],
        "floor_rmse": [float(np.sqrt(bin_floor(width / count)[0])) for count in bin_counts],
        "oracle_mae": [one["mae"] for one in oracles],
        "oracle_rmse": [one["rmse"] for one in oracles],
        "bins": [_resolution(CLASSES, count, law, size, seed) for count in bin_counts],
        "increments": [_resolution(DIFFOR, count, law, size, seed) for count in increment_counts],
    }


def quantisation_tables(found: Found) -> list[Table]:
    """The floor of bins beside its measurement, and the errors of trained bins and increments."""
    return [
        Table.of(
            table_rows(side_by_side(found, ("counts", "floor_mae", "oracle_mae", "floor_rmse", "oracle_rmse"))),
            "Targets against the middles of their own bins (oracle), beside the closed form: a quarter of a bin's "
            "width, and the width over root 12. It is a floor of hard answers; an expectation over bins (DEX) may lie "
            "below it.",
        ),
        Table.of(
            table_rows([*found["bins"], *found["increments"]]),
            "Hard: the answer with a bin's place (the median bin, as cross-entropy's source decides), of DiffoR the "
            "median; soft: the mean. Inner and outer: MAE of hard answers in the halves of bins, whose ratio is 3 for "
            "answers with the right bin's middle. More bins and more increments leave fewer rows for each, so both "
            "cost estimation error too.",
        ),
    ]


def _oracle(y: Values, width: float) -> dict[str, float]:
    """MAE and RMSE of targets against the middles of their bins."""
    middle = BOUNDS[0] + (np.floor((y - BOUNDS[0]) / width) + 0.5) * width
    return {"mae": mae(y, middle), "rmse": rmse(y, middle)}


def _resolution(method: str, count: int, law: Quiet, size: Size, seed: int) -> Found:
    """Fit a method with so many bins or increments on each seed."""
    settings = {"n_increments": count} if method == DIFFOR else {"n_bins": count, "policy": "uniform"}
    found = []
    for number, rows, (x, y) in trials(law, size, seed):
        model = fit_method(method, rows, size, number, BOUNDS, **settings)
        found.append(_errors(model.predict_distribution(x, size.n_samples), y, count))
    return {"method": method, "count": count, **over_seeds(found)}


def _errors(prediction: Prediction, y: Values, count: int) -> dict[str, float]:
    """Errors of one fit; ``native`` is the median bin's place, or where there are no bins the median."""
    hard, soft = np.asarray(prediction.statistic("native")), prediction.mean
    inner, outer = by_place_in_bin(np.abs(hard - y), y, count)
    return {
        "hard_mae": mae(y, hard),
        "hard_rmse": rmse(y, hard),
        "soft_mae": mae(y, soft),
        "soft_rmse": rmse(y, soft),
        "inner_mae": inner,
        "outer_mae": outer,
        "crps": float(prediction.crps(y).mean()),
    }
