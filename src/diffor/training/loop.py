"""The one training loop: any model, rows in memory or streamed, one process or many, the best weights at the end.

Every step draws its rows, noise and dropout from a seed of its own, so a run that resumes from a checkpoint repeats
an uninterrupted one bit for bit, with no generator state to save.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from diffor.core.draws import OwnDraws
from diffor.core.method import OrdinalEnsemble
from diffor.core.prediction import Prediction
from diffor.encoders.images.networks import learning_rate_groups
from diffor.encoders.tabular.networks import sparse_tables
from diffor.files.schema import Figure, ListOf, MapOf, MisfitError, Number, Record, Text, Whole, optional
from diffor.training.batches import Batches, MemoryBatches, step_seed
from diffor.training.batches import Rows as Rows
from diffor.training.checkpoint import CheckpointError, checkpoint_lock, digest_of, pack, unpack, write_atomically
from diffor.training.optimizer import FlatAdam, RowAdagrad
from diffor.training.tracking import Tracking

STATE = "training.safetensors"
TABLE_RATE = 10.0
"""Learning rate of sparse tables, in units of that of all others: a row is met in few steps."""
PREDICT_ROWS = 4096
"""Samples (rows times draws) that one denoiser call handles: enough for full speed, while its intermediate results stay
below the size where every allocation asks the system for fresh pages, which halves the speed."""

CHEAP_SHARE = 4
"""Samples that a row counts as where none costs a run of a network."""


@dataclass(frozen=True)
class TrainConfig:
    """How to train; the defaults are those of the ``balanced`` preset."""

    max_steps: int = 800
    batch_size: int = 256
    learning_rate: float = 6e-3
    weight_decay: float = 0.0
    warmup_share: float = 0.05
    decay: bool = True
    ema: float = 0.999
    gradient_clip: float = 1.0
    evaluate_every: int = 50
    patience: int = 6
    early_stopping: bool = True
    """Whether scores end training and choose the weights; if not, all steps are made and the last weights are kept."""
    accumulate: int = 1
    """Pieces that a batch is computed in, one after the other: memory for a piece, gradients of the whole."""
    backbone_learning_rate: float | None = None
    """Learning rate of networks of images; None where it is that of all others."""
    time_limit: float | None = None
    checkpoint_dir: str | None = None
    seed: int = 0
    verbose: int = 1
    evaluate_first: bool = False
    """Whether the model is scored before the first step, too: one that starts from priors may be best there."""
    diagnose: bool = False
    """Whether the history shall hold what methods say about their own training, at every evaluation."""


FIGURES = ListOf(MapOf(Figure()), most=10_000_000)
HISTORY = Record({
    "records": FIGURES, "best_step": Whole(0, 2**60), "best_score": optional(Figure()),
    "steps": Whole(0, 2**60), "rows": Whole(0, 2**60), "seconds": Number(0), "stopped": Text(200),
    "diagnostics": FIGURES,
})  # fmt: skip
"""What a history may hold that comes from a file."""


@dataclass
class History:
    """What happened: one record per evaluation, the best of them, and why training stopped."""

    records: list[dict[str, float]] = field(default_factory=list)
    best_step: int = 0
    best_score: float | None = None
    steps: int = 0
    rows: int = 0
    """Rows that the steps have learned from, over all processes."""
    seconds: float = 0.0
    stopped: str = "running"
    diagnostics: list[dict[str, float]] = field(default_factory=list)
    """One record per evaluation of what the methods say about their training, where that was asked for."""

    def totals(self) -> dict[str, float | str | None]:
        """What the whole run came to, without what happened on the way."""
        return {"valid_crps": self.best_score, "best_step": self.best_step, "steps": self.steps,
                "seconds": self.seconds, "stopped": self.stopped}  # fmt: skip


def train(
    model: Any,
    data: Rows,
    score: Callable[[Any], float] | None,
    config: TrainConfig,
    fingerprint: str = "",
    tracking: Tracking | None = None,
    batches: Batches | None = None,
) -> History:
    """Train a model in place and leave it with its best weights.

    The model is a module whose call on inputs, targets, weights and side columns gives named terms of the loss, and
    whose ``n_members`` parts learn independently of each other. What it draws comes from a generator of the run; one
    that ``asks_for_draws`` by itself (:func:`~diffor.core.draws.own_generator`) is spared the watching of its calls.

    ``score(model)`` is the validation loss to stop on (lower is better); without it the last averaged weights are
    kept. ``fingerprint`` names data and settings, so that a checkpoint of another run is refused.
    ``tracking`` is told the figures of every evaluation. ``batches`` are the rows of each step where these are not
    ``data``, which are then a sample of them.
    """
    run = TrainingRun(model, data, score, config, fingerprint, tracking, batches)
    with run.own_folder():
        if config.checkpoint_dir is not None:
            run.resume()
        run.tracking.start(run.history.steps)
        devices = [data.y.device.index or 0] if data.y.device.type == "cuda" else []
        # A GPU's generator is one for all threads of the process; on the CPU each run has its own.
        with torch.random.fork_rng(devices=devices, enabled=bool(devices)):
            try:
                run.loop()
            except KeyboardInterrupt:
                run.history.stopped = "interrupted"
                warnings.warn(
                    f"training was interrupted at step {run.history.steps}: the best model so far is kept", stacklevel=2
                )
        run.finish()
    return run.history


class TrainingRun:
    """The state of one training run, and what moves it forward."""

    def __init__(
        self,
        model: Any,
        data: Rows,
        score: Callable[[Any], float] | None,
        config: TrainConfig,
        fingerprint: str,
        tracking: Tracking | None = None,
        batches: Batches | None = None,
    ) -> None:
        self.model, self.data, self.score, self.config, self.fingerprint = model, data, score, config, fingerprint
        self.tracking = tracking or Tracking(None)
        self.batches = batches or MemoryBatches(data, config.batch_size, config.seed, config.accumulate)
        self.world = self.batches.world
        self.history, self.draws = History(), OwnDraws()
        self.asks_for_draws = getattr(model, "asks_for_draws", False)
        tables = sparse_tables(model)
        apart, backbone_rate = {id(table) for table in tables}, config.backbone_learning_rate
        self.optimizer = FlatAdam(
            (parameter for parameter in model.parameters() if id(parameter) not in apart),
            weight_decay=config.weight_decay,
            factors=() if backbone_rate is None else learning_rate_groups(model, backbone_rate / config.learning_rate),
        )
        self.tables = RowAdagrad(tables, self.world)
        self.average = self.optimizer.values.clone()
        self.best: dict[str, Tensor] = {}
        """Copies of what an answer depends on, as it was when the score was best."""
        self.losses: list[dict[str, float]] = []
        self.started, self.seconds_before = time.monotonic(), 0.0

    def loop(self) -> None:
        """Step until done, evaluating and saving on the way."""
        history, config = self.history, self.config
        if history.stopped != "running":
            return
        with tqdm(
            total=config.max_steps,
            initial=history.steps,
            desc="fit",
            unit="step",
            disable=None if config.verbose else True,  # None: silent unless on a terminal
        ) as bar:
            if config.evaluate_first and self.score is not None and history.steps == 0:
                self.evaluate()
            while history.steps < config.max_steps:
                self.step()
                bar.update()
                if history.steps % config.evaluate_every == 0 or history.steps == config.max_steps:
                    self.evaluate()
                    figures = history.records[-1].items()
                    bar.set_postfix(
                        {name: f"{value:.4g}" for name, value in figures if name not in ("step", "seconds")}
                    )
                    self.save()
                if self.should_stop():
                    return
        history.stopped = "finished"

    def step(self) -> None:
        """One update from one batch."""
        step = self.history.steps
        self.model.train()
        terms = self.add_gradients(step)
        self.world.add(self.optimizer.gradient)
        # Independent members have independent gradients: their joint norm grows with the root of their number.
        self.optimizer.clip(self.config.gradient_clip * math.sqrt(self.model.n_members))
        rate = self.config.learning_rate * self.rate_factor()
        self.optimizer.step(rate)
        self.tables.step(TABLE_RATE * rate)
        # Early averages must forget the random start, so the memory grows with the run.
        memory = min(self.config.ema, (1 + step) / (10 + step))
        self.average.lerp_(self.optimizer.values, 1 - memory)
        self.losses.append(terms)
        self.history.steps += 1
        self.history.rows += self.batches.count(step)

    def add_gradients(self, step: int) -> dict[str, float]:
        """Gradients of this process's shards of a step, computed in pieces; returns the terms of the loss."""
        sums: dict[str, float] = {}
        before = [buffer.clone() for buffer in self.model.buffers()] if len(self.batches.shards) > 1 else []
        for shard in self.batches.shards:
            for buffer, kept in zip(self.model.buffers(), before, strict=False):
                buffer.copy_(kept)  # methods that count their steps count this one once
            self.seed(step, shard)
            for rows, share in self.batches.pieces(step, shard):
                with self.draws.for_those_that_ask() if self.asks_for_draws else self.draws:
                    terms = self.model(rows.inputs, rows.y, rows.weights, **rows.side)
                loss = torch.stack(list(terms.values())).sum()
                if not torch.isfinite(loss):
                    raise FloatingPointError(
                        f"the loss became {loss.item()} at step {step}: lower learning_rate "
                        f"(now {self.config.learning_rate}) or look for extreme values in X"
                    )
                (loss if share == 1 else loss * share).backward()  # type: ignore[no-untyped-call]
                for name, term in terms.items():
                    sums[name] = sums.get(name, 0.0) + share * float(term.detach())
        return sums

    def seed(self, step: int, shard: int = 0) -> None:
        """Make all that is random in a shard of a step depend on their numbers."""
        seed = step_seed(self.config.seed, step, shard)
        self.draws.seed(seed)
        if self.data.y.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def rate_factor(self) -> float:
        """Share of the learning rate at this moment: linear warm-up, then half a cosine down to zero."""
        config, done = self.config, self.history.steps / self.config.max_steps
        if config.time_limit is not None:  # whichever ends the run first
            done = max(done, min(1.0, self.world.same(self.seconds()) / config.time_limit))
        if done < config.warmup_share:
            return (self.history.steps + 1) / (config.max_steps * config.warmup_share + 1)
        if not config.decay:
            return 1.0
        return 0.5 * (1 + math.cos(math.pi * (done - config.warmup_share) / (1 - config.warmup_share)))

    def evaluate(self) -> None:
        """Score the averaged weights on the validation rows and remember them if they are the best."""
        record: dict[str, float] = {"step": self.history.steps, "seconds": self.seconds()}
        record |= self.mean_losses()
        if self.score is not None:
            score, best = self.world.answer(self.validate), self.history.best_score
            record["valid_crps"] = score
            if not self.config.early_stopping or best is None or score < best:
                self.history.best_score, self.history.best_step = score, self.history.steps
                if self.config.early_stopping:
                    self.best = {name: part.detach().clone() for name, part in self.answering().items()}
        self.history.records.append(record)
        rate = self.config.learning_rate * self.rate_factor()
        self.tracking.log(record | {"learning_rate": rate})
        if self.config.diagnose:
            self.history.diagnostics.append({"step": self.history.steps, **self.diagnostics()})

    def mean_losses(self) -> dict[str, float]:
        """Terms of the loss since the last evaluation, on average over steps and members, summed over processes."""
        sums: dict[str, float] = {}
        for losses in self.world.gather(self.losses):
            for loss in losses:
                for name, term in loss.items():
                    sums[name] = sums.get(name, 0.0) + term / (len(losses) * self.model.n_members)
        self.losses = []
        return sums

    def validate(self) -> float:
        """Score of the averaged weights on the validation rows."""
        assert self.score is not None
        self.optimizer.show(self.average)
        score = self.score(self.model.eval())
        self.optimizer.show(self.optimizer.values)
        return score

    def diagnostics(self) -> dict[str, float]:
        """What the members' methods say about the present weights, on average, always on the same training rows."""
        rows = self.data.take(MemoryBatches(self.data, self.config.batch_size, self.config.seed).index(0))
        self.model.eval()
        # Features are copied, since those of inference mode take part in no gradient.
        asked = ((member.method, member.features(rows.inputs).clone()) for member in self.model.models)
        answers = [method.diagnostics(features, rows.y) for method, features in asked]
        return {name: sum(answer[name] for answer in answers) / len(answers) for name in answers[0]}

    def should_stop(self) -> bool:
        """Whether patience or time has run out."""
        waited = self.history.steps - self.history.best_step
        stops = self.config.early_stopping and self.history.best_score is not None
        if stops and waited >= self.config.patience * self.config.evaluate_every:
            self.history.stopped = "no better validation score"
        elif self.config.time_limit is not None and self.world.same(self.seconds()) >= self.config.time_limit:
            self.history.stopped = "time limit"
        return self.history.stopped != "running"

    def finish(self) -> None:
        """Leave the model with its best weights, and the checkpoint marked as done."""
        if self.score is not None and self.history.best_score is None and self.history.stopped != "interrupted":
            self.evaluate()  # stopped by time before the first evaluation
        if self.history.stopped != "interrupted":  # an interrupted run is continued from its last checkpoint
            self.save()
        copy_into(self.answering(), self.best)
        self.optimizer.release(self.average)
        self.tables.release()
        if not self.best:
            self.history.best_step = self.history.steps
        self.history.seconds = self.seconds()
        self.model.eval()

    def seconds(self) -> float:
        """Training time so far, over all resumed parts."""
        return self.seconds_before + time.monotonic() - self.started

    # --- checkpoints ---

    @contextmanager
    def own_folder(self) -> Iterator[None]:
        """Keep other runs, which would mix their states with this one's, out of the checkpoint folder."""
        with ExitStack() as locks:
            if self.config.checkpoint_dir is not None:
                folder = Path(str(self.config.checkpoint_dir))
                self.world.answer(lambda: locks.enter_context(checkpoint_lock(folder)))
            yield

    def answering(self) -> dict[str, Tensor]:
        """What an answer depends on, by name: averaged weights, buffers that belong to them, and tables of ids."""
        parts = {"average": self.average}
        parts |= {f"buffer.{name}": buffer for name, buffer in self.model.named_buffers()}
        return parts | {f"table.{place}": table.data for place, table in enumerate(self.tables.tables)}

    def state(self) -> dict[str, Tensor]:
        """All that steps change and later steps read, by name."""
        parts = {name: getattr(self.optimizer, name) for name in ("values", "first", "second")}
        return parts | self.answering() | {f"squares.{place}": part for place, part in enumerate(self.tables.squares)}

    def save(self) -> None:
        """Write the whole state to one file, atomically."""
        if self.config.checkpoint_dir is None or not self.world.is_first:
            return
        tensors = self.state() | {f"best.{name}": part for name, part in self.best.items()}
        history = asdict(self.history) | {"seconds": self.seconds()}
        facts = {"history": history, "fingerprint": self.fingerprint}
        facts["digest"] = digest_of(tensors, facts)
        write_atomically(Path(str(self.config.checkpoint_dir)) / STATE, pack(tensors, facts))

    def resume(self) -> None:
        """Continue from the checkpoint folder, if it holds a run of the same data and settings."""
        path = Path(str(self.config.checkpoint_dir)) / STATE
        found = self.world.answer(lambda: unpack(path) if path.exists() else None)
        if found is None:
            return
        tensors, facts = found
        if facts.get("fingerprint") != self.fingerprint:
            raise CheckpointError(
                f"{path} belongs to a run with other data or settings: choose another checkpoint_dir or delete it"
            )
        self.check_state(path, tensors, facts)
        self.history = History(**facts["history"])
        self.seconds_before, self.optimizer.steps = self.history.seconds, self.history.steps
        copy_into(self.state(), tensors)
        best = {name: part for name, part in self.answering().items() if f"best.{name}" in tensors}
        self.best = {name: tensors[f"best.{name}"].to(part.device) for name, part in best.items()}

    def check_state(self, path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Refuse a checkpoint of this run that is damaged: training would go on from it without a word."""
        try:
            Record({"history": HISTORY, "fingerprint": Text(), "digest": Text(64)}).check(facts, "")
        except MisfitError as error:
            raise CheckpointError(f"{path} is damaged: {error}; delete it to start anew") from error
        digest, wanted = facts.pop("digest"), self.state()
        if any(name.startswith("best.") for name in tensors):
            wanted |= {f"best.{name}": part for name, part in self.answering().items()}
        shapes = [{name: part.shape for name, part in parts.items()} for parts in (wanted, tensors)]
        if shapes[0] != shapes[1] or digest_of(tensors, facts) != digest:
            raise CheckpointError(f"{path} is damaged: it is not what was written there; delete it to start anew")


def copy_into(parts: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    """Fill tensors with those found under their names, if there are any."""
    for name, part in parts.items():
        if name in found:
            part.copy_(found[name])


@contextmanager
def limit_threads(count: int | None) -> Iterator[None]:
    """Let torch use this many CPU threads for a while: 1 if None, all cores if negative, never more than there are.

    Networks this small gain little from several threads, and where another process keeps a core busy, threads that
    wait for each other make a step many times slower.
    """
    before, wanted = torch.get_num_threads(), 1
    if count not in (None, 1):  # to count the cores takes longer than all else here
        cores = os.cpu_count() or 1
        wanted = min(count, cores) if count > 0 else cores
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_chunks(rows: Rows, n_samples: int) -> Iterator[Rows]:
    """The rows in pieces whose samples fill one denoiser call, so that memory does not grow with the rows."""
    # A multiple of 16, see KERNEL_ROWS.
    size = max(16, PREDICT_ROWS // max(n_samples, 1) // 16 * 16)
    for first in range(0, len(rows), size):
        yield rows.take(slice(first, first + size))


def predict_in_chunks(model: Any, rows: Rows, n_samples: int) -> Prediction:
    """Predict any number of rows in pieces of bounded size."""
    share = CHEAP_SHARE
    if isinstance(model, OrdinalEnsemble) and any(member.method.draws_are_costly for member in model.models):
        share = math.ceil(n_samples / len(model.members))
    return Prediction.concatenate(
        [model.predict(piece.inputs, piece.keys, n_samples, **piece.side) for piece in in_chunks(rows, share)]
    )
