"""Which rows each shard of each step learns from: pure arithmetic on the sizes of row groups.

In every epoch the row groups stand in a new order, one after the other, as one long line of rows. The line is cut into
equally long shards, whatever the sizes of files and groups; a shard is cut into windows, whose rows are shuffled when
they are read, and into the batches of its steps. Everything follows from the seed and the number of the step, so a run
continues anywhere without a word about what went before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from diffor.training.batches import step_seed

SHUFFLE_ROWS = 2**18
"""Rows among which rows are shuffled, over all shards ..."""
LEAST_WINDOW = 2**13
"""... and in each shard at least."""


@dataclass(frozen=True)
class Shards:
    """How the rows of row groups are dealt out to shards and steps.

    >>> shards = Shards((5, 3, 4), n_shards=2, batch_size=4, seed=0)
    >>> shards.steps_per_epoch, [shards.share(step, shard=1) for step in range(2)]
    (2, [(0, 6, 9), (0, 9, 12)])
    """

    sizes: tuple[int, ...]
    """Rows of each row group that are to be learned from."""
    n_shards: int
    batch_size: int
    """Rows of a shard in a step, at most: those of an epoch are dealt out evenly."""
    seed: int

    @cached_property
    def n_rows(self) -> int:
        """Rows of an epoch."""
        return sum(self.sizes)

    @property
    def window(self) -> int:
        """Rows of a shard that are shuffled together."""
        return max(LEAST_WINDOW, SHUFFLE_ROWS // self.n_shards)

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which every row is met once."""
        return math.ceil(math.ceil(self.n_rows / self.n_shards) / self.batch_size)

    def ends(self, shard: int) -> tuple[int, int]:
        """Where a shard begins and ends on the line of an epoch."""
        return self.n_rows * shard // self.n_shards, self.n_rows * (shard + 1) // self.n_shards

    def share(self, step: int, shard: int) -> tuple[int, int, int]:
        """The rows of a shard in a step: the epoch, and from where to where on its line."""
        epoch, place = divmod(step, self.steps_per_epoch)
        start, stop = self.ends(shard)
        first, last = ((stop - start) * each // self.steps_per_epoch for each in (place, place + 1))
        return epoch, start + first, start + last

    def count(self, step: int) -> int:
        """Rows of a step, over all shards."""
        shares = (self.share(step, shard) for shard in range(self.n_shards))
        return sum(stop - start for _, start, stop in shares)

    def order(self, epoch: int) -> NDArray[np.int64]:
        """The row groups as they stand on the line of an epoch. **Shape:** ``(groups,)``."""
        return self._random(epoch).permutation(len(self.sizes))

    def parts(self, epoch: int, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Row groups on a piece of the line, each with the first and the end of its rows that are on it.

        >>> list(Shards((5, 3, 4), n_shards=1, batch_size=4, seed=0).parts(0, start=3, stop=6))
        [(2, 3, 4), (1, 0, 2)]
        """
        first = 0
        for group in self.order(epoch).tolist():
            low, high = max(start - first, 0), min(stop - first, self.sizes[group])
            if low < high:
                yield group, low, high
            first += self.sizes[group]

    def shuffled(self, epoch: int, shard: int, window: int, n_rows: int) -> NDArray[np.int64]:
        """The order in which the rows of a shard's window are met. **Shape:** ``(n_rows,)``."""
        return self._random(epoch, 1 + shard, window).permutation(n_rows)

    def _random(self, epoch: int, *further: int) -> np.random.Generator:
        return np.random.default_rng((step_seed(self.seed, -1 - epoch), *further))
