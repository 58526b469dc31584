"""The same answer, given twice at once, is one call for all who gave it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from grundlag_bus import Call, Completed, Failed, Reply, Request, Resumption
from grundlag_bus.schema.progress import ProgressSink
from grundlag_bus.tools import JoiningCaller
from tests.support.eventually import eventually


class Gated:
    """A caller whose calls end when they are let, or at their deadline."""

    def __init__(self) -> None:
        self.begun = 0
        self.running = 0
        self.most = 0
        self.gate = asyncio.Event()
        self.asked: list[bool] = []
        self.given_up = 0

    async def call(
        self, call: Call, *, on_progress: ProgressSink | None = None, cancel: asyncio.Event | None = None
    ) -> Reply:
        self.begun += 1
        self.asked.append(cancel is not None and cancel.is_set())
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            async with asyncio.timeout(call.deadline - time.time()):
                await self.gate.wait()
            return Reply(call.call_id, Completed(self.begun), "gated")
        except TimeoutError:
            return Reply(call.call_id, Failed("deadline_exceeded", "too late"), "gated")
        except asyncio.CancelledError:
            self.given_up += 1
            await asyncio.sleep(0.01)
            raise
        finally:
            self.running -= 1


def answer(call_id: str = "a", *, seconds: float = 60) -> Call:
    request = Request({}, Resumption("i", {"approved": True}, "sealed"))
    return Call(call_id, "demo", "add", request, time.time() + seconds)


async def test_an_answer_given_thrice_at_once_runs_once_and_each_gets_its_reply() -> None:
    gated = Gated()
    joining = JoiningCaller(gated)
    asked = [asyncio.create_task(joining.call(answer())) for _ in range(3)]
    other = asyncio.create_task(joining.call(answer("b")))
    await eventually(lambda: gated.begun == 2)
    gated.gate.set()
    assert [reply.response for reply in await asyncio.gather(*asked)] == [Completed(2)] * 3
    assert (await other).call_id == "b"


async def test_an_answer_given_again_later_is_a_call_again() -> None:
    gated = Gated()
    gated.gate.set()
    joining = JoiningCaller(gated)
    await joining.call(answer())
    await joining.call(answer())
    assert gated.begun == 2


async def test_calls_that_are_no_answers_are_not_joined() -> None:
    gated = Gated()
    joining = JoiningCaller(gated)
    call = Call("a", "demo", "add", Request({}), time.time() + 60)
    asked = [asyncio.create_task(joining.call(call)) for _ in range(2)]
    await eventually(lambda: gated.begun == 2)
    gated.gate.set()
    await asyncio.gather(*asked)


async def test_a_joined_call_goes_on_while_somebody_waits_for_it() -> None:
    gated = Gated()
    joining = JoiningCaller(gated)
    first, second = [asyncio.create_task(joining.call(answer())) for _ in range(2)]
    await eventually(lambda: gated.begun == 1)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gated.gate.set()
    assert (await second).response == Completed(1)


async def test_the_last_one_who_leaves_ends_the_call_and_the_next_one_does_not_run_beside_it() -> None:
    gated = Gated()
    joining = JoiningCaller(gated)
    first = asyncio.create_task(joining.call(answer()))
    await eventually(lambda: gated.begun == 1)
    first.cancel()
    await asyncio.sleep(0)  # it is being cancelled, and not ended yet
    again = asyncio.create_task(joining.call(answer()))
    await eventually(lambda: gated.begun == 2)
    gated.gate.set()
    assert (await again).response == Completed(2)
    assert gated.most == 1


async def test_who_has_less_time_waits_no_longer_than_that() -> None:
    gated = Gated()
    joining = JoiningCaller(gated)
    long = asyncio.create_task(joining.call(answer()))
    await eventually(lambda: gated.begun == 1)
    short = await joining.call(answer(seconds=0.05))
    assert isinstance(short.response, Failed)
    assert short.response.code == "deadline_exceeded"
    gated.gate.set()
    assert (await long).response == Completed(1)


async def test_who_has_more_time_does_not_end_by_the_deadline_of_another() -> None:
    gated = Gated()
    joining = JoiningCaller(gated)
    short = asyncio.create_task(joining.call(answer(seconds=0.05)))
    await eventually(lambda: gated.begun == 1)
    long = asyncio.create_task(joining.call(answer()))
    assert isinstance((await short).response, Failed)
    await eventually(lambda: gated.begun == 2)
    gated.gate.set()
    assert (await long).response == Completed(2)


async def test_a_call_is_left_to_end_by_itself_at_its_deadline() -> None:
    """Given up, it would be cancelled, and the same answer could not be given again."""

    class Late(Gated):
        async def call(
            self, call: Call, *, on_progress: ProgressSink | None = None, cancel: asyncio.Event | None = None
        ) -> Reply:
            return await super().call(replace(call, deadline=call.deadline + 0.05))

    late = Late()
    (reply,) = await asyncio.gather(JoiningCaller(late).call(answer(seconds=0.05)))
    assert reply.worker == "gated"
    assert late.given_up == 0


async def test_a_call_does_not_begin_unasked_when_its_signal_is_set_before() -> None:
    gated = Gated()
    gated.gate.set()
    signal = asyncio.Event()
    signal.set()
    await JoiningCaller(gated).call(answer(), cancel=signal)
    assert gated.asked == [True]


@pytest.mark.parametrize("bound", ["idle", "limit"])
async def test_what_a_bound_of_the_action_ended_has_ended_for_all(bound: str) -> None:
    class Bounded(Gated):
        async def call(
            self, call: Call, *, on_progress: ProgressSink | None = None, cancel: asyncio.Event | None = None
        ) -> Reply:
            await super().call(call)
            return Reply(call.call_id, Failed("deadline_exceeded", "too long", {"published": True, bound: 1}), "gated")

    bounded = Bounded()
    joining = JoiningCaller(bounded)
    asked = [asyncio.create_task(joining.call(answer())) for _ in range(2)]
    await eventually(lambda: bounded.begun == 1)
    bounded.gate.set()
    for reply in await asyncio.gather(*asked):
        assert isinstance(reply.response, Failed)
    assert bounded.begun == 1
