"""The actions that are called, in this process: each does what its kind says, and notes it."""

import asyncio

from grundlag_bus import ToolContext, connect
from grundlag_bus.chaos.history import Effect, Record, Started
from grundlag_bus.chaos.load import WEIGHTS, Plan, answer_of, asks, call_of, fits, how
from grundlag_bus.chaos.provider import FREE, KEPT, make_registry
from grundlag_bus.schema.envelope import Interrupted


async def test_every_kind_ends_as_its_plan_expects() -> None:
    noted: list[Record] = []
    registry = make_registry(FREE, worker="w", note=noted.append)
    async with connect(registry) as bus:
        for ordinal, kind in enumerate(sorted(set(WEIGHTS) - {"storing"}), start=1):
            planned = Plan(ordinal, kind, kept=False, value=ordinal, seconds=0.01, text="x" * 10 * (kind == "large"))
            call = call_of(planned, run="r", caller="c", now=bus._now(), timeout=60.0)
            reply = await bus.caller.call(call)
            assert fits(planned, call, reply.response), reply
            if isinstance(reply.response, Interrupted):
                asked = asks(reply.response)
                assert asked is not None
                answer = answer_of(planned, asked, now=bus._now(), timeout=60.0)
                answered = await bus.caller.call(answer)
                assert fits(planned, answer, answered.response), answered
                assert how(answered.response) == "completed"
            starts = [each for each in noted if isinstance(each, Started) and each.call_id == call.call_id]
            effects = [each for each in noted if isinstance(each, Effect) and each.call_id == call.call_id]
            assert len(starts) == {"retrying": 3, "deferring": 2}.get(kind, 1)
            assert len(effects) == (0 if kind == "asking" else 1)
            assert {each.worker for each in starts} == {"w"}


def test_an_action_with_an_effect_in_the_ledger_needs_one() -> None:
    assert make_registry(FREE, worker="w", note=lambda _: None).find(FREE, "storing") is None
    assert make_registry(KEPT, worker="w", note=lambda _: None).find(KEPT, "storing") is not None


async def test_a_cancelled_call_has_no_effect() -> None:
    noted: list[Record] = []
    async with connect(make_registry(FREE, worker="w", note=noted.append)) as bus:
        cancel = asyncio.Event()
        asyncio.get_running_loop().call_later(0.05, cancel.set)
        reply = await bus.call("chaosCancelled", {"value": 1, "seconds": 30.0}, ToolContext(signal=cancel))
    assert how(reply.response) == "cancelled"
    assert [type(each) for each in noted] == [Started]
