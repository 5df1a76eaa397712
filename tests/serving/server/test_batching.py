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
        if "bad" in questions:
            raise ZeroDivisionError("a bad question")
        return [question.upper() for question in questions]


@pytest.fixture
def held():
    return Held()


async def until(condition):
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen within five seconds")


async def first_and_then(batcher, held):
    """A question that the model is at."""
    task = asyncio.create_task(batcher.ask("aaa", 9))
    await until(lambda: held.asked)
    return task


def test_what_comes_while_the_model_is_at_work_is_the_next_batch(held):
    rows = []

    async def ask():
        batcher = Batcher(held, wait=0, observe=rows.append)
        first = await first_and_then(batcher, held)
        others = [asyncio.create_task(batcher.ask(text, 9)) for text in ("bb", "c", "d")]
        await until(lambda: batcher.n_waiting == 7)
        held.gate.set()
        answers = await asyncio.gather(first, *others)
        await batcher.close()
        assert batcher.n_waiting == 0
        return answers

    assert asyncio.run(ask()) == ["AAA", "BB", "C", "D"]
    assert held.asked == [["aaa"], ["bb", "c", "d"]]
    assert rows == [3, 4]


def test_a_batch_has_at_most_so_many_rows_but_one_question_may_have_more(held):
    held.gate.set()

    async def ask():
        batcher = Batcher(held, wait=0.3, max_rows=3)
        return await asyncio.gather(*(batcher.ask(text, 9) for text in ("aa", "bb", "c", "ddddd", "e")))

    assert asyncio.run(ask()) == ["AA", "BB", "C", "DDDDD", "E"]
    assert held.asked == [["aa"], ["bb", "c"], ["ddddd"], ["e"]]


def test_one_that_fails_does_not_spoil_those_beside_it(held):
    held.gate.set()

    async def ask():
        batcher = Batcher(held, wait=0.2)
        return await asyncio.gather(*(batcher.ask(text, 9) for text in ("a", "bad", "c")), return_exceptions=True)

    first, second, third = asyncio.run(ask())
    assert (first, third) == ("A", "C")
    assert isinstance(second, ZeroDivisionError)


def test_too_many_waiting_rows_are_refused_at_once(held):
    async def ask():
        batcher = Batcher(held, wait=0, max_waiting=4)
        first = await first_and_then(batcher, held)
        with pytest.raises(RefusedError) as caught:
            await batcher.ask("bb", 9)
        held.gate.set()
        return caught.value, await first

    refused, answer = asyncio.run(ask())
    assert (refused.status, refused.headers) == (503, {"Retry-After": "1"})
    assert str(refused) == ("at most 4 rows can wait for answers, but 3 do already; try again in a moment")
    assert answer == "AAA"


def test_what_takes_too_long_is_given_up_and_not_asked_any_more(held):
    async def ask():
        batcher = Batcher(held, wait=0)
        first = await first_and_then(batcher, held)
        with pytest.raises(RefusedError) as caught:
            await batcher.ask("late", 0.05)
        held.gate.set()
        await first
        await batcher.ask("b", 9)
        assert batcher.n_waiting == 0
        return caught.value

    refused = asyncio.run(ask())
    assert refused.status == 504
    assert str(refused).startswith("an answer must take at most 0.05 s, but it is not ready; send fewer rows")
    assert held.asked == [["aaa"], ["b"]]


def test_closing_answers_what_waits_and_refuses_what_comes_later(held):
    async def ask():
        batcher = Batcher(held, wait=0)
        tasks = [asyncio.create_task(batcher.ask(text, 9)) for text in ("a", "b")]
        await until(lambda: batcher.n_waiting == 2)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0.05)
        with pytest.raises(RefusedError) as caught:
            await batcher.ask("c", 9)
        held.gate.set()
        answers = await asyncio.gather(*tasks)
        await closing
        await batcher.close()  # once more does nothing
        return caught.value, answers

    refused, answers = asyncio.run(ask())
    assert (refused.status, answers) == (503, ["A", "B"])
    assert str(refused) == "the server must be running, but it is stopping; ask another one"


def test_a_lone_question_waits_for_others_only_so_long():
    batcher = Batcher(list, wait=0.05)
    started = time.monotonic()
    assert asyncio.run(batcher.ask("a", 9)) == "a"
    assert time.monotonic() - started >= 0.045
