"""Requests that come within a few milliseconds of each other are answered together, by one thread that asks the model.

A model answers sixteen rows about as fast as one. Rows do not depend on those beside them, so joining requests changes
no answer. While the model is at work, further requests gather and make up the next batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from diffor.serving.server.refusals import refusal

Answer = Callable[[Sequence[Any]], Sequence[Any]]
"""Answers several questions at once."""


class Batcher:
    """Gathers questions in the event loop and has them answered in one thread, a batch at a time.

    The length of a question is the number of its rows. A batch has at most ``max_rows`` of them, or one question if
    that is larger; ``wait`` is how long, in seconds, the first question of a batch waits for others. At most
    ``max_waiting`` rows may be waiting: more are refused at once, because a queue that only grows answers nobody in
    time. ``observe`` is told the rows of each batch.
    """

    def __init__(
        self,
        answer: Answer,
        wait: float = 0.002,
        max_rows: int = 1024,
        max_waiting: int = 20_000,
        observe: Callable[[int], object] = lambda n_rows: None,
    ) -> None:
        self.answer, self.wait, self.max_rows, self.max_waiting = answer, wait, max_rows, max_waiting
        self.observe = observe
        self.n_waiting = 0
        """Rows that wait for an answer or are being answered."""
        self._waiting: deque[tuple[Sized, asyncio.Future[Any]]] = deque()
        self._thread = ThreadPoolExecutor(1, "model")
        self._working: asyncio.Task[None] | None = None
        self._is_closed = False

    async def ask(self, question: Sized, seconds: float) -> Any:
        """The answer to a question, or a refusal where there are too many or the time is over."""
        if self._is_closed:
            raise refusal(503, "closing", "the server must be running, but it is stopping; ask another one")
        if self.n_waiting and self.n_waiting + len(question) > self.max_waiting:
            raise refusal(
                503, "busy", f"at most {self.max_waiting} rows can wait for answers, but {self.n_waiting} do already; "
                "try again in a moment", Retry_After="1",
            )  # fmt: skip
        answer = asyncio.get_running_loop().create_future()
        self.n_waiting += len(question)
        self._waiting.append((question, answer))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        try:
            return await asyncio.wait_for(answer, seconds)
        except asyncio.TimeoutError as error:
            raise refusal(
                504, "time", f"an answer must take at most {seconds:g} s, but it is not ready; send fewer rows, "
                "or try again when the server has less to do",
            ) from error  # fmt: skip

    async def close(self) -> None:
        """Answer what is waiting, then stop; later questions are refused."""
        self._is_closed = True
        if self._working is not None:
            await self._working
        self._thread.shutdown()

    async def _work(self) -> None:
        """Answer what waits, until nothing does."""
        while self._waiting:
            if self.n_waiting < self.max_rows:
                await asyncio.sleep(self.wait)
            batch = self._next_batch()
            # Those whose time is over are gone: nobody waits for them.
            wanted = [(question, future) for question, future in batch if not future.done()]
            answers: Sequence[Any] = []
            if wanted:
                questions = [question for question, _ in wanted]
                self.observe(sum(map(len, questions)))
                answers = await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, questions)
            self.n_waiting -= sum(len(question) for question, _ in batch)
            for (_, future), answer in zip(wanted, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _next_batch(self) -> list[tuple[Sized, asyncio.Future[Any]]]:
        batch = [self._waiting.popleft()]
        n_rows = len(batch[0][0])
        while self._waiting and n_rows + len(self._waiting[0][0]) <= self.max_rows:
            batch.append(self._waiting.popleft())
            n_rows += len(batch[-1][0])
        return batch

    def _ask(self, questions: Sequence[Any]) -> Sequence[Any]:
        """Answers, or the errors that were met."""
        try:
            return self.answer(questions)
        except Exception as error:
            # One question must not spoil those beside it, so each is asked alone.
            return [error] if len(questions) == 1 else [self._ask([question])[0] for question in questions]
