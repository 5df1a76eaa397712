"""Every row is held out once: networks trained in step, and what their answers to rows they never saw decide.

The step to stop at, the weights of the kinds of networks and the recalibration are chosen on these answers, of all
rows, so no row is spent on validation and none is asked about by a network that has learned from it.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.core.draws import OwnDraws
from diffor.core.threads import LINEAR_ALGEBRA
from diffor.encoders import TabularInputs
from diffor.encoders.tabular.fold_networks import FoldNetworks, NetworkSettings, prior_logits
from diffor.errors import UserError
from diffor.estimators.cross_fitted import CrossFitted, recalibrated
from diffor.estimators.held_out import (
    MAX_STACKED,
    FoldBatches,
    Held,
    HeldOutScore,
    Learners,
    answer_held,
    fit_calibration,
    hold_out,
    stack_priors,
    weigh_kinds,
)
from diffor.methods.diffor.borders import Borders
from diffor.methods.diffor.one_call import grade_borders
from diffor.priors import FittedPriors, PriorRows, fit_priors
from diffor.training.batches import Rows
from diffor.training.loop import History, TrainConfig, train
from diffor.training.tracking import Tracking

Floats = NDArray[np.float64]

SMALL, MEDIUM, LARGE = 5_000, 20_000, 50_000
"""Below the first number of rows there are as many folds as a preset has at most, then half of them, then two ..."""
HOLD_OUT_PARTS, MAX_HELD = 10, 5_000
"""... and from the last on one part is held out, at most so many rows."""
MIN_FOLDED = 10
"""With fewer rows, or groups of them, none is held out ..."""
UNSCORED_STEPS = 50
"""... and training ends after so many steps, near to what the priors say."""
N_BESIDE_VALIDATION = 3
"""Networks that learn from all training rows where the user has validation rows."""
MAX_WATCHED = 2_000
"""Held-out rows that tell the best step; all of them weigh kinds and recalibrate."""
N_PRIOR_FOLDS = 3
PRIORS_SHARE = 0.5
"""Share of a time limit after which no further prior is begun."""
REFERENCE_INCREMENTS = 128
"""Increments of the borders whose coordinate priors answer in."""
FEWEST_INCREMENTS, MOST_INCREMENTS = 64, 256
PER_ERROR = 3.0
"""Increments within the priors' mean error, so that an interval is narrower than it."""

KINDS: dict[str, tuple[NetworkSettings, dict[str, float]]] = {
    "plain": (NetworkSettings(n_pieces=3, n_layers=3, dropout=0.1, uses_priors=False), {"learning_rate": 2}),
    "deep": (
        NetworkSettings(n_pieces=5, n_layers=4, dropout=0.1, uses_priors=False),
        {"learning_rate": 2, "max_steps": 2, "batch_size": 1 / 2},
    ),
    "waves": (NetworkSettings(n_waves=8, n_layers=3, dropout=0.1, uses_priors=False), {}),
    "advised": (NetworkSettings(n_pieces=8, n_layers=2, dropout=0.15), {}),
    "slow": (NetworkSettings(n_pieces=8, n_layers=2, dropout=0.15), {"learning_rate": 1 / 3}),
}
"""Kinds of networks by name, with factors of training settings: three without priors, for smooth laws (one of them with
more layers and more, smaller steps) and for periodic ones, and two that the priors advise, at two rates."""


# --- fitting ---


@dataclass(frozen=True)
class Problem:
    """Rows with what the priors say about them as their last input, and the borders of their targets."""

    data: Rows
    held: Held
    borders: Borders
    positions: Tensor
    """Where the increments stand on the scale of each prior. **Shape:** ``(P, S)``."""
    unit: float = 1.0

    @property
    def is_scored(self) -> bool:
        """Whether any row is held out."""
        return bool(self.held.any())

    def score(self) -> HeldOutScore:
        """What networks are compared by."""
        return HeldOutScore.of_rows(self.data, self.borders, self.held, self.unit)

    def first_factors(self) -> list[float]:
        """How much each prior counts at first."""
        if not len(self.positions):
            return []
        data, some = self.data, slice(None, None, max(1, len(self.data) // MAX_STACKED))
        said = prior_logits(data.inputs[-1][some].cpu(), self.positions)
        weights = None if data.weights is None else data.weights[some]
        return stack_priors(said, self.borders.fill(data.y[some]), self.borders.widths, weights, len(data))


def fit_cross_fitted(
    inputs: TabularInputs,
    problem: Problem,
    kinds: Sequence[tuple[NetworkSettings, TrainConfig]],
    fingerprint: str = "",
    tracking: Tracking | None = None,
) -> tuple[CrossFitted, History, Tensor]:
    """Train kinds of networks one after another, and let the held-out answers of all rows weigh and calibrate them.

    Also returns those answers. **Shape:** -> ``(n, S)``, NaN for rows that were never held out.
    """
    factors, tracking = problem.first_factors(), tracking or Tracking(None)
    trained: list[FoldNetworks] = []
    answers: list[Tensor] = []
    history = History(stopped="finished")
    score = problem.score() if problem.is_scored else None
    watched = None if score is None else score.of_some(MAX_WATCHED)
    for place, (settings, config) in enumerate(kinds if len(problem.borders) else ()):
        networks = make_networks(inputs, problem.held.shape[0], problem.positions, factors, settings, config.seed)
        networks.start_at(problem.borders.fill(problem.data.y).mean(dim=0))
        part = train_kind(networks, problem, watched, part_of(config, place, len(kinds), history), fingerprint,
                          tracking.of(f"kind-{place}") if place else tracking)  # fmt: skip
        trained.append(networks)
        answers.append(answer_held(networks, problem.data.inputs, problem.held))
        add_history(history, part, place)
        if part.stopped == "interrupted":
            break
    model = CrossFitted(problem.borders, trained).to(problem.data.y.device).eval()
    pooled = problem.data.y.new_full((len(problem.data), len(problem.borders)), torch.nan)
    if score is not None and trained:
        model.weights.copy_(torch.from_numpy(weigh_kinds(answers, score)))
        pooled = torch.einsum("k,kns->ns", model.weights, torch.stack(answers))
        found = fit_calibration(problem.borders, pooled, problem.data.y, problem.data.weights)
        model.recalibration.copy_(torch.from_numpy(found))
        history.best_score = score.of(pooled)
    return model, history, pooled


def make_networks(
    inputs: TabularInputs, n_folds: int, positions: Tensor, factors: list[float], settings: NetworkSettings, seed: int
) -> FoldNetworks:
    """Networks of one kind, with random weights that the seed determines."""
    with OwnDraws(seed):
        return FoldNetworks(n_folds, inputs.number_edges, inputs.category_sizes, positions, factors, settings)


def train_kind(
    networks: FoldNetworks, problem: Problem, score: HeldOutScore | None, config: TrainConfig, fingerprint: str,
    tracking: Tracking,
) -> History:  # fmt: skip
    """Train the networks of one kind in place by the one training loop, until their held-out answers are best."""
    learners = Learners(networks, problem.borders).to(problem.data.y.device)
    batches = FoldBatches(problem.data, problem.held, config.batch_size, config.seed)
    return train(learners, problem.data, score, config, fingerprint, tracking, batches)


def part_of(config: TrainConfig, place: int, n_kinds: int, history: History) -> TrainConfig:
    """How one of several kinds is trained: from a start of its own, in its share of the time, with its checkpoint."""
    left = None
    if config.time_limit is not None:
        left = max(config.time_limit - history.seconds, 1e-3) / (n_kinds - place)
    folder = config.checkpoint_dir
    if folder is not None and place:
        folder = str(Path(folder) / f"kind-{place}")
    return replace(config, seed=config.seed + place, time_limit=left, checkpoint_dir=folder)


def add_history(history: History, part: History, place: int) -> None:
    """Append what happened to one kind."""
    history.records += [record | {"kind": float(place)} for record in part.records]
    history.steps += part.steps
    history.rows += part.rows
    history.seconds += part.seconds
    history.best_step = max(history.best_step, part.best_step)
    history.stopped = part.stopped


# --- a table ---


@dataclass(frozen=True)
class Table:
    """What is to be fitted: rows as tensors, those of the user's own validation if any, and the user's columns."""

    inputs: TabularInputs
    data: Rows
    frame: pd.DataFrame | None
    valid: Rows | None = None
    valid_frame: pd.DataFrame | None = None
    groups: NDArray[np.int64] | None = None
    n_grades: int | None = None
    unit: float = 1.0
    """Length of [0, 1] in the user's units."""


@dataclass(frozen=True)
class Core:
    """A fitted table: priors, networks, and the distribution of every row by networks that have not seen it."""

    priors: FittedPriors
    model: CrossFitted
    history: History
    out_of_fold: Tensor


def fit_table(
    table: Table,
    prior: Any,
    kinds: Sequence[str],
    n_folds: int | str,
    n_increments: int | str,
    config: TrainConfig,
    fingerprint: str = "",
    tracking: Tracking | None = None,
    device: torch.device | None = None,
    max_folds: int = 5,
) -> Core:
    """Fit priors, place the borders, and train kinds of networks on rows that each is held out from once."""
    data, started = table.data, time.monotonic()
    held = choose_held(table, n_folds, config.seed, max_folds)
    reference = place_borders(table, REFERENCE_INCREMENTS)
    coordinate = reference.coordinate(data.y).numpy()
    weights = None if data.weights is None else data.weights.double().numpy()
    folds = prior_folds(held[:, : len(data)], config.seed)
    rows = PriorRows(data.inputs, table.frame)
    known = prior if len(reference) else ()  # nothing needs to be known of a target that is always the same
    until = None if config.time_limit is None else started + PRIORS_SHARE * config.time_limit
    even = data.y.double().numpy()
    with LINEAR_ALGEBRA.hold(torch.get_num_threads()):  # scipy's own threads do not ask torch how many
        priors, seen = fit_priors(known, rows, coordinate, weights, folds, config.seed, until, config.verbose, even)
    places = seen[:, ::2].copy()
    places[:, priors.are_even] = reference.coordinate(torch.from_numpy(places[:, priors.are_even])).numpy()
    count = count_increments(places, coordinate) if n_increments == "auto" else int(n_increments)
    borders = place_borders(table, count)
    joined = with_prior(data, seen)
    if table.valid is not None:
        said = priors.predict(PriorRows(table.valid.inputs, table.valid_frame))
        joined = join_rows(joined, with_prior(table.valid, said))
    positions = [borders.middles if is_even else reference.positions(borders) for is_even in priors.are_even]
    where = torch.tensor(np.reshape(positions, (len(positions), len(borders))), dtype=torch.float32)
    problem = Problem(joined.to(device or torch.device("cpu")), held, borders, where, table.unit)
    if config.time_limit is not None:
        config = replace(config, time_limit=max(config.time_limit - (time.monotonic() - started), 1e-3))
    if not problem.is_scored:
        config = replace(config, max_steps=min(config.max_steps, UNSCORED_STEPS))
    made = [(KINDS[kind][0], turned(config, KINDS[kind][1])) for kind in kinds]
    run = name_folds(fingerprint, held, problem.data)
    model, history, pooled = fit_cross_fitted(table.inputs, problem, made, run, tracking)
    return Core(priors, model, history, recalibrated(pooled, model.recalibration, model.widths).cpu())


def name_folds(fingerprint: str, held: Held, data: Rows) -> str:
    """Names who is held out, too, so that no checkpoint goes on with rows that its networks have learned from."""
    if not fingerprint:
        return ""
    return fingerprint + hashlib.sha256(held.tobytes() + data.y.cpu().numpy().tobytes()).hexdigest()


def turned(config: TrainConfig, factors: dict[str, float]) -> TrainConfig:
    """How a kind is trained: settings times its factors; counts stay whole and at least 1.

    >>> turned(TrainConfig(batch_size=25), {"batch_size": 1 / 2}).batch_size
    12
    """
    values = {name: getattr(config, name) * factor for name, factor in factors.items()}
    whole = {name: max(round(value), 1) for name, value in values.items() if isinstance(getattr(config, name), int)}
    return replace(config, **(values | whole))


def place_borders(table: Table, n_increments: int) -> Borders:
    """A step for each border between grades, or borders where the values are."""
    if table.n_grades is not None:
        return grade_borders(table.n_grades)
    weights = None if table.data.weights is None else table.data.weights.numpy()
    return Borders.place(table.data.y.double().numpy(), n_increments, weights)


def choose_held(table: Table, n_folds: int | str, seed: int, most: int = 5) -> Held:
    """Which rows each network is held out from: K parts, fewer where rows abound, or the user's validation rows.

    ``most`` is K where it is to be chosen and rows are few.
    """
    n_rows = len(table.data)
    if table.valid is not None:
        held = np.zeros((N_BESIDE_VALIDATION, n_rows + len(table.valid)), dtype=bool)
        held[:, n_rows:] = True
        return held
    n_parts = n_rows if table.groups is None else int(table.groups.max()) + 1
    if n_folds == "auto":
        if n_parts < MIN_FOLDED:
            return np.zeros((1, n_rows), dtype=bool)
        if n_rows >= LARGE:
            parts = hold_out(n_rows, max(HOLD_OUT_PARTS, n_rows // MAX_HELD), seed, table.groups)
            return parts[:1]
        n_folds = min(most if n_rows < SMALL else max(math.ceil(most / 2), 2) if n_rows < MEDIUM else 2, n_parts)
    if int(n_folds) > n_parts:
        thing = "rows" if table.groups is None else "groups"
        raise UserError(
            f"n_folds must be at most the number of {thing}, {n_parts}, but got n_folds={n_folds}; pass fewer folds"
        )
    return hold_out(n_rows, int(n_folds), seed, table.groups)


def prior_folds(held: Held, seed: int) -> NDArray[np.int64]:
    """The fold in which priors are held out from each row: that of the networks, where each row has one.

    **Shape:** ``(K, n)`` -> ``(n,)``.
    """
    if len(held) > 1 and held.any(axis=0).all():
        return np.asarray(held.argmax(axis=0), dtype=np.int64)
    n_rows = held.shape[1]
    return np.asarray(np.random.default_rng(seed).permutation(n_rows) % min(N_PRIOR_FOLDS, n_rows))


def with_prior(rows: Rows, said: NDArray[np.float32]) -> Rows:
    """Rows with what priors say as a further input."""
    return replace(rows, inputs=(*rows.inputs, torch.from_numpy(np.ascontiguousarray(said))))


def join_rows(first: Rows, second: Rows) -> Rows:
    """Rows of two tables, one below the other."""
    weights = None
    if first.weights is not None:
        of_second = torch.ones(len(second)) if second.weights is None else second.weights
        weights = torch.cat([first.weights, of_second])
    inputs = tuple(torch.cat(pair) for pair in zip(first.inputs, second.inputs, strict=True))
    return Rows(inputs, torch.cat([first.y, second.y]), weights, torch.cat([first.keys, second.keys]))


def count_increments(places: NDArray[np.floating], coordinate: NDArray[np.floating]) -> int:
    """Intervals so narrow that several lie within the mean error of the best prior.

    **Shape:** places ``(n, P)``, coordinate ``(n,)``.

    >>> count_increments(np.full((4, 1), 0.5), np.array([0.49, 0.51, 0.48, 0.52]))
    200
    """
    if not places.shape[1]:
        return FEWEST_INCREMENTS
    error = float(np.abs(places - coordinate[:, None]).mean(axis=0).min())
    return int(np.clip(round(PER_ERROR / max(error, 1e-6)), FEWEST_INCREMENTS, MOST_INCREMENTS))
