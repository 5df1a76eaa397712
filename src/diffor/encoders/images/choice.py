"""Which network reads images, by what an estimator is given: a name or a network, weights, options, and how to read.

A choice is kept by an estimator; it makes the networks when they are to learn, and makes them again, without their
first weights, when a saved model is loaded.
"""

from __future__ import annotations

import inspect
from copy import deepcopy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import nn

from diffor.core.method import Encoder
from diffor.encoders.images.inputs import ImageInputs
from diffor.encoders.images.networks import TIMM, ImageEncoder, all_image_encoders, make_image_encoder
from diffor.errors import UserError, did_you_mean

NETWORK = "network"
"""What settings call an encoder that is a network of the user's."""
SMALL_SIDE = 64
"""Pixels that the small network is meant for."""
_SET_ELSEWHERE = ("backbone", "freeze", "weights")


def reads_images(encoder: str | nn.Module) -> bool:
    """Whether an estimator's encoder is one of images rather than of tables.

    >>> reads_images("resnet50"), reads_images("timm:vit_tiny_patch16_224"), reads_images("periodic")
    (True, True, False)
    """
    if isinstance(encoder, nn.Module):
        return True
    return encoder == NETWORK or encoder in all_image_encoders() or encoder.startswith(TIMM)


def _check_names(what: str, given: dict[str, Any], known: list[str]) -> None:
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise UserError(f"{what} must be among {', '.join(known) or 'none'}, but got {name!r}{hint}")


@dataclass(frozen=True)
class ImageChoice:
    """A network of images as it was asked for: ``encoder`` is a name, or a network that is copied for each use.

    >>> ImageChoice("small", settings={"n_channels": 8}).make(width=16).out_features
    16
    """

    encoder: str | nn.Module
    weights: str | Path | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    freeze: bool = False

    def __post_init__(self) -> None:
        _check_names("encoder_settings", self.settings, self._known_settings())
        if isinstance(self.encoder, nn.Module) and self.weights is not None:
            raise UserError("encoder_weights are for encoders by name, but the encoder is a network; fill it before")

    def _known_settings(self) -> list[str]:
        """Options that the encoder takes; one that is an Encoder already takes none."""
        if isinstance(self.encoder, Encoder):
            return []
        maker = None if isinstance(self.encoder, nn.Module) else all_image_encoders().get(self.encoder)
        of_maker = inspect.signature(maker).parameters if maker else ()
        networks = [inspect.signature(part).parameters for part in getattr(maker, "args", ()) if callable(part)]
        names = [*of_maker, *(name for own in networks for name in own), *inspect.signature(ImageEncoder).parameters]
        return [name for name in dict.fromkeys(names) if name not in (*_SET_ELSEWHERE, "options")]

    @property
    def has_weights(self) -> bool:
        """Whether the network starts from weights that were learned."""
        return isinstance(self.encoder, nn.Module) or self.weights is not None or self.encoder == "efficientnet-lite0"

    def inputs(self, settings: dict[str, Any]) -> ImageInputs:
        """How images are read, with these settings in place of the defaults."""
        _check_names("image_settings", settings, [one.name for one in fields(ImageInputs)])
        side = {"side": SMALL_SIDE} if self.encoder == "small" else {}
        return ImageInputs(**{**side, **settings})

    def make(self, *, fill: bool = True, **options: Any) -> Encoder:
        """The network, its first weights from their file; with ``fill=False`` random, where others will replace them.

        ``options`` stand behind those that were asked for.
        """
        if isinstance(self.encoder, Encoder):
            return deepcopy(self.encoder)
        chosen = {**options, **self.settings}
        if isinstance(self.encoder, nn.Module):
            return make_image_encoder(deepcopy(self.encoder), freeze=self.freeze, **chosen)
        if not fill:
            chosen = {"fix_statistics": self.has_weights, **chosen}
            encoder = make_image_encoder(self.encoder, weights=None, **chosen)
            if self.freeze and isinstance(encoder, ImageEncoder):
                encoder.freeze_backbone()
            return encoder
        if self.weights is not None:
            chosen["weights"] = self.weights
        return make_image_encoder(self.encoder, freeze=self.freeze, **chosen)
