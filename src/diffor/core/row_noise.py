"""Random numbers that belong to a row, not to its place in a batch.

A prediction must not change when rows are reordered, split into chunks or predicted alone, and no two samples of one
row may be copies. So noise is a function of what the row contains: its values are hashed to a key, and everything
random about the row is computed from that key.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Whole = TypeVar("Whole", Tensor, NDArray[np.int64])

_GOLDEN = -7046029254386353131  # 2**64 / golden ratio, as a signed number: consecutive multiples spread evenly
_SMALLEST = 2.0**-24  # keeps uniforms inside (0, 1) in single precision, so normal draws stay within 5.3


def _shift_right(value: Whole, bits: int) -> Whole:
    """Shift without copying the sign, as an unsigned 64-bit number would."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _mix(value: Whole) -> Whole:
    """Scatter 64-bit numbers so that similar inputs give unrelated outputs (the splitmix64 finaliser)."""
    value = (value ^ _shift_right(value, 30)) * -4658895280553007687
    value = (value ^ _shift_right(value, 27)) * -7723592293110705685
    return value ^ _shift_right(value, 31)


def row_keys(columns: tuple[Tensor, ...], seed: int) -> Tensor:
    """Hash each row's values to a 64-bit key.

    **Shape:** tensors ``(n, ...)`` -> ``(n,)`` int64.
    """
    n = columns[0].shape[0]
    key = np.full(n, seed, dtype=np.int64)  # numpy begins sooner than torch, which is most of the time of a single row
    for place, column in enumerate(columns):
        flat = column.detach().cpu().reshape(n, -1)
        if flat.dtype.is_floating_point:
            flat = (flat.float() + 0.0).view(torch.int32)  # adding 0 makes -0.0 and 0.0 one value
        values = flat.numpy().astype(np.int64) + _of_positions(flat.shape[1], place)
        key = _mix(key + _mix(values).sum(axis=1))
    return torch.from_numpy(_mix(key))


@lru_cache(maxsize=64)
def _of_positions(n_values: int, place: int) -> NDArray[np.int64]:
    """What tells the values of a row apart. **Shape:** ``(n_values,)``."""
    return _mix(np.arange(1, n_values + 1, dtype=np.int64) * _GOLDEN + place)


def key_uniforms(keys: Tensor, counters: Tensor) -> Tensor:
    """Draw one uniform number for each pair of key and counter.

    **Shape:** keys ``(n,)``, counters ``(m,)`` int64 -> ``(n, m)`` in (0, 1).
    """
    bits = _mix(keys[:, None] + (counters[None, :] + 1) * _GOLDEN)
    return (_shift_right(bits, 40).float() / 2.0**24).clamp(_SMALLEST, 1 - _SMALLEST)


@lru_cache(maxsize=8)
def _even_points(n_samples: int, n_dimensions: int) -> Tensor:
    """Quasi-random points in the unit cube: they cover it more evenly than independent draws."""
    engine = torch.quasirandom.SobolEngine(n_dimensions, scramble=True, seed=0)  # type: ignore[no-untyped-call]
    return engine.draw(n_samples)


def sample_order(keys: Tensor, n_samples: int) -> Tensor:
    """An order of its own for the samples of each row. **Shape:** keys ``(n,)`` -> ``(n, n_samples)``."""
    return key_uniforms(keys, torch.arange(n_samples) + (1 << 32)).argsort(dim=1)


def start_noise(keys: Tensor, n_samples: int, n_dimensions: int) -> Tensor:
    """Draw the normal noise from which each sample of each row starts.

    All rows use one even point set, each shifted (modulo 1) by the row's own uniform vector and put in an order of its
    own: within a row the samples are stratified, between rows the j-th samples have nothing to do with each other.

    **Shape:** keys ``(n,)`` -> ``(n, n_samples, n_dimensions)``, standard normal.
    """
    shift = key_uniforms(keys, torch.arange(n_dimensions))  # (n, d)
    points = _even_points(n_samples, n_dimensions)
    moved = torch.remainder(points[sample_order(keys, n_samples)] + shift[:, None, :], 1.0)
    noise: Tensor = torch.special.ndtri(moved.clamp(_SMALLEST, 1 - _SMALLEST))
    return noise


def step_noise(keys: Tensor, n_samples: int, n_dimensions: int, step: int) -> Tensor:
    """Draw the normal noise that an ancestral step adds to each sample of each row.

    **Shape:** keys ``(n,)`` -> ``(n, n_samples, n_dimensions)``, standard normal, independent between steps.
    """
    count = n_samples * n_dimensions
    counters = torch.arange(count) + (step + 1) * (1 << 32)
    noise: Tensor = torch.special.ndtri(key_uniforms(keys, counters))
    return noise.reshape(len(keys), n_samples, n_dimensions)
