"""Pairs of rows, counted in O(n log n): the arithmetic behind `xauc`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffor.metrics.checks import FloatArray, IndexArray


def sum_by(codes: IndexArray, values: FloatArray) -> FloatArray:
    """Sum of the values per code 0, 1, ..."""
    return np.bincount(codes, values).astype(np.float64, copy=False)


def _changes(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the rows of sorted keys at which a new combination begins."""
    begins = np.ones(len(keys[0]), np.bool_)
    begins[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return begins


def pair_codes(major: NDArray[Any], minor: NDArray[Any]) -> IndexArray:
    """Number the distinct pairs of keys, major key first."""
    order = np.lexsort((minor, major))
    codes = np.empty(len(order), np.intp)
    codes[order] = np.cumsum(_changes(major[order], minor[order])) - 1
    return codes


def unequal_pairs(outer: IndexArray, inner: FloatArray, weights: FloatArray) -> FloatArray:
    """Per row: the weight of its pairs with rows of the same `outer` and a smaller `inner` value."""
    order = np.lexsort((inner, outer))
    sorted_weights = weights[order]
    before = np.concatenate([[0.0], np.cumsum(sorted_weights)[:-1]])
    outer_begins = _changes(outer[order])
    inner_begins = _changes(outer[order], inner[order])
    smaller = before[inner_begins][np.cumsum(inner_begins) - 1] - before[outer_begins][np.cumsum(outer_begins) - 1]
    pairs = np.empty(len(order))
    pairs[order] = sorted_weights * smaller
    return pairs


def discordant_pairs(true: FloatArray, predicted: FloatArray, weights: FloatArray, groups: IndexArray) -> FloatArray:
    """Per group: the weight of pairs whose labels and predictions stand in strictly opposite order.

    Rows get a position by (group, label) and are visited by (group, prediction); a discordant pair is an inversion of
    the positions. Groups come in the same order both times, so no pair crosses them, and each tie is broken by the
    other key, so no tie is an inversion. One pass per bit of the position, highest first, counts the inversions
    between the two halves of each block of positions and then separates the halves, keeping their order.
    """
    n_rows = len(true)
    by_label = np.lexsort((predicted, true, groups))
    position = np.empty(n_rows, np.intp)
    position[by_label] = np.arange(n_rows)
    order = np.lexsort((position, predicted, groups))
    positions, carried = position[order], weights[order]
    discordant = np.zeros(n_rows)  # by position
    for bit in reversed(range((n_rows - 1).bit_length())):
        upper = (positions >> bit) & 1 == 1
        lower_weight = np.cumsum(np.where(upper, 0.0, carried))
        last = np.flatnonzero(np.append(np.diff(positions >> (bit + 1)) != 0, True))  # of each block
        lower_total = np.repeat(lower_weight[last], np.diff(last, prepend=-1))
        later = (lower_total - lower_weight)[upper]  # lower positions that are visited after this one
        discordant[positions[upper]] += carried[upper] * later
        halves = np.concatenate([np.flatnonzero(~upper), np.flatnonzero(upper)])
        positions, carried = positions[halves], carried[halves]
    return sum_by(groups[by_label], discordant)
