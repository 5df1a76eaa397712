"""Networks as parts of a program, without what only training needs: encoders, the one call, cross-fitted networks.

They answer with minus their logits, at the knots of the distribution function, so that the largest so far is what makes
the function rise, and its logistic is the function itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from diffor.core.method import Encoder
from diffor.encoders.tabular.fold_networks import LARGEST_LOGIT, LOGIT_OF_NORMAL, FoldNetworks
from diffor.encoders.tabular.networks import PeriodicEmbedding, PiecewiseEmbedding, TabularEncoder
from diffor.export.columns import TableRows
from diffor.export.graph import ExportError, Value
from diffor.methods.diffor.one_call import OneCall

Array = NDArray[Any]
CERTAIN = 30.0
"""Minus the logit of a knot that has everything below it."""


def as_array(tensor: Tensor) -> Array:
    """A weight as numbers."""
    array: Array = tensor.detach().cpu().numpy()
    return array


def linear(value: Value, layer: nn.Linear) -> Value:
    """A layer. **Shape:** ``(n, d)`` -> ``(n, w)``."""
    bias = np.zeros(layer.out_features) if layer.bias is None else as_array(layer.bias)
    return value.linear(as_array(layer.weight), bias)


def at_knots(weights: Array, source: Array, ends: float = 0.0) -> Array:
    """Minus the weights of each knot's increment; below the first and above the last stand ends that are certain.

    **Shape:** ``(..., S)``, source ``(m,)`` -> ``(..., m)``.
    """
    outside = np.full((*weights.shape[:-1], 1), ends)
    return np.asarray(np.concatenate([-outside, -weights, outside], axis=-1)[..., source])


# --- encoders of tables ---


def encode(encoder: Encoder, rows: TableRows) -> Value:
    """Features of rows. **Shape:** -> ``(n, d)``."""
    if not isinstance(encoder, TabularEncoder):
        raise ExportError(
            f"encoders must read tables to be exported, but got {type(encoder).__name__}; export a model of a table, "
            "such as of the features that diffor embed writes"
        )
    graph = rows.graph
    parts = _describe_numbers(encoder.numbers, rows.numbers) if rows.n_numbers else []
    parts += [
        graph.constant(as_array(table.weight)).take(column, axis=0)  # type: ignore[arg-type]
        for table, column in zip(encoder.categories, rows.codes, strict=True)
    ]
    value = graph.concat(parts) if parts else rows.numbers.sum(1, keepdims=True)
    for layer in encoder.layers:  # dropout drops nothing in use
        if isinstance(layer, nn.Linear):
            value = linear(value, layer)
        elif isinstance(layer, nn.SiLU):
            value = value.silu()
    return value


def _describe_numbers(embedding: nn.Module, numbers: Value) -> list[Value]:
    if isinstance(embedding, PeriodicEmbedding):
        return [_waves(embedding, numbers)]
    return [_pieces(embedding, numbers), numbers] if isinstance(embedding, PiecewiseEmbedding) else [numbers]


def _pieces(embedding: PiecewiseEmbedding, numbers: Value) -> Value:
    """How far numbers fill their pieces. **Shape:** ``(n, p)`` -> ``(n, out)``."""
    column, lower, length, least, most = (
        as_array(getattr(embedding, name)) for name in ("column", "lower", "length", "least", "most")
    )
    # A product with ones and zeros is exact, and many times as quick as picking single numbers.
    chosen = np.eye(int(column.max()) + 1, dtype=np.float32)[:, column]
    filled = numbers.linear(chosen.T, -lower) * numbers.graph.constant(1 / length)
    return filled.at_least(numbers.graph.constant(least)).at_most(numbers.graph.constant(most))


def _waves(embedding: PeriodicEmbedding, numbers: Value) -> Value:
    """Sines and cosines of each number, mixed. **Shape:** ``(n, p)`` -> ``(n, p * out)``."""
    graph, n_numbers = numbers.graph, len(embedding.frequencies)
    columns = numbers.transpose(1, 0).reshape(n_numbers, -1, 1)  # (p, n, 1): each column has a matrix of its own
    angles = columns * (2 * math.pi) * graph.constant(as_array(embedding.frequencies)[:, None])  # (p, n, f)
    waves = graph.concat([graph.apply("Sin", angles), graph.apply("Cos", angles), columns], axis=2)
    mixed = waves @ graph.constant(as_array(embedding.mixing)) + graph.constant(as_array(embedding.bias)[:, None])
    return mixed.transpose(1, 0, 2).reshape(-1, n_numbers * embedding.out).silu()


# --- from features to minus logits ---


def ask_once(method: OneCall, features: Value, source: Array) -> Value:
    """What the one call says of every knot. **Shape:** ``(n, d)``, source ``(m,)`` -> ``(n, m)``."""
    weight, bias = at_knots(as_array(method.direct.weight).T, source), as_array(method.direct.bias)
    answer = features.linear(weight.T, at_knots(bias, source, CERTAIN))
    if not len(method.blocks):
        return answer
    layers: Any = method.blocks
    hidden = linear(features, layers[0])
    for norm, first, _, _, second in list(layers)[1:]:
        normed = hidden.normed(as_array(norm.weight), as_array(norm.bias))
        hidden = linear(linear(normed, first).relu(), second) + hidden
    of_hidden = at_knots(as_array(method.out.weight).T, source)
    return hidden.relu().linear(of_hidden.T, np.zeros(len(source))) + answer


# --- cross-fitted networks ---


def ask_folds(networks: FoldNetworks, rows: TableRows, prior: tuple[Value, Value] | None, source: Array) -> Value:
    """What K networks say of every knot. **Shape:** prior twice ``(P, n, 1)``, source ``(m,)`` -> ``(K, n, m)``."""
    inputs = _read_folds(networks, rows)
    hidden = inputs
    for layer in networks.layers:
        value = _through(hidden, as_array(layer.weight), as_array(layer.bias))  # type: ignore[arg-type]
        hidden = [(value.silu(), networks.settings.width)]
    weight, bias = (
        [as_array(getattr(layer, part)) for layer in (networks.out, networks.direct)] for part in ("weight", "bias")
    )
    joined = at_knots(np.concatenate(weight, axis=1), source)
    answer = _through([*hidden, *inputs], joined, at_knots(bias[0] + bias[1], source, CERTAIN))
    if len(bias[0]) == 1:
        answer = answer.reshape(1, -1, len(source))
    if prior is None or not networks.factors.shape[1]:
        return answer
    place, spread = prior
    positions = rows.graph.constant(-at_knots(as_array(networks.positions), source)[:, None].astype(np.float32))
    rate = rows.graph.constant(np.array(LOGIT_OF_NORMAL, dtype=np.float32)) / spread
    said = ((positions - place) * rate).clip(-LARGEST_LOGIT, LARGEST_LOGIT)  # (P, n, m)
    mixed = rows.graph.constant(as_array(networks.factors)) @ said.reshape(networks.factors.shape[1], -1)
    return answer + mixed.reshape(networks.n_folds, -1, len(source))


def _read_folds(networks: FoldNetworks, rows: TableRows) -> list[tuple[Value, int]]:
    """What first layers read, with its width. **Shape:** numbers ``(n, d)``, categories ``(n, d)`` or ``(K, n, d)``."""
    graph, parts = rows.graph, []
    if rows.n_numbers:
        coded = [_pieces(networks.numbers, rows.numbers)] if networks.numbers.out else []
        parts.append((graph.concat([*coded, rows.numbers]), networks.numbers.out + rows.n_numbers))
        parts += _fold_waves(as_array(networks.frequencies)[:, 0], rows)
    tables = [as_array(table) for table in networks.tables]
    if tables:
        is_one = networks.n_folds == 1
        looked_up = [
            graph.constant(table[0] if is_one else table).take(column, axis=0 if is_one else 1)
            for table, column in zip(tables, rows.codes, strict=True)
        ]
        parts.append((graph.concat(looked_up, axis=1 if is_one else 2), sum(table.shape[2] for table in tables)))
    return parts or [(rows.numbers.sum(1, keepdims=True), 0)]


def _fold_waves(frequencies: Array, rows: TableRows) -> list[tuple[Value, int]]:
    """Sines and cosines of each number, with their widths, none where there are none. **Shape:** ``(K, p, waves)``."""
    n_folds, n_numbers, n_waves = frequencies.shape
    if not n_waves:
        return []
    spread = np.zeros((n_folds, n_numbers, n_numbers * n_waves), dtype=np.float32)
    for place in range(n_numbers):
        spread[:, place, place * n_waves : (place + 1) * n_waves] = 2 * np.pi * frequencies[:, place]
    angles = rows.numbers @ rows.graph.constant(spread[0] if n_folds == 1 else spread)
    return [(rows.graph.apply(name, angles), spread.shape[2]) for name in ("Sin", "Cos")]


def _through(parts: list[tuple[Value, int]], weight: Array, bias: Array) -> Value:
    """A layer of each network, from parts side by side.

    **Shape:** ``(K, d, out)`` -> ``(n, out)`` if K is 1, else ``(K, n, out)``.
    """
    graph, read = parts[0][0].graph, [(part, width) for part, width in parts if width]
    if not read:  # every column was constant: one of zeros takes their place
        read, weight = [(parts[0][0], 1)], np.zeros((len(weight), 1, weight.shape[2]))
    if len(weight) == 1:
        return graph.concat([part for part, _ in read]).linear(weight[0].T, bias[0, 0])
    total, first = graph.constant(bias.astype(np.float32)), 0
    for part, width in read:
        own = np.ascontiguousarray(weight[:, first : first + width], dtype=np.float32)
        total, first = part @ graph.constant(own) + total, first + width
    return total
