"""The application by itself: whatever breaks inside it, a client is told in the one form, and never with 500."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any, NoReturn

import httpx2
import pytest

from grundlag_bus import ConfigurationError, Provider, ProviderRegistry, TransportClosedError, connect, create_app
from grundlag_bus.gateway import stream
from grundlag_bus.gateway.host import Host
from grundlag_bus.gateway.stream import EventStream, event

demo = Provider("demo", name="Demo")


@demo.action("add", name="Add")
async def add(number: int) -> int:
    return number + 1


def make_host() -> Host:
    return create_app(connect(ProviderRegistry([demo])))


def client_of(host: Host) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=host, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://localhost")


async def call(client: httpx2.AsyncClient) -> httpx2.Response:
    return await client.post("/api/actions/demo/add", json={"input": 1})


async def test_its_lifespan_opens_and_closes_the_bus() -> None:
    host = make_host()
    asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    told: asyncio.Queue[Any] = asyncio.Queue()
    living = asyncio.create_task(host({"type": "lifespan", "asgi": {"version": "3.0"}}, asked.get, told.put))
    asked.put_nowait({"type": "lifespan.startup"})
    assert (await told.get())["type"] == "lifespan.startup.complete"
    async with client_of(host) as client:
        assert (await call(client)).json()["result"] == 2
        asked.put_nowait({"type": "lifespan.shutdown"})
        assert (await told.get())["type"] == "lifespan.shutdown.complete"
        await living
        assert (await call(client)).status_code == 503


async def test_a_method_that_a_path_does_not_take_is_told_with_those_that_it_takes() -> None:
    async with client_of(make_host()) as client:
        answer = await client.get("/api/actions/demo/add")
        assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
        assert answer.json()["message"] == "/api/actions/demo/add takes no GET: use POST."
        assert (await client.post("/docs")).json()["message"] == "/docs takes no POST: use GET."
        assert (await client.get("/api")).json()["code"] == "not_found"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [(TransportClosedError("closed"), 503, "overloaded"), (LookupError("secret"), 502, "internal")],
)
async def test_a_caller_that_raises_fails_the_call(
    monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: str
) -> None:
    async def broken(*_: Any, **__: Any) -> NoReturn:
        raise error

    host = make_host()
    monkeypatch.setattr(host.bus.caller, "call", broken)
    async with host.bus, client_of(host) as client:
        answer = await call(client)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert "secret" not in answer.text


async def test_what_nobody_expected_is_told_without_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken() -> NoReturn:
        raise LookupError("secret")

    host = make_host()
    monkeypatch.setattr(host.bus, "manifest", broken)
    async with host.bus, client_of(host) as client:
        answer = await client.get("/api/client/schema")
    assert (answer.status_code, answer.json()["code"]) == (502, "internal")
    assert answer.json()["details"]["type"] == "LookupError"
    assert "secret" not in answer.text


@pytest.mark.parametrize("path", ["/api/events", "/api/eval", "/api/actions/demo/add"])
async def test_a_host_that_drains_begins_nothing(path: str) -> None:
    host = make_host()
    async with host.bus, client_of(host) as client:
        await host.drain(0)
        answer = await client.request("GET" if path.endswith("events") else "POST", path, json={"input": 1})
    assert (answer.status_code, answer.json()["retryable"]) == (503, True)


@pytest.mark.parametrize(
    "origin", ["example.com", "https://example.com/", "https://example.com/path", "ftp://a.example"]
)
def test_an_origin_that_is_none_is_refused(origin: str) -> None:
    with pytest.raises(ConfigurationError, match="is no origin"):
        create_app(connect(ProviderRegistry([demo])), cors=[origin])


# --- streams ----------------------------------------------------------------------------------------------------------


async def never() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_reader_that_takes_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SEND_SECONDS", 0.1)
    closed: list[str] = []

    async def parts() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield event("event", b"{}")
        finally:
            closed.append("parts")

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await never()

    during = AsyncExitStack()
    during.callback(closed.append, "during")
    async with asyncio.timeout(10):
        await EventStream(parts(), during)({"type": "http", "method": "GET"}, never, send)
    assert closed == ["parts", "during"]


async def test_a_stream_ends_when_it_is_told_to() -> None:
    until = asyncio.Event()
    sent: list[Any] = []

    async def parts() -> AsyncGenerator[bytes, None]:
        yield b": listening\n\n"
        until.set()
        await never()

    async def send(message: Any) -> None:
        sent.append(message)

    await EventStream(parts(), AsyncExitStack(), until=until)({"type": "http", "method": "GET"}, never, send)
    assert [message.get("body") for message in sent] == [None, b": listening\n\n", b""]
    assert sent[-1]["more_body"] is False
