"""A student: one small network that answers what priors and many networks answer together, many times as fast.

It learns the survival functions of its teacher by the same cross-entropy, soft instead of hard, and asks no priors.
"""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from diffor.core.method import Inputs
from diffor.encoders.tabular.fold_networks import FoldNetworks, NetworkSettings
from diffor.errors import UserError
from diffor.estimators.base import OrdinalEstimator
from diffor.estimators.cross_fitted import CrossFitted
from diffor.estimators.cross_fitting import make_networks
from diffor.estimators.rows import PassedRows
from diffor.training.loop import Rows, TrainConfig, limit_threads, train

Model = TypeVar("Model", bound=OrdinalEstimator)

MIN_ROWS = 20
"""Fewer rows show too little of what the teacher answers."""
VALID_SHARE = 0.1
"""Share of the rows that the student is compared with the teacher on, to keep its best weights."""
STUDENT = NetworkSettings(n_pieces=16, n_layers=3, width=256, dropout=0.0, uses_priors=False)


@dataclass(frozen=True)
class Lessons:
    """How a student is taught: as the arguments of :meth:`OrdinalEstimator.distill` say."""

    max_rows: int
    max_steps: int
    learning_rate: float

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise UserError(f"max_steps must be at least 1, but got max_steps={self.max_steps}")
        if self.max_rows < MIN_ROWS:
            raise UserError(f"max_rows must be at least {MIN_ROWS}, but got max_rows={self.max_rows}")
        if not self.learning_rate > 0:
            raise UserError(f"learning_rate must be positive, but got learning_rate={self.learning_rate}")


class Pupil(nn.Module):
    """What the training loop sees of a student: its distance from the teacher's answers, a side column ``answers``."""

    n_members = 1
    asks_for_draws = True  # nothing but dropout is random

    def __init__(self, networks: FoldNetworks) -> None:
        super().__init__()
        self.networks = networks

    def forward(self, inputs: Inputs, y: Tensor, weights: Tensor | None, answers: Tensor) -> dict[str, Tensor]:
        """Cross-entropy of the student's survival functions under the teacher's. **Shape:** answers ``(n, S)``."""
        logits = self.networks(inputs)[0]
        errors = nn.functional.binary_cross_entropy_with_logits(logits, answers, reduction="none")
        return {"distance": errors.sum(1).mean()}


def distill(teacher: Model, X: Any, lessons: Lessons, random_state: Any = None, verbose: int | None = None) -> Model:
    """Teach one network what a model's priors and many networks answer to the rows of X."""
    rule = "distill needs a trained model, but this %(name)s is not fitted yet; call fit first"
    check_is_fitted(teacher, "model_", msg=rule)
    model = teacher.model_
    if not isinstance(model, CrossFitted):
        raise UserError(
            "distill is for priors and cross-fitted networks, but this model is an encoder and the method "
            f"{teacher.settings_.method!r}; use it as it is"
        )
    # The student reads rows and names targets as its teacher does.
    student = copy(teacher)
    student.scale_ = deepcopy(teacher.scale_)
    student.priors_ = student.conformal_ = student.out_of_fold_ = None
    student.settings_ = teacher.settings_.but(prior=(), kinds=())
    student.encoders_ = ["student"]
    student.random_state = teacher.random_state if random_state is None else random_state
    student.verbose = teacher.verbose if verbose is None else verbose
    student.seed_ = int(check_random_state(student.random_state).randint(2**31 - 1))
    rows = _draw_rows(teacher.open_rows(X), lessons.max_rows, student.seed_)
    with limit_threads(student.n_jobs):
        answered = _ask(teacher, model, rows)
        networks = make_networks(student.inputs_, 1, torch.zeros(len(model.borders)), [], STUDENT, student.seed_)
        networks.start_at(answered.side["answers"].mean(dim=0))
        _learn(student, networks, answered, lessons)
        student.model_ = CrossFitted(model.borders, [networks] if len(model.borders) else [])
        student.model_.to(student.reader.device).eval()
    return student


def _draw_rows(rows: PassedRows, limit: int, seed: int) -> PassedRows:
    """All rows, or of more than the limit so many of them, in their order; too few are refused."""
    if len(rows) < MIN_ROWS:
        raise UserError(
            f"distill needs at least {MIN_ROWS} rows, but X has {len(rows)}; "
            "pass more, as those that were trained on: they need no targets"
        )
    if len(rows) <= limit:
        return rows
    return rows.select(np.sort(np.random.default_rng(seed).permutation(len(rows))[:limit]))


def _ask(teacher: OrdinalEstimator, model: CrossFitted, rows: PassedRows) -> Rows:
    """The rows as the student reads them, with the teacher's survival functions beside them."""
    reader, parts, answers = teacher.reader, [], []
    for first, block in reader.pieces(rows, "ask the teacher"):
        inputs, _ = reader.tensors(block, first)
        answers.append(model.survival(tuple(part.to(reader.device) for part in inputs)).cpu())
        parts.append(inputs[:2])
    inputs = tuple(torch.cat(columns) for columns in zip(*parts, strict=True))
    keys = torch.zeros(len(rows), dtype=torch.int64)
    return Rows(inputs, torch.zeros(len(rows)), None, keys, {"answers": torch.cat(answers)})


def _learn(student: OrdinalEstimator, networks: FoldNetworks, answered: Rows, lessons: Lessons) -> None:
    """Train on the teacher's answers, and keep the weights that come closest on rows set apart."""
    device = student.reader.device
    rows, pupil = answered.to(device), Pupil(networks).to(device)
    n_valid = max(round(VALID_SHARE * len(rows)), 1)
    order = torch.from_numpy(np.random.default_rng(student.seed_).permutation(len(rows))).to(device)
    training, apart = rows.take(order[n_valid:]), rows.take(order[:n_valid])

    @torch.inference_mode()
    def distance(model: Pupil) -> float:
        said = torch.sigmoid(model.networks(apart.inputs)[0])
        return float((said - apart.side["answers"]).abs().mean())

    config = TrainConfig(
        max_steps=lessons.max_steps,
        learning_rate=lessons.learning_rate,
        ema=0.99,
        gradient_clip=16.0,
        evaluate_every=50,
        patience=20,
        seed=student.seed_,
        verbose=student.verbose,
    )
    student.history_ = train(pupil, training, distance, config)
