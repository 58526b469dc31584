"""Where the actions of the contract registry can run: in this process, on a bus in memory, on RabbitMQ, or behind HTTP.

A host gives callers the same tools whichever it is. The buses can have several workers, the others have none: behind
HTTP is a registry of the process that serves it, or with `http-rabbitmq` a bus with one worker.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from grundlag_bus import HttpBus, MemoryTransport, SealKeys, ToolContext, ToolInterrupt, Transport, Worker, connect
from grundlag_bus.adapters.bus import TransportBus
from grundlag_bus.transport import named_bus
from tests.support.contract_registry import make_registry, variable
from tests.support.gateway import open_gateway
from tests.support.transports import reconnect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from grundlag_bus import Bus, BusCaller, Ledger, ProviderRegistry, Tool
    from grundlag_bus.schema.manifest import Manifest

HOSTS = ("in-process", "memory", "rabbitmq", "http")
CALLERS = (*HOSTS, "http-rabbitmq")
"""Those that differ for callers alone, too: agents and scripts see a host of HTTP and not what is behind it."""
BUSES = ("memory", "rabbitmq")
BEHIND_HTTP = ("http", "http-rabbitmq")

on_buses = pytest.mark.parametrize("host", BUSES, indirect=True)
"""For behaviour that only a bus has."""


class RunningWorker:
    """A worker of this process, with a transport of its own as another process has it."""

    def __init__(self, worker: Worker, transport: Transport) -> None:
        self.worker = worker
        self.transport = transport
        self.serving = asyncio.create_task(worker.run(), name="worker")

    async def started(self) -> RunningWorker:
        waiting = asyncio.ensure_future(self.worker.started.wait())
        await asyncio.wait({self.serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self.serving.done():
            await self.serving
        return self

    async def kill(self) -> None:
        """End it as SIGKILL would: it says nothing more, and all that it has in hand counts as lost."""
        for run in list(self.worker._serving.started):
            run.mute()
        await self.worker._serving.intake.stop()
        await reconnect(self.transport)
        await self.worker.abort()
        await self.stop()

    async def stop(self) -> None:
        """Drain it, and close its transport."""
        self.serving.cancel()
        await asyncio.wait({self.serving})
        await self.transport.close()
        if not self.serving.cancelled():
            self.serving.result()


class Host:
    """Tools and calls of the contract provider. Made by `open_host`."""

    def __init__(  # noqa: PLR0913, PLR0917  what a host is made of
        self,
        kind: str,
        namespace: str,
        address: str,
        keys: SealKeys,
        opened: AsyncExitStack,
        ledger: Ledger | None,
        offers: Callable[[SealKeys], ProviderRegistry],
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.namespaces = [namespace]
        self.address = self._broker = address
        self.keys = keys
        self.ledger = ledger
        self.offers = offers
        self.workers: list[RunningWorker] = []
        self.tools: dict[str, Tool] = {}
        self.bus: Bus
        self.behind: Bus | None = None
        self._opened = opened

    # --- calling ------------------------------------------------------------------------------------------------------

    def tool(self, action_id: str) -> Tool:
        return self.tools["contract" + action_id[0].upper() + action_id[1:]]

    async def execute(self, action_id: str, input: Any = None, context: ToolContext | None = None) -> Any:  # noqa: A002  the wire's word
        return await self.tool(action_id).execute({} if input is None else input, context)

    async def interrupt(
        self,
        action_id: str,
        input: Any = None,  # noqa: A002  the wire's word
        context: ToolContext | None = None,
    ) -> ToolInterrupt:
        """Call an action that must interrupt, and return the interrupt."""
        with pytest.raises(ToolInterrupt) as raised:
            await self.execute(action_id, input, context)
        return raised.value

    @property
    def bus_caller(self) -> BusCaller:
        """The caller whose mailbox gets the replies, of a host that is a bus."""
        assert isinstance(self.bus, TransportBus)
        return self.bus._bus_caller

    @property
    def in_flight(self) -> int:
        """How many calls of a host that is not in process wait for their end."""
        return self.bus._http_caller.in_flight if isinstance(self.bus, HttpBus) else self.bus_caller.in_flight

    async def tools_of(self, manifest: Manifest) -> dict[str, Tool]:
        return await self.bus.to_tools(manifest)

    # --- behind it ----------------------------------------------------------------------------------------------------

    async def open_behind_http(self) -> None:
        """Serve what runs the actions, and call it from here on."""
        token = variable.set("of the worker")
        try:
            if self.kind == "http":
                self.behind = connect(self.offers(self.keys), namespace=self.namespace)
            else:
                await self.add_worker()
                self._opened.push_async_callback(self.stop_workers)
                self.behind = connect(self.address, namespace=self.namespace)
            self.address = (await self._opened.enter_async_context(open_gateway(self.behind))).url
        finally:
            variable.reset(token)

    # --- around it ----------------------------------------------------------------------------------------------------

    def transport(self, address: str | None = None) -> Transport:
        """Make another transport on the same bus, as another process has it; `address` is another way to the broker."""
        if self.kind == "memory":
            return MemoryTransport(namespace=self.namespace, bus=named_bus(self._broker.removeprefix("memory://")))
        from grundlag_bus import RabbitTransport  # noqa: PLC0415  its client is slow to import

        return RabbitTransport(address or self._broker, namespace=self.namespace)

    async def add_worker(
        self,
        *,
        concurrency: int = 64,
        grace: float = 0.0,
        address: str | None = None,
        limits: Mapping[str, float] | None = None,
    ) -> RunningWorker:
        """Start one more worker, with a registry and services of its own."""
        transport = self.transport(address)
        token = variable.set("of the worker")
        try:
            running = RunningWorker(
                Worker(
                    transport,
                    self.offers(self.keys),
                    concurrency=concurrency,
                    grace=grace,
                    limits=limits,
                    ledger=self.ledger,
                ),
                transport,
            )
        finally:
            variable.reset(token)
        self.workers.append(running)
        return await running.started()

    async def kill_worker(self) -> None:
        """Kill the first of the workers."""
        await self.workers.pop(0).kill()

    async def stop_workers(self) -> None:
        """Stop them all; what they announced stays."""
        workers, self.workers = self.workers, []
        await asyncio.gather(*(running.stop() for running in workers))

    async def another_bus(self, *, namespace: str | None = None) -> Host:
        """Open what another caller has: a bus of its own to the same workers, or a host of another namespace."""
        if namespace is not None:
            self.namespaces.append(namespace)
        return await self._opened.enter_async_context(
            open_host(self.kind, self.namespace, self.address, self.keys, serve=False)
            if namespace is None
            else open_host(self.kind, namespace, self._broker, self.keys)
        )


@asynccontextmanager
async def open_host(  # noqa: PLR0913  what a host is made of
    kind: str,
    namespace: str,
    address: str,
    keys: SealKeys | None = None,
    *,
    serve: bool = True,
    ledger: Ledger | None = None,
    offers: Callable[[SealKeys], ProviderRegistry] = make_registry,
) -> AsyncIterator[Host]:
    """Open a host, with one worker where it is a bus; everything is closed again in reverse.

    offers: makes the registry, whose provider is called as the contract's.
    """
    async with AsyncExitStack() as opened:
        host = Host(kind, namespace, address, keys or SealKeys.generate(), opened, ledger, offers)
        if kind in BEHIND_HTTP and serve:
            await host.open_behind_http()
        source = offers(host.keys) if kind == "in-process" else host.address
        host.bus = await opened.enter_async_context(connect(source, namespace=namespace))
        if kind in BUSES:
            opened.push_async_callback(host.stop_workers)
            if serve:
                await host.add_worker()
        host.tools = await host.bus.to_tools()
        yield host
