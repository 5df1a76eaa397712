"""Encoders that every method shares, and the inputs they read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from diffor.core.registry import Registry
from diffor.encoders.tabular.inputs import TabularInputs
from diffor.encoders.tabular.networks import TabularEncoder
from diffor.errors import UserError

if TYPE_CHECKING:
    from diffor.encoders.images.inputs import ImageInputs as ImageInputs
    from diffor.encoders.images.networks import IMAGE_ENCODERS as IMAGE_ENCODERS

_OWN: dict[str, Callable[..., TabularEncoder]] = {
    "plain": partial(TabularEncoder, embedding="none"),
    "periodic": partial(TabularEncoder, embedding="periodic"),
    "piecewise": partial(TabularEncoder, embedding="piecewise"),
}
ENCODERS = Registry(
    "diffor.encoders", _OWN, lambda name, thing: "" if callable(thing) else f"it must make an encoder, not be {thing!r}"
)
"""Encoders by name, those of installed packages (entry points of ``diffor.encoders``) among them: scaled numbers and
category embeddings in a multilayer perceptron; with ``periodic``, each number is described by trainable waves, with
``piecewise`` also by how far it fills pieces of its range."""


def make_tabular_encoder(name: str, inputs: TabularInputs, width: int, n_layers: int, dropout: float) -> TabularEncoder:
    """Build the encoder that a name stands for, for the columns that were found."""
    if name not in ENCODERS:
        from diffor.encoders.images.networks import TIMM, all_image_encoders

        raise UserError(
            f"encoder must be one of auto, {', '.join(ENCODERS)}, or, for images, {', '.join(all_image_encoders())}, "
            f"{TIMM}NAME or a network, but got encoder={name!r}"
        )
    return ENCODERS[name](
        inputs.n_numbers,
        inputs.category_sizes,
        tables=inputs.tables,
        edges=inputs.number_edges,
        width=width,
        n_layers=n_layers,
        dropout=dropout,
    )


_HOMES = {"IMAGE_ENCODERS": "diffor.encoders.images.networks", "ImageInputs": "diffor.encoders.images.inputs"}


def __getattr__(name: str) -> Any:
    """Import what is for images when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "ENCODERS",
    "IMAGE_ENCODERS",
    "ImageInputs",
    "TabularEncoder",
    "TabularInputs",
    "make_tabular_encoder",
]
