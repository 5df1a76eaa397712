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
    known = [entry.name for entry in fields(ImageFeatures)]
    for key in given:
        if key not in known:
            raise UserError(f"{where} may hold {', '.join(known)}, but got {key!r}{did_you_mean(key, known)}")
    encoder = given.get("encoder")
    settings = ImageFeatures(**{**given, "encoder": default_encoder() if encoder is None else encoder})
    _check(settings, where)
    return settings if settings.side else replace(settings, side=SIDES.get(settings.encoder, 224))


def _check(settings: ImageFeatures, where: str) -> None:
    from diffor.encoders.images.networks import IMAGE_ENCODERS, POOLINGS, TIMM

    names, encoder = (*IMAGE_ENCODERS, NONE), settings.encoder
    if not isinstance(encoder, str) or (encoder not in names and not encoder.startswith(TIMM)):
        hint = did_you_mean(str(encoder), names)
        raise UserError(f"encoder of {where} must be one of {', '.join(names)}, or {TIMM}NAME, "
                         f"but got {encoder!r}{hint}")  # fmt: skip
    if not isinstance(settings.side, int) or isinstance(settings.side, bool) or settings.side < 0:
        raise UserError(f"side of {where} must be a number of pixels, but got {settings.side!r}; write side = 160")
    if settings.pooling not in POOLINGS:
        raise UserError(f"pooling of {where} must be one of {', '.join(POOLINGS)}, but got {settings.pooling!r}")
    if not isinstance(settings.columns, bool):
        raise UserError(f"columns of {where} must be true or false, but got {settings.columns!r}")
    if not isinstance(settings.weights, (str, type(None))):
        raise UserError(f"weights of {where} must be a path in quotes, but got {settings.weights!r}")


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
    features = _read_features(embed_dataset(dataset.name, list(names), settings, folder))
    others = samples.x.drop(columns=dataset.image_column).reset_index(drop=True)
    return replace(samples, x=pd.concat([others, features.iloc[places].reset_index(drop=True)], axis=1))


def embed_dataset(name: str, paths: list[str], settings: ImageFeatures, folder: Path) -> Path:
    """The file of the features of a data set's pictures, made now where the cache does not hold it.

    Its name tells settings and pictures apart, so that a file that exists is right, and is found without a network.
    """
    cache = cache_folder(folder) / "features"
    require_pyarrow(cache)
    encoder = re.sub(r"[^\w.-]", "-", settings.encoder)
    kind = f"{name}-{encoder}-{_digest_of_settings(settings, folder, cache)}"
    out = cache / f"{kind}-{_digest_of_pictures(paths, folder)}.parquet"
    if not out.exists():
        with locked(cache):  # cells that run at a time need the same features
            _embed(paths, settings, folder, out)
            for outdated in set(cache.glob(f"{kind}-*.parquet")) - {out}:
                outdated.unlink()
    return out


def _embed(paths: list[str], settings: ImageFeatures, folder: Path, out: Path) -> None:
    from diffor.encoders.images.embedding import embed_images
    from diffor.encoders.images.inputs import ImageInputs

    inputs = ImageInputs(side=settings.side, crop=1.0, n_workers=0 if len(paths) < FEWEST_FOR_WORKERS else None)
    embed_images(paths, make_encoder(settings), out, inputs=inputs, root=folder, overwrite=True)


def make_encoder(settings: ImageFeatures) -> Encoder:
    """The fixed network; where it has no weights they are random, and the same each time."""
    import torch

    from diffor.encoders.images.networks import make_image_encoder

    options: dict[str, Any] = {"pooling": settings.pooling}
    if settings.weights is not None:
        options["weights"] = settings.weights
    is_untrained = settings.encoder == UNTRAINED and settings.weights is None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make_image_encoder(settings.encoder, freeze=not is_untrained, **options)


def _digest_of_settings(settings: ImageFeatures, folder: Path, cache: Path) -> str:
    """Tells features by other networks, and of data sets below other folders, apart."""
    weights = None if settings.weights is None else _state(Path(settings.weights))
    return _digest([VERSION, settings.side, settings.pooling, weights, os.path.relpath(folder, cache)])


def _digest_of_pictures(paths: list[str], folder: Path) -> str:
    return _digest([(path, *_state(folder / path)) for path in paths])


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _digest(content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:8]


def _read_features(path: Path) -> pd.DataFrame:
    from pyarrow import parquet

    table = parquet.read_table(path).drop_columns(["path"])
    values = np.stack([column.to_numpy() for column in table.columns], axis=1)
    features: pd.DataFrame = pd.DataFrame(values, columns=table.column_names)
    return features
