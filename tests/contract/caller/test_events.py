"""Events: what actions emit reaches whoever listens, wherever the actions run."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from grundlag_bus import (
    ActionFailed,
    ActionOutputValidationError,
    ConfigurationError,
    EmittedEvent,
    EventListener,
    InternalError,
    ToolContext,
    TransportClosedError,
)
from grundlag_bus.schema.event import derived_event_id, encode_event
from grundlag_bus.transport import Message
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.hazards import HAZARDS
from tests.support.hosts import BEHIND_HTTP, Host, on_buses
from tests.support.transports import in_time, reconnect


async def take(events: EventListener, count: int) -> list[EmittedEvent]:
    async with asyncio.timeout(30):
        return [await anext(events) for _ in range(count)]


def numbers(events: list[EmittedEvent]) -> list[int]:
    return [event.data["number"] for event in events]


async def hears_nothing_more(host: Host, events: EventListener) -> None:
    """Emit one last event and hear it next."""
    await host.execute("tell", {"event": "shouted"})
    (last,) = await take(events, 1)
    assert last.event_id == "shouted"


# --- emitting ---------------------------------------------------------------------------------------------------------


async def test_an_event_says_what_happened_where_when_and_on_whose_behalf(host: Host) -> None:
    user_id = None if host.kind in BEHIND_HTTP else "ada"  # there nobody hears another user's events
    async with host.bus.events("contract.told") as events:
        reply = await host.bus.call("contractTell", {}, ToolContext(user_id=user_id))
        (event,) = await take(events, 1)
    assert event == EmittedEvent(
        id=derived_event_id(reply.call_id, 1, 1),
        provider_id="contract",
        event_id="told",
        call_id=reply.call_id,
        at=event.at,
        data={"number": 0, "about": None},
        user_id=user_id,
    )
    assert timedelta(0) <= datetime.now(UTC) - event.at < timedelta(minutes=1)


async def test_a_thousand_events_of_one_action_come_in_order(host: Host) -> None:
    async with host.bus.events("contract.*") as events:
        telling = asyncio.create_task(host.execute("tell", {"times": 1000}))
        heard = await take(events, 1000)
        await telling
    assert numbers(heard) == list(range(1000))
    assert len({event.id for event in heard}) == 1000


async def test_an_action_in_a_thread_emits_by_calling(host: Host) -> None:
    async with host.bus.events("contract.told") as events:
        await host.execute("tellInThread", {"times": 20})
        assert numbers(await take(events, 20)) == list(range(20))


async def test_what_was_emitted_before_a_failure_is_heard(host: Host) -> None:
    async with host.bus.events("contract.told") as events:
        with pytest.raises(ActionFailed):
            await host.execute("tell", {"times": 2, "how": "failed"})
        assert numbers(await take(events, 2)) == [0, 1]


async def test_that_nobody_listens_is_no_error(host: Host) -> None:
    await host.execute("tell", {"times": 3})
    await host.execute("tellInThread", {"times": 3})


async def test_an_action_that_is_started_again_emits_again(host: Host) -> None:
    async with host.bus.events("contract.told") as events:
        await host.execute("tellTwice")
        heard = await take(events, 2)
    assert numbers(heard) == [1, 2]
    assert heard[0].id != heard[1].id
    assert heard[0].call_id == heard[1].call_id


@pytest.mark.parametrize("event", ["nothing", "told.x", "", "other.told"])
async def test_what_is_not_declared_cannot_be_emitted(host: Host, event: str) -> None:
    with pytest.raises(InternalError) as raised:
        await host.execute("tell", {"event": event})
    assert raised.value.details["type"] == "ConfigurationError"


async def test_an_event_of_another_provider_cannot_be_emitted(host: Host) -> None:
    async with host.bus.events() as events:
        with pytest.raises(InternalError) as raised:
            await host.execute("tellAnything", {"how": "foreign"})
        assert raised.value.details["type"] == "ConfigurationError"
        await hears_nothing_more(host, events)


@pytest.mark.parametrize(("name", "code"), [(name, code) for name, (_, code) in HAZARDS.items()])
async def test_what_is_no_json_is_not_emitted(host: Host, name: str, code: str) -> None:
    async with host.bus.events() as events:
        with pytest.raises(ActionOutputValidationError) as raised:
            await host.execute("tellAnything", {"spoil": name})
        assert raised.value.issues[0].code == code
        assert raised.value.issues[0].path[:2] == ("told", "about")
        await hears_nothing_more(host, events)


@pytest.mark.parametrize("data", [{}, {"number": "one"}, 7, None, [1]])
async def test_what_does_not_fit_the_event_is_not_emitted(host: Host, data: object) -> None:
    async with host.bus.events() as events:
        with pytest.raises(ActionOutputValidationError) as raised:
            await host.execute("tellAnything", {"data": data})
        assert raised.value.action_id == "tellAnything"
        assert raised.value.issues[0].path[0] == "told"
        await hears_nothing_more(host, events)


# --- listening --------------------------------------------------------------------------------------------------------


async def test_two_listeners_both_hear_everything(host: Host) -> None:
    async with host.bus.events("contract.told") as first, host.bus.events("#") as second:
        await host.execute("tell", {"times": 10})
        assert numbers(await take(first, 10)) == numbers(await take(second, 10)) == list(range(10))


async def test_each_listener_has_data_of_its_own(host: Host) -> None:
    async with host.bus.events() as first, host.bus.events() as second:
        await host.execute("tell", {})
        (heard,) = await take(first, 1)
        heard.data["number"] = "changed"
        assert numbers(await take(second, 1)) == [0]


@pytest.mark.parametrize("pattern", ["contract.shouted", "*.shouted", "#.shouted", "contract.shouted.#"])
async def test_a_listener_hears_what_matches_its_pattern_alone(host: Host, pattern: str) -> None:
    async with host.bus.events(pattern) as events:
        await host.execute("tell", {"event": "told", "times": 3})
        await host.execute("tell", {"event": "shouted"})
        assert [event.event_id for event in await take(events, 1)] == ["shouted"]


@pytest.mark.parametrize("pattern", ["", "contract", "a.b.c", "contract.", "con tract.told", "a..b", "*.*.*", "7.told"])
async def test_a_pattern_that_no_event_matches_is_refused(host: Host, pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="matches no event"):
        host.bus.events(pattern)


async def test_what_happened_before_is_not_heard_and_what_waits_is(host: Host) -> None:
    await host.execute("tell", {"event": "shouted"})
    async with host.bus.events() as events:
        await host.execute("tell", {"times": 3})
        await host.execute("tell", {"event": "shouted"})
        assert [event.event_id for event in await take(events, 4)] == ["told", "told", "told", "shouted"]


async def test_a_listener_that_is_left_ends_whoever_iterates(host: Host) -> None:
    heard: list[EmittedEvent] = []

    async def iterate(events: EventListener) -> None:
        heard.extend([event async for event in events])

    events = host.bus.events()
    async with events:
        iterating = asyncio.create_task(iterate(events))
        await host.execute("tell", {"times": 2})
        await asyncio.sleep(0.05)
    await iterating
    assert all(event.event_id == "told" for event in heard)
    with pytest.raises(TransportClosedError):
        aiter(events)


async def test_the_close_of_the_bus_ends_the_iteration(host: Host) -> None:
    other = await host.another_bus()
    async with other.bus.events() as events:
        iterating = asyncio.create_task(anext(events))
        await asyncio.sleep(0)
        await other.bus.__aexit__(None, None, None)
        with pytest.raises(StopAsyncIteration):
            await iterating
    with suppress(TransportClosedError):
        async with other.bus.events():
            raise AssertionError("a closed bus was listened to")


async def test_a_listener_may_call_what_emits(host: Host) -> None:
    async with host.bus.events("contract.told") as events:
        await host.execute("tell", {})
        count = 0
        async for event in events:
            if count == 5:
                break
            count += 1
            await host.execute("tell", {"times": event.data["number"] + 1})


@on_buses
async def test_events_of_another_namespace_are_not_heard(host: Host) -> None:
    other = await host.another_bus(namespace=f"{host.namespace}-b")
    async with host.bus.events() as events:
        await other.execute("tell", {"times": 3})
        await hears_nothing_more(host, events)


@on_buses
async def test_whoever_may_publish_one_providers_events_cannot_speak_for_another(host: Host) -> None:
    transport = host.bus.transport
    assert transport is not None
    forged = EmittedEvent("1", "bank", "paid", "c", datetime.now(UTC), None)
    async with host.bus.events() as events:
        route = transport.topology.event_route("contract", "told")
        await transport.publish(route, Message(encode_event(forged), "event"), deadline=transport.now() + 10)
        await hears_nothing_more(host, events)


@on_buses
async def test_every_bus_hears_the_events_of_every_worker(host: Host) -> None:
    other = await host.another_bus()
    await host.add_worker()
    async with host.bus.events() as first, other.bus.events() as second:
        await asyncio.gather(*(host.execute("tell", {"times": 2}) for _ in range(10)))
        assert sorted(numbers(await take(first, 20))) == sorted(numbers(await take(second, 20))) == [0] * 10 + [1] * 10


@on_buses
async def test_what_waits_survives_a_reconnect_once_and_in_order(host: Host) -> None:
    async with host.bus.events("contract.told") as events:
        await host.execute("tell", {"times": 600})
        heard = await take(events, 10)
        assert host.bus.transport is not None
        await reconnect(host.bus.transport)
        heard += await take(events, 300)
        await reconnect(host.bus.transport)
        heard += await take(events, 290)
        assert numbers(heard) == list(range(600))
        assert events.gaps == 0
        await host.execute("tell", {"times": 1})
        assert numbers(await take(events, 1)) == [0]


@on_buses
async def test_what_is_no_event_is_skipped(host: Host) -> None:
    transport = host.transport()
    await transport.open()
    route = transport.topology.event_route("contract", "told")
    lie = EmittedEvent("1", "other", "told", "c", datetime.now(UTC), None)
    deep = encode_event(lie).replace(b"null", b"[" * 300 + b"]" * 300).replace(b"other", b"contract")
    bodies = [b"", b"{}", b"\xff", b'{"v": 7}', b"[" * 5000, b'{"v":1,"id":1}', encode_event(lie), deep]
    async with host.bus.events("contract.*") as events:
        for body in bodies:
            await transport.publish(route, Message(body, "event"), deadline=in_time())
        await hears_nothing_more(host, events)
    await transport.close()


@on_buses
async def test_a_start_that_is_repeated_after_its_worker_was_lost_is_heard_once(host: Host) -> None:
    """Its events have the same ids, which the listener remembers."""
    async with host.bus.events() as events:
        calling = asyncio.create_task(host.execute("tellAndHold", {"name": "a"}))
        assert numbers(await take(events, 1)) == [1]
        await host.workers[0].worker.abort()
        await host.add_worker()
        await eventually(lambda: seen.runs["tellAndHold"] == 2)
        seen.gate("a").set()
        await calling
        await hears_nothing_more(host, events)
