"""One row asked of a model from a file before anybody else asks it: what cannot answer is not handed out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from diffor.encoders.images.networks import IMAGE_ENCODERS
from diffor.files.schema import MisfitError
from diffor.methods import METHODS
from diffor.priors import PriorRows
from diffor.training.loop import limit_threads

TRIAL_SIDE = 64
"""Pixels of the image that convolutional networks are asked about."""


def try_one_row(estimator: Any) -> None:
    """Ask about a row whose numbers are usual and whose categories were never seen; its answer must be a number."""
    with limit_threads(1), torch.inference_mode():
        inputs, method = _typical_row(estimator), METHODS[estimator.settings_.method]
        device = next(iter(estimator.model_.state_dict().values())).device
        side = {name: torch.ones(1, device=device) for name in (*method.requires, *method.accepts)}
        keys = torch.zeros(1, dtype=torch.int64, device=device)
        said = estimator.model_.predict(tuple(part.to(device) for part in inputs), keys, 1, **side)
        levels = said.map(estimator.scale_.from_unit).quantile([0.05, 0.5, 0.95])
    if not np.isfinite(levels).all():
        raise MisfitError("the model answers with something other than a number")


def _typical_row(estimator: Any) -> tuple[Tensor, ...]:
    """A row as the networks read it, with what the priors say about it."""
    columns, reader = estimator.inputs_, estimator.images_
    numbers = torch.zeros(1, columns.n_numbers)
    codes = torch.zeros(1, len(columns.category_sizes), dtype=torch.int64)
    if reader is not None:
        # Convolutions take any side, and large images much time; other networks may take their own side only.
        is_any = estimator.settings_.encoder in IMAGE_ENCODERS
        side = min(reader.inputs.side, TRIAL_SIDE) if is_any else reader.inputs.side
        image = torch.zeros(1, 3, side, side, dtype=torch.uint8)
        if reader.frozen is None:
            return (image, numbers, codes) if columns.columns else (image,)
        said = reader.frozen(image.to(next(reader.frozen.parameters(), image).device))
        if not bool(said.isfinite().all()) or said.shape[1] > len(columns.columns):
            raise MisfitError("the network of images answers with something other than the features it was fitted on")
    if estimator.priors_ is None:
        return numbers, codes
    said = estimator.priors_.predict(PriorRows((numbers, codes)))
    if not np.isfinite(said).all():
        raise MisfitError("the priors answer with something other than numbers")
    return numbers, codes, torch.from_numpy(said)
