"""Requests that come within a few milliseconds of each other are answered together, by one thread that asks the model.

A model answers sixteen rows about as fast as one. Rows do not depend on those beside them, so joining requests changes
no answer. While the model is at work, further requests gather and make up the next batch.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from diffor.serving.server.refusals import refusal


class Sized(Protocol):
    """What is asked: its length is the number of its rows."""

    def __len__(self) -> int: ...


Answer = Callable[[Sequence[Any]], Sequence[Any]]
"""Answers several questions, each with its answer or with the error that it met."""


@dataclass(eq=False)
class _Waiting:
    """A question with the future that its answer goes to."""

    question: Sized
    future: Future[Any] = field(default_factory=Future)


class Batcher:
    """Gathers questions and answers them in one thread, a batch at a time.

    A batch has at most ``max_rows`` rows, or one question if that is larger; ``wait`` is how long, in seconds, the
    first question of a batch waits for others. At most ``max_waiting`` rows may be waiting: more are refused at once,
    because a queue that only grows answers nobody in time. ``observe`` is told the rows of each batch.
    """

    def __init__(
        self,
        answer: Answer,
        wait: float = 0.002,
        max_rows: int = 1024,
        max_waiting: int = 20_000,
        observe: Callable[[int], object] | None = None,
    ) -> None:
        self.answer, self.wait, self.max_rows, self.max_waiting = answer, wait, max_rows, max_waiting
        self.observe = observe
        self.n_batches = self.n_questions = 0
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._n_rows = 0
        self._is_closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="model", daemon=True)
        self._thread.start()

    @property
    def n_waiting(self) -> int:
        """Rows that wait for an answer or are being answered."""
        return self._n_rows

    async def ask(self, question: Sized, seconds: float) -> Any:
        """The answer to a question, or a refusal where there are too many or the time is over."""
        waiting = self._put(question)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(waiting.future), seconds)
        except asyncio.TimeoutError as error:
            raise refusal(
                504, "time", f"an answer must take at most {seconds:g} s, but it is not ready; send fewer rows, "
                "or try again when the server has less to do",
            ) from error  # fmt: skip

    def _put(self, question: Sized) -> _Waiting:
        waiting = _Waiting(question)
        with self._lock:
            if self._is_closed:
                raise refusal(503, "closing", "the server must be running, but it is stopping; ask another one")
            if self._n_rows and self._n_rows + len(question) > self.max_waiting:
                raise refusal(
                    503, "busy", f"at most {self.max_waiting} rows can wait for answers, but {self._n_rows} do "
                    "already; try again in a moment", Retry_After="1",
                )  # fmt: skip
            self._n_rows += len(question)
            self._waiting.put(waiting)
        return waiting

    def close(self) -> None:
        """Answer what is waiting, then stop; later questions are refused."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        last = False
        held: _Waiting | None = None
        while not (last and held is None):
            batch, held, last = self._gather(held, last)
            self._answer(batch)

    def _gather(self, held: _Waiting | None, last: bool) -> tuple[list[_Waiting], _Waiting | None, bool]:
        """The next batch, what did not fit into it, and whether nothing comes after it."""
        first = self._waiting.get() if held is None else held
        if first is None:
            return [], None, True
        batch, n_rows, until = [first], len(first.question), time.monotonic() + self.wait
        while not last and n_rows < self.max_rows:
            try:
                found = self._waiting.get(timeout=max(until - time.monotonic(), 0))
            except queue.Empty:
                break
            if found is None:
                return batch, None, True
            n_rows += len(found.question)
            if n_rows > self.max_rows:
                return batch, found, last
            batch.append(found)
        return batch, None, last

    def _answer(self, batch: list[_Waiting]) -> None:
        # Those whose time is over are gone: nobody waits for them.
        wanted = [one for one in batch if one.future.set_running_or_notify_cancel()]
        try:
            answers = self._ask([one.question for one in wanted])
        finally:
            with self._lock:
                self._n_rows -= sum(len(one.question) for one in batch)
        for one, answer in zip(wanted, answers, strict=True):
            if isinstance(answer, BaseException):
                one.future.set_exception(answer)
            else:
                one.future.set_result(answer)

    def _ask(self, questions: list[Sized]) -> Sequence[Any]:
        if not questions:
            return []
        self.n_batches += 1
        self.n_questions += len(questions)
        if self.observe is not None:
            self.observe(sum(map(len, questions)))
        try:
            return self.answer(questions)
        except Exception as error:
            # One question must not spoil those beside it, so each is asked alone.
            return [error] if len(questions) == 1 else [self._ask([question])[0] for question in questions]
