"""Between what users pass as X and the rows of tensors that members read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, validate_data
from torch import nn
from tqdm import tqdm

from diffor.core.method import Inputs
from diffor.core.row_noise import row_keys
from diffor.core.table import as_table, check_weights, match_columns
from diffor.core.target import GradeScale, TargetScale
from diffor.encoders import TabularInputs
from diffor.encoders.images.choice import reads_images
from diffor.estimators.inputs import IMAGE_BLOCK_ROWS, Given, ImageReader, PassedRows
from diffor.estimators.settings import Settings, image_choice
from diffor.priors import FittedPriors, PriorRows
from diffor.training.loop import Rows, limit_threads
from diffor.training.side_columns import read_sides, side_tensors

BLOCK_ROWS = 8192
"""Rows that are turned into tensors at a time in prediction: memory does not grow with the table."""


class RowReading(BaseEstimator):
    """The part of an estimator that reads tables and images: as they are fitted, and later as they were."""

    scale_: TargetScale | GradeScale
    settings_: Settings
    inputs_: TabularInputs
    priors_: FittedPriors | None = None
    images_: ImageReader | None = None
    seed_: int
    encoder: str | nn.Module
    validation_fraction: float
    device: str
    n_jobs: int | None
    verbose: int

    # --- rows that are fitted ---

    def _make_reader(self) -> ImageReader | None:
        """How images are read, if the encoder is one of images, with the frozen network if there is to be one."""
        settings = self.settings_
        if not reads_images(settings.encoder):
            return None
        choice = image_choice(settings, self.encoder)
        frozen = choice.make().eval().to(self._device()) if settings.freeze_backbone else None
        return ImageReader(choice.inputs(settings.image_settings), frozen)

    def _read(self, X: Any, y: NDArray[Any], sample_weight: Any, side: dict[str, Any]) -> Given:
        """Rows with what belongs to them, all of one length; those of broken images are left out where that is set."""
        if self.images_ is None:
            rows = PassedRows(as_table(X))
            check_consistent_length(rows.table, y)
            return Given(rows, y, check_weights(sample_weight, len(y)), read_sides(side, len(y), self.settings_.method))
        found = self.images_.find(X, self.verbose)
        check_consistent_length(range(len(found) + len(found.skipped)), y)
        weights, beside = check_weights(sample_weight, len(y)), read_sides(side, len(y), self.settings_.method)
        if weights is not None:
            weights = check_weights(weights[found.kept], len(found))
        with limit_threads(self.n_jobs):
            rows = self.images_.read(found, self.verbose)
        return Given(rows, y[found.kept], weights, {name: column[found.kept] for name, column in beside.items()})

    def _note_columns(self, rows: PassedRows) -> None:
        """Remember the names and the number of columns, as scikit-learn asks of estimators of tables."""
        if self.images_ is None and rows.table is not None:
            table = rows.table
            validate_data(self, X=table if _has_names(table) else table.to_numpy(), skip_check_array=True)
            return
        for name in ("feature_names_in_", "n_features_in_"):  # of a table that was fitted before
            if hasattr(self, name):
                delattr(self, name)

    def _split(self, given: Given) -> tuple[Given, Given | None]:
        """Set validation rows aside for early stopping; too few rows are all trained on."""
        n_valid = round(self.validation_fraction * len(given.y))
        if n_valid < 5:
            return given, None
        order = np.random.default_rng(self.seed_).permutation(len(given.y))
        return given.select(np.sort(order[n_valid:])), given.select(np.sort(order[:n_valid]))

    def _rows(self, given: Given) -> Rows:
        inputs, keys = self._inputs(given.rows)
        unit = torch.from_numpy(self.scale_.to_unit(given.y).astype(np.float32))
        weight = None if given.weights is None else torch.from_numpy(given.weights.astype(np.float32))
        return Rows(inputs, unit, weight, keys, side_tensors(given.side, self.scale_), given.rows.images)

    def _inputs(self, rows: PassedRows, first_row: int = 0) -> tuple[Inputs, torch.Tensor]:
        """Tensors of rows that were not trained on, with what priors say if there are any, and the rows' keys."""
        inputs: Inputs = () if rows.table is None else self.inputs_.transform(rows.table, first_row)
        keys = row_keys(inputs if rows.digests is None else (rows.digests,), self.seed_)
        if self.priors_ is not None:
            with limit_threads(self.n_jobs):
                said = self.priors_.predict(PriorRows(inputs, rows.table))
            inputs = (*inputs, torch.from_numpy(said))
        return inputs if rows.pixels is None else (rows.pixels, *inputs), keys

    def _device(self) -> torch.device:
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return torch.device(self.device)

    # --- rows that are asked about ---

    def row_blocks(self, X: Any, side: dict[str, Any] | None = None) -> Iterator[Rows]:
        """The rows of X in pieces as members read them, with progress where it takes long."""
        rows = self._open(X)
        device = self._device()
        beside = side_tensors(read_sides(side or {}, len(rows), self.settings_.method), self.scale_)
        with tqdm(total=len(rows), desc="predict", unit="row", delay=2, disable=None if self.verbose else True) as bar:
            for first, block in self._pieces(rows):
                inputs, keys = self._inputs(block, first)
                n = len(keys)
                of_rows = {name: column[first : first + n] for name, column in beside.items()}
                yield Rows(inputs, torch.zeros(n), None, keys, of_rows).to(device)
                bar.update(n)

    def _open(self, X: Any) -> PassedRows:
        """The rows of X: a table as it was fitted, or images that are not decoded yet."""
        names = [column.name for column in self.inputs_.columns]
        if self.images_ is not None:
            return self.images_.open(X, names)
        table = match_columns(as_table(X), names)
        validate_data(self, X=table if _has_names(table) else table.to_numpy(), reset=False, skip_check_array=True)
        return PassedRows(table)

    def _pieces(self, rows: PassedRows) -> Iterator[tuple[int, PassedRows]]:
        """Pieces of bounded size with the place of their first rows; images are decoded, or become features."""
        if self.images_ is None:
            for first in range(0, len(rows), BLOCK_ROWS):
                yield first, rows.select(slice(first, first + BLOCK_ROWS))
            return
        for first in range(0, len(rows), IMAGE_BLOCK_ROWS):
            with limit_threads(self.n_jobs):
                block = self.images_.load(rows, first)
            yield first, block


def _has_names(table: pd.DataFrame) -> bool:
    return all(isinstance(name, str) for name in table.columns)
