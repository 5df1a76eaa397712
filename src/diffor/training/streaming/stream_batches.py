"""Batches of rows that are read from files while training goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from diffor.training.batches import Rows
from diffor.training.distributed import World
from diffor.training.streaming.parquet_table import ParquetTable, RowGroup
from diffor.training.streaming.shards import Shards

ToRows = Callable[[pd.DataFrame], Rows]
"""Turns rows of files into rows that a model reads."""


@dataclass
class _Window:
    """Rows of a shard that are shuffled together, and where on the line they stood."""

    epoch: int
    start: int
    stop: int
    rows: Rows


@dataclass
class _Shard:
    """What a shard has read: the windows that are in use, and rows that wait for the next one."""

    windows: list[_Window] = field(default_factory=list)
    waiting: list[Rows] = field(default_factory=list)
    source: Iterator[Rows] | None = None
    position: tuple[int, int] = (-1, -1)
    """The epoch and the place on its line up to which rows are in windows."""


class StreamBatches:
    """The batches of a table of files: each process reads the row groups of its own shards, and keeps a window of each.

    ``held_out`` are the numbers of rows that are not learned from.
    """

    def __init__(
        self,
        table: ParquetTable,
        columns: Sequence[str],
        held_out: NDArray[np.int64],
        shards: Shards,
        to_rows: ToRows,
        world: World,
        accumulate: int = 1,
        device: torch.device | None = None,
    ) -> None:
        self.table, self.columns, self.held_out, self.plan = table, list(columns), held_out, shards
        self.to_rows, self.world, self.accumulate = to_rows, world, accumulate
        self.device = device or torch.device("cpu")
        self.shards = range(world.rank, shards.n_shards, world.size)
        self._shards = {shard: _Shard() for shard in self.shards}

    def count(self, step: int) -> int:
        """Number of rows of a step, over all shards."""
        return self.plan.count(step)

    def pieces(self, step: int, shard: int) -> Iterator[tuple[Rows, float]]:
        """The rows of a shard in a step in pieces, with their shares of the batch."""
        epoch, start, stop = self.plan.share(step, shard)
        if start == stop:
            return
        rows, count = self._read(epoch, shard, start, stop), self.plan.count(step)
        for piece in np.array_split(np.arange(len(rows)), min(self.accumulate, len(rows))):
            piece_rows = rows.take(slice(int(piece[0]), int(piece[-1]) + 1))
            yield piece_rows.to(self.device), len(piece) / count

    def _read(self, epoch: int, shard: int, start: int, stop: int) -> Rows:
        """The rows at places of the line, as the shuffling of windows has put them there."""
        state = self._shards[shard]
        state.windows = [window for window in state.windows if window.epoch == epoch and window.stop > start]
        known = state.windows[-1].stop if state.windows else -1
        low, high = self.plan.ends(shard)
        while known < stop:
            place = (max(known, start) - low) // self.plan.window
            first, end = low + place * self.plan.window, min(low + (place + 1) * self.plan.window, high)
            rows = self._load(state, epoch, shard, first, end)
            order = torch.from_numpy(self.plan.shuffled(epoch, shard, place, len(rows)))
            state.windows.append(_Window(epoch, first, end, rows.take(order)))
            known = end
        parts = [window.rows.take(slice(max(start - window.start, 0), stop - window.start)) for window in state.windows]
        return concatenate([part for part in parts if len(part)])

    def _load(self, state: _Shard, epoch: int, shard: int, start: int, stop: int) -> Rows:
        """Rows of a piece of the line in its own order, read on from where the shard was, if it was there."""
        if state.source is None or state.position != (epoch, start):
            state.source = self._blocks(epoch, start, self.plan.ends(shard)[1])
            state.waiting = []
        missing = stop - start - sum(map(len, state.waiting))
        while missing > 0:
            state.waiting.append(next(state.source))
            missing -= len(state.waiting[-1])
        last = state.waiting.pop()
        kept = len(last) + missing  # what is too much waits for the next window
        rows = concatenate([*state.waiting, last.take(slice(0, kept))])
        state.waiting = [last.take(slice(kept, None))] if kept < len(last) else []
        state.position = (epoch, stop)
        return rows

    def _blocks(self, epoch: int, start: int, stop: int) -> Iterator[Rows]:
        """The rows of a piece of the line, a block of a file at a time."""
        for place, first, end in self.plan.parts(epoch, start, stop):
            yield from self._group_rows(self.table.groups[place], first, end)

    def _group_rows(self, group: RowGroup, first: int, end: int) -> Iterator[Rows]:
        """Rows of a group by their places among those to learn from."""
        low, high = np.searchsorted(self.held_out, (group.first, group.first + group.n_rows))
        learned = np.ones(group.n_rows, dtype=bool)
        learned[self.held_out[low:high] - group.first] = False
        wanted = np.flatnonzero(learned)[first:end]
        for place, block in self.table.blocks(group, self.columns, skip=int(wanted[0])):
            chosen = wanted[np.searchsorted(wanted, place) : np.searchsorted(wanted, place + len(block))] - place
            if len(chosen):
                yield self.to_rows(self.table.frame(block if len(chosen) == len(block) else block.take(chosen)))
            if place + len(block) > wanted[-1]:
                return


def concatenate(parts: Sequence[Rows]) -> Rows:
    """Rows one after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return Rows(
        tuple(torch.cat(pieces) for pieces in zip(*(part.inputs for part in parts), strict=True)),
        torch.cat([part.y for part in parts]),
        None if first.weights is None else torch.cat([part.weights for part in parts if part.weights is not None]),
        torch.cat([part.keys for part in parts]),
        {name: torch.cat([part.side[name] for part in parts]) for name in first.side},
    )


def learned_sizes(table: ParquetTable, held_out: NDArray[np.int64]) -> tuple[int, ...]:
    """Rows of each row group that are learned from, which are those that are not held out."""
    ends = [group.first for group in table.groups] + [table.n_rows]
    held = np.diff(np.searchsorted(held_out, ends))
    return tuple(group.n_rows - int(count) for group, count in zip(table.groups, held, strict=True))
