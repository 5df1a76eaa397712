"""Rows that a network has not seen: who is held out from whom, and what the answers to such rows decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit
from torch import Tensor, nn

from diffor.core.method import Inputs
from diffor.encoders.tabular.fold_networks import FoldNetworks
from diffor.estimators.cross_fitted import LEAST, spread_of
from diffor.methods.diffor.borders import Borders
from diffor.methods.diffor.one_call import as_prediction, falling
from diffor.training.batches import Rows, step_seed
from diffor.training.distributed import World

Floats = NDArray[np.float64]
Held = NDArray[np.bool_]
"""Which rows each network does not learn from. **Shape:** ``(K, n)``."""

FIRST_FACTOR, FACTOR_SHARPNESS = 1.1, 4.0
"""How much all priors count together, and how much more the better ones do, where few rows can tell ..."""
STACKING_ROWS, MAX_STACKED = 200.0, 5_000
"""... and how many rows weigh as much as this rule against what is best for the rows at hand."""
EVEN_WEIGHTS = 0.002
"""What weights of kinds that are not even must gain, in units of the score of a constant."""
CALIBRATION_ROWS = 50.0
"""Rows that no recalibration is worth: with fewer, survival functions stay nearly as they are."""
CRPS_COUNTS = 2.0
"""What the logarithm of the CRPS counts beside that of the likelihood: with less, a law of two modes loses CRPS."""
MAX_CALIBRATION_ROWS = 5_000
CALIBRATION_BOUNDS = [(-1.6, 1.6), (None, None), (-1.0, 1.0)]
"""Of the logarithm of a slope, a shift, and how much the slope depends on the spread."""


# --- who is held out ---


def hold_out(n_rows: int, n_folds: int, seed: int, groups: NDArray[np.int64] | None = None) -> Held:
    """Each row is held out by one of K networks; groups stay whole. **Shape:** -> ``(K, n)``.

    >>> hold_out(10, 5, seed=0).sum(axis=1).tolist()
    [2, 2, 2, 2, 2]
    """
    draw = np.random.default_rng(seed)
    if groups is None:
        fold = draw.permutation(n_rows) % n_folds
    else:
        sizes = np.bincount(groups)
        fold_of, filled = np.zeros(len(sizes), dtype=np.int64), np.zeros(n_folds)
        order = draw.permutation(len(sizes))
        for group in order[np.argsort(-sizes[order], kind="stable")]:  # the largest first, each to the emptiest fold
            fold_of[group] = filled.argmin()
            filled[fold_of[group]] += sizes[group]
        fold = fold_of[groups]
    return np.asarray(fold == np.arange(n_folds)[:, None])


class FoldBatches:
    """The rows of every step, a block for each network: shuffled epochs of the rows that it may learn from."""

    world = World()
    shards: Sequence[int] = (0,)

    def __init__(self, data: Rows, held: Held, batch_size: int, seed: int) -> None:
        self.data, self.seed = data, seed
        self.learned = [np.flatnonzero(~rows) for rows in held]
        self.batch = min(batch_size, *(len(rows) for rows in self.learned))
        self.orders: dict[tuple[int, int], NDArray[np.int64]] = {}

    def count(self, step: int) -> int:
        """Number of rows of a step, over all networks."""
        return self.batch * len(self.learned)

    def pieces(self, step: int, shard: int) -> Iterator[tuple[Rows, float]]:
        """The rows of a step, block after block."""
        blocks = [self.block(step, network) for network in range(len(self.learned))]
        index = torch.from_numpy(np.concatenate(blocks)).to(self.data.y.device)
        yield self.data.take(index, step), 1.0

    def block(self, step: int, network: int) -> NDArray[np.int64]:
        """Places of the rows that one network learns from in a step. **Shape:** ``(b,)``."""
        epoch, place = divmod(step, len(self.learned[network]) // self.batch)
        if (network, epoch) not in self.orders:
            self.orders = {key: order for key, order in self.orders.items() if key[0] != network}
            draw = np.random.default_rng(step_seed(self.seed, -1 - epoch, network))
            self.orders[network, epoch] = draw.permutation(self.learned[network])
        return self.orders[network, epoch][place * self.batch : (place + 1) * self.batch]


# --- what is trained and scored ---


class Learners(nn.Module):
    """What the training loop sees of K networks: the loss of a batch in blocks."""

    asks_for_draws = True  # nothing but dropout is random

    def __init__(self, networks: FoldNetworks, borders: Borders) -> None:
        super().__init__()
        self.networks, self.borders = networks, borders

    @property
    def n_members(self) -> int:
        """Networks that learn independently."""
        return self.networks.n_folds

    def forward(self, inputs: Inputs, y: Tensor, weights: Tensor | None = None) -> dict[str, Tensor]:
        """Cross-entropy of every increment, summed over increments and networks. **Shape:** n rows -> scalar."""
        logits = self.networks(inputs, in_blocks=True)
        filled = self.borders.fill(y).view_as(logits)
        errors = nn.functional.binary_cross_entropy_with_logits(logits, filled, reduction="none").sum(dim=2)
        if weights is not None:
            errors = errors * weights.view_as(errors)
        return {"cross_entropy": errors.mean(dim=1).sum()}


def answer_held(networks: FoldNetworks, inputs: Inputs, held: Held) -> Tensor:
    """Survival functions of each row by the networks that have not seen it; NaN where all have.

    **Shape:** inputs of n rows -> ``(n, S)``.
    """
    parts = [np.flatnonzero(rows) for rows in held]
    size = max(len(part) for part in parts)
    if not size:
        return inputs[0].new_full((held.shape[1], networks.n_increments), torch.nan)
    blocks = torch.from_numpy(np.concatenate([np.resize(part if len(part) else [0], size) for part in parts])).to(
        inputs[0].device
    )
    with torch.inference_mode():
        answers = falling(networks(tuple(part[blocks] for part in inputs), in_blocks=True))
    survival = answers.new_zeros(held.shape[1], answers.shape[2])
    for network, part in enumerate(parts):
        survival[torch.from_numpy(part).to(survival.device)] += answers[network, : len(part)]
    return survival / torch.from_numpy(held.sum(axis=0)).to(survival)[:, None]


@dataclass(frozen=True)
class HeldOutScore:
    """Mean CRPS of rows by networks that have not seen them, in the user's units."""

    inputs: Inputs
    filled: Tensor
    held: Held
    widths: Tensor
    weights: Tensor | None = None

    @classmethod
    def of_rows(cls, data: Rows, borders: Borders, held: Held, unit: float = 1.0) -> HeldOutScore:
        """The score of training rows; ``unit`` is the length of [0, 1] in the user's units."""
        length = unit * (borders.edges[-1] - borders.edges[0])
        filled = borders.fill(data.y)
        return cls(data.inputs, filled, held, torch.from_numpy(borders.widths * length).to(filled), data.weights)

    def of(self, survival: Tensor) -> float:
        """Score of survival functions of all rows. **Shape:** ``(n, S)``."""
        each = ((survival - self.filled).square() * self.widths).sum(dim=1)
        known = ~each.isnan() if self.weights is None else ~each.isnan() & (self.weights > 0)
        if self.weights is None:
            return float(each[known].mean())
        return float((each * self.weights)[known].sum() / self.weights[known].sum())

    def of_some(self, at_most: int) -> HeldOutScore:
        """The score of at most so many of the held-out rows, always the same ones."""
        known = np.flatnonzero(self.held.any(axis=0))
        if len(known) <= at_most:
            return self
        rows = np.sort(np.random.default_rng(0).choice(known, at_most, replace=False))
        index = torch.from_numpy(rows).to(self.filled.device)
        weights = None if self.weights is None else self.weights[index]
        inputs = tuple(part[index] for part in self.inputs)
        return HeldOutScore(inputs, self.filled[index], self.held[:, rows], self.widths, weights)

    def __call__(self, model: Learners) -> float:
        """Score of networks."""
        return self.of(answer_held(model.networks, self.inputs, self.held))


# --- what held-out answers decide ---


def stack_priors(
    said: Tensor, filled: Tensor, widths: Floats, weights: Tensor | None = None, n_rows: int | None = None
) -> list[float]:
    """Factors of priors' logits, from their answers to rows that they have not seen: those with the least CRPS.

    They are drawn to a rule by which the better priors count more, for few rows can hardly tell more than that. The
    rows count as the ``n_rows`` that they were taken from.

    **Shape:** said ``(n, P, S)``, filled ``(n, S)``, widths ``(S,)``, weights ``(n,)`` -> P factors.

    >>> wrong, right = torch.tensor([[2.0], [-2.0]]), torch.tensor([[-2.0], [2.0]])
    >>> factors = stack_priors(torch.stack([wrong, right], dim=1), torch.tensor([[0.0], [1.0]]), np.ones(1))
    >>> factors[1] > factors[0]
    True
    """
    logits, truth = said.double().cpu().numpy(), filled.double().cpu().numpy()
    counts = np.ones(len(truth)) if weights is None else weights.double().cpu().numpy()
    importance = (counts / counts.sum())[:, None] * widths
    errors = ((expit(logits) - truth[:, None]) ** 2 * importance[:, None]).sum(axis=(0, 2))
    unit = max(errors.min(), np.finfo(float).tiny)
    shares = np.exp(-FACTOR_SHARPNESS * errors / unit)
    start = FIRST_FACTOR * shares / shares.sum()
    draw = STACKING_ROWS / counts.sum() * len(counts) / (n_rows or len(said))

    def missed(factors: Floats) -> tuple[float, Floats]:
        probability = expit(np.einsum("p,nps->ns", factors, logits))
        error, apart = probability - truth, factors - start
        pull = 2 * error * probability * (1 - probability) * importance
        slope = np.einsum("ns,nps->p", pull, logits) / unit + 2 * draw * apart
        return float((error**2 * importance).sum() / unit + draw * apart @ apart), slope

    return [float(factor) for factor in minimize(missed, start, jac=True, method="L-BFGS-B").x]


def weigh_kinds(answers: Sequence[Tensor], score: HeldOutScore) -> NDArray[np.float32]:
    """Weights of kinds whose pooled answers have the least CRPS, a little drawn to even ones. **Shape:** -> ``(k,)``.

    The score of a weighted mean is a quadratic form in the weights, so it is enough to know how errors go together.
    """
    importance = score.widths if score.weights is None else score.widths * score.weights[:, None]
    errors = [(answer - score.filled).nan_to_num() * importance.sqrt() for answer in answers]
    together = np.array([[float((one * other).sum()) for other in errors] for one in errors])
    constant = float(((score.filled - score.filled.mean(dim=0)).square() * importance).sum())
    together /= max(constant, np.finfo(float).tiny)
    weights = np.full(len(answers), 1 / len(answers))
    for _ in range(500):  # mirror descent keeps weights positive and their sum 1
        slope = 2 * together @ weights + EVEN_WEIGHTS * (np.log(weights) + 1)
        weights = weights * np.exp(-(slope - slope @ weights) / max(together.max(), EVEN_WEIGHTS) / 4)
        weights = np.maximum(weights / weights.sum(), 1e-9)
    return np.asarray(weights / weights.sum(), dtype=np.float32)


def fit_calibration(borders: Borders, survival: Tensor, y: Tensor, weights: Tensor | None = None) -> Floats:
    """Recalibration of pooled answers (:func:`~diffor.estimators.cross_fitted.recalibrated`) that suits what happened.

    It makes likely where truths stand in their distributions, so that intervals hold as much as they say, and the CRPS
    small: likelihood alone would be surer about which of two separate modes it will be than it should. It is drawn
    to none at all, as if so many more rows had shown that none is needed. Rows of NaN, which have no answer, and rows
    without weight do not count.

    **Shape:** survival functions ``(n, S)``, y and weights ``(n,)`` -> ``(3,)``.
    """
    does_count = ~survival.isnan().any(dim=1)
    if weights is not None:
        does_count &= weights > 0
    known = torch.nonzero(does_count)[:, 0]
    known = known[:: max(1, len(known) // MAX_CALIBRATION_ROWS)]
    if not len(known):
        return np.array([1.0, 0.0, 0.0])
    said, truth = survival[known].double().cpu(), y[known].double().cpu()
    counts = np.ones(len(known)) if weights is None else weights[known].double().cpu().numpy()
    filled, widths = borders.fill(truth).numpy(), borders.widths
    log_spread = np.log(spread_of(said, torch.from_numpy(widths)).numpy())
    typical = np.average(log_spread, weights=counts)
    prediction = as_prediction(borders, said)
    reached, passed = 1 - prediction.cdf_below(truth), 1 - prediction.cdf(truth)
    is_atom = reached - passed > LEAST
    ends = np.stack([reached, passed]).clip(LEAST, 1 - LEAST)
    logits, logits_at_ends = logit(said.numpy().clip(LEAST, 1 - LEAST)), logit(ends)

    def missed(settings: Floats) -> float:
        slope = np.exp(settings[0] + settings[2] * (log_spread - typical))
        upper, lower = expit(slope * logits_at_ends + settings[1])
        steepness = slope * upper * (1 - upper) / (ends[0] * (1 - ends[0]))
        likely = np.maximum(np.where(is_atom, upper - lower, steepness), LEAST)
        errors = np.square(expit(slope[:, None] * logits + settings[1]) - filled) @ widths
        crps = max(counts @ errors / counts.sum(), np.finfo(float).tiny)
        drawn = CALIBRATION_ROWS / 2 * settings @ settings
        return float((drawn - counts @ np.log(likely)) / counts.sum() + CRPS_COUNTS * np.log(crps))

    scale, shift, by_spread = minimize(missed, np.zeros(3), method="L-BFGS-B", bounds=CALIBRATION_BOUNDS).x
    return np.array([np.exp(scale - by_spread * typical), shift, by_spread])
