"""Scoring on Ray: the same shards, done by a pool of Ray Data's actors, one model each, on one machine or many."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from diffor.files.tables import DataError
from diffor.serving.scoring.shards import (
    ATTEMPT,
    MAX_DEATHS,
    Answer,
    Job,
    Outcome,
    Shard,
    belongs_to,
    commit_shard,
    failure_of,
    too_many_deaths,
)

MAX_BLOCKS = 10_000
"""Pieces that Ray plans with; where there are more shards, a piece has several."""
LOCAL_STORE_BYTES = 100 * 2**20
"""Ray's own memory on a machine that it is started on: nothing but names of shards goes through it."""
SECONDS_TO_CONNECT = 10.0
ENVIRONMENT = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
               "RAY_BACKEND_LOG_LEVEL": "fatal"}  # fmt: skip
"""Without these Ray writes a token into the home folder, sends statistics, and talks about itself."""


class ShardActor:
    """What runs in a worker of Ray: it opens the model once and does the shards it is given."""

    def __init__(self, job: Job, shards: Sequence[Shard]) -> None:
        self.job, self.shards = job, shards
        self.answer: Answer | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Do the shards at some places; the answer has one row for each."""
        outcomes = [self.score(self.shards[int(place)]) for place in batch["place"]]
        return {
            "output": [outcome.output for outcome in outcomes],
            "n_rows": [outcome.n_rows for outcome in outcomes],
            "error": [outcome.error or "" for outcome in outcomes],
        }

    def score(self, shard: Shard) -> Outcome:
        """Do one shard; if it fails, others need not."""
        with counted_attempt(self.job, shard) as n_deaths:
            if n_deaths >= MAX_DEATHS:
                return Outcome(shard.output, error=too_many_deaths(shard, n_deaths, "without a word"))
            try:
                self.answer = self.answer or self.job.work.open()
                return commit_shard(self.job, self.answer, shard)
            except Exception as error:
                return failure_of(shard, error)


@contextmanager
def counted_attempt(job: Job, shard: Shard) -> Iterator[int]:
    """How many workers have died over a shard: each leaves a mark that only the living can remove.

    Ray would give a shard to one worker after the other for ever, and the count of a worker dies with it.
    """
    path = job.folder / shard.output
    path.parent.mkdir(parents=True, exist_ok=True)
    n_deaths = sum(belongs_to(mark, {path.stem}) for mark in path.parent.glob(f".*{ATTEMPT}"))
    handle, mark = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}.", suffix=ATTEMPT)
    os.close(handle)
    try:
        yield n_deaths
    finally:
        os.unlink(mark)


def score_on_ray(
    job: Job, shards: Sequence[Shard], n_workers: int | None, address: str | None
) -> Generator[Outcome, None, None]:
    """Do the shards with Ray; outcomes come as they end. Workers that die are started again, and do their shards again.

    Without an address Ray is started on this machine, with ``n_workers`` workers, and ended afterwards.
    """
    ray = _import_ray()
    with _connected(ray, n_workers, address):
        count = n_workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        places = ray.data.from_items(
            [{"place": place} for place in range(len(shards))], override_num_blocks=min(len(shards), MAX_BLOCKS)
        )
        outcomes = places.map_batches(
            ShardActor,
            batch_size=1,
            fn_constructor_args=(job, list(shards)),
            # One at a time: no shard waits behind a long one while another worker is idle.
            compute=ray.data.ActorPoolStrategy(size=min(count, len(shards)), max_tasks_in_flight_per_actor=1),
            num_cpus=1,
        )
        for row in outcomes.iter_rows():
            yield Outcome(row["output"], int(row["n_rows"]), row["error"] or None)


def _import_ray() -> Any:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise DataError("--engine ray needs Ray, but it is not installed; pip install 'diffor[ray]', or use "
                        "--engine local") from error  # fmt: skip
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray


@contextmanager
def _connected(ray: Any, n_workers: int | None, address: str | None) -> Iterator[None]:
    """A connection to Ray, which is left as it was."""
    if address is not None:
        _check_address(address)
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"address": address or "local", "logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        options |= {"num_cpus": n_workers or os.cpu_count(), "include_dashboard": False,
                    "_node_ip_address": "127.0.0.1", "object_store_memory": LOCAL_STORE_BYTES}  # fmt: skip
    try:
        ray.init(**options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise _unreachable(address or "local", error) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Refuse a host that does not answer at once: Ray itself would wait for minutes."""
    host, separator, port = address.removeprefix("ray://").rpartition(":")
    if not separator or not port.isdecimal():
        return  # auto and the like
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()
    except OSError as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str, error: Exception) -> DataError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DataError(
        f"--address must be that of a running Ray, but {address} cannot be used ({reason}); check it with ray status"
    )
