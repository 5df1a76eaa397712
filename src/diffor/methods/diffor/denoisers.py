"""The denoisers by name."""

from __future__ import annotations

from diffor.errors import UserError, check_choice
from diffor.methods.diffor.networks import Denoiser, MLPDenoiser, TransformerDenoiser
from diffor.methods.diffor.scale_heads import ScaleHeadsDenoiser

DENOISERS = ("scale_heads", "transformer", "mlp")
N_ATTENTION_HEADS = 8
"""Attention heads of the standard transformer, where none are named."""


def make_denoiser(
    name: str,
    n_increments: int,
    n_features: int,
    width: int,
    n_layers: int,
    n_attention_heads: int | None,
    dropout: float,
) -> Denoiser:
    """Build the denoiser that a name stands for."""
    check_choice("denoiser", name, DENOISERS)
    if name == "scale_heads" and n_attention_heads not in (None, n_increments):
        raise UserError(
            f"denoiser='scale_heads' has one attention head for each of the {n_increments} increments, but got "
            f"n_attention_heads={n_attention_heads}; change n_increments, or choose denoiser='transformer', "
            "whose width must be a multiple of n_attention_heads"
        )
    if name == "scale_heads":
        return ScaleHeadsDenoiser(n_increments, n_features, width, n_layers, dropout)
    if name == "transformer":
        n_heads = N_ATTENTION_HEADS if n_attention_heads is None else n_attention_heads
        return TransformerDenoiser(n_increments, n_features, width, n_layers, n_heads, dropout)
    return MLPDenoiser(n_increments, n_features, width, n_layers, dropout)
