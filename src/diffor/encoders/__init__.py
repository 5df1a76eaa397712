"""Encoders that every method shares, and the inputs they read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from diffor.encoders.guide import Guide
from diffor.encoders.tabular import GuideEncoder, TabularEncoder, TabularInputs

ENCODERS: dict[str, Callable[..., TabularEncoder]] = {
    "plain": partial(TabularEncoder, embedding="none"),
    "periodic": partial(TabularEncoder, embedding="periodic"),
    "piecewise": partial(TabularEncoder, embedding="piecewise"),
}
"""Encoders by name: scaled numbers and category embeddings in a multilayer perceptron; with ``periodic``, each number
is described by trainable waves, with ``piecewise`` also by how far it fills pieces of its range."""


def make_tabular_encoder(
    name: str, inputs: TabularInputs, width: int, n_layers: int, dropout: float, is_guided: bool = False
) -> TabularEncoder | GuideEncoder:
    """Build the encoder that a name stands for, for the columns that were found."""
    if name == "guide":
        return GuideEncoder(width, dropout)
    if name not in ENCODERS:
        raise ValueError(f"encoder must be one of auto, {', '.join(ENCODERS)}, however: encoder={name!r}")
    return ENCODERS[name](
        inputs.n_numbers,
        inputs.category_sizes,
        edges=inputs.number_edges,
        is_guided=is_guided,
        width=width,
        n_layers=n_layers,
        dropout=dropout,
    )


__all__ = ["ENCODERS", "Guide", "TabularEncoder", "TabularInputs", "make_tabular_encoder"]
