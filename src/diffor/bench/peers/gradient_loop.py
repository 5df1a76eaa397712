"""What the neural peers share: networks on the table encoder, and the loop that trains them.

All of them read the same encoder and stop by the same rule, so that a comparison is about their method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diffor.bench.peers.problem import Problem, Values
from diffor.encoders import TabularInputs, make_tabular_encoder
from diffor.training.loop import limit_threads
from diffor.training.optimizer import FlatAdam

Batch = tuple[Tensor, ...]
"""Tensors that share their first dimension, the rows; the targets come last."""
Loss = Callable[[Batch], Tensor]

MAX_VALID_ROWS = 8192
"""Rows that an evaluation reads at most: more cost time and hardly change which step is best."""
BLOCK_ROWS = 2048


@dataclass(frozen=True)
class LoopSettings:
    """How to train."""

    max_steps: int = 5000
    batch_size: int = 256
    learning_rate: float = 1e-3
    weight_decay: float = 1e-2
    gradient_clip: float = 1.0
    patience: int | None = 16
    """Evaluations without a better score after which training stops; None: never before ``max_steps``."""
    evaluate_every: int | None = None
    """Steps between evaluations; None: an epoch, but at least 20 and at most 100 steps."""
    average: float | None = None
    """Memory of the running average of the weights, which is then what is evaluated and kept; None: no average."""
    amsgrad: bool = False


@dataclass(frozen=True)
class NetworkSettings(LoopSettings):
    """How to train, and the encoder under the network."""

    encoder: str = "auto"
    """``plain``, ``periodic``, or ``auto``: train a network with each and keep that of the better validation score."""
    width: int = 256
    n_layers: int = 2
    dropout: float = 0.1


@dataclass(frozen=True)
class LoopResult:
    """The best validation score, the step that reached it, and the steps that were taken."""

    best_score: float
    best_step: int
    steps: int


@dataclass(frozen=True)
class StandardTarget:
    """Between the target's units and units of its standard deviation in training.

    >>> scale = StandardTarget(mean=10.0, spread=2.0, bounds=(0.0, 11.0))
    >>> scale.to_tensor(np.array([14.0])), scale.restore(np.array([-1.0, 2.0]))
    (tensor([2.]), array([ 8., 11.]))
    """

    mean: float
    spread: float
    bounds: tuple[float, float] | None

    @classmethod
    def of(cls, problem: Problem) -> StandardTarget:
        """The scale of a problem's training targets."""
        return cls(float(problem.y.mean()), float(problem.y.std()) or 1.0, problem.bounds)

    def to_tensor(self, y: Values) -> Tensor:
        """Standardised targets. **Shape:** ``(n,)``."""
        return torch.from_numpy(((y - self.mean) / self.spread).astype(np.float32))

    def restore(self, values: NDArray[np.floating]) -> Values:
        """Values in the target's units, inside the bounds where those are known. **Shape:** any, kept."""
        restored = self.mean + self.spread * values.astype(np.float64)
        return restored if self.bounds is None else np.clip(restored, *self.bounds)


@contextmanager
def reproducible(seed: int, n_threads: int) -> Iterator[None]:
    """Draw all of torch's random numbers from a seed for a while, with so many threads; both are put back after."""
    with limit_threads(n_threads), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


ENCODER_CANDIDATES = ("plain", "periodic")
"""What ``encoder="auto"`` tries; validation rows decide."""


class FlatAmsgrad(FlatAdam):
    """:class:`FlatAdam` whose scale never shrinks: the ``amsgrad`` of ``torch.optim.AdamW``."""

    def __init__(self, parameters: Iterable[nn.Parameter], weight_decay: float = 0.0) -> None:
        super().__init__(parameters, weight_decay=weight_decay)
        self.largest, self.scale = torch.zeros_like(self.values), torch.empty_like(self.values)

    def step(self, learning_rate: float) -> None:
        """Move the parameters along their gradients, and clear those."""
        self.steps += 1
        if self.weight_decay:
            self.values.mul_(1 - learning_rate * self.weight_decay)
        self.first.lerp_(self.gradient, 1 - self.betas[0])
        self.second.mul_(self.betas[1]).addcmul_(self.gradient, self.gradient, value=1 - self.betas[1])
        torch.maximum(self.largest, self.second, out=self.largest)
        # The root of the largest is not divided by its correction: the rate and the epsilon are multiplied by that.
        correction = math.sqrt(1 - self.betas[1] ** self.steps)
        torch.sqrt(self.largest, out=self.scale).add_(self.epsilon * correction)
        rate = learning_rate * correction / (1 - self.betas[0] ** self.steps)
        self.values.addcdiv_(self.first, self.scale, value=-rate)
        self.gradient.zero_()


def minimise(
    network: nn.Module, loss: Loss, train: Batch, valid: Batch, settings: LoopSettings, score: Loss | None = None
) -> LoopResult:
    """Train a network in place and leave it with the weights of the best validation score, in evaluation mode.

    ``loss`` and ``score`` give the mean over a batch; without a score, the loss is the score. Without validation rows
    the last weights stay.
    """
    optimizer = (FlatAmsgrad if settings.amsgrad else FlatAdam)(
        network.parameters(), weight_decay=settings.weight_decay
    )
    patience = settings.patience if len(valid[0]) else None
    watch = _BestWeights(network, optimizer, score or loss, _some_rows(valid), settings.average)
    n, step = len(train[0]), 0
    every = settings.evaluate_every or min(max(n // settings.batch_size, 20), 100)
    network.train()
    for step, index in enumerate(islice(_batches(n, settings.batch_size), settings.max_steps), start=1):
        value = loss(tuple(part[index] for part in train))
        if not torch.isfinite(value):
            raise FloatingPointError(
                f"the loss must stay finite, but got {value.item()} at step {step}; "
                f"lower learning_rate (now {settings.learning_rate})"
            )
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.clip(settings.gradient_clip)
        optimizer.step(settings.learning_rate)
        watch.follow(step)
        if step % every == 0 or step == settings.max_steps:
            watch.evaluate(step)
            if patience is not None and step - watch.best_step >= patience * every:
                break
    watch.finish()
    return LoopResult(watch.best_score, watch.best_step, step)


class _BestWeights:
    """Follows a training run and remembers its best weights."""

    def __init__(
        self, network: nn.Module, optimizer: FlatAdam, score: Loss, valid: Batch, average: float | None
    ) -> None:
        self.network, self.optimizer, self.score, self.valid, self.memory = network, optimizer, score, valid, average
        self.shown = optimizer.values if average is None else optimizer.values.clone()
        self.best: Tensor | None = None
        self.best_score, self.best_step = math.inf, 0

    def follow(self, step: int) -> None:
        """Move the running average. Early ones must forget the random start, so the memory grows with the run."""
        if self.memory is not None:
            self.shown.lerp_(self.optimizer.values, 1 - min(self.memory, step / (9 + step)))

    def evaluate(self, step: int) -> None:
        """Score the weights on the validation rows and remember them if they are the best."""
        if len(self.valid[0]) == 0:
            return
        self.network.eval()
        self.optimizer.show(self.shown)
        reached = mean_over_blocks(self.score, self.valid)
        self.optimizer.show(self.optimizer.values)
        self.network.train()
        if reached < self.best_score:
            self.best_score, self.best_step, self.best = reached, step, self.shown.clone()

    def finish(self) -> None:
        """Leave the network with its best weights."""
        self.optimizer.release(self.shown if self.best is None else self.best)
        self.network.eval()


@torch.no_grad()
def mean_over_blocks(score: Loss, rows: Batch) -> float:
    """Mean of a score over rows, a block of them at a time."""
    n = len(rows[0])
    blocks = (tuple(part[first : first + BLOCK_ROWS] for part in rows) for first in range(0, n, BLOCK_ROWS))
    return sum(float(score(block)) * len(block[0]) for block in blocks) / n


def _some_rows(rows: Batch) -> Batch:
    """At most ``MAX_VALID_ROWS`` of the rows: tables are often sorted, so they are drawn, not cut off."""
    n = len(rows[0])
    if n <= MAX_VALID_ROWS:
        return rows
    chosen = torch.from_numpy(np.sort(np.random.default_rng(0).permutation(n)[:MAX_VALID_ROWS]))
    return tuple(part[chosen] for part in rows)


def _batches(n: int, size: int) -> Iterator[Tensor]:
    """Rows of one batch after another, shuffled anew in each epoch, whose incomplete last batch is left out."""
    size = min(size, n)
    while True:
        order = torch.randperm(n)
        for first in range(0, n - size + 1, size):
            yield order[first : first + size]


class TableNetwork(nn.Module):
    """The table encoder with a head on it. **Shape:** numbers ``(n, p)``, codes ``(n, c)`` -> ``(n, outputs)``."""

    def __init__(self, inputs: TabularInputs, encoder: str, make_head: Callable[[int], nn.Module],
                 settings: NetworkSettings) -> None:  # fmt: skip
        super().__init__()
        self.encoder_name = encoder
        self.encoder = make_tabular_encoder(encoder, inputs, settings.width, settings.n_layers, settings.dropout)
        self.head = make_head(self.encoder.out_features)

    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """Outputs of the head."""
        answer: Tensor = self.head(self.encoder(numbers, codes))
        return answer

    @torch.inference_mode()
    def outputs(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """The same a block of rows at a time, for any number of rows."""
        blocks = zip(torch.split(numbers, BLOCK_ROWS), torch.split(codes, BLOCK_ROWS), strict=True)
        return torch.cat([self(*block) for block in blocks])


def train_table_network(
    inputs: TabularInputs,
    make_head: Callable[[int], nn.Module],
    loss: Callable[[Tensor, Tensor], Tensor],
    train: Batch,
    valid: Batch,
    settings: NetworkSettings,
    score: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> TableNetwork:
    """A trained network: ``loss(outputs, targets)`` is what it minimises, ``score`` what it stops on."""
    tried: list[tuple[float, TableNetwork]] = []
    for encoder in ENCODER_CANDIDATES if settings.encoder == "auto" else (settings.encoder,):
        network = TableNetwork(inputs, encoder, make_head, settings)

        def of_batch(measure: Callable[[Tensor, Tensor], Tensor], network: TableNetwork = network) -> Loss:
            return lambda batch: measure(network(*batch[:-1]), batch[-1])

        result = minimise(network, of_batch(loss), train, valid, settings, of_batch(score or loss))
        tried.append((result.best_score, network))
    return min(tried, key=lambda one: one[0])[1]
