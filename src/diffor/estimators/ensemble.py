"""Members of a model, an encoder and a method each: made, fitted together, and what validation rows decide of them."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diffor.core.draws import OwnDraws
from diffor.core.grades import Spread
from diffor.core.method import Encoder, Method, OrdinalEnsemble, OrdinalModel
from diffor.core.prediction import Prediction
from diffor.core.target import GradeScale, TargetScale
from diffor.encoders import TabularInputs, make_tabular_encoder
from diffor.encoders.images.networks import ImageTableEncoder
from diffor.encoders.tabular.networks import WIDE_TABLE
from diffor.estimators.settings import Settings, choose_dropout
from diffor.methods import METHODS
from diffor.training.batches import Batches
from diffor.training.loop import History, Rows, TrainConfig, predict_in_chunks, train
from diffor.training.tracking import Tracking

CHEAP_SAMPLES = 128
"""Samples of a validation row where they cost nothing: few would only round what a method says."""
MAX_VALID_ROWS = 1024
"""Rows that an evaluation during training reads at most: more cost time and hardly change which step is best."""
FINE_SAMPLES = 65_536
"""Samples that choices after training may draw of all validation rows together: a few seconds on one core."""
MakeImages = Callable[..., Encoder]
"""Makes a network of images: ``make_images(width=..., dropout=...)``."""
IMAGES = "images"
"""What is named in place of an encoder of tables where members read images only."""


def make_ensemble(
    encoders: list[str],
    inputs: TabularInputs,
    settings: Settings,
    seed: int,
    n_rows: int = 0,
    make_images: MakeImages | None = None,
) -> OrdinalEnsemble:
    """Members with these encoders for ``n_rows``, with random weights that the seed determines.

    ``make_images`` makes the networks of members that read images; they may have learned before.
    """
    members = []
    with OwnDraws(seed):
        for name in encoders:
            encoder = make_encoder(name, inputs, settings, n_rows, make_images)
            method = METHODS[settings.method](encoder.out_features, **settings.method_settings)
            members.append(OrdinalModel(encoder, method))
    return OrdinalEnsemble(members)


def make_encoder(
    name: str, inputs: TabularInputs, settings: Settings, n_rows: int, make_images: MakeImages | None
) -> Encoder:
    """The encoder of a member: of the table, of images, or of both."""
    dropout = choose_dropout(settings, n_rows)
    images = None if make_images is None else make_images(width=settings.encoder_width, dropout=dropout)
    if images is not None and name == IMAGES:
        return images
    table = make_tabular_encoder(name, inputs, settings.encoder_width, settings.encoder_layers, dropout)
    return table if images is None else ImageTableEncoder(images, table)


def name_encoder(settings: Settings, data: Rows) -> str:
    """The encoder of tables that is named, or one that codes numbers piece by piece unless they are very many."""
    if not data.inputs:
        return IMAGES
    if settings.encoder != "auto" and not settings.reads_images:
        return str(settings.encoder)
    return "plain" if data.inputs[0].shape[1] > WIDE_TABLE else "piecewise"


def fit_ensemble(
    inputs: TabularInputs,
    settings: Settings,
    data: Rows,
    score: ValidationScore | None,
    config: TrainConfig,
    fingerprint: str = "",
    make_images: MakeImages | None = None,
    tracking: Tracking | None = None,
    batches: Batches | None = None,
) -> tuple[OrdinalEnsemble, list[str], History]:
    """Train members side by side until their joint answer is best, and calibrate them; also names their encoders.

    Steps learn from ``batches`` where these are given, of which ``data`` are then a sample.
    """
    encoders = [name_encoder(settings, data)] * settings.n_members
    ensemble = make_ensemble(encoders, inputs, settings, config.seed, len(data), make_images).to(data.y.device)
    for member in ensemble.models:
        member.method.prepare(data.y, data.weights, **data.side)
    history = train(ensemble, data, score, config, fingerprint, tracking, batches)
    if score is not None:
        calibrate(ensemble, score)
    return ensemble, encoders, history


def with_steps(ensemble: OrdinalEnsemble, n_steps: int) -> OrdinalEnsemble:
    """The same members, all weights shared, whose chains have so many steps."""
    members = []
    for member in ensemble.models:
        method: Any = member.method
        shorter: Method = method.with_steps(n_steps)
        members.append(OrdinalModel(member.encoder, shorter))
    return OrdinalEnsemble(members).to(next(ensemble.parameters()).device).eval()


class ValidationScore:
    """Mean CRPS on validation rows, in the user's units: what early stopping minimises."""

    def __init__(
        self, rows: Rows, y: NDArray[np.floating], scale: TargetScale | GradeScale, n_samples: int = 16
    ) -> None:
        # Tables are often sorted, so a part of them is drawn, not cut off.
        chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:MAX_VALID_ROWS])
        self.rows = rows.take(torch.from_numpy(chosen).to(rows.y.device))
        self.y, self.scale, self.n_samples = y[chosen], scale, n_samples
        self.weights = None if self.rows.weights is None else self.rows.weights.cpu().numpy()

    def finer(self) -> ValidationScore:
        """The same with more samples, for choices that few would bias: with few, the score punishes spread itself."""
        other = copy(self)
        other.n_samples = int(np.clip(FINE_SAMPLES // len(self.rows), self.n_samples, 256))
        return other

    def predict(self, model: OrdinalEnsemble) -> Prediction:
        """Predictions of the validation rows in the user's units."""
        return predict_in_chunks(model, self.rows, self.n_samples).map(self.scale.from_unit)

    def __call__(self, model: OrdinalEnsemble) -> float:
        """Score of a model."""
        return float(np.average(self.predict(model).crps(self.y), weights=self.weights))


@torch.inference_mode()
def calibrate(ensemble: OrdinalEnsemble, score: ValidationScore) -> None:
    """Show the validation rows to each member's method, and note how far expected grades are to be moved apart."""
    rows = score.rows
    for member in ensemble.models:
        member.method.calibrate(member.features(rows.inputs), rows.y, rows.keys, score.n_samples, **rows.side)
    if isinstance(score.scale, GradeScale):
        prediction = score.finer().predict(ensemble)
        score.scale.spread = Spread.of(prediction.grade_probabilities(score.scale.n_grades))
