"""The proxy of the suite, before servers that answer with what they hear."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from grundlag_bus.chaos.proxy import TcpProxy, proxy_to
from grundlag_bus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WITHIN = 20.0


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self) -> None:
        self._writer.write(b"!")

    async def hears(self, within: float = WITHIN) -> bytes:
        """Return what is answered; nothing at the end of the connection."""
        async with asyncio.timeout(within):
            try:
                return await self._reader.read(1)
            except ConnectionError:
                return b""

    def close(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def server(name: bytes) -> AsyncIterator[str]:
    """Answer whatever comes with the name of this server."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1):
            writer.write(name)
        writer.transport.abort()

    serving = await asyncio.start_server(answer, "127.0.0.1")
    try:
        yield f"amqp://guest:guest@127.0.0.1:{serving.sockets[0].getsockname()[1]}/vhost"
    finally:
        serving.close()


@asynccontextmanager
async def client(proxy: TcpProxy) -> AsyncIterator[Client]:
    opened = Client(*await asyncio.open_connection("127.0.0.1", urlsplit(proxy.url).port))
    try:
        yield opened
    finally:
        opened.close()


async def test_it_forwards_and_its_address_differs_by_host_and_port_alone() -> None:
    async with server(b"a") as url, proxy_to(url) as proxy, client(proxy) as one:
        assert urlsplit(proxy.url).netloc.startswith("guest:guest@127.0.0.1:")
        assert urlsplit(proxy.url).path == "/vhost"
        one.say()
        assert await one.hears() == b"a"


async def test_a_cut_ends_every_connection_and_lets_new_ones_through() -> None:
    async with server(b"a") as url, proxy_to(url) as proxy, client(proxy) as one:
        one.say()
        await one.hears()
        await proxy.cut()
        assert await one.hears() == b""
        async with client(proxy) as other:
            other.say()
            assert await other.hears() == b"a"


async def test_what_is_frozen_carries_nothing_until_healed_beside_new_connections_that_are_well() -> None:
    async with server(b"a") as url, proxy_to(url) as proxy, client(proxy) as one:
        one.say()
        await one.hears()
        await proxy.freeze()
        one.say()
        with pytest.raises(TimeoutError):
            await one.hears(within=0.3)
        async with client(proxy) as other:
            other.say()
            assert await other.hears() == b"a"
        await proxy.heal()
        assert await one.hears() == b"a"


async def test_a_delay_holds_both_directions_until_healed() -> None:
    async with server(b"a") as url, proxy_to(url) as proxy, client(proxy) as one:
        await proxy.delay(0.2)
        began = time.monotonic()
        one.say()
        await one.hears()
        assert time.monotonic() - began >= 0.4
        await proxy.heal()
        one.say()
        assert await one.hears() == b"a"


async def test_connections_go_to_every_node_in_turn_and_past_one_that_is_down() -> None:
    async with server(b"a") as first, server(b"b") as second:
        async with server(b"c") as third:
            pass  # nothing listens there any more
        async with proxy_to(first, second, third) as proxy:
            heard = set()
            for _ in range(6):
                async with client(proxy) as one:
                    one.say()
                    heard.add(await one.hears())
            assert heard == {b"a", b"b"}


async def test_a_connection_ends_where_no_node_takes_it() -> None:
    async with server(b"a") as url:
        pass
    async with proxy_to(url) as proxy, client(proxy) as one:
        assert await one.hears() == b""


async def test_closed_it_leaves_nothing_behind() -> None:
    async with server(b"a") as url:
        async with proxy_to(url) as proxy, client(proxy) as one:
            one.say()
            await one.hears()
            await proxy.freeze()
        assert proxy.open_connections == 0
    assert len(asyncio.all_tasks()) <= 2


async def test_nothing_stands_between_the_ends_of_tls() -> None:
    with pytest.raises(ConfigurationError, match="amqp://"):
        async with proxy_to("amqps://broker:5671/"):
            pass
