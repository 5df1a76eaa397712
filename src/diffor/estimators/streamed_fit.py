"""Fitting an estimator on Parquet files that need not fit into memory, in one process or many."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from diffor.core.grades import grade_codes
from diffor.core.row_noise import row_keys
from diffor.encoders import TabularInputs
from diffor.encoders.tabular.inputs import CategoryColumn, NumericColumn
from diffor.errors import UserError, did_you_mean
from diffor.estimators.api import Estimator
from diffor.estimators.ensemble import MAX_VALID_ROWS
from diffor.estimators.fitting import note_columns, settle_settings, train_members, unchanged_by_failure
from diffor.estimators.grades import GradeEstimator
from diffor.estimators.rows import PassedRows
from diffor.estimators.settings import train_on_encoder
from diffor.files.atomic import write_atomically
from diffor.files.guarded import read_json_file
from diffor.files.schema import Record, Whole
from diffor.files.tables import DataError
from diffor.training.batches import Rows
from diffor.training.checkpoint import CheckpointError
from diffor.training.distributed import World
from diffor.training.side_columns import read_sides, side_tensors
from diffor.training.streaming.parquet_table import ParquetTable, find_files
from diffor.training.streaming.shards import Shards
from diffor.training.streaming.statistics import LevelStatistics, NumberStatistics, Survey, survey
from diffor.training.streaming.stream_batches import StreamBatches, learned_sizes

AnyEstimator = TypeVar("AnyEstimator", bound=Estimator)

SAMPLE_ROWS = 100_000
"""Rows from which medians, quartiles and the like are taken; ranges, gaps and levels are those of all rows."""
MIN_VALID_ROWS = 5
SPARSE_LEVELS = 1000
"""Categorical columns with more levels have embeddings with sparse gradients."""
FEWEST_BUCKETS, MOST_BUCKETS = 2**17, 2**20
"""Buckets that ids beyond all lists share, unless told: about one for each."""
EVALUATIONS, LEAST_BETWEEN, MOST_BETWEEN = 40, 50, 2000
"""How often validation rows are looked at and a checkpoint is written, and the steps in between at least and most."""
PLAN = "stream.json"
"""File of a checkpoint folder that says how many shards the run has."""


@dataclass(frozen=True)
class Stream:
    """Which files are to be learned from, what their columns are, and how often they are read."""

    data: str
    """A pattern such as ``data/*.parquet``, a folder of Parquet files, or one file."""
    target: str
    weight: str | None = None
    drop: Sequence[str] = ()
    ids: Sequence[str] = ()
    """Columns whose values are names, even where they are written as numbers: users, items."""
    sides: Mapping[str, str] = field(default_factory=dict)
    """Columns that a method needs beside the features, by what it calls them; they may be features, too."""
    epochs: int = 1
    shards: int | None = None
    """Parts of a batch that processes divide among themselves: as many as there are processes, unless given."""
    hash_buckets: int | None = None
    """Rows of the embedding tables of ids that are too many to be listed."""

    def __post_init__(self) -> None:
        for name in ("epochs", "shards", "hash_buckets"):
            given = getattr(self, name)
            if given is not None and given < 1:
                raise UserError(f"{name} must be at least 1, but got {name}={given}")


def fit_stream(model: AnyEstimator, stream: Stream, world: World | None = None) -> AnyEstimator:
    """Fit an estimator on the rows of files, which are read once for statistics and once in each epoch.

    Under torchrun all processes call this together, each reads its own row groups, and all end with the same model.
    Priors and folds would need the table in memory, so there are none. Training goes on for all epochs;
    the weights that did best on validation rows, at most 1024 and drawn from all, are kept.
    """
    with unchanged_by_failure(model):
        _StreamedFit(model, stream, World.from_environment() if world is None else world).fit()
    return model


class _StreamedFit:
    """One fit: the files, what the pass over them told, and the estimator that is being made."""

    def __init__(self, model: Any, stream: Stream, world: World) -> None:
        self.model, self.stream, self.world, self.started = model, stream, world, time.monotonic()
        self.is_graded = isinstance(model, GradeEstimator)
        ids = (*stream.ids, stream.target) if self.is_graded else stream.ids
        self.table = ParquetTable(find_files(stream.data), ids)
        self.features = self._feature_names()
        used = dict.fromkeys([*self.features, stream.target, *stream.sides.values()])
        self.columns = [*used, *([] if stream.weight is None else [stream.weight])]

    def fit(self) -> None:
        """Survey the files, settle everything that depends on it, and train."""
        model = self.model
        self._check_same_files()
        settle_settings(model)
        self._check_settings()
        model.seed_ = self.world.same(int(check_random_state(model.random_state).randint(2**31 - 1)))
        valid, sample = self._draw_rows()
        found = survey(self.table, self.columns, np.sort(np.r_[valid, sample]), self.world, bool(model.verbose))
        self._check_target(found)
        self.mean_weight = self._mean_weight(found)
        learned, held = found.kept.loc[sample], found.kept.loc[valid]
        self._settle_target(found, learned)
        note_columns(model, PassedRows(learned[self.features]))
        model.inputs_ = fit_inputs(learned[self.features], found, self.stream.hash_buckets)
        self._train(self.to_rows(learned), held, valid)

    # --- the files ---

    def _feature_names(self) -> list[str]:
        stream, known = self.stream, list(self.table.kinds)
        special = [stream.target, *stream.drop, *stream.sides.values(), *stream.ids]
        special += [] if stream.weight is None else [stream.weight]
        for name in special:
            if name not in known:
                shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
                raise DataError(
                    f"{self.table.paths[0]} must have the column {name!r}{did_you_mean(name, known)}, but its "
                    f"columns are {shown}; check the names"
                )
        features = [name for name in known if name not in (stream.target, stream.weight, *stream.drop)]
        if not features:
            raise DataError(
                f"{self.table.paths[0]} must have columns to predict from, but target, weight and drop took all"
            )
        return features

    def _check_same_files(self) -> None:
        """Refuse processes that see different files, of which some rows would be learned twice and some never."""
        seen = self.world.gather((self.table.digest, len(self.table.paths), self.table.n_rows))
        for rank, (digest, n_files, n_rows) in enumerate(seen):
            if digest != seen[0][0]:
                raise DataError(
                    f"all processes must see the same files, but {self.stream.data} is {seen[0][1]} files with "
                    f"{seen[0][2]} rows for process 0 and {n_files} files with {n_rows} rows for process {rank}; "
                    "keep them in a shared folder, or copy all of them to every machine"
                )

    def _draw_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of the rows that validate and of those that tell the statistics, which are learned from too."""
        n = self.table.n_rows
        n_valid = min(round(self.model.validation_fraction * n), MAX_VALID_ROWS)
        n_valid = 0 if n_valid < MIN_VALID_ROWS else n_valid
        random = np.random.default_rng(self.model.seed_)
        drawn = random.choice(n, min(n, n_valid + SAMPLE_ROWS), replace=False)
        return np.sort(drawn[:n_valid]), np.sort(drawn[n_valid:])

    # --- what depends on the pass ---

    def _check_settings(self) -> None:
        """Refuse what streams cannot do."""
        model = self.model
        if model.settings_.reads_images:
            raise UserError(
                f"files are streamed into encoders of tables, but got encoder={model.settings_.encoder!r} reads "
                "images; embed the images first"
            )
        wanted = model.get_params(deep=False)
        if model.learns_share:
            raise UserError(
                "limit='share' is for tables that are read as a whole, but files are streamed; write the share of the "
                "limit into a column and make it the target, with bounds=(0, 1)"
            )
        for name, left_out in (("prior", "auto"), ("n_folds", None)):
            if wanted.get(name, left_out) not in (left_out, None):
                raise UserError(
                    f"{name} must be left out where files are streamed, but got {name}={wanted[name]!r}; "
                    "priors and folds need the table in memory"
                )
        encoder = "piecewise" if model.settings_.encoder == "auto" else model.settings_.encoder
        model.settings_ = train_on_encoder(model.settings_.but(prior=(), kinds=(), encoder=encoder), wanted)

    def _check_target(self, found: Survey) -> None:
        """Refuse targets that are missing or, where values are predicted, no numbers or outside of the bounds."""
        name, statistics = self.stream.target, found.columns[self.stream.target]
        if statistics.n_missing:
            raise DataError(
                f"target {name!r} must be known in every row, but {statistics.n_missing} of {self.table.n_rows} "
                f"rows have none, the first is {self.table.describe(statistics.first_missing)}; remove these rows"
            )
        if self.is_graded:
            return
        _check_numbers(name, "target", statistics, "list its grades, lowest first")
        bounds = self.model.bounds
        if bounds is not None and not (bounds[0] <= statistics.low and statistics.high <= bounds[1]):
            raise DataError(
                f"target {name!r} must lie inside bounds={tuple(bounds)}, but it goes from {statistics.low} to "
                f"{statistics.high}; remove or correct these rows, or widen the bounds"
            )

    def _mean_weight(self, found: Survey) -> float:
        """Mean of the weights, which are divided by it."""
        name = self.stream.weight
        if name is None:
            return 1.0
        weights = found.columns[name]
        _check_numbers(name, "weight", weights, "name another column")
        if weights.n_missing or weights.low < 0 or not weights.total > 0:
            raise DataError(
                f"weight {name!r} must be a number from 0 on in every row and positive in some, but "
                f"{weights.n_missing} are missing and they go from {weights.low} to {weights.high}; correct these rows"
            )
        return float(weights.total / self.table.n_rows)

    def _settle_target(self, found: Survey, sample: pd.DataFrame) -> None:
        """Fit the scale of values, or find the grades."""
        if self.is_graded:
            statistics: LevelStatistics = found.columns[self.stream.target]
            if statistics.levels is None:
                raise DataError(f"target {self.stream.target!r} must hold grades, but it has about "
                                f"{statistics.count} levels; predict values instead")  # fmt: skip
            self.model.settle_grades(self._as_grades(sorted(statistics.levels)))
            return
        ends = found.columns[self.stream.target]
        self.model.settle_scale(self._targets(sample), self._weights(sample), (ends.low, ends.high))

    def _as_grades(self, levels: Sequence[Any]) -> NDArray[Any]:
        """Spelled levels as the column holds them: numbers, whole where all are, or text."""
        if self.table.kinds[self.stream.target] != "number":
            return np.array(levels, dtype=object)
        numbers = np.array([float(level) for level in levels])
        return numbers.astype(np.int64) if (numbers % 1 == 0).all() else numbers

    # --- rows ---

    def _targets(self, frame: pd.DataFrame) -> NDArray[Any]:
        """Targets in units of the scale. **Shape:** ``(n,)``."""
        column = frame[self.stream.target]
        if not self.is_graded:
            return column.to_numpy(dtype=np.float64)
        spelled = self._as_grades([str(level) for level in column.cat.categories])[column.cat.codes.to_numpy()]
        return grade_codes(spelled, self.model.grades_, "y")

    def _weights(self, frame: pd.DataFrame) -> NDArray[Any] | None:
        name = self.stream.weight
        return None if name is None else frame[name].to_numpy(dtype=np.float64) / self.mean_weight

    def to_rows(self, frame: pd.DataFrame, with_keys: bool = False) -> Rows:
        """Rows of the files as members read them; only predictions need keys."""
        inputs = self.model.inputs_.transform(frame[self.features])
        unit = torch.from_numpy(self.model.scale_.to_unit(self._targets(frame)).astype(np.float32))
        weights = self._weights(frame)
        sides = {side: frame[column] for side, column in self.stream.sides.items()}
        beside = side_tensors(read_sides(sides, len(frame), self.model.settings_.method), self.model.scale_)
        keys = row_keys(inputs, self.model.seed_) if with_keys else torch.zeros(len(frame), dtype=torch.int64)
        importance = None if weights is None else torch.from_numpy(weights.astype(np.float32))
        return Rows(inputs, unit, importance, keys, beside)

    # --- training ---

    def _train(self, sample: Rows, held: pd.DataFrame, valid: NDArray[np.int64]) -> None:
        model, settings = self.model, self.model.settings_
        plan = Shards(learned_sizes(self.table, valid), self._count_shards(), settings.batch_size, model.seed_)
        device = model.reader.device
        batches = StreamBatches(
            self.table, self.columns, valid, plan, self.to_rows, self.world, settings.accumulate, device
        )
        steps = min(plan.steps_per_epoch * self.stream.epochs, model.max_steps or np.iinfo(np.int64).max)
        every = int(np.clip(steps // EVALUATIONS, LEAST_BETWEEN, MOST_BETWEEN))
        train_members(
            model,
            sample,
            None if held.empty else self.to_rows(held, with_keys=True),
            None if held.empty else self._targets(held),
            self.started,
            batches,
            max_steps=steps,
            evaluate_every=model.evaluate_every or every,
            patience=model.patience or steps,  # an epoch is to be seen to its end
            verbose=model.verbose if self.world.is_first else 0,
            run=f" {self.table.digest} {plan.n_shards} shards, {self.stream.epochs} epochs",
        )

    def _count_shards(self) -> int:
        """Shards of the run: those of its checkpoint, as asked for, or one for each process."""
        wanted = self.stream.shards
        if self.model.checkpoint_dir is None:
            return wanted or self.world.size
        path = Path(self.model.checkpoint_dir) / PLAN
        begun = self.world.answer(lambda: read_shards(path))
        if begun is not None and wanted is not None and wanted != begun:
            raise CheckpointError(
                f"a run must keep its number of shards, but got shards={wanted} and {path} says {begun}; leave it out, "
                "or choose another checkpoint folder"
            )
        shards = int(begun or wanted or self.world.size)
        if begun is None and self.world.is_first:
            write_atomically(path, json.dumps({"shards": shards}).encode())
        return shards


def read_shards(path: Path) -> int | None:
    """The number of shards that a run was begun with; None where none was."""
    if not path.exists():
        return None
    try:
        plan = read_json_file(path)
        Record({"shards": Whole(1, 2**20)}).check(plan, "")
    except UserError as error:
        raise CheckpointError(f"{path} is damaged: {error}; delete the checkpoint folder to start anew") from error
    return int(plan["shards"])


def fit_inputs(sample: pd.DataFrame, found: Survey, hash_buckets: int | None) -> TabularInputs:
    """Columns to tensors: medians and quartiles of the sample, with the gaps, ranges and levels of all rows."""
    inputs = TabularInputs().fit(sample)
    for place, column in enumerate(inputs.columns):
        statistics = found.columns[str(column.name)]
        if isinstance(column, NumericColumn) and isinstance(statistics, NumberStatistics):
            column.has_missing = statistics.n_missing > 0
            if column.spread == 0 and statistics.high > statistics.low:
                column.spread = (statistics.high - statistics.low) / 2
            if statistics.low <= statistics.high:
                column.note_range(statistics.low, statistics.high)
        elif isinstance(statistics, LevelStatistics):
            inputs.columns[place] = category_column(str(column.name), statistics, hash_buckets)
    return inputs


def category_column(name: str, statistics: LevelStatistics, hash_buckets: int | None) -> CategoryColumn:
    """How a column's levels are coded: each by itself, or hashed where they are too many to be listed.

    >>> few = LevelStatistics(levels={"a", "b"})
    >>> category_column("city", few, None).levels
    ['a', 'b']
    """
    if statistics.levels is not None:
        return CategoryColumn(name, sorted(statistics.levels), is_sparse=statistics.count > SPARSE_LEVELS)
    buckets = int(np.clip(2 ** np.ceil(np.log2(statistics.count)), FEWEST_BUCKETS, MOST_BUCKETS))
    return CategoryColumn(name, None, is_sparse=True, n_buckets=hash_buckets or buckets)


def _check_numbers(name: str, role: str, statistics: Any, cure: str) -> None:
    if isinstance(statistics, LevelStatistics):
        some = ", ".join(repr(level) for level in sorted(statistics.levels or ())[:3])
        raise DataError(f"{role} {name!r} must hold numbers, but it holds text ({some}); {cure}")
