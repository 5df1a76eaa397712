"""Making the members of a model, an encoder and a method each, and fitting them together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diffor.core.draws import OwnDraws
from diffor.core.method import Encoder, Method, OrdinalEnsemble, OrdinalModel
from diffor.encoders import TabularEncoder, TabularInputs, make_tabular_encoder
from diffor.encoders.images.choice import reads_images
from diffor.encoders.images.networks import ImageTableEncoder
from diffor.encoders.tabular.networks import WIDE_TABLE
from diffor.estimators.calibration import ValidationScore, calibrate
from diffor.estimators.settings import Settings, choose_dropout
from diffor.methods import METHODS
from diffor.training.batches import Batches
from diffor.training.loop import History, Rows, TrainConfig, train
from diffor.training.tracking import Tracking

CHEAP_SAMPLES = 128
"""Samples of a validation row where they cost nothing: few would only round what a method says."""
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
    if make_images is None:
        return _make_table_encoder(name, inputs, settings, dropout)
    images = make_images(width=settings.encoder_width, dropout=dropout)
    if name == IMAGES:
        return images
    return ImageTableEncoder(images, _make_table_encoder(name, inputs, settings, dropout))


def _make_table_encoder(name: str, inputs: TabularInputs, settings: Settings, dropout: float) -> TabularEncoder:
    return make_tabular_encoder(name, inputs, settings.encoder_width, settings.encoder_layers, dropout)


def name_encoder(settings: Settings, data: Rows) -> str:
    """The encoder of tables that is named, or one that codes numbers piece by piece unless they are very many."""
    if not data.inputs:
        return IMAGES
    if settings.encoder != "auto" and not reads_images(settings.encoder):
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
    members = [OrdinalModel(member.encoder, _shorter(member.method, n_steps)) for member in ensemble.models]
    return OrdinalEnsemble(members).to(next(ensemble.parameters()).device).eval()


def _shorter(method: Any, n_steps: int) -> Method:
    """A method with a chain of so many steps."""
    changed: Method = method.with_steps(n_steps)
    return changed
