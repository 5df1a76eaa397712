"""Quantisation error: an answer that names a bin cannot be better than half a bin's width allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from diffor.core.prediction import Prediction
from diffor.datasets.open.synthetic import Heteroscedastic
from diffor.metrics import mae, rmse
from diffor.paper.paradigms.fitting import (
    DIFFOR,
    FULL,
    QUICK,
    TITLES,
    Measured,
    Size,
    Values,
    draw_rows,
    fit_method,
    in_seeds,
    over_seeds,
    significant,
)

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
    """Mean squared and mean absolute error of answering with the middle of the right bin, for an even density.

    >>> mean_square, mean_distance = bin_floor(2.0)
    >>> round(mean_square, 4), mean_distance
    (0.3333, 0.5)
    """
    return width**2 / 12, width / 4


def by_place_in_bin(errors: Values, y: Values, n_bins: int) -> tuple[float, float]:
    """Mean error of the targets in the inner half of their bins, and of those in the outer half.

    Of the right bins' middles these are an eighth and three eighths of the width. **Shape:** ``(n,)``, ``(n,)``.
    """
    share = np.mod((y - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0]) * n_bins, 1.0)
    is_inner = np.abs(share - 0.5) < 0.25
    return float(errors[is_inner].mean()), float(errors[~is_inner].mean())


@dataclass(frozen=True)
class Resolution:
    """A method with so many bins or increments; errors are in the target's units, figures over seeds.

    Of bins, ``hard`` is the answer with a bin's place (the median bin, as cross-entropy's source decides) and ``soft``
    the expectation over bins (DEX). Of DiffoR, whose samples have no bins, both are its median and its mean.
    """

    method: str
    count: int
    hard_mae: Measured
    hard_rmse: Measured
    soft_mae: Measured
    soft_rmse: Measured
    inner_mae: Measured
    """Mean absolute error of the hard answer for targets in the inner half of ``count`` bins ..."""
    outer_mae: Measured
    """... and for those in the outer half."""
    crps: Measured


@dataclass(frozen=True)
class QuantisationError:
    """What :func:`quantisation_error` found."""

    n_rows: int
    n_seeds: int
    noise_mae: float
    noise_rmse: float
    """Errors of the true mean: what no method can go below."""
    counts: list[int]
    floor_mae: list[float]
    floor_rmse: list[float]
    """Closed forms for each number of bins."""
    oracle_mae: list[Measured]
    oracle_rmse: list[Measured]
    """The same measured: each test target against the middle of its own bin."""
    bins: list[Resolution]
    increments: list[Resolution]

    def sentences(self) -> list[str]:
        """What was found, in words."""
        return [*self._about_bins(), *self._about_edges(), *self._about_increments()]

    def _about_bins(self) -> list[str]:
        best = min(self.bins, key=lambda one: one.hard_rmse.mean)
        finest, floors = self.bins[-1], dict(zip(self.counts, self.floor_rmse, strict=True))
        below = [one.count for one in self.bins if one.soft_rmse.mean < floors[one.count]]
        ratio = max(
            abs(measured.mean / exact - 1) for measured, exact in zip(self.oracle_rmse, self.floor_rmse, strict=True)
        )
        return [
            f"Targets against the middles of their own bins: the RMSE is the bin's width over root 12 up to "
            f"{100 * ratio:.1f} %, for {self.counts[0]} to {self.counts[-1]} bins.",
            f"Trained on {self.n_rows:,} rows ({in_seeds(self.n_seeds)}), answers with a bin's place have the least "
            f"RMSE, {best.hard_rmse}, with {best.count} bins ({self.n_rows / best.count:.0f} rows in each), and "
            f"{finest.hard_rmse} with {finest.count} ({self.n_rows / finest.count:.0f} rows in each); the noise alone "
            f"gives {significant(self.noise_rmse)}.",
            (
                f"The floor is one of hard answers: the expectation over bins (DEX) lies below it with "
                f"{', '.join(map(str, below))} bins."
                if below
                else "The expectation over bins (DEX) lies above the floor with every number of bins."
            ),
        ]

    def _about_edges(self) -> list[str]:
        ours = {one.count: one for one in self.increments}
        common = [one for one in self.bins if one.count in ours]
        if not common:
            return []
        one = common[len(common) // 2]
        other = ours[one.count]
        return [
            f"{one.count} bins: MAE {one.inner_mae} in the inner half of a bin, {one.outer_mae} in the outer half "
            f"(ratio {one.outer_mae.mean / one.inner_mae.mean:.2f}, 3 for answers with the right bin's middle); "
            f"DiffoR with {one.count} increments {other.inner_mae} and {other.outer_mae} "
            f"(ratio {other.outer_mae.mean / other.inner_mae.mean:.2f})."
        ]

    def _about_increments(self) -> list[str]:
        best, finest = min(self.increments, key=lambda one: one.hard_mae.mean), self.increments[-1]
        bins = {one.count: one for one in self.bins}
        wins = [
            one.count
            for one in self.increments
            if one.count in bins and one.hard_mae.mean < bins[one.count].hard_mae.mean
        ]
        floors = dict(zip(self.counts, self.floor_mae, strict=True))
        free = [one.count for one in self.increments if one.count in floors and one.hard_mae.mean < floors[one.count]]
        rival = min(self.bins, key=lambda one: min(one.hard_mae.mean, one.soft_mae.mean))
        least = min(rival.hard_mae, rival.soft_mae, key=lambda figure: figure.mean)
        return [
            f"DiffoR's MAE lies below the floor of as many bins with {_counts(free)} increments, and below that of "
            f"as many trained bins with {_counts(wins)}.",
            f"But increments cost estimation error too: MAE {best.hard_mae} with {best.count} of them, "
            f"{finest.hard_mae} with {finest.count}.",
            f"Best of each: {TITLES[DIFFOR]} MAE {best.hard_mae}, CRPS {best.crps}; {TITLES[CLASSES]} ({rival.count} "
            f"bins) MAE {least}, CRPS {rival.crps}; the noise alone {significant(self.noise_mae)}.",
        ]


def _counts(counts: list[int]) -> str:
    return ", ".join(map(str, counts)) if counts else "no number of"


def quantisation_error(seed: int = 0, quick: bool = False) -> QuantisationError:
    """Measure the errors of trained bins of many widths, and of DiffoR with many numbers of increments."""
    size = QUICK if quick else FULL
    bin_counts, increment_counts = (BIN_COUNTS[:3], INCREMENT_COUNTS[1:2]) if quick else (BIN_COUNTS, INCREMENT_COUNTS)
    law, width = Quiet(), BOUNDS[1] - BOUNDS[0]
    oracles = [[_oracle(law, size, [seed, number, 1], count) for number in range(size.n_seeds)] for count in bin_counts]
    return QuantisationError(
        n_rows=size.n_rows,
        n_seeds=size.n_seeds,
        noise_mae=law.noise * float(np.sqrt(2 / np.pi)),
        noise_rmse=law.noise,
        counts=list(bin_counts),
        floor_mae=[bin_floor(width / count)[1] for count in bin_counts],
        floor_rmse=[float(np.sqrt(bin_floor(width / count)[0])) for count in bin_counts],
        oracle_mae=[Measured.of([mean_distance for mean_distance, _ in one]) for one in oracles],
        oracle_rmse=[Measured.of([root for _, root in one]) for one in oracles],
        bins=[_resolution(CLASSES, count, law, size, seed) for count in bin_counts],
        increments=[_resolution(DIFFOR, count, law, size, seed) for count in increment_counts],
    )


def _oracle(law: Quiet, size: Size, seed: list[int], count: int) -> tuple[float, float]:
    """MAE and RMSE of targets against the middles of their bins."""
    _, y = draw_rows(law, size.n_test_rows, seed)
    width = (BOUNDS[1] - BOUNDS[0]) / count
    middle = BOUNDS[0] + (np.floor((y - BOUNDS[0]) / width) + 0.5) * width
    return mae(y, middle), rmse(y, middle)


def _resolution(method: str, count: int, law: Quiet, size: Size, seed: int) -> Resolution:
    """Fit a method with so many bins or increments on each seed."""
    settings = {"n_increments": count} if method == DIFFOR else {"n_bins": count, "policy": "uniform"}
    found = []
    for number in range(size.n_seeds):
        rows = draw_rows(law, size.n_rows, [seed, number, 0])
        x, y = draw_rows(law, size.n_test_rows, [seed, number, 1])
        model = fit_method(method, rows, size, number, BOUNDS, **settings)
        found.append(_errors(model.predict_distribution(x, size.n_samples), y, count))
    return Resolution(method, count, **over_seeds(found))


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
