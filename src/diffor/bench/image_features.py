"""Image data sets as tables: features of the pictures by a fixed encoder, computed once and kept in the cache folder.

Methods that are compared on an image data set read the same features, so that they differ in nothing but themselves.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from diffor.datasets import Dataset, Samples
from diffor.datasets.readers.arrow_cache import locked
from diffor.datasets.readers.reading import cache_folder, data_root
from diffor.errors import UserError, did_you_mean
from diffor.files.tables import require_pyarrow

if TYPE_CHECKING:
    from diffor.core.method import Encoder

NONE = "none"
"""In place of an encoder: methods are given the paths and read the pictures themselves."""
UNTRAINED = "small"
"""The one encoder that may do without learned weights: random filters are weak features, but need no file."""
SIDES = {UNTRAINED: 64, "efficientnet-lite0": 160}
"""Pixels of a side where nothing else is asked for; 224 for all other encoders."""
VERSION = 1
"""Raised when the features of an encoder change: older ones are then computed anew."""
FEWEST_FOR_WORKERS = 256
"""Pictures from which on worker processes decode; below, starting them would take longer than the work."""


@dataclass(frozen=True)
class ImageFeatures:
    """How pictures become features: encoder, pixels of a side, pooling of its maps, file of its weights.

    The largest square in the middle of a picture is seen.
    """

    encoder: str
    side: int = 0
    """0 stands for the side that suits the encoder."""
    pooling: str = "mean+max"
    weights: str | None = None
    columns: bool = True
    """Whether the columns beside the pictures stay inputs, too."""

    def facts(self) -> dict[str, Any]:
        """The settings as a result line holds them; of the weights, the name of their file."""
        return asdict(self) | {"weights": None if self.weights is None else Path(self.weights).name}


def default_encoder() -> str:
    """EfficientNet-Lite0 where a package carries its weights, else the small network with random ones."""
    from diffor.encoders.images.efficientnet import packaged_weights

    try:
        packaged_weights()
    except ImportError:
        return UNTRAINED
    return "efficientnet-lite0"


def image_features(given: Mapping[str, Any], where: str = "images") -> ImageFeatures:
    """Settings with what is left open filled in, checked.

    >>> image_features({"encoder": "small"})
    ImageFeatures(encoder='small', side=64, pooling='mean+max', weights=None, columns=True)
    """
    from diffor.encoders.images.networks import IMAGE_ENCODERS, POOLINGS, TIMM

    known, names = [entry.name for entry in fields(ImageFeatures)], (*IMAGE_ENCODERS, NONE)
    for key in given:
        if key not in known:
            raise UserError(f"{where} may hold {', '.join(known)}, but got {key!r}{did_you_mean(key, known)}")
    encoder = default_encoder() if given.get("encoder") is None else given["encoder"]
    found = ImageFeatures(**{**given, "encoder": encoder})
    is_named = isinstance(encoder, str) and (encoder in names or encoder.startswith(TIMM))
    rules = {
        "encoder": (is_named, f"one of {', '.join(names)}, or {TIMM}NAME", did_you_mean(str(encoder), names)),
        "side": (type(found.side) is int and found.side >= 0, "a number of pixels", "; write side = 160"),
        "pooling": (found.pooling in POOLINGS, f"one of {', '.join(POOLINGS)}", ""),
        "columns": (isinstance(found.columns, bool), "true or false", ""),
        "weights": (isinstance(found.weights, (str, type(None))), "a path in quotes", ""),
    }
    for key, (is_right, rule, hint) in rules.items():
        if not is_right:
            raise UserError(f"{key} of {where} must be {rule}, but got {getattr(found, key)!r}{hint}")
    return found if found.side else replace(found, side=SIDES.get(encoder, 224))


# Features.


def with_features(samples: Samples, dataset: Dataset, settings: ImageFeatures, root: str | Path | None) -> Samples:
    """The same samples with features in place of the column of paths; other columns stay, unless told otherwise.

    **Shape:** x ``(n, c)`` -> ``(n, c - 1 + features)``.
    """
    if dataset.image_column is None:
        return samples
    if not settings.columns:
        samples = replace(samples, x=samples.x[[dataset.image_column]])
    if settings.encoder == NONE:
        return samples
    folder = data_root(root, dataset.name)
    paths = [os.path.relpath(path, folder) for path in samples.x[dataset.image_column]]
    names, places = np.unique(paths, return_inverse=True)
    file = embed_dataset(dataset.name, list(names), settings, folder)
    features = pd.read_parquet(file).drop(columns="path").iloc[places].reset_index(drop=True)
    others = samples.x.drop(columns=dataset.image_column).reset_index(drop=True)
    return replace(samples, x=pd.concat([others, features], axis=1))


def embed_dataset(name: str, paths: list[str], settings: ImageFeatures, folder: Path) -> Path:
    """The file of the features of a data set's pictures, made now where the cache does not hold it.

    Its name tells settings and pictures apart, so that a file that exists is right, and is found without a network:
    features by other networks and of data sets below other folders, and pictures that changed.
    """
    cache = cache_folder(folder) / "features"
    require_pyarrow(cache)
    weights = None if settings.weights is None else _state(Path(settings.weights))
    facts = [VERSION, settings.side, settings.pooling, weights, os.path.relpath(folder, cache)]
    encoder = re.sub(r"[^\w.-]", "-", settings.encoder)
    kind = f"{name}-{encoder}-{_digest(facts)}"
    out = cache / f"{kind}-{_digest([(path, *_state(folder / path)) for path in paths])}.parquet"
    if out.exists():
        return out
    from diffor.encoders.images.embedding import embed_images
    from diffor.encoders.images.inputs import ImageInputs

    n_workers = 0 if len(paths) < FEWEST_FOR_WORKERS else None
    with locked(cache):  # cells that run at a time need the same features
        inputs = ImageInputs(side=settings.side, crop=1.0, n_workers=n_workers)
        embed_images(paths, make_encoder(settings), out, inputs=inputs, root=folder, overwrite=True)
        for outdated in set(cache.glob(f"{kind}-*.parquet")) - {out}:
            outdated.unlink()
    return out


def make_encoder(settings: ImageFeatures) -> Encoder:
    """The fixed network; where it has no weights they are random, and the same each time."""
    import torch

    from diffor.encoders.images.networks import make_image_encoder

    options = {"pooling": settings.pooling} | ({} if settings.weights is None else {"weights": settings.weights})
    is_untrained = settings.encoder == UNTRAINED and settings.weights is None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make_image_encoder(settings.encoder, freeze=not is_untrained, **options)


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _digest(content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:8]
