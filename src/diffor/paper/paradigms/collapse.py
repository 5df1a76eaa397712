"""Mean collapse: between separated modes, the best answer to squared error is a value that never occurs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from diffor.core.prediction import Prediction
from diffor.datasets.open.synthetic import Bimodal
from diffor.metrics import crps_each, mae, rmse
from diffor.paper.paradigms.fitting import (
    DIFFOR,
    DIFFOR_HEADS,
    FULL,
    LONG_STEPS,
    QUICK,
    Found,
    Values,
    fit_method,
    over_seeds,
    side_by_side,
    table_rows,
    trials,
    with_long_chain,
)
from diffor.reports.html import Table

SEPARATIONS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0)
"""Distances between neighbouring modes, in their spreads, at which the density at the mean is computed."""
TRAINED_SEPARATION = 24.0
"""... and that at which methods are trained."""
SQUARED, CLASSES, LONG = "value-squared", "cross-entropy", f"diffor, {LONG_STEPS} steps"


def mixture_density(y: ArrayLike, centres: ArrayLike, spread: float, weights: ArrayLike | None = None) -> Values:
    """Density of a mixture of normals of one spread; equal weights unless given.

    **Shape:** y ``(...)``, centres and weights ``(m,)`` or ``(..., m)`` -> ``(...)``.
    """
    middle = np.asarray(centres, dtype=np.float64)
    shares = np.full(middle.shape[-1], 1 / middle.shape[-1]) if weights is None else np.asarray(weights)
    offset = (np.asarray(y, dtype=np.float64)[..., None] - middle) / spread
    return np.asarray((shares * np.exp(-(offset**2) / 2)).sum(axis=-1) / (spread * np.sqrt(2 * np.pi)))


def density_at_mean(separation: float, n_modes: int = 2) -> float:
    """Density at the mean of equally heavy modes in a row, as a share of the density at the mode that is highest.

    ``separation`` is the distance of neighbouring modes in their spreads. Of two modes it is near
    ``2 exp(-separation^2 / 8)``, as the paper derives; of an odd number the mean stands on the middle mode.
    """
    centres = separation * (np.arange(n_modes) - (n_modes - 1) / 2)
    at_mean = mixture_density(0.0, centres, 1.0)
    return float(at_mean / max(float(mixture_density(centres, centres, 1.0).max()), float(at_mean)))


def law_of(separation: float) -> Bimodal:
    """The law of two modes, four units apart, with the spread that makes them ``separation`` spreads distant."""
    law = Bimodal()
    law.spread = 2 * law.distance / separation
    return law


def true_density(law: Bimodal, x: pd.DataFrame, y: Values) -> Values:
    """Density of the law at one or several places of each row. **Shape:** ``(n,)`` or ``(n, c)``, kept."""
    upper, centre = law.upper_weight(x), law.centre(x)
    centres = np.stack([centre - law.distance, centre + law.distance], axis=-1)
    weights = np.stack([1 - upper, upper], axis=-1)
    if y.ndim == 2:
        centres, weights = centres[:, None], weights[:, None]
    return mixture_density(y, centres, law.spread, weights)


def heavier_mode(law: Bimodal, x: pd.DataFrame) -> Values:
    """Centre of the mode that more of a row's probability belongs to. **Shape:** ``(n,)``."""
    return np.asarray(law.centre(x) + np.where(law.upper_weight(x) > 0.5, law.distance, -law.distance))


def in_gap(law: Bimodal, x: pd.DataFrame, y: Values) -> float:
    """Share of values in the middle half of the gap between the modes. **Shape:** ``(n,)`` or ``(n, c)``."""
    centre = law.centre(x) if y.ndim == 1 else law.centre(x)[:, None]
    return float((np.abs(y - centre) < law.distance / 2).mean())


def true_in_gap(law: Bimodal, x: pd.DataFrame) -> float:
    """Probability of the middle half of the gap, from the law's distribution function."""
    centre = law.centre(x)
    return float((law.cdf(x, centre + law.distance / 2) - law.cdf(x, centre - law.distance / 2)).mean())


def mean_collapse(seed: int = 0, quick: bool = False) -> Found:
    """Measure what squared-error regression, classes and DiffoR answer where the target has two separated modes."""
    size, law, measured = QUICK if quick else FULL, law_of(TRAINED_SEPARATION), []
    # A row in the middle of all columns, where both modes are equally heavy, is asked about beside the test rows.
    middle = pd.DataFrame({"position": [0.0], "tilt": [0.0], "idle": [0.0]})
    for number, rows, (x, y) in trials(law, size, seed):
        asked: dict[str, Prediction] = {}
        for method in (SQUARED, CLASSES, DIFFOR, DIFFOR_HEADS):
            model = fit_method(method, rows, size, number)
            everything = pd.concat([x, middle], ignore_index=True)
            asked[method] = model.predict_distribution(everything, size.n_samples)
            if method == DIFFOR:
                asked[LONG] = with_long_chain(model).predict_distribution(everything, size.n_samples)
        ways = _ways(law, x, {method: prediction[:-1] for method, prediction in asked.items()}, number)
        measured.append({way: _figures(law, x, y, answer) for way, answer in ways.items()})
        measured[-1]["truth", "sample"]["in_gap"] = true_in_gap(law, x)
    answers: list[Found] = [
        {"method": way[0], "statistic": way[1], "crps": None, **over_seeds([one[way] for one in measured])}
        for way in measured[0]
    ]
    grid = np.linspace(-1.6, 1.6, 321) * law.distance
    return {
        "n_rows": size.n_rows,
        "n_seeds": size.n_seeds,
        "separations": list(SEPARATIONS),
        "two_modes": [density_at_mean(separation) for separation in SEPARATIONS],
        "three_modes": [density_at_mean(separation, n_modes=3) for separation in SEPARATIONS],
        "trained_separation": TRAINED_SEPARATION,
        "answers": answers,
        "example": {  # the row in the middle, as the last seed's models see it
            "grid": grid.tolist(),
            "density": true_density(law, middle, grid[None])[0].tolist(),
            "squared": float(asked[SQUARED].statistic("native")[-1]),
            "samples": {method: asked[method].samples[-1].tolist() for method in (DIFFOR, DIFFOR_HEADS)},
        },
    }


def collapse_tables(found: Found) -> list[Table]:
    """Densities at the mean in closed form, and the answers of trained methods."""
    return [
        Table.of(
            side_by_side(found, ("separations", "two_modes", "three_modes")),
            "In closed form: the density at the mean of equal modes so many spreads apart, as a share of that at the "
            "highest place. The mean of three stands on the middle one: the paper's extension to several modes does "
            "not hold for odd numbers of them.",
        ),
        Table.of(
            table_rows(found["answers"]),
            "Trained on two modes at the trained separation. Density: the true one at the answer, as a share of that "
            "at the heavier mode. In gap: share of answers in the middle half between the modes. By RMSE the best "
            "answer is the true mean, a value that never occurs.",
        ),
    ]


def _ways(law: Bimodal, x: pd.DataFrame, asked: dict[str, Prediction], seed: int) -> dict[tuple[str, str], Values]:
    """Each method's ways of answering, and the law's own, by method and statistic: numbers, or samples of each row."""
    drawn = law.draw(x, 256, np.random.default_rng([seed, 2]))
    ways: dict[tuple[str, str], Any] = {
        ("truth", "sample"): drawn,
        ("truth", "mean"): law.mean(x),
        ("truth", "median"): np.median(drawn, axis=1),
        ("truth", "mode"): heavier_mode(law, x),
        (SQUARED, "native"): asked[SQUARED].statistic("native"),
    }
    for method in (name for name in asked if name != SQUARED):
        ways[method, "sample"] = asked[method].samples
        ways |= {(method, name): asked[method].statistic(name) for name in ("mean", "median", "mode")}
    return {way: np.asarray(answer) for way, answer in ways.items()}


def _figures(law: Bimodal, x: pd.DataFrame, y: Values, answer: Values) -> dict[str, float]:
    """What is measured of one way of answering. **Shape:** answer ``(n,)``, or samples ``(n, m)``."""
    single = answer if answer.ndim == 1 else answer[:, 0]
    figures = {
        "density": float((true_density(law, x, single) / true_density(law, x, heavier_mode(law, x))).mean()),
        "in_gap": in_gap(law, x, answer),
        "mae": mae(y, single),
        "rmse": rmse(y, single),
    }
    return figures if answer.ndim == 1 else {**figures, "crps": float(crps_each(y, answer).mean())}
