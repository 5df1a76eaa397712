"""Requests that are answered together: joined, bounded, in time, and none at the cost of another."""

import asyncio
import threading
import time

import pytest

pytest.importorskip("fastapi")

from diffor.serving.server.batching import Batcher
from diffor.serving.server.refusals import RefusedError


class Held:
    """An answer that waits until it is let go, and remembers what it was asked together."""

    def __init__(self):
        self.asked, self.gate = [], threading.Event()

    def __call__(self, questions):
        self.asked.append(list(questions))
        self.gate.wait(10)
        return [question.upper() for question in questions]


@pytest.fixture
def make():
    made = []

    def batcher(answer, **settings):
        made.append(Batcher(answer, **settings))
        return made[-1]

    yield batcher
    for one in made:
        getattr(one.answer, "gate", threading.Event()).set()
        one.close()


async def until(condition):
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen within five seconds")


def test_what_comes_while_the_model_is_at_work_is_the_next_batch(make):
    held = Held()
    batcher = make(held, wait=0)

    async def ask():
        first = asyncio.create_task(batcher.ask("a", 9))
        await until(lambda: held.asked)
        others = [asyncio.create_task(batcher.ask(text, 9)) for text in ("bb", "c", "d")]
        await until(lambda: batcher.n_waiting == 5)
        held.gate.set()
        return await asyncio.gather(first, *others)

    assert asyncio.run(ask()) == ["A", "BB", "C", "D"]
    assert held.asked == [["a"], ["bb", "c", "d"]]
    assert (batcher.n_batches, batcher.n_questions, batcher.n_waiting) == (2, 4, 0)


def test_a_batch_has_at_most_so_many_rows_but_one_question_may_have_more(make):
    held = Held()
    batcher = make(held, wait=0.3, max_rows=3)
    held.gate.set()

    async def ask():
        return await asyncio.gather(*(batcher.ask(text, 9) for text in ("aa", "bb", "c", "ddddd", "e")))

    assert asyncio.run(ask()) == ["AA", "BB", "C", "DDDDD", "E"]
    assert held.asked == [["aa"], ["bb", "c"], ["ddddd"], ["e"]]


def test_one_that_fails_does_not_spoil_those_beside_it(make):
    def answer(questions):
        if "bad" in questions:
            raise ZeroDivisionError("a bad question")
        return [question.upper() for question in questions]

    batcher = make(answer, wait=0.2)

    async def ask():
        return await asyncio.gather(*(batcher.ask(text, 9) for text in ("a", "bad", "c")), return_exceptions=True)

    first, second, third = asyncio.run(ask())
    assert (first, third) == ("A", "C")
    assert isinstance(second, ZeroDivisionError)


def test_too_many_waiting_rows_are_refused_at_once(make):
    held = Held()
    batcher = make(held, wait=0, max_waiting=4)

    async def ask():
        first = asyncio.create_task(batcher.ask("aaa", 9))
        await until(lambda: held.asked)
        with pytest.raises(RefusedError) as caught:
            await batcher.ask("bb", 9)
        held.gate.set()
        return caught.value, await first

    refused, answer = asyncio.run(ask())
    assert (refused.status, refused.headers) == (503, {"Retry-After": "1"})
    assert str(refused) == ("at most 4 rows can wait for answers, but 3 do already; try again in a moment")
    assert answer == "AAA"


def test_what_takes_too_long_is_given_up_and_not_asked_any_more(make):
    held = Held()
    batcher = make(held, wait=0)

    async def ask():
        first = asyncio.create_task(batcher.ask("a", 9))
        await until(lambda: held.asked)
        with pytest.raises(RefusedError) as caught:
            await batcher.ask("late", 0.05)
        held.gate.set()
        await first
        await batcher.ask("b", 9)
        return caught.value

    refused = asyncio.run(ask())
    assert refused.status == 504
    assert str(refused).startswith("an answer must take at most 0.05 s, but it is not ready; send fewer rows")
    assert held.asked == [["a"], ["b"]]
    assert batcher.n_waiting == 0


def test_closing_answers_what_waits_and_refuses_what_comes_later(make):
    held = Held()
    batcher = make(held, wait=0)

    async def ask():
        tasks = [asyncio.create_task(batcher.ask(text, 9)) for text in ("a", "b")]
        await until(lambda: batcher.n_waiting == 2)
        closing = asyncio.create_task(asyncio.to_thread(batcher.close))
        await asyncio.sleep(0.05)
        with pytest.raises(RefusedError) as caught:
            await batcher.ask("c", 9)
        held.gate.set()
        answers = await asyncio.gather(*tasks)
        await closing
        return caught.value, answers

    refused, answers = asyncio.run(ask())
    assert (refused.status, answers) == (503, ["A", "B"])
    assert str(refused) == "the server must be running, but it is stopping; ask another one"
    batcher.close()  # once more does nothing


def test_a_lone_question_waits_for_others_only_so_long(make):
    batcher = make(lambda questions: list(questions), wait=0.05)
    started = time.monotonic()
    assert asyncio.run(batcher.ask("a", 9)) == "a"
    assert time.monotonic() - started >= 0.045
