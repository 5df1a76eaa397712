"""Dependency error: bits of a thermometer are drawn as if each knew nothing of the others."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from diffor.datasets.open.synthetic import LAWS, Law
from diffor.estimators.values import ValueEstimator
from diffor.methods.baselines.ranks import RankMethod, rank_probabilities
from diffor.methods.diffor.increments import squeeze
from diffor.paper.paradigms.fitting import (
    DIFFOR,
    FULL,
    QUICK,
    Found,
    Values,
    draw_rows,
    fit_method,
    member_of,
    over_seeds,
    side_by_side,
    table_rows,
    trials,
)
from diffor.paper.paradigms.thermometer import (
    broken_share,
    count_spread,
    divergence,
    impossible_share,
    independent_divergence,
    information_of_bits,
    passing,
    total_correlation,
)
from diffor.reports.html import Table

LAW = "synthetic-watch-time"
THRESHOLDS = (1, 3, 7, 15, 31, 63, 127)
"""Numbers of thresholds, at even quantiles of the target, for which the truth's figures are computed."""
TRAINED_RANKS = (8, 16, 64)
"""Numbers of ranks that methods are trained on."""
DRAWS_FOR_EACH = 4
"""Draws from which ranks are counted, for each sample that is usual: divergences need many."""
INDEPENDENT, CONDITIONAL = ("or-cnn", "coral"), ("corn",)
"""Methods with a probability for each bit by itself, and one with that of each bit after those before it."""


def true_ranks(law: Law, x: pd.DataFrame, cuts: Values) -> Values:
    """Probability of each range between rising cuts, by the law. **Shape:** ``(M,)`` -> ``(n, M + 1)``."""
    reached = np.stack([law.cdf(x, np.full(len(x), cut)) for cut in cuts], axis=1)
    return np.diff(reached, axis=1, prepend=0.0, append=1.0)


def dependency_error(seed: int = 0, quick: bool = False) -> Found:
    """Measure what independence of thresholds costs, with the true chances and with those of trained methods."""
    size, law, measured, broken = QUICK if quick else FULL, LAWS[LAW], [], []
    x, y = draw_rows(law, 20 * size.n_rows, [seed, 3])
    cuts = {count: np.quantile(y, np.arange(1, count + 1) / (count + 1)) for count in THRESHOLDS}
    exact = [true_ranks(law, x[: size.n_test_rows], cuts[count]) for count in THRESHOLDS]
    for number, rows, (asked, _) in trials(law, size, seed):
        random, count = np.random.default_rng([seed, number, 2]), DRAWS_FOR_EACH * size.n_samples
        ours = fit_method(DIFFOR, rows, size, number, law.bounds)
        samples = {DIFFOR: ours.predict_distribution(asked, count).samples, "truth": law.draw(asked, count, random)}
        figures: dict[tuple[str, int], dict[str, float]] = {}
        for n_ranks in TRAINED_RANKS[:1] if quick else TRAINED_RANKS:
            for method in (*INDEPENDENT, *CONDITIONAL):
                model = fit_method(method, rows, size, number, law.bounds, n_bins=n_ranks)
                thresholds, chances, ranks = read_ranks(model, asked)
                truth = true_ranks(law, asked, thresholds)
                # Ranks that are known exactly are drawn too: what draws cost, all methods are to pay.
                shares = random.multinomial(count, ranks / ranks.sum(axis=1, keepdims=True)) / count
                figures[method, n_ranks] = _figures(truth, shares, chances, method in INDEPENDENT, count)
            for method, drawn in samples.items():
                placed = np.searchsorted(thresholds, drawn)
                shares = np.stack([np.bincount(row, minlength=n_ranks) for row in placed]) / count
                figures[method, n_ranks] = _figures(truth, shares, passing(shares), False, count)
        measured.append(figures)
        broken.append(_broken(ours, asked, number))
    return {
        "n_rows": size.n_rows,
        "n_seeds": size.n_seeds,
        "thresholds": list(THRESHOLDS),
        "correlation": [float(total_correlation(ranks).mean()) for ranks in exact],
        "decomposition": [float(information_of_bits(ranks).sum(axis=-1).mean()) for ranks in exact],
        "impossible": [float(impossible_share(passing(ranks)).mean()) for ranks in exact],
        "methods": [
            {"method": method, "n_ranks": n_ranks, **over_seeds([one[method, n_ranks] for one in measured])}
            for method, n_ranks in measured[0]
        ],
        **over_seeds(broken),
    }


def dependency_tables(found: Found) -> list[Table]:
    """What independence costs with the true chances and with those of trained methods, and DiffoR's increments."""
    increments = {name: found[name] for name in ("broken_increments", "broken_if_independent")}
    return [
        Table.of(
            side_by_side(found, ("thresholds", "correlation", "decomposition", "impossible")),
            "With the true chances: bits from the true thermometer to independent bits (total correlation), the "
            "paper's decomposition of it, which should equal it, and the share of independent draws that are no "
            "thermometer.",
        ),
        Table.of(
            table_rows(found["methods"]),
            "Divergences are in bits. Joint: from the true bits to those that a method draws; floor: what independence "
            "alone costs; ranks: from the true ranks to those that it answers with, which are read off the chances and "
            "need no independence, all counted from as many draws. Impossible: draws that are no thermometer; rising: "
            "rows whose chances rise somewhere; spread: of the number of bits set, as a share of the true one.",
        ),
        Table.of(
            table_rows([{"method": DIFFOR, **increments}]),
            "Share of DiffoR's own increments that are no thermometer, and the same if it drew each by itself.",
        ),
    ]


def _figures(truth: Values, ranks: Values, chances: Values, is_independent: bool, n_samples: int) -> dict[str, float]:
    """What is measured of one method. **Shape:** ranks ``(n, K)``, chances ``(n, K - 1)``."""
    # A rank that was not drawn is not impossible: one more draw is spread over all of them.
    mixed = (ranks * n_samples + 1 / ranks.shape[1]) / (n_samples + 1)
    of_ranks = divergence(truth, mixed)
    own = np.sqrt((chances * (1 - chances)).sum(axis=1)) if is_independent else count_spread(ranks)
    return {
        "joint": float((independent_divergence(truth, chances) if is_independent else of_ranks).mean()),
        "floor": float(total_correlation(truth).mean()),
        "ranks": float(of_ranks.mean()),
        "impossible": float(impossible_share(chances).mean()) if is_independent else 0.0,
        "rising": float((np.diff(chances, axis=1) > 1e-6).any(axis=1).mean()),
        "spread": float(own.mean() / count_spread(truth).mean()),
    }


def read_ranks(model: ValueEstimator, x: pd.DataFrame) -> tuple[Values, Values, Values]:
    """Thresholds of a fitted rank method, its own chances of passing them, and the ranks that it reads off these.

    **Shape:** n rows -> ``(K - 1,)`` in the target's units, ``(n, K - 1)``, ``(n, K)``.
    """
    member, inputs, keys = member_of(model, x)
    method = member.method
    assert isinstance(method, RankMethod)

    def chances_of(features: Tensor, keys: Tensor, n_samples: int) -> Tensor:
        return method.above(method.logits(features))

    chances = member.answer(chances_of, inputs, keys, 1).double()
    cuts = np.asarray(model.scale_.from_unit(method.binning.edges[1:-1].numpy()), dtype=np.float64)
    return cuts, np.asarray(chances.numpy()), np.asarray(rank_probabilities(chances).numpy())


def _broken(model: ValueEstimator, x: pd.DataFrame, seed: int, n_samples: int = 64) -> dict[str, float]:
    """Share of DiffoR's drawn increments that are no thermometer, and of those mixed among a row's draws."""
    member, inputs, keys = member_of(model, x)
    method: Any = member.method  # one with a chain

    def last_state(features: Tensor, keys: Tensor, n_samples: int) -> Tensor:
        return squeeze(deque(method.chain(features, keys, n_samples), maxlen=1).pop()[1])

    drawn = member.answer(last_state, inputs, keys, n_samples).numpy() * method.n_increments
    filled = np.asarray(drawn, dtype=np.float64).clip(0, 1)
    shuffled = np.random.default_rng(seed).permuted(filled, axis=1)
    return {"broken_increments": broken_share(filled), "broken_if_independent": broken_share(shuffled)}
