"""The vocabulary trade-off: few tokens make long sequences, coarse ones cannot write a target exactly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from diffor.datasets.open.synthetic import LAWS, Law
from diffor.errors import UserError
from diffor.estimators.values import ValueEstimator
from diffor.methods.baselines.tokens import GenerativeRegression
from diffor.methods.baselines.vocabulary import greedy_counts, read_back
from diffor.metrics import crps_each, mae, rmse
from diffor.paper.paradigms.fitting import (
    DIFFOR,
    FULL,
    QUICK,
    Found,
    Size,
    Values,
    fit_method,
    over_seeds,
    table_rows,
    trials,
)
from diffor.reports.html import Table

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
SCORES = ("mae", "rmse", "crps", "excess", "seconds")
"""MAE of the median, RMSE of the mean, CRPS, CRPS beyond the law's, and processor seconds of fit and prediction."""


def paper_bound(n_steps: float, bias: float, width: float) -> float:
    """The paper's bound on the expected squared error of a sum of tokens, from the largest bias of a step.

    ``width`` is the range of token values.
    """
    return n_steps**2 * (bias**2 + width**2 / 4)


def sound_bound(n_steps: float, bias: float, width: float) -> float:
    """The bound that follows from the same assumptions.

    NOTE[DIFF]: the error of a step is the difference of two values of the range, so it spans twice the range, and its
    variance may be the square of the range, not a quarter of it.
    """
    return n_steps**2 * (bias**2 + width**2)


def swapped_tokens_error(n_steps: int, width: float) -> tuple[float, float]:
    """Bias of a step and expected squared error where all tokens are 0 or all are ``width``, and always guessed wrong.

    Both cases are equally likely, so no step is biased, and the error reaches :func:`sound_bound`.
    """
    errors = n_steps * np.array([width, -width])
    return float(errors.mean() / n_steps), float((errors**2).mean())


def token_covariances(errors: ArrayLike) -> dict[str, float]:
    """The covariance step in the paper's bound for token models, for given errors of the T tokens of some rows.

    The paper bounds the sum of the covariances of all ordered pairs by ``T (T - 1) / 2`` times the largest variance.
    There are ``T (T - 1)`` ordered pairs, each up to that variance, so the printed step is too small by a factor of
    two: T equal errors break it. Its next line, ``T^2`` times the largest variance for the whole sum, is what the right
    step gives.

    **Shape:** ``(n, T)``.
    """
    table = np.asarray(errors, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise UserError(f"errors must hold one for each row and token, but errors.shape={table.shape}")
    count, centred = table.shape[1], table - table.mean(axis=0)
    products = centred.T @ centred / len(table)
    largest = float(np.diag(products).max())
    return {
        "covariances": float(products.sum() - np.trace(products)),
        "printed": count * (count - 1) / 2 * largest,
        "sound": count * (count - 1) * largest,
        "variance": float(products.sum()),
        "variance_bound": count**2 * largest,
    }


def vocabulary_tradeoff(seed: int = 0, quick: bool = False) -> Found:
    """Measure sequence lengths, what cannot be written, and errors of token models with several vocabularies."""
    size, law, designs = QUICK if quick else TOKENS_SIZE, LAWS[LAW], []
    assert law.bounds is not None
    for method, n_units, max_values in DESIGNS[:1] if quick else DESIGNS:
        changed = {"n_units": n_units, "max_values": max_values}
        designs.append({"method": method, **changed, **_fit_and_score(method, law, size, seed, **changed)})
    truth = [_true_scores(law, *asked, [seed, number, 2], size) for number, _, asked in trials(law, size, seed)]
    return {
        "n_rows": size.n_rows,
        "n_seeds": size.n_seeds,
        "span": law.bounds[1] - law.bounds[0],
        "designs": designs,
        "diffor": _fit_and_score(DIFFOR, law, size, seed),
        "truth": over_seeds(truth),
    }


def vocabulary_tables(found: Found) -> list[Table]:
    """A case in which the paper's bound fails, the token models, and DiffoR and the law beside them."""
    bias, error = swapped_tokens_error(1, 1.0)
    case = {
        "case": "one token of two, always the wrong one",
        "bias": bias,
        "squared error": error,
        "paper's bound": paper_bound(1, bias, 1.0),
        "sound bound": sound_bound(1, bias, 1.0),
    }
    beside = [
        {"method": DIFFOR, **found["diffor"]},
        {"method": "truth", "excess": None, "seconds": None, **found["truth"]},
    ]
    return [
        Table.of(
            [case],
            "In squared ranges. The error of a step is the difference of two values of the range, so the paper's bound "
            "can be too small.",
        ),
        Table.of(
            table_rows(found["designs"]),
            "Errors are in the target's units, whose range is as long as the span. Length and longest: values that a "
            "target is written with; cut: share of targets whose sequences end early; written MAE: of the targets as "
            "they are written, which no answer can be expected to beat. Bound: root of the paper's bound without any "
            "bias, for the longest sequence; above the range it says nothing. Excess: CRPS beyond that of as many "
            "draws of the law.",
        ),
        Table.of(
            [{name: row[name] for name in ("method", *SCORES)} for row in table_rows(beside)],
            "DiffoR, which has no vocabulary, and the law itself, on the same rows.",
        ),
    ]


def _fit_and_score(method: str, law: Law, size: Size, seed: int, **settings: Any) -> Found:
    """All figures of a method over the seeds; those of the vocabulary only where there is one."""
    found, decoder = [], {} if method == DIFFOR else SMALL_DECODER
    for number, rows, (x, y) in trials(law, size, seed):
        started = time.process_time()
        model = fit_method(method, rows, size, number, law.bounds, **decoder, **settings)
        prediction = model.predict_distribution(x, size.n_samples)
        seconds = time.process_time() - started
        crps, best = float(prediction.crps(y).mean()), _true_scores(law, x, y, [seed, number, 2], size)["crps"]
        figures = {"mae": mae(y, prediction.median), "rmse": rmse(y, prediction.mean), "crps": crps}
        figures |= {"seconds": seconds, "excess": crps - best}
        found.append(figures if method == DIFFOR else describe_vocabulary(model, rows[1], y) | figures)
    return over_seeds(found)


def _true_scores(law: Law, x: pd.DataFrame, y: Values, seed: Sequence[int], size: Size) -> dict[str, float]:
    # As many draws as methods have samples: few samples cost CRPS by themselves.
    drawn = law.draw(x, size.n_samples, np.random.default_rng(list(seed)))
    return {
        "mae": mae(y, np.median(drawn, axis=1)),
        "rmse": rmse(y, law.mean(x)),
        "crps": float(crps_each(y, drawn).mean()),
    }


def describe_vocabulary(model: ValueEstimator, y_train: Values, y_test: Values) -> dict[str, float]:
    """What a fitted token model's vocabulary does to targets before anything is learned.

    ``n_tokens`` is the size of the vocabulary, ``length`` and ``longest`` are the mean and the largest number of values
    that a target takes, ``cut`` is the share of targets whose sequences end early, ``rows_per_token`` the mean number
    of training rows that use a value, and ``bound`` the root of the paper's bound without any bias.

    **Shape:** ``(n,)``, ``(m,)`` in the target's units.
    """
    method = model.ensemble_.models[0].method
    assert isinstance(method, GenerativeRegression)
    values = method.values[method.values > 0]
    unit = torch.from_numpy(model.scale_.to_unit(y_test))
    back = read_back(method.tokens_of(unit), values).double().numpy() / method.n_units
    # How often each value is taken for each target, were sequences as long as they need. (n, V)
    needed, of_training = (
        greedy_counts(method.in_units(torch.from_numpy(model.scale_.to_unit(y))), values, method.tolerance)
        for y in (y_test, y_train)
    )
    used = (of_training > 0).sum(dim=0)
    lengths, span = needed.sum(dim=1), model.scale_.high - model.scale_.low
    longest = min(int(lengths.max()), method.n_steps - 1)
    width = (int(values.max()) - int(values.min())) / method.n_units * span
    return {
        "n_tokens": float(len(values)),
        "length": float(lengths.double().mean()),
        "longest": float(lengths.max()),
        "cut": float((lengths >= method.n_steps).double().mean()),
        "written_mae": mae(y_test, model.scale_.from_unit(back)),
        "rows_per_token": float(used.double().mean()),
        "bound": float(np.sqrt(paper_bound(longest, 0.0, width))),
    }
