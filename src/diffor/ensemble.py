"""Fitting the members of a model: one after another, with the encoder that validation rows prefer."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from diffor.encoders import TabularInputs, make_tabular_encoder
from diffor.method import OrdinalEnsemble, OrdinalModel
from diffor.methods import METHODS
from diffor.prediction import Prediction
from diffor.presets import Settings, count_members
from diffor.target import GradeScale, TargetScale
from diffor.train import History, Rows, TrainConfig, predict_in_chunks, train

MAX_VALID_ROWS = 2048
"""Rows that an evaluation during training reads at most: more cost time and hardly change which step is best."""
MIN_CALIBRATION_ROWS = 20
ENCODER_CANDIDATES = ("periodic", "plain")
"""What ``encoder="auto"`` tries, in this order; a single member takes the first."""
CLEARLY_WORSE = 1.05
"""An encoder is left out where its members' validation score is this many times that of the best."""


@dataclass(frozen=True)
class Member:
    """A trained model with the name of its encoder and what happened in training."""

    model: OrdinalModel
    encoder: str
    history: History


class ValidationScore:
    """Mean CRPS on validation rows, in the user's units: what early stopping and calibration minimise."""

    def __init__(
        self, rows: Rows, y: NDArray[np.floating], scale: TargetScale | GradeScale, n_samples: int = 32
    ) -> None:
        # Tables are often sorted, so a part of them is drawn, not cut off.
        chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:MAX_VALID_ROWS])
        self.rows = rows.take(torch.from_numpy(chosen).to(rows.y.device))
        self.y, self.scale, self.n_samples = y[chosen], scale, n_samples
        self.weights = None if self.rows.weights is None else self.rows.weights.cpu().numpy()

    def predict(self, model: OrdinalModel | OrdinalEnsemble) -> Prediction:
        """Predictions of the validation rows in [0, 1]."""
        return predict_in_chunks(model, self.rows, self.n_samples)

    def of(self, prediction: Prediction) -> float:
        """Score of predictions in [0, 1] of the validation rows."""
        return float(np.average(prediction.map(self.scale.from_unit).crps(self.y), weights=self.weights))

    def __call__(self, model: OrdinalModel | OrdinalEnsemble) -> float:
        """Score of a model."""
        return self.of(self.predict(model))


def make_member(encoder_name: str, inputs: TabularInputs, settings: Settings, seed: int) -> OrdinalModel:
    """A model with random weights that the seed determines."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = make_tabular_encoder(
            encoder_name, inputs, settings.encoder_width, settings.encoder_layers, settings.encoder_dropout
        )
        return OrdinalModel(encoder, METHODS["diffor"](encoder.out_features, **settings.for_method()))


def fit_ensemble(
    inputs: TabularInputs,
    settings: Settings,
    data: Rows,
    score: ValidationScore | None,
    config: TrainConfig,
    fingerprint: str = "",
) -> tuple[OrdinalEnsemble, list[str], History]:
    """Train the members, leave out what validation rows reject, and calibrate those that remain together."""
    started = time.monotonic()
    count, members = count_members(settings, len(data)), list[Member]()
    for place in range(count):
        encoder = choose_encoder(settings.encoder, members, has_score=score is not None)
        model = make_member(encoder, inputs, settings, config.seed + place).to(data.y.device)
        model.method.prepare(data.y)
        own = member_config(config, place, count, time.monotonic() - started)
        history = train(model, data, score, own, f"{fingerprint} {encoder}")
        if score is not None:
            calibrate_method(model, score)
        members.append(Member(model, encoder, history))
        if history.stopped in ("interrupted", "time limit") and place + 1 < count:
            spent = config.time_limit is not None and time.monotonic() - started >= config.time_limit
            if spent or history.stopped == "interrupted":
                break
    kept = keep_better(members) if settings.encoder == "auto" else members
    ensemble = OrdinalEnsemble([member.model for member in kept]).eval()
    if score is not None and settings.calibrate and len(score.rows) >= MIN_CALIBRATION_ROWS:
        ensemble.dispersion.fill_(fit_dispersion(score.predict(ensemble), score))
    return ensemble, [member.encoder for member in kept], join_histories(members, ensemble, score)


def choose_encoder(name: str, members: list[Member], has_score: bool) -> str:
    """The encoder of the next member: each candidate once, then the one that has scored best."""
    if name != "auto":
        return name
    if not has_score:
        return ENCODER_CANDIDATES[0]
    if len(members) < len(ENCODER_CANDIDATES):
        return ENCODER_CANDIDATES[len(members)]
    return min(members, key=best_score).encoder


def keep_better(members: list[Member]) -> list[Member]:
    """The members whose encoder is not clearly worse than the best."""
    limit = min(best_score(member) for member in members) * CLEARLY_WORSE
    kinds = {member.encoder for member in members}
    good = {kind for kind in kinds if min(best_score(member) for member in members if member.encoder == kind) <= limit}
    return [member for member in members if member.encoder in good]


def best_score(member: Member) -> float:
    """Best validation score that a member reached, or 0 where nothing was validated."""
    return member.history.best_score or 0.0


def member_config(config: TrainConfig, place: int, count: int, elapsed: float) -> TrainConfig:
    """The member's own seed, folder and share of the time that is left."""
    time_limit = None
    if config.time_limit is not None:
        time_limit = max((config.time_limit - elapsed) / (count - place), 0.01)
    folder = None if config.checkpoint_dir is None else str(Path(config.checkpoint_dir) / f"member-{place}")
    title = config.title if count == 1 else f"{config.title} {place + 1}/{count}"
    return replace(config, seed=config.seed + place, time_limit=time_limit, checkpoint_dir=folder, title=title)


@torch.inference_mode()
def calibrate_method(model: OrdinalModel, score: ValidationScore) -> None:
    """Show the method the validation rows."""
    model.method.calibrate(model.features(score.rows.inputs), score.rows.y, score.rows.keys, score.n_samples)


def fit_dispersion(prediction: Prediction, score: ValidationScore) -> float:
    """The factor by which samples must move away from their median for the best validation score."""
    factors = np.r_[1.0, np.geomspace(0.75, 3.0, 25)]
    return float(factors[np.argmin([score.of(prediction.widen(factor, 0.0, 1.0)) for factor in factors])])


def join_histories(members: list[Member], ensemble: OrdinalEnsemble, score: ValidationScore | None) -> History:
    """One history of all members; its best score is that of the members together."""
    records = [
        {"member": float(place), **record} for place, member in enumerate(members) for record in member.history.records
    ]
    best = min(members, key=best_score)
    return History(
        records=records,
        best_step=best.history.best_step,
        best_score=None if score is None else score(ensemble),
        steps=sum(member.history.steps for member in members),
        seconds=sum(member.history.seconds for member in members),
        stopped=members[-1].history.stopped,
    )
