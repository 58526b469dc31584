"""Buses: where `connect` leads, and what is read of whom."""

from __future__ import annotations

import asyncio
import time

import pytest
from pydantic import BaseModel

from grundlag_bus import (
    BusUnreachableError,
    ConfigurationError,
    Manifest,
    MemoryTransport,
    Provider,
    ProviderRegistry,
    RabbitTransport,
    ToolContext,
    TransportClosedError,
    Worker,
    connect,
)
from grundlag_bus.adapters.bus import TransportBus
from grundlag_bus.schema.envelope import decode_call
from grundlag_bus.transport import named_bus
from grundlag_bus.workers.announce import announce
from tests.support.hosts import RunningWorker
from tests.support.transports import Inbox


class Nothing(BaseModel):
    pass


provider = Provider("notes", name="Notes")


@provider.action("act", name="Act")
async def act(_: Nothing) -> str:
    return "acted"


async def test_a_registry_runs_in_this_process() -> None:
    async with connect(ProviderRegistry([provider])) as bus:
        assert bus.transport is None
        tool = (await bus.to_tools())["notesAct"]
        assert await tool.execute({}) == "acted"
    with pytest.raises(TransportClosedError, match="inside `async with"):
        await tool.execute({})


async def test_a_delayed_call_counts_its_time_from_when_it_is_due() -> None:
    async with connect("memory://") as bus:
        assert bus.transport is not None
        await announce(bus.transport, ProviderRegistry([provider]), worker="w")
        inbox = Inbox(ack=True)
        await bus.transport.subscribe(bus.transport.topology.call_queue("notes", "main"), inbox, prefetch=1)
        before = time.time()
        await bus.submit("notesAct", {}, ToolContext(timeout=60), delay=1)
        (body,) = await inbox.holds(1)
        call = decode_call(body)
        assert before + 1 <= call.sent_at + 0.001 <= time.time() + 1
        assert call.deadline - call.sent_at == pytest.approx(60)


async def test_a_memory_bus_without_a_name_is_a_bus_of_its_own() -> None:
    async with connect("memory://") as first, connect("memory://") as second:
        assert first.transport is not None
        running = await RunningWorker(Worker(first.transport, ProviderRegistry([provider])), first.transport).started()
        assert list(await first.to_tools()) == ["notesAct"]
        assert list(await second.to_tools()) == []
        await running.stop()


async def test_a_named_memory_bus_is_shared_within_the_process() -> None:
    transport = MemoryTransport(bus=named_bus("shared"))
    running = await RunningWorker(Worker(transport, ProviderRegistry([provider])), transport).started()
    async with connect("memory://shared") as bus, connect("memory://shared", namespace="other") as other:
        assert await (await bus.to_tools())["notesAct"].execute({}) == "acted"
        assert await other.to_tools() == {}
    await running.stop()


def test_an_amqp_address_leads_to_rabbitmq() -> None:
    bus = connect("amqp://ada:secret@example.org:5671/vhost", namespace="mine")
    assert isinstance(bus.transport, RabbitTransport)
    assert bus.transport.topology.namespace == "mine"
    assert isinstance(connect("amqps://example.org").transport, RabbitTransport)


def test_credentials_are_for_rabbitmq_alone() -> None:
    bus = connect("amqp://example.org", credentials=lambda: ("ada", "secret"))
    assert "secret" not in repr(bus.transport)
    for source in ("memory://", ProviderRegistry([])):
        with pytest.raises(ConfigurationError, match="credentials"):
            connect(source, credentials=lambda: ("ada", "secret"))


@pytest.mark.parametrize("address", ["", "redis://x", "localhost:5672", "http//x", "amqp:/x", "ftp://ada:secret@x"])
def test_an_address_that_no_bus_has_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        connect(address)
    assert "amqp://guest:guest@localhost/" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("address", ["localhost:8792", "ada:secret@broker"])
def test_an_address_that_does_not_say_what_is_there_is_told_both_beginnings(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"begin it with http:// .* or with amqp://"):
        connect(address)


@pytest.mark.parametrize("namespace", ["", "a b", "1", "a" * 41, "a.b"])
def test_a_namespace_is_refused_alike_wherever_it_leads(namespace: str) -> None:
    for source in ("memory://", "amqp://localhost", ProviderRegistry([provider])):
        with pytest.raises(ConfigurationError, match="namespace"):
            connect(source, namespace=namespace)


async def test_a_bus_that_nobody_can_reach_says_where_without_its_password() -> None:
    with pytest.raises(BusUnreachableError) as raised:
        async with TransportBus(RabbitTransport("amqp://ada:secret@127.0.0.1:1/", connect_timeout=0.1)):
            raise AssertionError
    assert "127.0.0.1:1" in str(raised.value)
    assert "secret" not in str(raised.value)
    assert not asyncio.all_tasks() - {asyncio.current_task()}


async def test_a_call_outside_the_bus_is_refused() -> None:
    bus = connect("memory://")
    async with bus:
        manifest = ProviderRegistry([provider]).manifest()
        tools = await bus.to_tools(manifest)
    with pytest.raises(TransportClosedError):
        await tools["notesAct"].execute({})


async def test_a_pinned_manifest_needs_no_reading() -> None:
    manifest = Manifest.decode(ProviderRegistry([provider]).manifest().encode())
    bus = connect(ProviderRegistry([provider]))
    async with bus:
        tools = await bus.to_tools(manifest)
        assert await tools["notesAct"].execute({}) == "acted"


async def test_a_call_by_name_reads_the_manifest_again_when_the_name_is_new() -> None:
    registry = ProviderRegistry()
    async with connect(registry) as bus:
        assert (await bus.call("notesAct", {})).response.to_json()["code"] == "action_unknown"
        registry.register(provider)
        assert (await bus.call("notesAct", {})).response.to_json()["result"] == "acted"


async def test_a_call_by_name_returns_what_the_caller_refuses_as_a_reply() -> None:
    async with connect(ProviderRegistry([provider])) as bus:
        told = (await bus.call("notesAct", 3)).response.to_json()
    assert (told["status"], told["code"], told["details"]["actionId"]) == ("failed", "input_invalid", "act")
