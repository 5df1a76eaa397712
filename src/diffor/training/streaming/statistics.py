"""What one pass over a table of many files tells: each column's range, gaps and levels, and some rows to keep.

Each process reads every so-many-th row group; what they found is then put together, the same everywhere. All of it is
bounded: extremes and counts, lists of levels up to a limit and sketches beyond, and rows whose numbers were drawn
before the pass began, which is possible as Parquet files say how many rows they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tqdm import tqdm

from diffor.encoders.tabular.inputs import as_categories, as_numbers
from diffor.files.tables import DataError
from diffor.training.distributed import World
from diffor.training.streaming.parquet_table import ParquetTable

MAX_LEVELS = 100_000
"""Levels of a column that are listed; of columns with more, they are only counted, approximately."""
SKETCH_SIZE = 4096
MOST_BLOCKS = 64
"""Blocks of rows that are kept before they are joined, so that what is kept does not grow with the files."""


@dataclass
class ColumnStatistics:
    """What both kinds of columns have: rows without a value."""

    n_missing: int = 0
    first_missing: int | None = None
    """Number of the first row without a value."""

    def see_missing(self, missing: NDArray[np.bool_], first_row: int) -> None:
        """Take in which of consecutive rows have no value. **Shape:** ``(n,)``."""
        if missing.any():
            self._merge_missing(int(missing.sum()), first_row + int(missing.argmax()))

    def _merge_missing(self, count: int, first: int | None) -> None:
        self.n_missing += count
        if first is not None:
            self.first_missing = first if self.first_missing is None else min(self.first_missing, first)


@dataclass
class NumberStatistics(ColumnStatistics):
    """Range and sum of a column of numbers, or of times in days.

    >>> numbers = NumberStatistics()
    >>> numbers.see(pd.Series([3.0, None, 1.0]), "age", first_row=10)
    >>> numbers.low, numbers.high, numbers.total, numbers.first_missing
    (1.0, 3.0, 4.0, 11)
    """

    low: float = np.inf
    high: float = -np.inf
    total: float = 0.0

    def see(self, series: pd.Series[Any], name: str, first_row: int) -> None:
        """Take in values of consecutive rows. **Shape:** ``(n,)``."""
        values = as_numbers(series, name, first_row)
        missing = np.isnan(values)
        self.see_missing(missing, first_row)
        known = values[~missing]
        if len(known):
            self.low, self.high = min(self.low, float(known.min())), max(self.high, float(known.max()))
            self.total += float(known.sum())

    def merge(self, other: NumberStatistics) -> None:
        """Take in what other rows told."""
        self._merge_missing(other.n_missing, other.first_missing)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.total += other.total


@dataclass
class LevelStatistics(ColumnStatistics):
    """Levels of a column of text or ids: all of them, or, where they are too many, a sketch from which to count them.

    The sketch is the smallest hashes of levels: the denser they lie, the more levels there are.

    >>> levels = LevelStatistics()
    >>> levels.see(pd.Series(["b", "a", None, "b"], dtype="category"), "city", first_row=0)
    >>> levels.count, sorted(levels.levels), levels.n_missing
    (2, ['a', 'b'], 1)
    """

    levels: set[str] | None = field(default_factory=set)
    sketch: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))

    def see(self, series: pd.Series[Any], name: str, first_row: int) -> None:
        """Take in a categorical, whose levels are all in use. **Shape:** ``(n,)``."""
        self.see_missing((series.cat.codes == -1).to_numpy(), first_row)
        levels = as_categories(pd.Series(series.cat.categories))
        if len(levels) == 0:
            return
        self._add_hashes(np.asarray(pd.util.hash_array(levels, categorize=False), dtype=np.uint64))
        self._add_levels(set(levels))

    def merge(self, other: LevelStatistics) -> None:
        """Take in what other rows told."""
        self._merge_missing(other.n_missing, other.first_missing)
        self._add_hashes(other.sketch)
        self._add_levels(other.levels)

    def _add_hashes(self, hashes: NDArray[np.uint64]) -> None:
        if len(self.sketch) == SKETCH_SIZE:
            hashes = hashes[hashes < self.sketch[-1]]
        if len(hashes):
            self.sketch = np.unique(np.concatenate([self.sketch, hashes]))[:SKETCH_SIZE]

    def _add_levels(self, levels: set[str] | None) -> None:
        if levels is None or self.levels is None:
            self.levels = None
            return
        self.levels |= levels
        if len(self.levels) > MAX_LEVELS:
            self.levels = None

    @property
    def count(self) -> int:
        """Number of levels, within a few hundredths where they are not listed."""
        if self.levels is not None:
            return len(self.levels)
        return round((SKETCH_SIZE - 1) * 2.0**64 / float(self.sketch[-1]))


@dataclass
class Survey:
    """What a pass over the rows told: statistics of each column, and the rows that were to be kept."""

    columns: dict[str, Any]
    kept: pd.DataFrame
    """The rows with the drawn numbers, which are its index, in their order."""


def survey(
    table: ParquetTable, columns: Sequence[str], keep: NDArray[np.int64], world: World, verbose: bool = False
) -> Survey:
    """Read all rows once, each process its own row groups. **Shape:** numbers of rows to keep, rising, ``(k,)``."""
    for name in columns:
        if table.kinds[name] not in ("number", "time", "text"):
            raise DataError(
                f"column {name!r} must hold numbers, times or text, but it holds {table.kinds[name]} in "
                f"{table.paths[0]}; leave it out with --drop"
            )
    found = {name: LevelStatistics() if table.is_category(name) else NumberStatistics() for name in columns}
    own = range(world.rank, len(table.groups), world.size)
    kept: list[Any] = []
    numbers = [np.empty(0, dtype=np.int64)]
    for place in tqdm(own, desc="survey", unit="group", delay=2, disable=None if verbose else True):
        kept += _survey_group(table, place, found, keep)
        numbers.append(_inside(keep, table.groups[place].first, table.groups[place].n_rows))
        if len(kept) > MOST_BLOCKS:
            kept = [_joined(kept)]
    parts = world.gather((found, _joined(kept) if kept else None, np.concatenate(numbers)))
    together = parts[0][0]
    for others, _, _ in parts[1:]:
        for name, statistics in others.items():
            together[name].merge(statistics)  # type: ignore[arg-type]
    rows = table.frame(_joined([blocks for _, blocks, _ in parts if blocks is not None]))
    return Survey(together, rows.set_index(np.concatenate([each for _, _, each in parts])).sort_index())


def _joined(blocks: Sequence[Any]) -> Any:
    """Arrow's tables one after the other, with each level of a column once, which every block has a list of."""
    import pyarrow

    return pyarrow.concat_tables(blocks).unify_dictionaries().combine_chunks()


def _inside(numbers: NDArray[np.int64], first: int, count: int) -> NDArray[np.int64]:
    """Those of rising numbers that are among ``count`` from ``first`` on. **Shape:** ``(k,)`` -> ``(up to k,)``."""
    low, high = np.searchsorted(numbers, (first, first + count))
    return numbers[low:high]


def _survey_group(table: ParquetTable, place: int, found: dict[str, Any], keep: NDArray[np.int64]) -> list[Any]:
    """Take in the rows of a row group; those that are to be kept are handed back in Arrow's form."""
    import pyarrow

    group, kept = table.groups[place], []
    for offset, block in table.blocks(group, list(found)):
        first = group.first + offset
        frame = table.frame(block)
        for name, statistics in found.items():
            statistics.see(frame[name], name, first)
        wanted = _inside(keep, first, len(block))
        if len(wanted):
            kept.append(pyarrow.Table.from_batches([block.take(wanted - first)]))
    return kept
