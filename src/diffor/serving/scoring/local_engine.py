"""Scoring on this machine: processes of one thread each; the shard of one that dies is done again by another."""

from __future__ import annotations

import multiprocessing
from collections import Counter, deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from diffor.core.workers import SECONDS_TO_DIE, cause_of_death, end_group, lead_group, one_thread_each
from diffor.serving.scoring.shards import MAX_DEATHS, Job, Outcome, Shard, commit_shard, failure_of, too_many_deaths

PRELOADED = ["diffor.estimators.api"]
"""What the workers' common ancestor imports once for all of them."""


class _Worker:
    """A process, the pipe to it, and the shard it is at."""

    def __init__(self, context: Any, job: Job, shard: Shard) -> None:
        self.pipe, channel = context.Pipe()
        self.process = context.Process(target=_work, args=(channel, job))
        self.process.start()
        channel.close()  # else the pipe would never end when the process does
        self.hand_out(shard)

    def hand_out(self, shard: Shard) -> None:
        """Send it a shard; if it has died meanwhile, the next look finds out."""
        self.shard = shard
        with suppress(OSError):
            self.pipe.send(shard)

    def outcome(self) -> Outcome | None:
        """What became of its shard; None if it died without a word."""
        with suppress(EOFError, OSError):
            if self.pipe.poll():
                return cast(Outcome, self.pipe.recv())
        self.process.join(SECONDS_TO_DIE)
        return None

    def end(self) -> None:
        end_group(self.process)
        self.pipe.close()


def score_on_processes(job: Job, shards: Sequence[Shard], n_workers: int) -> Generator[Outcome, None, None]:
    """Do the shards with processes of this machine; outcomes come as they end. Closing the iterator ends the work."""
    context = multiprocessing.get_context("forkserver")
    waiting, workers = deque(shards), list[_Worker]()
    deaths: Counter[str] = Counter()
    with one_thread_each():
        context.set_forkserver_preload(PRELOADED)
        try:
            while waiting or workers:
                while waiting and len(workers) < n_workers:
                    workers.append(_Worker(context, job, waiting.popleft()))
                ready = wait([sign for worker in workers for sign in (worker.pipe, worker.process.sentinel)])
                for worker in [one for one in workers if one.pipe in ready or one.process.sentinel in ready]:
                    shard, outcome = worker.shard, worker.outcome()
                    if outcome is not None and waiting:
                        worker.hand_out(waiting.popleft())
                    else:
                        workers.remove(worker)
                        worker.end()
                    if outcome is None:  # another does its shard, unless that is what kills them
                        deaths[shard.output] += 1
                        if deaths[shard.output] < MAX_DEATHS:
                            waiting.appendleft(shard)
                            continue
                        cause = cause_of_death(worker.process.exitcode)
                        outcome = Outcome(shard.output, error=too_many_deaths(shard, MAX_DEATHS, cause))
                    yield outcome
        finally:
            for worker in workers:
                worker.end()


def _work(channel: Connection, job: Job) -> None:
    """Do one shard after the other; runs in a process of its own, which is ended from outside."""
    lead_group()
    answer = None
    with suppress(EOFError, ConnectionError):  # who hands out the shards is dead, and soon this process is, too
        while True:
            shard: Shard = channel.recv()
            try:
                answer = job.work.open() if answer is None else answer
                outcome = commit_shard(job, answer, shard)
            except Exception as error:  # this shard has failed, others need not
                outcome = failure_of(shard, error)
            channel.send(outcome)
