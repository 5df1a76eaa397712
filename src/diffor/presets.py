"""Presets: named sets of settings, from which any single one can be changed."""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from torch import nn

from diffor.baselines.distribution import DistributionMethod
from diffor.diffusion import IncrementDiffusion
from diffor.encoders.image_choice import NETWORK, ImageChoice, reads_images
from diffor.methods import METHODS
from diffor.suggestion import did_you_mean
from diffor.train import TrainConfig


@dataclass(frozen=True)
class Settings:
    """Everything that shapes a fit; the defaults are the ``balanced`` preset."""

    method: str = "diffor"
    method_settings: dict[str, Any] = field(default_factory=dict)
    partner: str = "none"
    encoder: str = "auto"
    guide: bool = True
    encoder_width: int = 192
    encoder_layers: int = 2
    encoder_dropout: float | str = "auto"
    encoder_weights: str | Path | None = None
    encoder_settings: dict[str, Any] = field(default_factory=dict)
    image_settings: dict[str, Any] = field(default_factory=dict)
    freeze_backbone: bool = False
    backbone_learning_rate: float | None = None

    n_increments: int = 8
    process: str = "diffusion"
    n_times: int = 1000
    schedule: str = "cosine"
    parameterization: str = "velocity"
    spacing: str = "linear"
    denoiser: str = "mlp"
    width: int = 128
    n_layers: int = 2
    n_attention_heads: int = 8
    dropout: float = 0.1
    aligned_share: float = 0.5
    increment_weight: float = 10.0
    increment_loss: str = "squared"
    objective: str = "one_call"
    n_draws: int = 4
    decoding: str = "chain"
    chains_per_sample: int = 1
    n_steps: int | None = None
    eta: float = 0.0

    transform: str = "auto"
    n_samples: int = 64
    n_members: int | str = "auto"
    calibrate: bool = True

    max_steps: int = 800
    batch_size: int = 256
    learning_rate: float = 6e-3
    weight_decay: float = 0.0
    warmup_share: float = 0.05
    decay: bool = True
    ema: float = 0.999
    gradient_clip: float = 1.0
    evaluate_every: int = 50
    patience: int = 6
    accumulate: int = 1
    diagnose: bool = False

    def for_method(self) -> dict[str, Any]:
        """Arguments of :class:`~diffor.diffusion.IncrementDiffusion`."""
        wanted = inspect.signature(IncrementDiffusion).parameters
        return {name: value for name, value in asdict(self).items() if name in wanted}

    def for_training(self) -> dict[str, Any]:
        """Arguments of :class:`~diffor.train.TrainConfig`."""
        wanted = {field.name for field in fields(TrainConfig)}
        return {name: value for name, value in asdict(self).items() if name in wanted}


PRESETS = {
    "balanced": Settings(),
    "fast": Settings(
        encoder_width=96,
        width=64,
        n_samples=32,
        n_members=1,
        max_steps=600,
    ),
    "accurate": Settings(partner="auto", n_samples=128, chains_per_sample=3),
    # The paper to the letter, where it is stated. NOTE[DIFF]: it trains for epochs (50 of batch 1024 on tables, 100 of
    # batch 128 on images); a number of steps means the same for every table size. It names no averaging, clipping,
    # warm-up or decay, so there are none.
    "paper": Settings(
        encoder="plain",
        guide=False,
        encoder_width=256,
        encoder_dropout=0.1,
        schedule="linear",
        parameterization="noise",
        denoiser="transformer",
        width=128,
        n_layers=2,
        objective="full",
        n_draws=1,
        transform="uniform",
        decoding="heads",
        n_samples=1,
        n_members=1,
        calibrate=False,
        max_steps=4000,
        batch_size=1024,
        learning_rate=5e-4,
        warmup_share=0.0,
        decay=False,
        ema=0.0,
        gradient_clip=float("inf"),
        evaluate_every=100,
        patience=8,
    ),
}


SMALL_TABLE = 5000


def count_members(settings: Settings, n_rows: int) -> int:
    """Number of members: as set, or more where rows are few and a single network is unsure of itself.

    >>> count_members(PRESETS["balanced"], n_rows=1000), count_members(PRESETS["balanced"], n_rows=100_000)
    (4, 2)
    """
    if settings.n_members == "auto":
        return 4 if n_rows < SMALL_TABLE else 2
    return int(settings.n_members)


MAX_BORDERS = 16
"""Grades with more borders between them than this are treated as values, which need not have an increment for each."""


def adapt_to_grades(settings: Settings, n_grades: int, given: dict[str, Any]) -> Settings:
    """Settings for grades: an increment for each border between them, read as the probability of passing it.

    The presets ``fast``, ``balanced`` and ``accurate`` are adapted where the user has not chosen otherwise.

    >>> adapt_to_grades(PRESETS["balanced"], 5, {}).n_increments, adapt_to_grades(PRESETS["paper"], 5, {}).n_increments
    (4, 8)
    """
    if settings.method != "diffor":
        return settings
    is_free = all(given.get(name) is None for name in ("n_increments", "decoding", "increment_loss"))
    if settings.decoding == "chain" and is_free and 1 < n_grades <= MAX_BORDERS + 1:
        weight = 1.0 if given.get("increment_weight") is None else settings.increment_weight
        settings = replace(
            settings,
            n_increments=n_grades - 1,
            decoding="cumulative",
            increment_loss="cross_entropy",
            increment_weight=weight,
            n_samples=max(settings.n_samples, 256) if given.get("n_samples") is None else settings.n_samples,
        )
    if settings.decoding == "cumulative" and settings.n_increments != n_grades - 1:
        raise ValueError(
            f"decoding='cumulative' needs an increment for each border between grades, {n_grades - 1}, however: "
            f"n_increments={settings.n_increments}; leave n_increments out"
        )
    return settings


IMAGE_BATCH = 64
"""Images of a step of fine-tuning; the preset ``paper`` has the paper's 128."""
IMAGE_DRAWS = 16
"""How often each image of a batch is corrupted: denoiser calls cost little beside those of the network of images."""
RATE_WITH_WEIGHTS = 1e-4
"""Learning rate of a network of images that has learned before. One that has not learns at the rate of all others: on
1,000 faces, 200 steps of a small network missed by 11.9 years at 5e-4, 11.4 at 2e-3, 11.0 at 6e-3 (one seed)."""
OF_IMAGES = ("encoder_weights", "encoder_settings", "image_settings", "freeze_backbone", "backbone_learning_rate")


def adapt_to_images(settings: Settings, given: dict[str, Any]) -> Settings:
    """Settings for training a network of images: smaller batches, one member, a low rate where it has learned before.

    Noise is drawn more often, save where the objective is the paper's. What the user has chosen stays. Features of a
    frozen network are a table, of so many columns that trees would take longer than the network they advise.

    >>> settings = adapt_to_images(replace(PRESETS["balanced"], encoder="small"), {})
    >>> settings.batch_size, settings.n_draws, settings.n_members, settings.backbone_learning_rate
    (64, 16, 1, None)
    """
    if settings.freeze_backbone:
        return settings if given.get("guide") is not None else replace(settings, guide=False)
    changed: dict[str, Any] = {}
    if given.get("batch_size") is None:
        changed["batch_size"] = IMAGE_BATCH if settings.batch_size < PRESETS["paper"].batch_size else 2 * IMAGE_BATCH
    if given.get("n_draws") is None and settings.objective == "one_call":
        changed["n_draws"] = IMAGE_DRAWS
    if settings.n_members == "auto":
        changed["n_members"] = 1
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
    if settings.method == "diffor" and settings.method_settings:
        raise ValueError("method_settings are for other methods, however: method='diffor'; use DiffoRRegressor's own")
    known = [name for name in inspect.signature(METHODS[settings.method]).parameters if name != "n_features"]
    for name in settings.method_settings:
        if name not in known:
            raise ValueError(
                f"method_settings of {settings.method!r} must be among {', '.join(known) or 'none'}, however: {name!r}"
                + did_you_mean(str(name), known)
            )


WIDE_TABLE = 256
"""Of more numbers than this none is embedded: each would become dozens, and so many say enough together."""
PARTNERS = {"value": "mdn", "grades": "cross-entropy", "features": "cross-entropy"}
"""What stands beside DiffoR where ``partner="auto"``: methods with logarithmic losses.

NOTE[DIFF]: the paper has no partner. Pooled with one, each errs where the other does not (LOG.md, "A partner")."""


def partners() -> list[str]:
    """Methods that can stand beside DiffoR: they answer with a distribution and need no further columns."""
    found = ((name, method) for name, method in METHODS.items() if name != "diffor")
    return [name for name, method in found if issubclass(method, DistributionMethod) and not method.requires]


def settle_partner(settings: Settings, n_numbers: int) -> Settings:
    """Settings with the partner's name where it was to be chosen; only DiffoR has one.

    >>> [settle_partner(PRESETS["accurate"], n_numbers).partner for n_numbers in (8, 2560)]
    ['mdn', 'cross-entropy']
    """
    if settings.method != "diffor":
        return replace(settings, partner="none")
    if settings.partner != "auto":
        return settings
    is_wide = n_numbers > WIDE_TABLE or reads_images(settings.encoder)
    kind = "grades" if settings.decoding == "cumulative" else "features" if is_wide else "value"
    return replace(settings, partner=PARTNERS[kind])


def check_partner(settings: Settings) -> None:
    """Refuse a partner that does not exist, or that cannot be one."""
    known = ["none", "auto", *partners()]
    if settings.partner not in known:
        raise ValueError(
            f"partner must be one of {', '.join(known)}, however: partner={settings.partner!r}"
            + did_you_mean(str(settings.partner), known)
        )


def resolve_settings(preset: str, given: dict[str, Any]) -> Settings:
    """The preset's settings with the given ones in their place; None and the encoder ``auto`` leave it as it is.

    >>> resolve_settings("paper", {"n_increments": 4, "width": None}).n_increments
    4
    """
    if preset not in PRESETS:
        hint = did_you_mean(str(preset), PRESETS)
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, however: preset={preset!r}{hint}")
    known = {field.name for field in fields(Settings)}
    changed = {name: value for name, value in given.items() if name in known and value is not None}
    encoder = changed.get("encoder")
    if isinstance(encoder, nn.Module):
        changed["encoder"] = NETWORK
    elif encoder == "auto":
        del changed["encoder"]
    settings = replace(PRESETS[preset], **changed)
    check_method(settings)
    check_partner(settings)
    _check_images(settings, given)
    if reads_images(settings.encoder):
        settings = adapt_to_images(settings, given)
    for name in (
        "n_samples",
        "max_steps",
        "batch_size",
        "width",
        "n_layers",
        "n_attention_heads",
        "evaluate_every",
        "patience",
        "accumulate",
    ):
        if getattr(settings, name) < 1:
            raise ValueError(f"{name} must be at least 1, however: {name}={getattr(settings, name)}")
    if settings.n_members != "auto" and not (isinstance(settings.n_members, int) and settings.n_members >= 1):
        raise ValueError(f"n_members must be 'auto' or at least 1, however: n_members={settings.n_members!r}")
    if not settings.learning_rate > 0:
        raise ValueError(f"learning_rate must be positive, however: learning_rate={settings.learning_rate}")
    return settings
