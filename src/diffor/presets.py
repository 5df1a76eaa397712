"""Presets: named sets of settings, from which any single one can be changed."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from torch import nn

from diffor.cross_fitting import KINDS
from diffor.encoders.image_choice import NETWORK, ImageChoice, reads_images
from diffor.methods import METHODS
from diffor.suggestion import did_you_mean
from diffor.train import TrainConfig

CORE, PAPER = "diffor", "diffor-paper"
"""The methods of the presets: one call on borders, and the paper's chain."""


@dataclass(frozen=True)
class Settings:
    """Everything that shapes a fit; the defaults are the ``balanced`` preset on a table."""

    method: str = CORE
    method_settings: dict[str, Any] = field(default_factory=dict)

    prior: Any = ("trees", "process", "process-ranks")
    kinds: Sequence[str] = ("plain", "advised")
    large_prior: Any = None
    """Priors of tables with many rows, where they are to be others."""
    n_folds: int | str = "auto"
    max_folds: int = 5
    n_increments: int | str = "auto"
    keep_out_of_fold: bool = False

    encoder: str = "auto"
    encoder_width: int = 192
    encoder_layers: int = 2
    encoder_dropout: float | str = "auto"
    encoder_weights: str | Path | None = None
    encoder_settings: dict[str, Any] = field(default_factory=dict)
    image_settings: dict[str, Any] = field(default_factory=dict)
    freeze_backbone: bool = False
    backbone_learning_rate: float | None = None

    transform: str = "uniform"
    n_samples: int = 64
    n_members: int = 1

    max_steps: int = 700
    batch_size: int = 128
    learning_rate: float = 3e-3
    weight_decay: float = 0.02
    warmup_share: float = 0.05
    decay: bool = True
    ema: float = 0.99
    gradient_clip: float = 16.0
    evaluate_every: int = 25
    patience: int = 8
    accumulate: int = 1
    diagnose: bool = False

    @property
    def cross_fits(self) -> bool:
        """Whether tables are answered by cross-fitted networks, rather than by an encoder and a method."""
        return self.method == CORE and (self.encoder == "auto" or self.freeze_backbone) and not self.method_settings

    def for_training(self) -> dict[str, Any]:
        """Arguments of :class:`~diffor.train.TrainConfig`."""
        wanted = {field.name for field in fields(TrainConfig)}
        return {name: value for name, value in asdict(self).items() if name in wanted}


ENCODED: dict[str, Any] = {
    "max_steps": 800,
    "batch_size": 256,
    "learning_rate": 6e-3,
    "weight_decay": 0.0,
    "ema": 0.999,
    "gradient_clip": 1.0,
    "evaluate_every": 50,
    "patience": 6,
}
"""How a method on an encoder is trained, where that is not the paper's way: every method alike."""

PRESETS = {
    # Of many rows ranks tell nothing beside the process on columns: 0 to -.5 % of CRPS without them on seven tables.
    "balanced": Settings(large_prior=("trees", "process")),
    "fast": Settings(
        prior=("trees", "process"), large_prior=("trees",), kinds=("advised",), max_folds=3, encoder_width=96
    ),
    "accurate": Settings(kinds=("plain", "waves", "advised", "slow"), max_folds=10),
    # The paper to the letter, where it is stated. NOTE[DIFF]: it trains for epochs (50 of batch 1024 on tables, 100 of
    # batch 128 on images); a number of steps means the same for every table size. It names no averaging, clipping,
    # warm-up or decay, so there are none.
    "paper": Settings(
        method=PAPER,
        encoder="plain",
        prior=(),
        kinds=(),
        encoder_width=256,
        encoder_dropout=0.1,
        n_samples=1,
        max_steps=4000,
        batch_size=1024,
        learning_rate=5e-4,
        weight_decay=0.0,
        warmup_share=0.0,
        decay=False,
        ema=0.0,
        gradient_clip=float("inf"),
        evaluate_every=100,
    ),
}


SMALL_TABLE = 5000

IMAGE_BATCH = 64
"""Images of a step of fine-tuning; the preset ``paper`` has the paper's 128."""
RATE_WITH_WEIGHTS = 1e-4
"""Learning rate of a network of images that has learned before. One that has not learns at the rate of all others: on
1,000 faces, 200 steps of a small network missed by 11.9 years at 5e-4, 11.4 at 2e-3, 11.0 at 6e-3 (one seed)."""
OF_IMAGES = ("encoder_weights", "encoder_settings", "image_settings", "freeze_backbone", "backbone_learning_rate")
OF_CORE = ("prior", "n_folds", "keep_out_of_fold")


def choose_prior(settings: Settings, n_rows: int) -> Any:
    """The priors of a table with so many rows.

    >>> choose_prior(PRESETS["fast"], 1000), choose_prior(PRESETS["fast"], 100_000)
    (('trees', 'process'), ('trees',))
    """
    is_large = settings.large_prior is not None and n_rows >= SMALL_TABLE
    return settings.large_prior if is_large else settings.prior


def train_on_encoder(settings: Settings, given: dict[str, Any]) -> Settings:
    """Settings for a method on an encoder: the rate and the rest that suit it, save what is given or the paper's.

    >>> train_on_encoder(PRESETS["balanced"], {"max_steps": 10}).learning_rate
    0.006
    """
    if given.get("preset") == "paper":
        return settings
    return replace(settings, **{name: value for name, value in ENCODED.items() if given.get(name) is None})


def adapt_to_images(settings: Settings, given: dict[str, Any]) -> Settings:
    """Settings for training a network of images: smaller batches, and a low rate where it has learned before.

    >>> settings = adapt_to_images(replace(PRESETS["balanced"], encoder="small"), {})
    >>> settings.batch_size, settings.backbone_learning_rate
    (64, None)
    """
    if settings.freeze_backbone:
        return settings
    changed: dict[str, Any] = {}
    if given.get("batch_size") is None:
        changed["batch_size"] = IMAGE_BATCH if settings.batch_size < PRESETS["paper"].batch_size else 2 * IMAGE_BATCH
    if settings.backbone_learning_rate is None and image_choice(settings, given.get("encoder")).has_weights:
        changed["backbone_learning_rate"] = RATE_WITH_WEIGHTS
    return replace(settings, **changed)


def image_choice(settings: Settings, network: Any = None) -> ImageChoice:
    """The network of images that settings name; one of the user's is passed beside them."""
    encoder = network if isinstance(network, nn.Module) else settings.encoder
    return ImageChoice(encoder, settings.encoder_weights, settings.encoder_settings, settings.freeze_backbone)


def _check_images(settings: Settings, given: dict[str, Any]) -> None:
    """Refuse settings of images where there are none, and wrong ones where there are."""
    if not reads_images(settings.encoder):
        default = Settings()
        wrong = [name for name in OF_IMAGES if getattr(settings, name) != getattr(default, name)]
        if wrong:
            raise ValueError(
                f"{wrong[0]} is for encoders of images, however: encoder={settings.encoder!r} reads tables; "
                f"leave {wrong[0]} out or choose an encoder of images"
            )
        return
    image_choice(settings, given.get("encoder")).inputs(settings.image_settings)
    rate = settings.backbone_learning_rate
    if rate is not None and not rate > 0:
        raise ValueError(
            f"backbone_learning_rate must be positive, however: backbone_learning_rate={rate}; "
            "choose freeze_backbone=True for a network that is not to learn"
        )


def choose_dropout(settings: Settings, n_rows: int) -> float:
    """Share of the encoder's values that training hides: as set, or more where rows are few and soon known by heart.

    >>> choose_dropout(PRESETS["balanced"], n_rows=1000), choose_dropout(PRESETS["balanced"], n_rows=100_000)
    (0.3, 0.1)
    """
    if settings.encoder_dropout == "auto":
        return 0.3 if n_rows < SMALL_TABLE else 0.1
    return float(settings.encoder_dropout)


def check_method(settings: Settings) -> None:
    """Refuse a method that does not exist, and settings that its class does not take."""
    if settings.method not in METHODS:
        raise ValueError(
            f"method must be one of {', '.join(METHODS)}, however: method={settings.method!r}"
            + did_you_mean(str(settings.method), METHODS)
        )
    known = [name for name in inspect.signature(METHODS[settings.method]).parameters if name != "n_features"]
    for name in settings.method_settings:
        if name not in known:
            raise ValueError(
                f"method_settings of {settings.method!r} must be among {', '.join(known) or 'none'}, however: {name!r}"
                + did_you_mean(str(name), known)
            )


def _check_core(settings: Settings, given: dict[str, Any]) -> None:
    """Refuse settings of cross-fitted networks where there are none, and wrong ones where there are."""
    if settings.method != CORE:
        left_out = {"prior": "auto", "keep_out_of_fold": False}
        wrong = [name for name in (*OF_CORE, "n_increments") if given.get(name) not in (None, left_out.get(name))]
        if wrong and settings.method == PAPER and wrong[0] == "n_increments":
            raise ValueError(
                "the paper's increments are a setting of its method, however: n_increments is given; "
                'write method_settings={"n_increments": ...}'
            )
        if wrong:
            raise ValueError(
                f"{wrong[0]} is for the method {CORE!r}, however: method={settings.method!r}; leave it out"
            )
    for name, least in (("n_folds", 2), ("n_increments", 1)):
        value = getattr(settings, name)
        if value != "auto" and not (isinstance(value, int) and value >= least):
            raise ValueError(f"{name} must be 'auto' or at least {least}, however: {name}={value!r}")
    for kind in settings.kinds:
        if kind not in KINDS:
            raise ValueError(f"kinds must be among {', '.join(KINDS)}, however: {kind!r}{did_you_mean(kind, KINDS)}")


def resolve_settings(preset: str, given: dict[str, Any]) -> Settings:
    """The preset's settings with the given ones in their place; None and ``auto`` leave it as it is.

    >>> resolve_settings("paper", {"method_settings": {"n_increments": 4}, "width": None}).method_settings
    {'n_increments': 4}
    """
    if preset not in PRESETS:
        hint = did_you_mean(str(preset), PRESETS)
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, however: preset={preset!r}{hint}")
    known = {field.name for field in fields(Settings)}
    changed = {name: value for name, value in given.items() if name in known and value is not None}
    for name in ("encoder", "prior"):
        if isinstance(changed.get(name), nn.Module):
            changed[name] = NETWORK
        elif isinstance(changed.get(name), str) and changed[name] == "auto":
            del changed[name]
    if "prior" in given and given["prior"] is None and PRESETS[preset].method == CORE:
        changed["prior"] = ()
    if "prior" in changed:
        changed["large_prior"] = None
    given = given | {"preset": preset}
    settings = replace(PRESETS[preset], **changed)
    check_method(settings)
    _check_core(settings, given)
    _check_images(settings, given)
    if not settings.cross_fits:
        settings = train_on_encoder(settings, given)
    if reads_images(settings.encoder):
        settings = adapt_to_images(settings, given)
    for name in ("n_samples", "n_members", "max_steps", "batch_size", "evaluate_every", "patience", "accumulate"):
        if not (isinstance(getattr(settings, name), int) and getattr(settings, name) >= 1):
            raise ValueError(f"{name} must be at least 1, however: {name}={getattr(settings, name)}")
    if not settings.learning_rate > 0:
        raise ValueError(f"learning_rate must be positive, however: learning_rate={settings.learning_rate}")
    return settings
