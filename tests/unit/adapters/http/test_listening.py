"""Listening over HTTP: a lost connection is a gap that is counted, and what nobody takes is not read."""

from __future__ import annotations

import asyncio

import pytest

from grundlag_bus import BusUnreachableError, connect
from grundlag_bus.adapters.http import listening
from tests.support.contract_registry import make_registry
from tests.support.eventually import eventually
from tests.support.gateway import open_gateway
from tests.support.proxy import proxy_to


async def test_a_lost_connection_is_a_gap_after_which_events_come_again() -> None:
    async with (
        open_gateway(connect(make_registry())) as gateway,
        proxy_to(gateway.url) as proxy,
        connect(f"http://localhost:{proxy.port}") as bus,
        bus.events("contract.told") as events,
    ):
        await bus.call("contractTell", {})
        assert (await anext(events)).data["number"] == 0
        accepted = proxy.accepted
        await proxy.cut()
        await eventually(lambda: events.gaps == 1 and proxy.accepted > accepted)
        coming = asyncio.ensure_future(anext(events))
        while not coming.done():
            await bus.call("contractTell", {})
            await asyncio.wait({coming}, timeout=0.1)
        assert (await coming).event_id == "told"


async def test_what_nobody_takes_is_not_read_and_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "PREFETCH", 4)
    async with (
        open_gateway(connect(make_registry())) as gateway,
        connect(gateway.url) as bus,
        bus.events("contract.told") as events,
    ):
        await bus.call("contractTell", {"times": 50})
        await eventually(lambda: len(events._heard) == 4)
        await asyncio.sleep(0.1)
        assert len(events._heard) == 4
        assert [(await anext(events)).data["number"] for _ in range(50)] == list(range(50))


async def test_who_cannot_listen_is_told_so_on_entering() -> None:
    async with (
        open_gateway(connect(make_registry())) as gateway,
        proxy_to(gateway.url) as proxy,
        connect(f"http://localhost:{proxy.port}") as bus,
    ):
        await proxy.refuse()
        await proxy.cut()
        with pytest.raises(BusUnreachableError):
            async with bus.events():
                pass
