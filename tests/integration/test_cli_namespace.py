"""`namespace delete` leaves nothing of a namespace on the broker, and nothing that is in use is deleted by mistake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from grundlag_bus import ActionContext, Provider, ProviderRegistry, RabbitTransport, Worker
from grundlag_bus.transport import Message
from grundlag_bus.workers.announce import retire
from tests.support.broker import Broker
from tests.support.command_line import CommandLine, Ended
from tests.support.eventually import eventually
from tests.support.namespaces import fresh_namespace
from tests.support.transports import in_time


def registry() -> ProviderRegistry:
    """Offer actions of two providers, in two lanes."""
    providers = [Provider("alpha", name="Alpha"), Provider("beta", name="Beta")]
    for provider, lane in zip(providers, ("long", "slow"), strict=True):

        @provider.action("double", name="Double", lane=lane)
        async def double(number: int, ctx: ActionContext) -> int:
            return 2 * number

        @provider.action("treble", name="Treble")
        async def treble(number: int, ctx: ActionContext) -> int:
            return 3 * number

    return ProviderRegistry(providers)


class Used:
    """A namespace on a broker of its own, and a command line."""

    def __init__(self, broker: Broker, tmp_path: Path, name: str) -> None:
        self.broker = broker
        self.name = name
        self.cli = CommandLine(tmp_path, GRUNDLAG_URL=broker.url)

    async def delete(self, *arguments: str) -> Ended:
        return await asyncio.to_thread(self.cli.run, "namespace", "delete", self.name, *arguments)

    async def left(self) -> list[str]:
        """List what the broker holds of the namespace."""
        queues = await self.broker.ctl("list_queues", "name", "--silent")
        exchanges = await self.broker.ctl("list_exchanges", "name", "--silent")
        return [name for name in (queues + exchanges).split() if name.startswith(f"{self.name}.")]

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[RabbitTransport]:
        transport = RabbitTransport(self.broker.url, namespace=self.name)
        await transport.open()
        yield transport
        await transport.close()

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[RabbitTransport]:
        async with self.transport() as transport:
            worker = Worker(transport, registry(), grace=0)
            serving = asyncio.create_task(worker.run())
            await eventually(worker.started.is_set, within=60)
            yield transport
            serving.cancel()
            await asyncio.wait({serving})


@pytest.fixture
async def used(own_broker: Broker, tmp_path: Path) -> Used:
    namespace = Used(own_broker, tmp_path, fresh_namespace())
    async with namespace.worker() as transport:
        await retire(transport, "beta")
        await transport.publish(
            transport.topology.delayed_call_route("alpha", "main", 1), Message(b"no call", "call"), deadline=in_time()
        )
        await transport.read(transport.topology.cancels)
        dead: list[bytes] = []

        def receive(delivery: object) -> None:
            dead.append(b"")
            delivery.ack()  # type: ignore[attr-defined]  # any delivery

        await transport.subscribe(transport.topology.dead_queue, receive, prefetch=1)
        await eventually(lambda: dead, within=30)
    return namespace


async def test_nothing_is_left_of_what_was_ever_announced(used: Used) -> None:
    before = await used.left()
    for queue in ("alpha.main", "alpha.long", "beta.main", "beta.slow"):
        assert f"{used.name}.1.calls.{queue}" in before
    ended = await used.delete("--yes")
    assert (ended.code, ended.sentence) == (0, f"grundlag-bus: namespace {used.name!r} is deleted.")
    # Each process's own queues expire by themselves.
    assert [name for name in await used.left() if not name.startswith(f"{used.name}.1.control.")] == []


async def test_a_dry_run_names_everything_and_deletes_nothing(used: Used) -> None:
    before = await used.left()
    ended = await used.delete("--dry-run", "--json")
    assert (ended.code, ended.response["deleted"]) == (0, False)
    named = {queue["name"] for queue in ended.response["queues"]} | {*ended.response["exchanges"]}
    assert {name for name in before if ".1.control." not in name} <= named
    assert await used.left() == before


async def test_what_is_in_use_is_only_deleted_by_force(used: Used) -> None:
    async with used.transport() as transport:
        await transport.publish(transport.topology.dead_route, Message(b"{}", "dead"), deadline=in_time())
    ended = await used.delete("--yes")
    assert ended.code == 1
    assert f"{used.name}.1.dead (messages: 1, consumers: 0)" in ended.sentence
    assert f"{used.name}.1.dead" in await used.left()
    async with used.worker():
        ended = await used.delete("--yes", "--json")
        assert (ended.code, ended.response["deleted"]) == (1, False)
        assert f"{used.name}.1.calls.alpha.long (messages: 0, consumers: 1)" in ended.sentence
    assert (await used.delete("--yes", "--force")).code == 0
    assert f"{used.name}.1.dead" not in await used.left()


async def test_deleting_asks_for_the_name_on_a_terminal(used: Used) -> None:
    def converse(answer: str) -> Ended:
        with used.cli.on_terminal("namespace", "delete", used.name) as terminal:
            terminal.expect(f"Delete all this for good? Write {used.name}:")
            terminal.answer(answer)
            return terminal.end()

    assert (await asyncio.to_thread(converse, "yes")).code == 1
    assert f"{used.name}.1.dead" in await used.left()
    assert (await asyncio.to_thread(converse, used.name)).code == 0
    assert f"{used.name}.1.dead" not in await used.left()


def test_a_namespace_that_is_not_there_is_told(tmp_path: Path, amqp_url: str) -> None:
    ended = CommandLine(tmp_path, GRUNDLAG_URL=amqp_url).run("namespace", "delete", "mistyped", "--yes")
    assert ended.code == 2
    assert "no namespace 'mistyped'" in ended.sentence


@pytest.mark.parametrize("name", ["a.b", "", "*"])
def test_a_name_that_cannot_be_is_usage(tmp_path: Path, name: str) -> None:
    assert CommandLine(tmp_path, GRUNDLAG_URL="amqp://127.0.0.1:1/").run("namespace", "delete", name, "--yes").code == 2


def test_without_a_terminal_it_needs_yes(tmp_path: Path) -> None:
    ended = CommandLine(tmp_path, GRUNDLAG_URL="amqp://127.0.0.1:1/").run("namespace", "delete", "x")
    assert ended.code == 2
    assert "--yes" in ended.sentence
