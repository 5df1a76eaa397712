"""Where the rows of each training step come from: rows as tensors, and the shuffled epochs of those in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from diffor.core.method import Inputs
from diffor.encoders.images.lazy import LazyImages
from diffor.training.distributed import World

STEPS_AHEAD = 2
"""Steps whose images are decoded by worker processes while one is computed."""


@dataclass(frozen=True)
class Rows:
    """Rows as tensors: inputs, targets in [0, 1], weights with mean 1, the keys of their noise, and side columns."""

    inputs: Inputs
    y: Tensor
    weights: Tensor | None
    keys: Tensor
    side: dict[str, Tensor] = field(default_factory=dict)
    """What some methods need beyond features and targets, by name. **Shape:** each ``(n,)`` or ``(n, k)``."""
    images: LazyImages | None = None
    """Images that are not decoded yet: those of the rows that are taken become their first input."""

    def __len__(self) -> int:
        return len(self.y)

    def take(self, index: Tensor | slice, step: int | None = None) -> Rows:
        """Some of the rows, their images decoded, and augmented where a step of training is named."""
        weights = None if self.weights is None else self.weights[index]
        keys = self.keys[index.to(self.keys.device) if isinstance(index, Tensor) else index]
        side = {name: column[index] for name, column in self.side.items()}
        inputs = tuple(part[index] for part in self.inputs)
        if self.images is not None:
            pixels = self.images[index] if step is None else self.images.training_rows(index, keys, step)
            inputs = (pixels, *inputs)
        return Rows(inputs, self.y[index], weights, keys, side)

    def expect(self, index: Tensor) -> None:
        """Announce rows of a later step, so that their images are decoded meanwhile."""
        if self.images is not None:
            self.images.expect(index)

    def to(self, device: torch.device) -> Rows:
        """The same rows on a device (keys stay where noise is made)."""
        weights = None if self.weights is None else self.weights.to(device)
        side = {name: column.to(device) for name, column in self.side.items()}
        inputs = tuple(part.to(device) for part in self.inputs)
        images = None if self.images is None else self.images.to(device)
        return Rows(inputs, self.y.to(device), weights, self.keys, side, images)


class Batches(Protocol):
    """The rows of every step of a run, whose number determines them.

    A batch is the sum of its shards, which the processes of a world have divided among themselves. A shard has rows and
    random numbers of its own, so a run is the same, to rounding, whichever process computes which shard.
    """

    world: World

    @property
    def shards(self) -> Sequence[int]:
        """The shards that this process computes."""

    def pieces(self, step: int, shard: int) -> Iterator[tuple[Rows, float]]:
        """The rows of a shard in a step, in pieces that are computed in turn, with their shares of the batch."""
        ...

    def count(self, step: int) -> int:
        """Number of rows of a step, over all shards."""
        ...


class MemoryBatches:
    """Epochs of rows in memory, shuffled one after another and cut into equal batches: one shard, one process."""

    world = World()
    shards = (0,)

    def __init__(self, data: Rows, batch_size: int, seed: int, accumulate: int = 1) -> None:
        self.data, self.seed, self.accumulate = data, seed, accumulate
        self.batch = min(batch_size, len(data))
        self.order = (-1, torch.empty(0, dtype=torch.int64))

    def count(self, step: int) -> int:
        """Number of rows of a step."""
        return self.batch

    def pieces(self, step: int, shard: int) -> Iterator[tuple[Rows, float]]:
        """The rows of a step in pieces, with their shares of it."""
        index = self.index(step)
        if self.data.images is not None:
            for ahead in range(STEPS_AHEAD + 1):
                self.data.expect(self.index(step + ahead))
        for piece in torch.tensor_split(index, min(self.accumulate, len(index))):
            yield self.data.take(piece, step), len(piece) / len(index)

    def index(self, step: int) -> Tensor:
        """Places of the rows of a step. **Shape:** ``(b,)``."""
        n, first = len(self.data), step * self.batch
        epochs = [(first + offset) // n for offset in (0, self.batch - 1)]
        parts = []
        for epoch in range(epochs[0], epochs[1] + 1):
            order = self.epoch_order(epoch)
            parts.append(order[max(first - epoch * n, 0) : first + self.batch - epoch * n])
        return torch.cat(parts).to(self.data.y.device)

    def epoch_order(self, epoch: int) -> Tensor:
        """The shuffled rows of an epoch, which its number determines. **Shape:** ``(n,)``."""
        if self.order[0] != epoch:
            generator = torch.Generator().manual_seed(step_seed(self.seed, -1 - epoch))
            self.order = (epoch, torch.randperm(len(self.data), generator=generator))
        return self.order[1]


def step_seed(seed: int, step: int, shard: int = 0) -> int:
    """A seed for each step (from 0) and each epoch (below 0) of each shard of a run."""
    return (seed * 1_000_003 + step * 2_654_435_761 + shard * 7_046_029_254_386_353_131 + 12_345) % (2**63 - 1)
