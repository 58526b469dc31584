"""What is asked in the same moment is asked together, and answered one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from grundlag_bus import StoreAwayError
from grundlag_bus.workers.ledger.joined import MOST_BYTES, Joined


@dataclass(frozen=True)
class Question:
    key: str
    size: int = 1


class Oracle:
    """Answers a question by its key; `asked` has each batch."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.began = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.joined: Joined[Question, str] = Joined(self.together, self.alone)

    async def together(self, questions: Sequence[Question]) -> list[str | None]:
        self.asked.append("".join(question.key for question in questions))
        self.began.set()
        await self.gate.wait()
        if any(question.key == "!" for question in questions):
            raise ValueError(self.asked[-1])
        if any(question.key == "~" for question in questions):
            raise StoreAwayError("away")
        return [None if question.key == "?" else question.key for question in questions]

    async def alone(self, question: Question) -> str:
        self.asked.append(f"({question.key})")
        if question.key == "!":
            raise ValueError("alone")
        return question.key

    async def ask(self, keys: str) -> list[str | BaseException]:
        return await asyncio.gather(*(self.joined.ask(Question(key)) for key in keys), return_exceptions=True)


@pytest.fixture
async def oracle() -> Oracle:
    return Oracle()


async def test_what_is_asked_at_once_is_asked_together(oracle: Oracle) -> None:
    assert await oracle.ask("abc") == ["a", "b", "c"]
    assert oracle.asked == ["abc"]


async def test_while_a_batch_is_on_its_way_the_next_one_gathers(oracle: Oracle) -> None:
    oracle.gate.clear()
    first = asyncio.create_task(oracle.ask("a"))
    await oracle.began.wait()
    others = [asyncio.create_task(oracle.ask(key)) for key in "bcd"]
    for _ in range(10):
        await asyncio.sleep(0)
    oracle.gate.set()
    await asyncio.gather(first, *others)
    assert oracle.asked == ["a", "bcd"]


async def test_one_that_cannot_be_answered_fails_no_other(oracle: Oracle) -> None:
    first, second, third = await oracle.ask("a!c")
    assert (first, str(second), third) == ("a", "alone", "c")
    assert sorted(oracle.asked) == ["(!)", "(a)", "(c)", "a!c"]


async def test_one_that_the_batch_leaves_open_is_asked_alone(oracle: Oracle) -> None:
    assert await oracle.ask("a?") == ["a", "?"]
    assert oracle.asked == ["a?", "(?)"]


async def test_when_the_store_is_away_each_hears_so(oracle: Oracle) -> None:
    answers = await oracle.ask("a~")
    assert [str(answer) for answer in answers if isinstance(answer, StoreAwayError)] == ["away", "away"]
    assert oracle.asked == ["a~"]


async def test_a_second_question_of_the_same_key_comes_after_the_first(oracle: Oracle) -> None:
    assert await oracle.ask("aba") == ["a", "b", "a"]
    assert oracle.asked == ["ab", "a"]


async def test_a_batch_has_no_more_bytes_than_it_may(oracle: Oracle) -> None:
    large = [Question(key, MOST_BYTES) for key in "abc"]
    await asyncio.gather(*(oracle.joined.ask(question) for question in [*large, Question("d")]))
    assert oracle.asked == ["a", "b", "c", "d"]


async def test_who_was_cancelled_is_not_asked_for(oracle: Oracle) -> None:
    cancelled = asyncio.create_task(oracle.joined.ask(Question("a")))
    asyncio.get_running_loop().call_soon(cancelled.cancel)
    assert await oracle.ask("bc") == ["b", "c"]
    assert oracle.asked == ["bc"]
    assert cancelled.cancelled()


async def test_who_waits_is_cancelled_with_the_asking(oracle: Oracle) -> None:
    oracle.gate.clear()
    waiting = asyncio.create_task(oracle.ask("a"))
    await oracle.began.wait()
    later = asyncio.create_task(oracle.ask("b"))
    await asyncio.sleep(0)
    asking = oracle.joined._asking
    assert asking is not None
    asking.cancel()
    for asked in (waiting, later):
        (answer,) = await asked
        assert isinstance(answer, asyncio.CancelledError)
