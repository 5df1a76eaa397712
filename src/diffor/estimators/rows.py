"""Between what users pass as X and the tensors that models read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from tqdm import tqdm

from diffor.core.method import Inputs
from diffor.core.row_noise import row_keys
from diffor.core.table import as_table, check_weights
from diffor.core.target import GradeScale, TargetScale
from diffor.encoders import TabularInputs
from diffor.encoders.images.choice import reads_images
from diffor.errors import UserError
from diffor.estimators.inputs import IMAGE_BLOCK_ROWS, Given, ImageReader, PassedRows
from diffor.estimators.settings import Settings, image_choice
from diffor.methods import METHODS
from diffor.priors import FittedPriors, PriorRows
from diffor.training.loop import Rows, limit_threads
from diffor.training.side_columns import read_sides, side_tensors

BLOCK_ROWS = 8192
"""Rows that are turned into tensors at a time in prediction: memory does not grow with the table."""


@dataclass(frozen=True)
class RowReader:
    """Reads rows as a model was fitted to read them: columns, images, what priors say, and targets in [0, 1]."""

    inputs: TabularInputs
    priors: FittedPriors | None
    images: ImageReader | None
    scale: TargetScale | GradeScale
    method: str
    seed: int
    device: torch.device
    n_jobs: int | None = None
    verbose: int = 1

    def rows(self, given: Given) -> Rows:
        """Rows to learn from, as tensors."""
        inputs, keys = self.tensors(given.rows)
        unit = torch.from_numpy(self.scale.to_unit(given.y).astype(np.float32))
        weight = None if given.weights is None else torch.from_numpy(given.weights.astype(np.float32))
        side = side_tensors(given.side, self.scale, METHODS[self.method].learns_from)
        return Rows(inputs, unit, weight, keys, side, given.rows.images)

    def tensors(self, rows: PassedRows, first_row: int = 0) -> tuple[Inputs, torch.Tensor]:
        """Tensors of rows that were not trained on, with what priors say if there are any, and the rows' keys."""
        inputs: Inputs = () if rows.table is None else self.inputs.transform(rows.table, first_row)
        keys = row_keys(inputs if rows.digests is None else (rows.digests,), self.seed)
        if self.priors is not None:
            with limit_threads(self.n_jobs):
                said = self.priors.predict(PriorRows(inputs, rows.table))
            inputs = (*inputs, torch.from_numpy(said))
        return inputs if rows.pixels is None else (rows.pixels, *inputs), keys

    def blocks(self, rows: PassedRows, side: dict[str, Any] | None = None) -> Iterator[Rows]:
        """Rows to predict, in blocks as models read them, with progress where it takes long."""
        beside = side_tensors(read_sides(side or {}, len(rows), self.method, learning=False), self.scale)
        with tqdm(total=len(rows), desc="predict", unit="row", delay=2, disable=None if self.verbose else True) as bar:
            for first, block in self.pieces(rows):
                inputs, keys = self.tensors(block, first)
                n = len(keys)
                of_rows = {name: column[first : first + n] for name, column in beside.items()}
                yield Rows(inputs, torch.zeros(n), None, keys, of_rows).to(self.device)
                bar.update(n)

    def pieces(self, rows: PassedRows) -> Iterator[tuple[int, PassedRows]]:
        """Pieces of bounded size with the index of their first rows; images are decoded, or become features."""
        if self.images is None:
            for first in range(0, len(rows), BLOCK_ROWS):
                yield first, rows.select(slice(first, first + BLOCK_ROWS))
            return
        for first in range(0, len(rows), IMAGE_BLOCK_ROWS):
            with limit_threads(self.n_jobs):
                block = self.images.load(rows, first)
            yield first, block


def choose_device(name: str) -> torch.device:
    """Where to compute: a GPU if there is one and nothing else is asked for."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"device must be auto, cpu, cuda or cuda:NUMBER, but got device={name!r}") from error
    if device.type == "cuda" and not (device.index or 0) < torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise UserError(f"device must exist, but got device={name!r} where PyTorch finds {count} GPUs; pass 'auto'")
    return device


def is_available(name: str) -> bool:
    """Whether this machine has a device that a model names.

    >>> is_available("cpu"), is_available("cuda:999")
    (True, False)
    """
    kind, _, number = name.partition(":")
    if kind in ("auto", "cpu"):
        return True
    if kind == "mps":
        return torch.backends.mps.is_available()
    module = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None)}.get(kind)
    return module is not None and module.is_available() and int(number or 0) < module.device_count()


def make_image_reader(settings: Settings, encoder: str | nn.Module, device: torch.device) -> ImageReader | None:
    """How images are read, if the encoder is one of images, with the frozen network if there is to be one."""
    if not reads_images(settings.encoder):
        return None
    choice = image_choice(settings, encoder)
    frozen = choice.make().eval().to(device) if settings.freeze_backbone else None
    return ImageReader(choice.inputs(settings.image_settings), frozen)


def read_given(
    images: ImageReader | None, X: Any, y: NDArray[Any], sample_weight: Any, side: dict[str, Any], method: str,
    n_jobs: int | None, verbose: int,
) -> Given:  # fmt: skip
    """Rows with what belongs to them, all of one length; those of broken images are left out where that is set."""
    if images is None:
        rows = PassedRows(as_table(X))
        check_lengths(len(rows), len(y))
        return Given(rows, y, check_weights(sample_weight, len(y)), read_sides(side, len(y), method))
    found = images.find(X, verbose)
    check_lengths(len(found) + len(found.skipped), len(y))
    weights, beside = check_weights(sample_weight, len(y)), read_sides(side, len(y), method)
    if weights is not None:
        weights = check_weights(weights[found.kept], len(found))
    with limit_threads(n_jobs):
        rows = images.read(found, verbose)
    return Given(rows, y[found.kept], weights, {name: column[found.kept] for name, column in beside.items()})


def check_lengths(n_rows: int, n_targets: int) -> None:
    """Refuse rows and targets that are not equally many."""
    if n_rows != n_targets:
        raise UserError(
            f"X and y must have one row for each target, but got inconsistent numbers of samples: [{n_rows}, "
            f"{n_targets}]; pass equally many"
        )


def split_given(given: Given, share: float, seed: int) -> tuple[Given, Given | None]:
    """Set validation rows aside for early stopping; too few rows are all trained on."""
    n_valid = round(share * len(given.y))
    if n_valid < 5:
        return given, None
    order = np.random.default_rng(seed).permutation(len(given.y))
    return given.select(np.sort(order[n_valid:])), given.select(np.sort(order[:n_valid]))
