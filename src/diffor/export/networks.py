"""Encoders and denoisers as parts of a program: the same layers, without what only training needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diffor.diffusion.networks import Denoiser, MLPDenoiser, TransformerDenoiser, time_waves
from diffor.encoders.tabular import (
    GUIDE_SPREAD_SCALE,
    N_GUIDE_STEPS,
    GuideEncoder,
    PeriodicEmbedding,
    PiecewiseEmbedding,
    TabularEncoder,
)
from diffor.export.graph import Graph, Value
from diffor.export.refusal import ExportError
from diffor.method import Encoder

Array = NDArray[Any]
Denoise = Callable[[Value, int], Value]
"""What a denoiser answers to noisy increments of all samples, ``(n * m, S)``, at a time."""


def as_array(tensor: Tensor) -> Array:
    """A weight as numbers."""
    array: Array = tensor.detach().cpu().numpy()
    return array


def linear(value: Value, layer: nn.Linear) -> Value:
    """A layer. **Shape:** ``(n, d)`` -> ``(n, w)``."""
    bias = np.zeros(layer.out_features) if layer.bias is None else as_array(layer.bias)
    return value.linear(as_array(layer.weight), bias)


# --- encoders ---


def encode(
    graph: Graph, encoder: Encoder, numbers: Value, codes: list[Value], guide: Value | None, n_numbers: int
) -> Value:
    """Features of rows. **Shape:** numbers ``(n, p)``, codes c times ``(n,)``, guide ``(n, 2)`` -> ``(n, d)``."""
    if isinstance(encoder, GuideEncoder) and guide is not None:
        code = code_guide(graph, guide)
        return graph.concat([_layers(encoder.layers, code), code])
    if not isinstance(encoder, TabularEncoder):
        raise ExportError(
            f"encoders must read tables to be exported, however: {type(encoder).__name__}; export a model of a table, "
            "such as of the features that diffor embed writes"
        )
    parts = _describe_numbers(graph, encoder.numbers, numbers) if n_numbers else []
    parts += [
        graph.constant(as_array(table.weight)).take(column, axis=0)  # type: ignore[arg-type]
        for table, column in zip(encoder.categories, codes, strict=True)
    ]
    shown = [code_guide(graph, guide)] if encoder.is_guided and guide is not None else []
    joined = graph.concat([*parts, *shown]) if parts or shown else numbers.sum(1, keepdims=True)
    return graph.concat([_layers(encoder.layers, joined), *shown])


def _layers(layers: nn.Sequential, value: Value) -> Value:
    for layer in layers:
        if isinstance(layer, nn.Linear):
            value = linear(value, layer)
        elif isinstance(layer, nn.SiLU):
            value = value.silu()
    return value  # dropout drops nothing in use


def _describe_numbers(graph: Graph, embedding: nn.Module, numbers: Value) -> list[Value]:
    if isinstance(embedding, PeriodicEmbedding):
        return [_waves(graph, embedding, numbers)]
    if isinstance(embedding, PiecewiseEmbedding):
        lower, length, least, most = (
            graph.constant(as_array(getattr(embedding, name))) for name in ("lower", "length", "least", "most")
        )
        filled = (numbers.take(as_array(embedding.column)) - lower) / length
        return [graph.apply("Min", graph.apply("Max", filled, least), most), numbers]
    return [numbers]


def _waves(graph: Graph, embedding: PeriodicEmbedding, numbers: Value) -> Value:
    """Sines and cosines of each number, mixed. **Shape:** ``(n, p)`` -> ``(n, p * out)``."""
    n_numbers = len(embedding.frequencies)
    columns = numbers.transpose(1, 0).reshape(n_numbers, -1, 1)  # (p, n, 1): each column has a matrix of its own
    angles = columns * (2 * math.pi) * graph.constant(as_array(embedding.frequencies)[:, None])  # (p, n, f)
    waves = graph.concat([graph.apply("Sin", angles), graph.apply("Cos", angles), columns], axis=2)
    mixed = waves @ graph.constant(as_array(embedding.mixing)) + graph.constant(as_array(embedding.bias)[:, None])
    return mixed.transpose(1, 0, 2).reshape(-1, n_numbers * embedding.out).silu()


def code_guide(graph: Graph, guide: Value) -> Value:
    """The guide's place as a thermometer, and its spread. **Shape:** ``(n, 2)`` -> ``(n, 33)``."""
    steps = graph.constant(np.arange(N_GUIDE_STEPS, dtype=np.float32))
    place = (guide.take([0]) * float(N_GUIDE_STEPS) - steps).clip(0.0, 1.0) * 2.0 - 1.0
    return graph.concat([place, guide.take([1]) * GUIDE_SPREAD_SCALE])


# --- denoisers ---


def denoise_rows(denoiser: Denoiser, features: Value, n_samples: int) -> Denoise:
    """A denoiser for the samples of rows with these features, which are looked at once for the whole chain."""
    if isinstance(denoiser, MLPDenoiser):
        of_rows = linear(features, denoiser.from_features)
        return lambda noisy, t: _perceptron(denoiser, _conditions(denoiser, of_rows, t), noisy, n_samples)
    if isinstance(denoiser, TransformerDenoiser):
        of_rows = linear(features, denoiser.from_features)
        return lambda noisy, t: _transformer(denoiser, _conditions(denoiser, of_rows, t), noisy, n_samples)
    raise ExportError(f"denoisers must be mlp or transformer to be exported, however: {type(denoiser).__name__}")


@torch.no_grad()
def _conditions(denoiser: Denoiser, of_rows: Value, t: int) -> Value:
    """What features and time say together. **Shape:** ``(n, width)``, kept."""
    time = torch.tensor(t, device=denoiser.from_time.weight.device)
    described = denoiser.from_time(time_waves(time, denoiser.n_waves))
    return of_rows + of_rows.graph.constant(as_array(described))


def _perceptron(denoiser: MLPDenoiser, conditions: Value, noisy: Value, n_samples: int) -> Value:
    """The residual perceptron. **Shape:** ``(n * m, S)``, kept."""
    width = denoiser.to_output.in_features
    projected = noisy @ noisy.graph.constant(np.ascontiguousarray(as_array(denoiser.from_noisy.weight).T))
    hidden = projected.reshape(-1, n_samples, width) + conditions.reshape(-1, 1, width)
    hidden = hidden.reshape(-1, width)
    for block in denoiser.blocks:
        hidden = linear(hidden.normed(width).silu(), block.linear) + hidden  # type: ignore[arg-type]
    return linear(hidden.normed(width).silu(), denoiser.to_output)


def _transformer(denoiser: TransformerDenoiser, conditions: Value, noisy: Value, n_samples: int) -> Value:
    """Attention among the scales of each sample. **Shape:** ``(n * m, S)``, kept."""
    graph, (n_scales, width) = noisy.graph, denoiser.scales.shape
    tokens = linear(noisy.reshape(-1, 1), denoiser.from_noisy).reshape(-1, n_samples, n_scales, width)
    tokens = tokens + graph.constant(as_array(denoiser.scales)) + conditions.reshape(-1, 1, 1, width)
    tokens = tokens.reshape(-1, width)  # (n * m * S, width)
    for layer in denoiser.layers.layers:
        assert isinstance(layer, nn.TransformerEncoderLayer)
        tokens = _attend(layer.self_attn, _normed(layer.norm1, tokens), n_scales) + tokens
        widened = graph.apply("Gelu", linear(_normed(layer.norm2, tokens), layer.linear1))
        tokens = linear(widened, layer.linear2) + tokens
    last = denoiser.layers.norm
    assert isinstance(last, nn.LayerNorm)
    return linear(_normed(last, tokens), denoiser.to_output).reshape(-1, n_scales)


def _normed(norm: nn.LayerNorm, tokens: Value) -> Value:
    return tokens.normed(norm.normalized_shape[0], as_array(norm.weight), as_array(norm.bias))


def _attend(attention: nn.MultiheadAttention, tokens: Value, n_tokens: int) -> Value:
    """Self-attention among ``n_tokens`` tokens at a time. **Shape:** ``(N * n_tokens, width)``, kept."""
    n_heads, size = attention.num_heads, attention.head_dim
    assert attention.in_proj_weight is not None
    assert attention.in_proj_bias is not None
    weights = zip(as_array(attention.in_proj_weight).reshape(3, -1, n_heads * size),
                  as_array(attention.in_proj_bias).reshape(3, -1), strict=True)  # fmt: skip
    query, key, value = (
        tokens.linear(weight, bias).reshape(-1, n_tokens, n_heads, size).transpose(0, 2, *order)
        for (weight, bias), order in zip(weights, ((1, 3), (3, 1), (1, 3)), strict=True)
    )
    shares = tokens.graph.apply("Softmax", (query @ key) * (1 / math.sqrt(size)), axis=-1)
    mixed = (shares @ value).transpose(0, 2, 1, 3).reshape(-1, n_heads * size)
    return linear(mixed, attention.out_proj)
