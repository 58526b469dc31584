"""What a listener settles, and what it makes of what comes again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from grundlag_bus import EmittedEvent, TransportClosedError
from grundlag_bus.adapters.listening import EventListener
from grundlag_bus.transport import Message


class ToldDelivery:
    redelivered = False
    lost = 0
    held = True
    message = Message(b"", "event")

    def __init__(self) -> None:
        self.settled = 0

    def ack(self) -> None:
        self.settled += 1

    def nack(self) -> None:
        raise AssertionError

    def reject(self) -> None:
        raise AssertionError


class ToldListener(EventListener):
    async def _attach(self) -> None:
        pass

    async def _detach(self) -> None:
        pass

    def comes(self, event_id: str) -> ToldDelivery:
        delivery = ToldDelivery()
        self.hear(EmittedEvent(event_id, "p", "e", "c", datetime.now(UTC), event_id), delivery)
        return delivery

    async def next(self) -> str:
        async with asyncio.timeout(1):
            return (await anext(self)).id


async def test_an_event_is_settled_when_the_next_is_asked_for() -> None:
    async with ToldListener("#") as listener:
        first, second = listener.comes("1"), listener.comes("2")
        assert await listener.next() == "1"
        assert first.settled == 0
        assert await listener.next() == "2"
        assert (first.settled, second.settled) == (1, 0)


async def test_what_comes_again_while_it_waits_keeps_its_place() -> None:
    async with ToldListener("#") as listener:
        listener.comes("1")
        listener.comes("2")
        again = listener.comes("1")
        assert [await listener.next(), await listener.next()] == ["1", "2"]
        assert again.settled == 1


async def test_what_comes_again_while_it_is_worked_on_is_settled_with_it() -> None:
    async with ToldListener("#") as listener:
        listener.comes("1")
        assert await listener.next() == "1"
        again = listener.comes("1")
        assert again.settled == 0
        listener.comes("2")
        assert await listener.next() == "2"
        assert again.settled == 1


async def test_what_comes_again_afterwards_is_settled_and_not_heard() -> None:
    async with ToldListener("#") as listener:
        listener.comes("1")
        listener.comes("2")
        assert [await listener.next(), await listener.next()] == ["1", "2"]
        assert listener.comes("1").settled == 1
        listener.comes("3")
        assert await listener.next() == "3"


async def test_a_listener_that_was_left_gives_nothing_more() -> None:
    async with ToldListener("#") as listener:
        listener.comes("1")
    late = listener.comes("2")
    with pytest.raises(StopAsyncIteration):
        await anext(listener)
    assert late.settled == 0


async def test_only_the_newest_ids_are_remembered() -> None:
    async with ToldListener("#") as listener:
        for number in range(2000):
            listener.comes(str(number))
            assert await listener.next() == str(number)
        assert len(listener._given) <= 514
        listener.comes("0")
        assert await listener.next() == "0"


async def test_a_listener_that_was_not_entered_says_so() -> None:
    with pytest.raises(TransportClosedError, match="async with bus"):
        aiter(ToldListener("#"))
