"""What users pass as X, read as rows that can be chosen from: a table, images, or both side by side.

Images are lazy while a network learns from them. Where the network is frozen, its features are computed once, and are
columns of a table from there on. In prediction a block of images at a time is decoded, so memory stays bounded.
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
from torch import Tensor
from tqdm import tqdm

from diffor.core.method import Encoder
from diffor.core.table import check_weights, match_columns
from diffor.encoders.images.inputs import ImageInputs, ImageRows
from diffor.encoders.images.lazy import LazyImages
from diffor.encoders.images.transforms import pixel_digests
from diffor.errors import UserTypeError

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
        for part in (self.images, self.digests, self.table):
            if part is not None:
                return len(part)
        return 0

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


def match_rows(rows: PassedRows, names: list[Hashable]) -> PassedRows:
    """The rows with the table's columns in the fitted order, or what is missing or unknown."""
    table = match_columns(pd.DataFrame(index=range(len(rows))) if rows.table is None else rows.table, names)
    return replace(rows, table=table if table.shape[1] else None)


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
        if self.frozen is not None:
            return self._features(rows, verbose)
        return replace(rows, digests=torch.cat([found.images.digests, column_digests(found.table, len(rows))], dim=1))

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
        """A block of opened rows: their images decoded, or the features of these as columns."""
        if rows.images is not None:
            rows.images.expect(slice(first, first + 2 * IMAGE_BLOCK_ROWS))
        block = rows.select(slice(first, first + IMAGE_BLOCK_ROWS))
        return self._decoded(block) if self.frozen is None else self._features(block, verbose=0)

    def _decoded(self, rows: PassedRows) -> PassedRows:
        if rows.images is None:
            raise UserTypeError("rows must have images to be decoded")
        pixels = rows.images[:]
        digests = torch.cat([pixel_digests(pixels), column_digests(rows.table, len(rows))], dim=1)
        return PassedRows(rows.table, pixels=pixels, digests=digests)

    def _features(self, rows: PassedRows, verbose: int) -> PassedRows:
        """Rows whose images are replaced by the frozen network's features, before the columns of the table."""
        blocks, digests = [], []
        with tqdm(total=len(rows), desc="encode", unit="image", delay=2, disable=None if verbose else True) as bar:
            for block in self._blocks(rows):
                blocks.append(self._encode(block))
                if block.digests is not None:
                    digests.append(block.digests)
                bar.update(len(block))
        features = np.concatenate(blocks)
        table = pd.DataFrame(features, columns=[f"feature_{place:04d}" for place in range(features.shape[1])])
        if rows.table is not None:
            table = pd.concat([table, rows.table.reset_index(drop=True)], axis=1)
        return PassedRows(table, digests=torch.cat(digests))

    def _blocks(self, rows: PassedRows) -> Iterator[PassedRows]:
        for first in range(0, len(rows), IMAGE_BLOCK_ROWS):
            if rows.images is not None:
                rows.images.expect(slice(first, first + 2 * IMAGE_BLOCK_ROWS))
            yield self._decoded(rows.select(slice(first, first + IMAGE_BLOCK_ROWS)))

    @torch.inference_mode()
    def _encode(self, block: PassedRows) -> NDArray[np.float32]:
        if self.frozen is None or block.pixels is None:
            raise UserTypeError("features need a frozen network and decoded images")
        parameter = next(self.frozen.parameters(), None)
        device = block.pixels.device if parameter is None else parameter.device
        features: NDArray[np.float32] = self.frozen(block.pixels.to(device)).float().cpu().numpy()
        if not np.isfinite(features).all():
            raise FloatingPointError("features must be finite, but the encoder gave others; check its weights")
        return features

    def tensors(self) -> dict[str, Tensor]:
        """The frozen network's weights, by the names that they are saved under."""
        state = {} if self.frozen is None else self.frozen.state_dict()
        return {f"{BACKBONE}{name}": tensor for name, tensor in state.items()}


def column_digests(table: pd.DataFrame | None, n_rows: int) -> Tensor:
    """A number for each cell of the columns beside images, to make keys of. **Shape:** -> ``(n_rows, columns)``.

    >>> column_digests(pd.DataFrame({"height": [1.5, 1.5]}), 2).unique().numel()
    1
    """
    columns = [np.zeros((n_rows, 0), dtype=np.int64)]
    for place in range(0 if table is None else table.shape[1]):
        values = table.iloc[:, place]  # type: ignore[union-attr]
        if pd.api.types.is_numeric_dtype(values.dtype):
            numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
            columns.append(numbers.view(np.int64)[:, None])
        else:
            words = values.astype(str).to_numpy(dtype=object)
            columns.append(pd.util.hash_array(words, categorize=False).view(np.int64)[:, None])
    return torch.from_numpy(np.concatenate(columns, axis=1))
