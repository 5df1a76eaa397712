"""Scoring on Ray: the same shards, done by actors, one model each, on one machine or many."""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from diffor.files.tables import DataError
from diffor.serving.scoring.shards import (
    MAX_DEATHS,
    Answer,
    Job,
    Outcome,
    Shard,
    commit_shard,
    failure_of,
    too_many_deaths,
)

LOCAL_STORE_BYTES = 100 * 2**20
"""Ray's own memory on a machine that it is started on: nothing but names of shards goes through it."""
SECONDS_TO_CONNECT = 10.0
ENVIRONMENT = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
               "RAY_BACKEND_LOG_LEVEL": "fatal"}  # fmt: skip
"""Without these Ray writes a token into the home folder, sends statistics, and talks about itself."""


class ShardActor:
    """What runs in a worker of Ray: it opens the model once and does the shards it is given."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.answer: Answer | None = None

    def score(self, shard: Shard | None) -> Outcome | None:
        """Do one shard; if it fails, others need not. Without one, say that there is a place to work."""
        if shard is None:
            return None
        try:
            self.answer = self.answer or self.job.work.open()
            return commit_shard(self.job, self.answer, shard)
        except Exception as error:
            return failure_of(shard, error)


def score_on_ray(
    job: Job, shards: Sequence[Shard], n_workers: int | None, address: str | None
) -> Generator[Outcome, None, None]:
    """Do the shards with Ray; outcomes come as they end. Workers that die are started again, and do their shards again.

    Without an address Ray is started on this machine, with ``n_workers`` workers, and ended afterwards.
    """
    ray = _import_ray()
    with _connected(ray, n_workers, address):
        count = min(n_workers or max(1, int(ray.cluster_resources().get("CPU", 1))), len(shards))
        make_actor = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=MAX_DEATHS - 1)(ShardActor).remote
        # Shards go to those actors alone that have a machine already.
        at_work: dict[Any, tuple[Any, Shard | None]] = {}
        for actor in [make_actor(job) for _ in range(count)]:
            at_work[actor.score.remote(None)] = actor, None
        waiting = deque(shards)
        while any(shard is not None for _, shard in at_work.values()) or waiting:
            (done,), _ = ray.wait(list(at_work))
            actor, shard = at_work.pop(done)
            try:
                outcome = ray.get(done)
            except ray.exceptions.RayError:
                outcome = None
                if shard is not None:
                    outcome = Outcome(shard.output, error=too_many_deaths(shard, MAX_DEATHS, "without a word"))
            if waiting:
                following = waiting.popleft()
                at_work[actor.score.remote(following)] = actor, following
            if outcome is not None:
                yield outcome


def _import_ray() -> Any:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise DataError("--engine ray needs Ray, but it is not installed; pip install 'diffor[ray]', or use "
                        "--engine local") from error  # fmt: skip
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
