"""Scoring on this machine: processes of one thread each; the shard of one that dies is done again by another."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from diffor.core.workers import SECONDS_TO_DIE, cause_of_death, end_group, lead_group, one_thread_each
from diffor.serving.scoring.shards import MAX_DEATHS, Job, Outcome, Shard, commit_shard, failure_of, too_many_deaths

PRELOADED = ["diffor.estimators.api"]
"""What the workers' common ancestor imports once for all of them."""


@dataclass
class _Worker:
    """A process, the pipe to it, and the shard it is at."""

    process: Any
    pipe: Connection
    shard: Shard

    def end(self) -> None:
        end_group(self.process)
        self.pipe.close()


@dataclass
class _Crew:
    """The processes at work and the shards that wait for them."""

    job: Job
    waiting: deque[Shard]
    context: Any
    workers: list[_Worker] = field(default_factory=list)
    deaths: dict[str, int] = field(default_factory=dict)

    def start_worker(self) -> None:
        """Start a process and give it the next shard."""
        pipe, channel = self.context.Pipe()
        process = self.context.Process(target=_work, args=(channel, self.job))
        process.start()
        channel.close()  # else the pipe would never end when the process does
        worker = _Worker(process, pipe, self.waiting.popleft())
        self.workers.append(worker)
        self.hand_out(worker)

    def hand_out(self, worker: _Worker) -> None:
        """Send a worker its shard; if it has died meanwhile, the next look finds out."""
        with suppress(OSError):
            worker.pipe.send(worker.shard)

    def outcomes(self) -> Iterator[Outcome]:
        """Wait until something happens, and say which shards have come to an end."""
        signs = [sign for worker in self.workers for sign in (worker.pipe, worker.process.sentinel)]
        ready = wait(signs)
        for worker in list(self.workers):
            if worker.pipe in ready or worker.process.sentinel in ready:
                yield from self.listen(worker)

    def listen(self, worker: _Worker) -> Iterator[Outcome]:
        """A worker's outcome, after which it gets the next shard; a dead one's shard goes back, if not too often."""
        outcome = None
        with suppress(EOFError, OSError):  # the process died without a word
            if worker.pipe.poll():
                outcome = worker.pipe.recv()
        if outcome is None:
            yield from self.bury(worker)
            return
        if self.waiting:
            worker.shard = self.waiting.popleft()
            self.hand_out(worker)
        else:
            self.workers.remove(worker)
            worker.end()
        yield outcome

    def bury(self, worker: _Worker) -> Iterator[Outcome]:
        """Take note of a worker's death, and let another do its shard, or give the shard up."""
        worker.process.join(SECONDS_TO_DIE)
        cause = cause_of_death(worker.process.exitcode)
        self.workers.remove(worker)
        worker.end()
        shard = worker.shard
        count = self.deaths[shard.output] = self.deaths.get(shard.output, 0) + 1
        if count < MAX_DEATHS:
            self.waiting.appendleft(shard)
        else:
            yield Outcome(shard.output, error=too_many_deaths(shard, count, cause))
        if self.waiting:
            self.start_worker()


def score_on_processes(job: Job, shards: Sequence[Shard], n_workers: int) -> Generator[Outcome, None, None]:
    """Do the shards with processes of this machine; outcomes come as they end. Closing the iterator ends the work."""
    context = multiprocessing.get_context("forkserver")
    with one_thread_each():
        context.set_forkserver_preload(PRELOADED)
        crew = _Crew(job, deque(shards), context)
        try:
            for _ in range(min(n_workers, len(shards))):
                crew.start_worker()
            while crew.workers:
                yield from crew.outcomes()
        finally:
            for worker in crew.workers:
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
