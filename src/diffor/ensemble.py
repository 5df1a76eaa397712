"""Making the members of a model and fitting them together."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from diffor.batches import Batches
from diffor.calibration import ValidationScore, calibrate
from diffor.diffusion import IncrementDiffusion
from diffor.encoders import TabularEncoder, TabularInputs, make_tabular_encoder
from diffor.encoders.image_encoders import ImageTableEncoder
from diffor.encoders.tabular import GuideEncoder
from diffor.member_kinds import BESIDE, COARSE, GUIDED, IMAGES, encoder_name, name_encoders, partner_kinds
from diffor.method import Encoder, Method, OrdinalEnsemble, OrdinalModel
from diffor.methods import METHODS
from diffor.presets import Settings, choose_dropout
from diffor.tracking import Tracking
from diffor.train import History, Rows, TrainConfig, train

CHEAP_SAMPLES = 128
"""Samples of a validation row where they cost nothing: few would only round what a method says."""
OWN_SHARE = 0.75
"""Share of a limited time that DiffoR's own members have where a partner is to come."""
MakeImages = Callable[..., Encoder]
"""Makes a network of images: ``make_images(width=..., dropout=...)``."""


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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for kind in encoders:
            encoder = make_encoder(kind, inputs, settings, n_rows, make_images)
            members.append(OrdinalModel(encoder, make_method(settings, encoder.out_features, kind)))
    return OrdinalEnsemble(members)


def make_encoder(
    kind: str, inputs: TabularInputs, settings: Settings, n_rows: int, make_images: MakeImages | None
) -> Encoder:
    """The encoder of a member: of the table, of images, or of both."""
    dropout = choose_dropout(settings, n_rows)
    if make_images is None:
        return _make_table_encoder(kind, inputs, settings, dropout)
    images = make_images(width=settings.encoder_width, dropout=dropout)
    if encoder_name(kind) == IMAGES:
        return images
    return ImageTableEncoder(images, _make_table_encoder(kind, inputs, settings, dropout))


def _make_table_encoder(
    kind: str, inputs: TabularInputs, settings: Settings, dropout: float
) -> TabularEncoder | GuideEncoder:
    return make_tabular_encoder(
        encoder_name(kind),
        inputs,
        settings.encoder_width,
        settings.encoder_layers,
        dropout,
        is_guided=GUIDED in kind,
    )


def make_method(settings: Settings, n_features: int, kind: str) -> Method:
    """The method of a member of this kind: the one that settings name or its partner; only DiffoR's can be coarse."""
    if BESIDE in kind:
        return make_partner(settings, n_features)
    if settings.method != "diffor":
        return METHODS[settings.method](n_features, **settings.method_settings)
    arguments = settings.for_method()
    if COARSE in kind:
        arguments["n_increments"] = settings.n_increments // 2
    return METHODS["diffor"](n_features, **arguments)


def make_partner(settings: Settings, n_features: int) -> Method:
    """The method that stands beside DiffoR; where increments are borders between grades, it is told their number."""
    partner = METHODS[settings.partner]
    if settings.decoding == "cumulative" and "n_grades" in inspect.signature(partner).parameters:
        return partner(n_features, n_grades=settings.n_increments + 1)
    return partner(n_features)


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
    """Train members, keep those that validation rows prefer, and calibrate them; also names their encoders.

    Steps learn from ``batches`` where these are given, of which ``data`` are then a sample.
    """
    has_fineness = settings.method == "diffor" and settings.decoding != "cumulative"
    encoders = name_encoders(settings, data, has_fineness)
    fit = partial(
        train_members, inputs, settings, data, fingerprint=fingerprint, make_images=make_images, batches=batches
    )
    tracking = tracking or Tracking(None)
    ensemble, history = fit(encoders, score, own_part(config, settings.partner), tracking=tracking)
    if settings.partner != "none" and history.stopped != "interrupted":
        beside = partner_kinds(encoders)
        finer = score and score.with_samples(CHEAP_SAMPLES)
        partners, later = fit(beside, finer, partner_part(config, history), tracking=tracking.of("partner"))
        if later.stopped != "interrupted":
            ensemble, encoders = OrdinalEnsemble([*ensemble.models, *partners.models]), encoders + beside
        history.seconds += later.seconds
    if score is not None:
        encoders = calibrate(ensemble, encoders, score, sets_spread=settings.calibrate and has_fineness)
    return ensemble, encoders, history


def train_members(
    inputs: TabularInputs,
    settings: Settings,
    data: Rows,
    encoders: list[str],
    score: ValidationScore | None,
    config: TrainConfig,
    fingerprint: str,
    make_images: MakeImages | None,
    tracking: Tracking,
    batches: Batches | None = None,
) -> tuple[OrdinalEnsemble, History]:
    """Members of these kinds, trained side by side until their joint answer is best."""
    ensemble = make_ensemble(encoders, inputs, settings, config.seed, len(data), make_images).to(data.y.device)
    # Rows of weight zero count as if they were not there; images are not looked at.
    counted = data if data.weights is None else replace(data, images=None).take(data.weights > 0)
    for member in ensemble.models:
        member.method.prepare(counted.y, **counted.side)
    return ensemble, train(ensemble, data, score, config, fingerprint, tracking, batches)


def with_steps(ensemble: OrdinalEnsemble, n_steps: int) -> OrdinalEnsemble:
    """The same members, all weights shared, whose chains have so many steps; a partner has no chain."""
    members = [
        OrdinalModel(member.encoder, member.method.with_steps(n_steps))
        if isinstance(member.method, IncrementDiffusion)
        else member
        for member in ensemble.models
    ]
    other = OrdinalEnsemble(members).to(ensemble.dispersion.device).eval()
    other.dispersion.copy_(ensemble.dispersion)
    return other


def own_part(config: TrainConfig, partner: str) -> TrainConfig:
    """How DiffoR's members are trained: as asked, with most of the time where a partner is to come."""
    if partner == "none" or config.time_limit is None:
        return config
    return replace(config, time_limit=OWN_SHARE * config.time_limit)


def partner_part(config: TrainConfig, history: History) -> TrainConfig:
    """How the partner's members are trained: from another start, in the time that is left, with a checkpoint beside.

    They stop where they are best themselves: a logarithmic loss is learned sooner, and spoiled sooner, than increments.
    """
    left = None if config.time_limit is None else max(config.time_limit - history.seconds, 1e-3)
    folder = None if config.checkpoint_dir is None else str(Path(config.checkpoint_dir) / "partner")
    return replace(config, seed=config.seed + 1, time_limit=left, checkpoint_dir=folder)
