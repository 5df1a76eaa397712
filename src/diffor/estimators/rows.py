"""What users pass as X, read as rows that can be chosen from, and turned into the tensors that models read.

X is a table, images, or both side by side. Images are lazy while a network learns from them. Where the network is
frozen, its features are computed once, and are columns of a table from there on. In prediction a block of rows at a
time is read, so memory stays bounded.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm import tqdm

from diffor.core.method import Encoder, Inputs
from diffor.core.row_noise import row_keys
from diffor.core.table import as_table, check_weights, match_columns
from diffor.core.target import GradeScale, TargetScale
from diffor.encoders import TabularInputs
from diffor.encoders.images.inputs import ImageInputs, ImageRows
from diffor.encoders.images.lazy import LazyImages
from diffor.encoders.images.transforms import pixel_digests
from diffor.errors import UserError, UserTypeError
from diffor.estimators.novelty import MOST_WARNED, Watch
from diffor.estimators.settings import Settings, image_choice
from diffor.methods import METHODS
from diffor.priors import FittedPriors, PriorRows
from diffor.training.loop import Rows, limit_threads
from diffor.training.side_columns import read_sides, side_tensors

BLOCK_ROWS = 8192
"""Rows that are turned into tensors at a time in prediction: memory does not grow with the table."""
IMAGE_BLOCK_ROWS = 128
"""Images that are decoded at a time in prediction; worker processes are one block ahead."""
BACKBONE = "backbone."
"""What the names of a frozen network's tensors begin with in a saved model."""


@dataclass(frozen=True)
class PassedRows:
    """Rows of X: columns of a table, images that are not decoded yet or are, and what tells rows of images apart."""

    table: pd.DataFrame | None
    images: LazyImages | None = None
    pixels: Tensor | None = None
    """Decoded images. **Shape:** ``(n, 3, side, side)`` uint8."""
    digests: Tensor | None = None
    """Numbers that the keys of rows with images are made of. **Shape:** ``(n, k)`` int64."""

    @property
    def column_names(self) -> list[Hashable]:
        """Names of the table's columns."""
        return [] if self.table is None else list(self.table.columns)

    def __len__(self) -> int:
        return next((len(part) for part in (self.images, self.digests, self.table) if part is not None), 0)

    def select(self, rows: NDArray[Any] | slice) -> PassedRows:
        """Some of the rows; images stay lazy."""
        return PassedRows(
            None if self.table is None else self.table.iloc[rows],
            None if self.images is None else self.images.select(rows),
            None if self.pixels is None else self.pixels[rows],
            None if self.digests is None else self.digests[rows],
        )


@dataclass(frozen=True)
class Given:
    """What is given for fitting: rows of X, targets, weights with mean 1, side columns, all of one length."""

    rows: PassedRows
    y: NDArray[Any]
    weights: NDArray[Any] | None
    side: dict[str, NDArray[Any]]

    def select(self, chosen: NDArray[np.int64]) -> Given:
        """Some of the rows with all that belongs to them."""
        weights = None if self.weights is None else self.weights[chosen]
        side = {name: column[chosen] for name, column in self.side.items()}
        return Given(self.rows.select(chosen), self.y[chosen], weights, side)

    def counted(self) -> tuple[Given, NDArray[np.int64]]:
        """The rows that have a weight, the others being as if absent, and their numbers."""
        chosen = np.arange(len(self.y)) if self.weights is None else np.flatnonzero(self.weights > 0)
        if self.weights is None or len(chosen) == len(self.y):
            return self, chosen
        return replace(self.select(chosen), weights=check_weights(self.weights[chosen], len(chosen))), chosen

    def split(self, share: float, seed: int) -> tuple[Given, Given | None]:
        """Set validation rows aside for early stopping; too few rows are all trained on."""
        n_valid = round(share * len(self.y))
        if n_valid < 5:
            return self, None
        order = np.random.default_rng(seed).permutation(len(self.y))
        return self.select(np.sort(order[n_valid:])), self.select(np.sort(order[:n_valid]))


def match_rows(rows: PassedRows, names: list[Hashable]) -> PassedRows:
    """The rows with the table's columns in the fitted order, or what is missing or unknown."""
    table = match_columns(pd.DataFrame(index=range(len(rows))) if rows.table is None else rows.table, names)
    return replace(rows, table=table if table.shape[1] else None)


# --- images ---


@dataclass(frozen=True)
class ImageReader:
    """How an estimator reads images; ``frozen`` is the network whose features take their place, if there is one."""

    inputs: ImageInputs
    frozen: Encoder | None = None

    def find(self, X: Any, verbose: int = 1) -> ImageRows:
        """Images to learn from; broken ones are left out, with a warning, where that is set."""
        found = self.inputs.transform(X, verbose=verbose)
        if found.skipped:
            warnings.warn(
                f"{len(found.skipped)} of {len(found) + len(found.skipped)} images are broken and left out with their "
                f"rows, such as {found.skipped[0].name} ({found.skipped[0].cause})",
                stacklevel=2,
            )
        return found

    def read(self, found: ImageRows, verbose: int = 1) -> PassedRows:
        """Rows to learn from: lazy images, or the features of the frozen network."""
        rows = PassedRows(found.table, found.images)
        if self.frozen is None:
            digests = torch.cat([found.images.digests, column_digests(found.table, len(rows))], dim=1)
            return replace(rows, digests=digests)
        blocks = []
        with tqdm(total=len(rows), desc="encode", unit="image", delay=2, disable=None if verbose else True) as bar:
            for first in range(0, len(rows), IMAGE_BLOCK_ROWS):
                blocks.append(self.load(rows, first))
                bar.update(len(blocks[-1]))
        table = pd.concat([block.table for block in blocks], ignore_index=True)
        return PassedRows(table, digests=torch.cat([block.digests for block in blocks if block.digests is not None]))

    def open(self, X: Any, names: list[Hashable]) -> PassedRows:
        """Rows to predict, nothing decoded yet; each needs an answer, so none is skipped.

        ``names`` are the fitted columns, those of a frozen network's features first.
        """
        # Each image is needed once, so none is kept in memory.
        found = replace(self.inputs, broken="raise", cache_bytes=0).transform(X)
        found.images.decoder.advice = ""
        beside = names if self.frozen is None else names[self.frozen.out_features :]
        return match_rows(PassedRows(found.table, found.images), beside)

    def load(self, rows: PassedRows, first: int) -> PassedRows:
        """A block of rows: their images decoded, or the frozen network's features of these before the other columns."""
        block = rows.select(slice(first, first + IMAGE_BLOCK_ROWS))
        if rows.images is None or block.images is None:
            raise UserTypeError("rows must have images to be decoded")
        rows.images.expect(slice(first, first + 2 * IMAGE_BLOCK_ROWS))
        pixels = block.images[:]
        digests = torch.cat([pixel_digests(pixels), column_digests(block.table, len(block))], dim=1)
        if self.frozen is None:
            return PassedRows(block.table, pixels=pixels, digests=digests)
        features = _features(self.frozen, pixels)
        table = pd.DataFrame(features, columns=[f"feature_{place:04d}" for place in range(features.shape[1])])
        if block.table is not None:
            table = pd.concat([table, block.table.reset_index(drop=True)], axis=1)
        return PassedRows(table, digests=digests)

    def tensors(self) -> dict[str, Tensor]:
        """The frozen network's weights, by the names that they are saved under."""
        state = {} if self.frozen is None else self.frozen.state_dict()
        return {f"{BACKBONE}{name}": tensor for name, tensor in state.items()}


@torch.inference_mode()
def _features(network: Encoder, pixels: Tensor) -> NDArray[np.float32]:
    parameter = next(network.parameters(), pixels)
    features: NDArray[np.float32] = network(pixels.to(parameter.device)).float().cpu().numpy()
    if not np.isfinite(features).all():
        raise FloatingPointError("features must be finite, but the encoder gave others; check its weights")
    return features


def column_digests(table: pd.DataFrame | None, n_rows: int) -> Tensor:
    """A number for each cell of the columns beside images, to make keys of. **Shape:** -> ``(n_rows, columns)``."""
    columns = [np.zeros((n_rows, 0), dtype=np.int64)]
    for place in range(0 if table is None else table.shape[1]):
        values = table.iloc[:, place]  # type: ignore[union-attr]
        if pd.api.types.is_numeric_dtype(values.dtype):
            codes: NDArray[Any] = values.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            codes = pd.util.hash_array(values.astype(str).to_numpy(dtype=object), categorize=False)
        columns.append(codes.view(np.int64)[:, None])
    return torch.from_numpy(np.concatenate(columns, axis=1))


def make_image_reader(settings: Settings, encoder: str | nn.Module, device: torch.device) -> ImageReader | None:
    """How images are read, if the encoder is one of images, with the frozen network if there is to be one."""
    if not settings.reads_images:
        return None
    choice = image_choice(settings, encoder)
    frozen = choice.make().eval().to(device) if settings.freeze_backbone else None
    return ImageReader(choice.inputs(settings.image_settings), frozen)


# --- rows to learn from, and rows to predict ---


def read_given(
    images: ImageReader | None,
    X: Any,
    y: NDArray[Any],
    sample_weight: Any,
    side: dict[str, Any],
    method: str,
    n_jobs: int | None,
    verbose: int,
) -> Given:
    """Rows with what belongs to them, all of one length; those of broken images are left out where that is set."""
    found = None if images is None else images.find(X, verbose)
    rows = PassedRows(as_table(X)) if found is None else PassedRows(found.table, found.images)
    n_rows = len(rows) + (0 if found is None else len(found.skipped))
    if n_rows != len(y):
        raise UserError(
            f"X and y must have one row for each target, but got inconsistent numbers of samples: [{n_rows}, "
            f"{len(y)}]; pass equally many"
        )
    weights, beside = check_weights(sample_weight, len(y)), read_sides(side, len(y), method)
    if images is None or found is None:
        return Given(rows, y, weights, beside)
    if weights is not None:
        weights = check_weights(weights[found.kept], len(found))
    with limit_threads(n_jobs):
        rows = images.read(found, verbose)
    return Given(rows, y[found.kept], weights, {name: column[found.kept] for name, column in beside.items()})


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

    def tensors(self, rows: PassedRows, first_row: int = 0) -> tuple[Inputs, Tensor]:
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
        columns = self.inputs.columns
        watch = Watch(columns if self.images is None and len(columns) <= MOST_WARNED else [])
        for first, block in self.pieces(rows, "predict"):
            inputs, keys = self.tensors(block, first)
            watch.see(inputs)
            n = len(keys)
            of_rows = {name: column[first : first + n] for name, column in beside.items()}
            yield Rows(inputs, torch.zeros(n), None, keys, of_rows).to(self.device)
        watch.warn()

    def pieces(self, rows: PassedRows, what: str) -> Iterator[tuple[int, PassedRows]]:
        """Pieces of bounded size with the index of their first rows; images are decoded, or become features.

        ``what`` is done with them is shown with a bar where it takes long.
        """
        size = BLOCK_ROWS if self.images is None else IMAGE_BLOCK_ROWS
        with tqdm(total=len(rows), desc=what, unit="row", delay=2, disable=None if self.verbose else True) as bar:
            for first in range(0, len(rows), size):
                if self.images is None:
                    block = rows.select(slice(first, first + size))
                else:
                    with limit_threads(self.n_jobs):
                        block = self.images.load(rows, first)
                yield first, block
                bar.update(len(block))


# --- devices ---


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
