"""What the exported program is given: raw columns of any table, and the noise that belongs to its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from diffor.diffusion.increment_diffusion import uniform_shift
from diffor.encoders.tabular_inputs import as_categories, as_numbers
from diffor.export.answer import NOISE, Estimator, Member, count_features, members_of, raw_columns_of
from diffor.export.columns import CATEGORIES, NUMBERS
from diffor.export.images import PIXELS
from diffor.row_noise import start_noise, step_noise

Array = NDArray[Any]


def program_inputs(
    model: Estimator, X: Any, n_samples: int | None = None, n_steps: int | None = None
) -> dict[str, Array]:
    """Inputs with which the program of ``model`` answers as ``predict`` does: pixels, raw columns, noise of each row.

    Any other standard normal noise of that shape is as good.

    **Shape:** -> numbers ``(n, p)``, categories ``(n, c)``, noise ``(n, d)``; the last two where the program has them.
    """
    count = model.settings_.n_samples if n_samples is None else n_samples
    inputs = raw_columns(model, X)
    noise = starting_noise(model, X, count, n_steps)
    return inputs if noise.shape[1] == 0 else inputs | {NOISE: noise}


def raw_columns(model: Estimator, X: Any) -> dict[str, Array]:
    """Images and columns as the program reads them: pixels, numbers and days as float64, all else as texts."""
    rows, columns = model._open(X), raw_columns_of(model)
    inputs: dict[str, Array] = {} if rows.images is None else {PIXELS: rows.images[:].numpy()}
    if rows.table is None:
        return inputs
    table, n_features = rows.table, count_features(model)
    fitted = model.inputs_.columns[n_features:]
    numbers = [as_numbers(table.iloc[:, fitted.index(column)], column.name) for column in columns.passed]
    if numbers or not n_features:
        inputs[NUMBERS] = np.stack(numbers, axis=1) if numbers else np.zeros((len(table), 0))
    if columns.categories:
        texts = [as_categories(table.iloc[:, fitted.index(column)]) for column in columns.categories]
        inputs[CATEGORIES] = np.stack(texts, axis=1)
        inputs[CATEGORIES][pd.isna(inputs[CATEGORIES])] = columns.missing
    return inputs


def starting_noise(model: Estimator, X: Any, n_samples: int, n_steps: int | None = None) -> NDArray[np.float32]:
    """The noise that ``predict`` uses for the rows of X, as one row of numbers for each. **Shape:** -> ``(n, d)``."""
    members = members_of(model, n_samples, n_steps)
    blocks = []
    for rows in model.row_blocks(X):
        keys = rows.keys.cpu()
        parts = [torch.zeros(len(keys), 0), *(_noise_of(member, keys + member.place) for member in members)]
        blocks.append(torch.cat(parts, dim=1).numpy())
    return np.concatenate(blocks)


def _noise_of(member: Member, keys: Tensor) -> Tensor:
    """Noise of one member for rows with these keys. **Shape:** ``(n,)`` -> ``(n, width)``."""
    shape = member.noise
    if shape is None:
        return torch.zeros(len(keys), 0)
    parts = [start_noise(keys, shape.n_chains, shape.n_increments)]
    parts += [step_noise(keys, shape.n_chains, shape.n_increments, t) for t in shape.fresh_times]
    if shape.has_shift:
        parts.append(torch.special.ndtri(uniform_shift(keys)))
    return torch.cat([part.flatten(1) for part in parts], dim=1)
