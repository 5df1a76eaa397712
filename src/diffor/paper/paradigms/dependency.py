"""Dependency error: bits of a thermometer are drawn as if each knew nothing of the others."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import pandas as pd
from torch import Tensor

from diffor.datasets.open.synthetic import LAWS, Law
from diffor.estimators.values import ValueEstimator
from diffor.methods.baselines.ranks import RankMethod, rank_probabilities
from diffor.methods.diffor.increments import squeeze
from diffor.methods.diffor.paper import IncrementDiffusion
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
    member_of,
    over_seeds,
    significant,
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
    ends = np.zeros((len(x), 1)), np.ones((len(x), 1))
    return np.asarray(np.diff(np.concatenate([ends[0], reached, ends[1]], axis=1), axis=1))


@dataclass(frozen=True)
class Ranked:
    """A method trained on so many ranks; divergences are in bits, mean over test rows, figures over seeds."""

    method: str
    n_ranks: int
    joint: Measured
    """From the true bits to the method's, drawn as it models them: independently, one after the other, or at once."""
    floor: Measured
    """The total correlation of the true bits: what independence alone costs."""
    ranks: Measured
    """From the true ranks to those that are read off the method's distribution."""
    impossible: Measured
    """Share of its drawn bits that are no thermometer."""
    rising: Measured
    """Share of rows where some threshold is passed more probably than the one below it."""
    spread: Measured
    """Standard deviation of the number of bits set, as a share of the true one."""


@dataclass(frozen=True)
class DependencyError:
    """What :func:`dependency_error` found."""

    n_rows: int
    n_seeds: int
    thresholds: list[int]
    correlation: list[float]
    """Total correlation of the true bits, in bits, for each number of thresholds."""
    decomposition: list[float]
    """The paper's sum of informations, for each number of thresholds."""
    impossible: list[float]
    """Share of independently drawn true bits that are no thermometer."""
    methods: list[Ranked]
    broken_increments: Measured
    """Share of DiffoR's drawn increments that are no thermometer."""
    broken_if_independent: Measured
    """The same where each increment is taken from another draw of the same row."""

    def of(self, method: str, n_ranks: int | None = None) -> Ranked:
        """What was measured of a method, on the most ranks unless told otherwise."""
        wanted = max(one.n_ranks for one in self.methods) if n_ranks is None else n_ranks
        return next(one for one in self.methods if (one.method, one.n_ranks) == (method, wanted))

    def closest(self, n_ranks: int) -> str:
        """Methods whose ranks are nearest to the true ones, with those that do as well up to the spread over seeds."""
        learned = [one for one in self.methods if one.n_ranks == n_ranks and one.method != "truth"]
        reached = min(one.ranks.mean + one.ranks.deviation for one in learned)
        return ", ".join(TITLES[one.method] for one in learned if one.ranks.mean <= reached)

    def sentences(self) -> list[str]:
        """What was found, in words."""
        most = max(one.n_ranks for one in self.methods)
        found = [one for one in self.methods if one.n_ranks == most]
        apart = max(abs(one - other) for one, other in zip(self.correlation, self.decomposition, strict=True))
        closest = [
            f"{n_ranks} ranks: {self.closest(n_ranks)}" for n_ranks in sorted({one.n_ranks for one in self.methods})
        ]
        return [
            f"The divergence to independent bits and the paper's sum of informations differ by at most "
            f"{significant(apart)} bits: the decomposition holds.",
            f"With the true chances, independent bits are {significant(self.correlation[1])} bits away from the truth "
            f"with {self.thresholds[1]} thresholds and {significant(self.correlation[-1])} with {self.thresholds[-1]}; "
            f"{100 * self.impossible[-1]:.1f} % of such draws are no thermometer.",
            f"Trained on {self.n_rows:,} rows with {most} ranks ({in_seeds(self.n_seeds)}), divergence from the true "
            f"bits as each method draws them: {_list(found, 'joint')} bits.",
            f"Draws that are no thermometer: {_list(found, 'impossible')}. Rows whose chances rise somewhere: "
            f"{_list(found, 'rising')}.",
            f"But those methods answer with ranks read off the chances, not with drawn bits, and these need no "
            f"independence. Divergence from the true ranks, all counted from as many draws: {_list(found, 'ranks')} "
            f"bits. Closest, up to the spread over seeds: {'; '.join(closest)}.",
            f"Drawn bits of {TITLES[INDEPENDENT[0]]} count with {self.of(INDEPENDENT[0]).spread} of the true spread, "
            f"DiffoR's values with {self.of(DIFFOR).spread}.",
            f"DiffoR's own increments are no thermometer in {self.broken_increments.percent} of its draws; they would "
            f"be in {self.broken_if_independent.percent} if it drew each by itself.",
        ]


def _list(found: list[Ranked], name: str) -> str:
    """One figure of each method, in words; shares as percentages."""
    is_share = name in ("impossible", "rising")
    figures = ((TITLES[one.method], getattr(one, name)) for one in found)
    return "; ".join(f"{title} {figure.percent if is_share else figure}" for title, figure in figures)


def dependency_error(seed: int = 0, quick: bool = False) -> DependencyError:
    """Measure what independence of thresholds costs, with the true chances and with those of trained methods."""
    size, law = QUICK if quick else FULL, LAWS[LAW]
    x, y = draw_rows(law, 20 * size.n_rows, [seed, 3])
    exact = {}
    for count in THRESHOLDS:
        cuts = np.quantile(y, np.arange(1, count + 1) / (count + 1))
        exact[count] = true_ranks(law, x[: size.n_test_rows], cuts)
    found = [
        _measure(law, size, seed, number, TRAINED_RANKS[:1] if quick else TRAINED_RANKS)
        for number in range(size.n_seeds)
    ]
    return DependencyError(
        n_rows=size.n_rows,
        n_seeds=size.n_seeds,
        thresholds=list(THRESHOLDS),
        correlation=[float(total_correlation(exact[count]).mean()) for count in THRESHOLDS],
        decomposition=[float(information_of_bits(exact[count]).sum(axis=-1).mean()) for count in THRESHOLDS],
        impossible=[float(impossible_share(passing(exact[count])).mean()) for count in THRESHOLDS],
        methods=[
            Ranked(method, n_ranks, **over_seeds([one[method, n_ranks] for one, _ in found]))
            for method, n_ranks in found[0][0]
        ],
        broken_increments=Measured.of([broken for _, (broken, _) in found]),
        broken_if_independent=Measured.of([shuffled for _, (_, shuffled) in found]),
    )


Figures = dict[tuple[str, int], dict[str, float]]


def _measure(
    law: Law, size: Size, seed: int, number: int, rank_counts: tuple[int, ...]
) -> tuple[Figures, tuple[float, float]]:
    """Figures of all methods and numbers of ranks for one seed, and what became of DiffoR's increments."""
    rows = draw_rows(law, size.n_rows, [seed, number, 0])
    x, _ = draw_rows(law, size.n_test_rows, [seed, number, 1])
    random, count = np.random.default_rng([seed, number, 2]), DRAWS_FOR_EACH * size.n_samples
    ours = fit_method(DIFFOR, rows, size, number, law.bounds)
    samples = {DIFFOR: ours.predict_distribution(x, count).samples, "truth": law.draw(x, count, random)}
    figures: Figures = {}
    for n_ranks in rank_counts:
        for method in (*INDEPENDENT, *CONDITIONAL):
            model = fit_method(method, rows, size, number, law.bounds, n_bins=n_ranks)
            cuts, chances, ranks = read_ranks(model, x)
            truth = true_ranks(law, x, cuts)
            # Ranks that are known exactly are drawn too: what draws cost, all methods are to pay.
            shares = random.multinomial(count, ranks / ranks.sum(axis=1, keepdims=True)) / count
            figures[method, n_ranks] = _figures(truth, shares, chances, method in INDEPENDENT, count)
        for method, drawn in samples.items():
            shares = np.stack([np.bincount(row, minlength=n_ranks) for row in np.searchsorted(cuts, drawn)]) / count
            figures[method, n_ranks] = _figures(truth, shares, passing(shares), False, count)
    return figures, _broken(ours, x, number)


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


def _broken(model: ValueEstimator, x: pd.DataFrame, seed: int, n_samples: int = 64) -> tuple[float, float]:
    """Share of DiffoR's drawn increments that are no thermometer, and of those mixed among a row's draws."""
    member, inputs, keys = member_of(model, x)
    method = member.method
    assert isinstance(method, IncrementDiffusion)

    def last_state(features: Tensor, keys: Tensor, n_samples: int) -> Tensor:
        return squeeze(deque(method.chain(features, keys, n_samples), maxlen=1).pop()[1])

    drawn = member.answer(last_state, inputs, keys, n_samples).numpy() * method.n_increments
    filled = np.asarray(drawn, dtype=np.float64).clip(0, 1)
    shuffled = np.random.default_rng(seed).permuted(filled, axis=1)
    return broken_share(filled), broken_share(shuffled)
