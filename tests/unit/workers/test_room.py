"""How many calls run at once where the broker does not count them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from pydantic import BaseModel

from grundlag_bus import Call, MemoryTransport, Provider, ProviderRegistry, Request
from grundlag_bus.schema.envelope import decode_call, encode_call
from grundlag_bus.transport import Delivery, Message
from grundlag_bus.workers.intake import Intake
from grundlag_bus.workers.room import Room
from grundlag_bus.workers.run import Run
from grundlag_bus.workers.share import share_of
from tests.support.eventually import eventually


class Nothing(BaseModel):
    pass


@dataclass
class Lane:
    """A lane for one call at once, whose deliveries are there to look at."""

    transport: MemoryTransport
    runs: dict[str, Run] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)

    def __post_init__(self) -> None:
        films = Provider("films", name="Films")
        films.action("show", name="Show", lane="long")(_show)
        share = share_of(ProviderRegistry([films]), concurrency=1, ledger=True)
        self.intake = Intake(
            self.transport, share, receive=lambda _provider, _lane, come: self.deliveries.append(come), renewed=_nobody
        )
        self.room = Room(self.intake, share, self.runs)

    async def receive(self, call_id: str) -> tuple[Call, Delivery]:
        """Send a call, and take its delivery."""
        call = Call(call_id, "films", "show", Request({}), time.time() + 60, lane="long")
        route = self.transport.topology.call_route("films", "long")
        before = len(self.deliveries)
        await self.transport.publish(route, Message(encode_call(call), "call"), deadline=time.time() + 60)
        await eventually(lambda: len(self.deliveries) > before)
        return call, self.deliveries[-1]

    async def run(self, call_id: str) -> Call:
        """Have a call run that was settled early."""
        call, delivery = await self.receive(call_id)
        run = self.runs[call_id] = Run(call, delivery)
        run.settle_early()
        return call

    def end(self, call: Call) -> None:
        del self.runs[call.call_id]
        self.room.freed(call)


async def _show(_: Nothing) -> None: ...


def _nobody() -> None: ...


@pytest.fixture
async def lane() -> AsyncIterator[Lane]:
    opened = Lane(MemoryTransport())
    await opened.transport.open()
    await opened.intake.open()
    yield opened
    opened.room.close()
    await opened.intake.close()
    await opened.transport.close()


async def test_what_there_is_no_room_for_comes_again_when_there_is(lane: Lane) -> None:
    first = await lane.run("1")
    second, delivery = await lane.receive("2")
    assert not lane.room.has(second)
    lane.room.give_back(second, delivery)
    await eventually(lambda: not delivery.held)
    assert not lane.transport.state.consumers_actual
    lane.end(first)
    await eventually(lambda: len(lane.deliveries) == 3)
    assert decode_call(lane.deliveries[-1].message.body).call_id == second.call_id
    assert lane.room.has(second)


async def test_a_lane_is_not_paused_for_what_came_when_it_was_full_and_has_room_again(lane: Lane) -> None:
    first = await lane.run("1")
    second, delivery = await lane.receive("2")
    lane.room.give_back(second, delivery)
    lane.end(first)
    await eventually(lambda: len(lane.deliveries) == 3)
    assert lane.transport.state.consumers_actual == 1
