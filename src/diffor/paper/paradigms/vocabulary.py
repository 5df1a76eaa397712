"""The vocabulary trade-off: few tokens make long sequences, coarse ones cannot write a target exactly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from diffor.core.prediction import Prediction
from diffor.datasets.open.synthetic import LAWS, Law
from diffor.estimators.values import ValueEstimator
from diffor.methods.baselines.tokens import GenerativeRegression
from diffor.methods.baselines.vocabulary import greedy_counts, read_back
from diffor.metrics import crps_each, mae, rmse
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

LAW = "synthetic-watch-time"
SMALL_DECODER = {"width": 32, "n_layers": 1, "n_heads": 4, "n_hidden": 64}
"""Of the size of DiffoR's own denoiser in the preset that all methods share."""
DESIGNS = (
    ("gr", 10, 64),
    ("gr", 100, 64),
    ("gr", 1000, 64),
    ("gr", 1000, 16),
    ("gr", 1000, 4),
    ("gor", 1000, 64),
)
"""Methods, units that the range is counted in, and the most values that a vocabulary may hold."""
TOKENS_SIZE = replace(FULL, n_rows=2000, max_steps=400, n_samples=64)
"""Writing token by token takes long, so all methods are trained more briefly here."""


def paper_bound(n_steps: float, bias: float, width: float) -> float:
    """The paper's bound on the expected squared error of a sum of tokens, from the largest bias of a step.

    ``width`` is the range of token values.

    >>> paper_bound(1, 0.0, 2.0)
    1.0
    """
    return n_steps**2 * (bias**2 + width**2 / 4)


def sound_bound(n_steps: float, bias: float, width: float) -> float:
    """The bound that follows from the same assumptions.

    NOTE[DIFF]: the error of a step is the difference of two values of the range, so it spans twice the range, and its
    variance may be the square of the range, not a quarter of it.

    >>> sound_bound(1, 0.0, 2.0)
    4.0
    """
    return n_steps**2 * (bias**2 + width**2)


def swapped_tokens_error(n_steps: int, width: float) -> tuple[float, float]:
    """Bias of a step and expected squared error where all tokens are 0 or all are ``width``, and always guessed wrong.

    Both cases are equally likely, so no step is biased, and the error reaches :func:`sound_bound`.

    >>> swapped_tokens_error(1, 2.0)
    (0.0, 4.0)
    """
    errors = n_steps * np.array([width, -width])
    return float(errors.mean() / n_steps), float((errors**2).mean())


@dataclass(frozen=True)
class Written:
    """What a vocabulary does to targets before anything is learned."""

    n_tokens: float
    """Values in the vocabulary."""
    length: float
    """Mean number of values that a target is written with."""
    longest: float
    """Most values that a target needs."""
    cut: float
    """Share of targets whose sequences are too long and end early."""
    mae: float
    """Mean distance between targets and what is written: no answer in tokens can be expected to do better."""
    rows_per_token: float
    """Mean number of training rows that use a value: what it can be learned from."""


@dataclass(frozen=True)
class Design:
    """A token model with one vocabulary; figures over seeds, errors in the target's units."""

    method: str
    n_units: int
    max_values: int
    n_tokens: Measured
    length: Measured
    longest: Measured
    cut: Measured
    written_mae: Measured
    rows_per_token: Measured
    bound: Measured
    """Root of the paper's bound with no bias at all, for the longest sequence."""
    mae: Measured
    rmse: Measured
    crps: Measured
    excess: Measured
    """CRPS beyond that of as many draws of the law itself, on the same rows."""
    seconds: Measured
    """Processor seconds of fitting and predicting."""


@dataclass(frozen=True)
class VocabularyTradeoff:
    """What :func:`vocabulary_tradeoff` found."""

    n_rows: int
    n_seeds: int
    span: float
    """Length of the target's range."""
    designs: list[Design]
    diffor: dict[str, Measured] = field(default_factory=dict)
    truth: dict[str, Measured] = field(default_factory=dict)
    """MAE of the median, RMSE of the mean and CRPS of DiffoR and of the law; of DiffoR also excess and seconds."""

    def sentences(self) -> list[str]:
        """What was found, in words."""
        return [*self._about_bound(), *self._about_writing(), *self._about_learning()]

    def _about_bound(self) -> list[str]:
        bias, error = swapped_tokens_error(1, 1.0)
        loosest, tightest = (pick(self.designs, key=lambda one: one.bound.mean) for pick in (max, min))
        return [
            f"The paper's bound can be {error / paper_bound(1, bias, 1.0):.0f} times too small: one token out of two, "
            f"always the wrong one, has bias {bias:g} and the squared error {error:g}, against a bound of "
            f"{paper_bound(1, bias, 1.0):g} (in squared ranges); with the range of a difference it is "
            f"{sound_bound(1, bias, 1.0):g}.",
            f"As it stands it says little: its root, without any bias, is {significant(tightest.bound.mean)} to "
            f"{significant(loosest.bound.mean)}, the whole range is {significant(self.span)}, and the measured RMSE "
            f"{significant(min(one.rmse.mean for one in self.designs))} to "
            f"{significant(max(one.rmse.mean for one in self.designs))}.",
        ]

    def _about_writing(self) -> list[str]:
        return [
            f"{TITLES[one.method]} with {one.n_units:,} units and {significant(one.n_tokens.mean)} values: "
            f"{significant(one.length.mean)} tokens a target, {significant(one.longest.mean)} at most, "
            f"{one.cut.percent} cut short; MAE of what is written {one.written_mae}; "
            f"{significant(one.rows_per_token.mean)} training rows for each value; MAE of answers "
            f"{one.mae}, CRPS {one.crps}, {significant(one.seconds.mean)} s."
            for one in self.designs
        ]

    def _about_learning(self) -> list[str]:
        best, worst = (pick(self.designs, key=lambda one: one.excess.mean) for pick in (min, max))
        ours = self.diffor["excess"]
        gap, spread = ours.mean - best.excess.mean, max(ours.deviation, best.excess.deviation)
        verdict = "less than" if gap < -spread else "more than" if gap > spread else "up to the spread over seeds as"
        return [
            f"Trained on {self.n_rows:,} rows ({in_seeds(self.n_seeds)}), the CRPS beyond that of the law goes from "
            f"{best.excess} ({_vocabulary(best)}) to {worst.excess} ({_vocabulary(worst)}).",
            f"DiffoR, which has no vocabulary: {ours} beyond the law, {verdict} the best of these; MAE "
            f"{self.diffor['mae']}, {significant(self.diffor['seconds'].mean)} s. The law itself: CRPS "
            f"{self.truth['crps']}, MAE {self.truth['mae']}.",
        ]


def _vocabulary(design: Design) -> str:
    return f"{TITLES[design.method]}, {design.n_units:,} units, {significant(design.n_tokens.mean)} values"


def vocabulary_tradeoff(seed: int = 0, quick: bool = False) -> VocabularyTradeoff:
    """Measure sequence lengths, what cannot be written, and errors of token models with several vocabularies."""
    size, law = QUICK if quick else TOKENS_SIZE, LAWS[LAW]
    assert law.bounds is not None
    ours, truth = _beside(law, size, seed)
    return VocabularyTradeoff(
        n_rows=size.n_rows,
        n_seeds=size.n_seeds,
        span=law.bounds[1] - law.bounds[0],
        designs=[_design(design, law, size, seed) for design in (DESIGNS[:1] if quick else DESIGNS)],
        diffor=ours,
        truth=truth,
    )


def _design(design: tuple[str, int, int], law: Law, size: Size, seed: int) -> Design:
    """Fit a token model with one vocabulary on each seed."""
    method, n_units, max_values = design
    settings = {**SMALL_DECODER, "n_units": n_units, "max_values": max_values}
    found = [_fit_and_score(method, law, size, seed, number, **settings) for number in range(size.n_seeds)]
    return Design(method, n_units, max_values, **{name: Measured.of([one[name] for one in found]) for name in found[0]})


def _fit_and_score(method: str, law: Law, size: Size, seed: int, number: int, **settings: Any) -> dict[str, float]:
    """All figures of one fit; those of the vocabulary only where there is one."""
    rows = draw_rows(law, size.n_rows, [seed, number, 0])
    x, y = draw_rows(law, size.n_test_rows, [seed, number, 1])
    started = time.process_time()
    model = fit_method(method, rows, size, number, law.bounds, **settings)
    figures = _scores(model.predict_distribution(x, size.n_samples), y)
    figures["seconds"] = time.process_time() - started
    figures["excess"] = figures["crps"] - _true_scores(law, x, y, [seed, number, 2], size.n_samples)["crps"]
    if method == DIFFOR:
        return figures
    written, bound = describe_vocabulary(model, rows[1], y)
    return {
        **figures,
        "n_tokens": written.n_tokens,
        "length": written.length,
        "longest": written.longest,
        "cut": written.cut,
        "written_mae": written.mae,
        "rows_per_token": written.rows_per_token,
        "bound": bound,
    }


def _scores(prediction: Prediction, y: Values) -> dict[str, float]:
    return {
        "mae": mae(y, prediction.median),
        "rmse": rmse(y, prediction.mean),
        "crps": float(prediction.crps(y).mean()),
    }


def _beside(law: Law, size: Size, seed: int) -> tuple[dict[str, Measured], dict[str, Measured]]:
    """The same figures of DiffoR and of draws from the law."""
    ours, truth = [], []
    for number in range(size.n_seeds):
        ours.append(_fit_and_score(DIFFOR, law, size, seed, number))
        x, y = draw_rows(law, size.n_test_rows, [seed, number, 1])
        truth.append(_true_scores(law, x, y, [seed, number, 2], size.n_samples))
    return over_seeds(ours), over_seeds(truth)


def _true_scores(law: Law, x: pd.DataFrame, y: Values, seed: Sequence[int], n_samples: int) -> dict[str, float]:
    # As many draws as methods have samples: few samples cost CRPS by themselves.
    drawn = law.draw(x, n_samples, np.random.default_rng(list(seed)))
    return {
        "mae": mae(y, np.median(drawn, axis=1)),
        "rmse": rmse(y, law.mean(x)),
        "crps": float(crps_each(y, drawn).mean()),
    }


def describe_vocabulary(model: ValueEstimator, y_train: Values, y_test: Values) -> tuple[Written, float]:
    """What a fitted token model's vocabulary does to targets, and the root of the paper's bound without any bias.

    **Shape:** ``(n,)``, ``(m,)`` in the target's units.
    """
    method = model.ensemble_.models[0].method
    assert isinstance(method, GenerativeRegression)
    values = method.values[method.values > 0]
    unit = torch.from_numpy(model.scale_.to_unit(y_test))
    back = read_back(method.tokens_of(unit), values).double().numpy() / method.n_units
    needed = _counts(method, unit, values)
    used = (_counts(method, torch.from_numpy(model.scale_.to_unit(y_train)), values) > 0).sum(dim=0)
    lengths, span = needed.sum(dim=1), model.scale_.high - model.scale_.low
    longest = min(int(lengths.max()), method.n_steps - 1)
    written = Written(
        n_tokens=float(len(values)),
        length=float(lengths.double().mean()),
        longest=float(lengths.max()),
        cut=float((lengths >= method.n_steps).double().mean()),
        mae=mae(y_test, model.scale_.from_unit(back)),
        rows_per_token=float(used.double().mean()),
    )
    width = (int(values.max()) - int(values.min())) / method.n_units * span
    return written, float(np.sqrt(paper_bound(longest, 0.0, width)))


def _counts(method: GenerativeRegression, unit: Tensor, values: Tensor) -> Tensor:
    """How often each value is taken for each target, were sequences as long as they need. **Shape:** -> ``(n, V)``."""
    return greedy_counts(method.in_units(unit), values, method.tolerance)
