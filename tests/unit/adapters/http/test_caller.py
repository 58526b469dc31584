"""Calls over HTTP when something goes wrong on the way: each ends once, and says whether it can have run."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import structlog.testing

from grundlag_bus import (
    BusUnreachableError,
    CallError,
    ConfigurationError,
    Failed,
    HttpBus,
    HttpCaller,
    Progress,
    StaticTokens,
    ToolContext,
    TransportClosedError,
    connect,
)
from grundlag_bus.adapters.http import caller as callers
from grundlag_bus.adapters.http import exchange
from grundlag_bus.schema.envelope import Call, Reply, Request, new_call_id
from tests.support.certificates import make_certificates
from tests.support.contract_registry import make_registry, seen
from tests.support.eventually import eventually
from tests.support.gateway import Gateway, open_gateway
from tests.support.proxy import Proxy, proxy_to

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def _forget() -> None:
    seen.reset()


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with open_gateway(connect(make_registry())) as opened:
        yield opened
        seen.reset()


@pytest.fixture
async def proxy(gateway: Gateway) -> AsyncIterator[Proxy]:
    async with proxy_to(gateway.url) as opened:
        yield opened


@asynccontextmanager
async def calling(url: str, **options: Any) -> AsyncIterator[HttpCaller]:
    caller = HttpCaller(url, **options)
    await caller.open()
    try:
        yield caller
    finally:
        await caller.close()


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[str]:
    """Answer each connection by hand."""
    connections: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await answer(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


def says(head: str, body: bytes = b"") -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()

    return answer


def a_call(action: str = "hold", value: Any = None, *, timeout: float = 60, idempotent: bool = False) -> Call:
    value = {"name": "a"} if value is None else value
    return Call(new_call_id(), "contract", action, Request(value), time.time() + timeout, idempotent=idempotent)


def told(reply: Reply) -> tuple[str, Any]:
    assert isinstance(reply.response, Failed), reply
    return reply.response.code, reply.response.details


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up soon."""
    monkeypatch.setattr(exchange, "REACH_WITHIN", 0.3)
    monkeypatch.setattr(exchange, "RETURN_WITHIN", 0.3)


# --- a host that is not there -----------------------------------------------------------------------------------------


async def test_a_host_that_is_not_there_is_unavailable_and_nothing_ran(proxy: Proxy, hasty: None) -> None:
    await proxy.refuse()
    async with calling(f"http://localhost:{proxy.port}") as caller:
        assert told(await caller.call(a_call())) == ("provider_unavailable", {"published": False})


async def test_a_host_that_comes_in_time_gets_the_call(proxy: Proxy) -> None:
    await proxy.refuse()
    async with calling(f"http://localhost:{proxy.port}") as caller:
        call = asyncio.create_task(caller.call(a_call("add", {"a": 1, "b": 2})))
        await asyncio.sleep(0.2)
        await proxy.accept()
        assert (await call).response.to_json()["result"] == {"sum": 3}


async def test_the_deadline_covers_the_way_to_the_host(proxy: Proxy) -> None:
    await proxy.refuse()
    async with calling(f"http://localhost:{proxy.port}") as caller:
        assert told(await caller.call(a_call(timeout=0.2))) == ("deadline_exceeded", {"published": False})


async def test_entering_a_bus_whose_host_is_not_there_says_so(proxy: Proxy) -> None:
    await proxy.refuse()
    with pytest.raises(BusUnreachableError, match=f"localhost:{proxy.port} cannot be reached"):
        async with connect(f"http://localhost:{proxy.port}"):
            pass


@pytest.mark.parametrize("head", ["200 OK", "302 Found\r\nLocation: http://127.0.0.1:1/", "404 Not Found"])
async def test_what_is_no_host_is_told_apart(head: str) -> None:
    async with answering(says(head, b"<html>")) as url:
        with pytest.raises(BusUnreachableError, match="What answers at"):
            async with connect(url):
                pass
        async with calling(url) as caller:
            assert told(await caller.call(a_call())) == ("provider_unavailable", {"published": False})


# --- connections that are lost ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("listens", [False, True])
async def test_a_call_whose_connection_is_lost_gets_its_reply_and_runs_once(proxy: Proxy, listens: bool) -> None:
    heard: list[Progress] = []
    async with calling(f"http://localhost:{proxy.port}") as caller:
        call = asyncio.create_task(caller.call(a_call(), on_progress=heard.append if listens else None))
        for _ in range(3):
            await eventually(lambda: seen.runs["hold a"] and proxy.open_connections)
            await asyncio.sleep(0.05)
            await proxy.cut()
        seen.gate("a").set()
        assert (await call).response.to_json()["status"] == "completed"
    assert seen.runs["hold a"] == 1


async def test_a_reply_that_was_lost_on_its_way_is_sent_again(proxy: Proxy) -> None:
    async with calling(f"http://localhost:{proxy.port}") as caller:
        call = asyncio.create_task(caller.call(a_call()))
        await eventually(lambda: seen.runs["hold a"])
        proxy.freeze()
        seen.gate("a").set()
        await asyncio.sleep(0.1)
        await proxy.cut()
        proxy.thaw()
        assert (await call).response.to_json()["status"] == "completed"
    assert seen.runs["hold a"] == 1


async def test_a_call_that_was_written_and_whose_host_does_not_come_back_may_have_run(
    proxy: Proxy, hasty: None
) -> None:
    async with calling(f"http://localhost:{proxy.port}") as caller:
        call = asyncio.create_task(caller.call(a_call()))
        await eventually(lambda: seen.runs["hold a"])
        await proxy.refuse()
        await proxy.cut()
        assert told(await call) == ("outcome_unknown", {"published": None})
        watched = asyncio.create_task(caller.call(a_call()))
        await asyncio.sleep(0)
        assert told(await watched) == ("provider_unavailable", {"published": False})


async def test_an_idempotent_call_is_sent_until_its_deadline(proxy: Proxy, hasty: None) -> None:
    async with calling(f"http://localhost:{proxy.port}") as caller:
        call = asyncio.create_task(caller.call(a_call(idempotent=True)))
        await eventually(lambda: seen.runs["hold a"])
        await proxy.refuse()
        await proxy.cut()
        await asyncio.sleep(0.6)
        await proxy.accept()
        seen.gate("a").set()
        assert (await call).response.to_json()["status"] == "completed"


@pytest.mark.parametrize(("idempotent", "action"), [(False, "hold"), (True, "add")])
async def test_a_host_that_was_started_anew_starts_no_call_again_that_may_have_run(
    gateway: Gateway, idempotent: bool, action: str
) -> None:
    """Unless the action is idempotent, as the manifest says."""
    value = {"name": "a"} if action == "hold" else {"a": 1, "b": 2}
    async with proxy_to(gateway.url) as proxy, open_gateway(connect(make_registry())) as anew:
        async with calling(f"http://localhost:{proxy.port}") as caller:
            proxy.freeze()
            call = asyncio.create_task(caller.call(a_call(action, value, idempotent=idempotent)))
            await eventually(lambda: any(one.published is None for one in caller._exchanges))
            await proxy.refuse()
            await proxy.cut()
            proxy.lead_to(anew.url)
            proxy.thaw()
            await proxy.accept()
            reply = await asyncio.wait_for(call, 15)
        if idempotent:
            assert reply.response.to_json()["result"] == {"sum": 3}
        else:
            assert told(reply) == ("outcome_unknown", {"published": None})
    assert not seen.runs["hold a"]


async def test_a_host_that_has_no_room_for_a_repetition_says_nothing_of_the_call(
    proxy: Proxy, gateway: Gateway, hasty: None
) -> None:
    async with calling(f"http://localhost:{proxy.port}") as caller:
        call = asyncio.create_task(caller.call(a_call()))
        await eventually(lambda: seen.runs["hold a"])
        gateway.host.closing.set()
        await proxy.cut()
        assert told(await call)[0] == "outcome_unknown"
    seen.gate("a").set()


async def test_what_takes_long_goes_on_over_a_stream_and_runs_once(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "SHORT", 0.2)
    async with calling(gateway.url) as caller:
        call = asyncio.create_task(caller.call(a_call()))
        await eventually(lambda: any(one._streams for one in caller._exchanges))
        await asyncio.sleep(0.5)
        seen.gate("a").set()
        assert (await call).response.to_json()["status"] == "completed"
    assert seen.runs["hold a"] == 1


async def test_a_host_that_falls_silent_is_asked_on_another_connection(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "QUIET", 0.3)
    async with calling(f"http://localhost:{proxy.port}") as caller:
        call = asyncio.create_task(caller.call(a_call(), on_progress=lambda _: None))
        await eventually(lambda: seen.runs["hold a"])
        proxy.half_open()
        seen.gate("a").set()
        assert (await call).response.to_json()["status"] == "completed"
    assert seen.runs["hold a"] == 1


async def test_a_host_that_takes_a_call_and_says_nothing_has_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silence(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    monkeypatch.setattr(callers, "WORD_WITHIN", 0.1)
    async with answering(silence) as url, calling(url) as caller:
        assert told(await caller.call(a_call(timeout=0.2))) == ("deadline_exceeded", {"published": None})


async def test_a_proxy_that_lost_its_host_leaves_the_outcome_open(hasty: None) -> None:
    async with answering(says("502 Bad Gateway", b"<html>")) as url, calling(url) as caller:
        assert told(await caller.call(a_call())) == ("outcome_unknown", {"published": None})


async def test_a_proxy_without_a_host_says_that_nothing_ran(hasty: None) -> None:
    async with answering(says("503 Service Unavailable", b"<html>")) as url, calling(url) as caller:
        assert told(await caller.call(a_call())) == ("provider_unavailable", {"published": False})


@pytest.mark.parametrize("head", ["200 OK", "200 OK\r\nContent-Type: text/event-stream"])
async def test_an_answer_that_is_too_large_is_not_read_on(head: str) -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {head}\r\nConnection: close\r\n\r\ndata: ".encode())
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent += 65_536

    async with answering(flood) as url, calling(url) as caller:
        assert told(await caller.call(a_call())) == ("outcome_unknown", {"published": True})
    assert sent < 20_000_000


# --- cancelling and closing -------------------------------------------------------------------------------------------


async def test_a_cancellation_does_not_wait_behind_calls(gateway: Gateway) -> None:
    async with calling(gateway.url, connections=1) as caller:
        signal = asyncio.Event()
        call = asyncio.create_task(caller.call(a_call("sleep", {"seconds": 30}), cancel=signal))
        await eventually(lambda: seen.runs["sleep"])
        waits = asyncio.create_task(caller.call(a_call("add", {"a": 1, "b": 2})))
        await asyncio.sleep(0.05)
        assert not waits.done()
        signal.set()
        assert told(await call) == ("cancelled", {"published": True})
        assert (await waits).response.to_json()["result"] == {"sum": 3}


async def test_a_call_that_waits_for_a_connection_is_cancelled_without_having_run(gateway: Gateway) -> None:
    async with calling(gateway.url, connections=1) as caller:
        first = asyncio.create_task(caller.call(a_call()))
        await eventually(lambda: seen.runs["hold a"])
        signal = asyncio.Event()
        call = asyncio.create_task(caller.call(a_call("add", {"a": 1, "b": 2}), cancel=signal))
        await asyncio.sleep(0.05)
        signal.set()
        assert told(await call) == ("cancelled", {"published": False})
        seen.gate("a").set()
        await first
    assert not seen.runs["add"]


async def test_a_host_that_does_not_say_that_a_call_has_stopped_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def silence(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    monkeypatch.setattr(callers, "CANCEL_WITHIN", 0.2)
    monkeypatch.setattr(callers, "CLOSE_WITHIN", 0.1)
    async with answering(silence) as url, calling(url) as caller:
        signal = asyncio.Event()
        call = asyncio.create_task(caller.call(a_call(), cancel=signal))
        await eventually(lambda: any(one.published is None for one in caller._exchanges))
        signal.set()
        assert told(await call) == ("outcome_unknown", {"published": None})


async def test_closing_ends_what_waits(gateway: Gateway) -> None:
    caller = HttpCaller(gateway.url, connections=1)
    await caller.open()
    runs = asyncio.create_task(caller.call(a_call()))
    await eventually(lambda: seen.runs["hold a"])
    waits = asyncio.create_task(caller.call(a_call("add", {"a": 1, "b": 2})))
    await asyncio.sleep(0.05)
    await caller.close()
    assert told(await runs) == ("outcome_unknown", {"published": None})
    assert told(await waits)[0] == "cancelled"
    assert caller.in_flight == 0
    with pytest.raises(TransportClosedError):
        await caller.call(a_call())
    await caller.close()


async def test_a_listener_that_raises_ends_its_call_alone(gateway: Gateway) -> None:
    def fail(_: Progress) -> None:
        raise LookupError

    async with calling(gateway.url) as caller:
        with structlog.testing.capture_logs() as logs:
            reply = await caller.call(a_call("work", {"length": 2}), on_progress=fail)
        assert told(reply)[0] == "outcome_unknown"
        assert [line["event"] for line in logs] == ["call_not_followed"]
        assert (await caller.call(a_call("add", {"a": 1, "b": 2}))).response.to_json()["result"] == {"sum": 3}


# --- who calls --------------------------------------------------------------------------------------------------------

TOKENS = {f"token-of-{user}-0123456789": user for user in ("ada", "bob")}


async def test_the_token_says_who_calls_and_stands_in_no_log(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    auth = StaticTokens(TOKENS)
    async with open_gateway(connect(make_registry()), auth=auth) as gateway:
        async with connect(gateway.url, token="token-of-ada-0123456789") as bus:
            tools = await bus.to_tools()
            assert (await tools["contractWhoAmI"].execute({}))["value"]["user"] == "ada"
            assert (await tools["contractWhoAmI"].execute({}, ToolContext(user_id="ada")))["value"]["user"] == "ada"
            with pytest.raises(CallError) as raised:
                await tools["contractWhoAmI"].execute({}, ToolContext(user_id="bob"))
            assert raised.value.code == "forbidden"
            async with bus.events("contract.told") as events:
                await tools["contractTell"].execute({})
                assert (await anext(events)).user_id == "ada"
        with pytest.raises(BusUnreachableError, match="token") as refused:
            async with connect(gateway.url, token="token-of-eve-0123456789"):
                pass
    said = caplog.text + repr(refused.value) + repr(raised.value) + "".join(capsys.readouterr())
    assert "0123456789" not in said


async def test_a_function_gives_the_token_of_each_user() -> None:
    async def token(user_id: str | None) -> str:
        return f"token-of-{user_id or 'ada'}-0123456789"

    async with (
        open_gateway(connect(make_registry()), auth=StaticTokens(TOKENS)) as gateway,
        connect(gateway.url, token=token) as bus,
    ):
        tools = await bus.to_tools()
        for user in ("ada", "bob"):
            told = await tools["contractWhoAmI"].execute({}, ToolContext(user_id=user))
            assert told["value"]["user"] == user


async def test_a_function_that_fails_ends_the_call_before_it_is_sent(gateway: Gateway) -> None:
    def fail(_: str | None) -> str:
        raise LookupError("hunter2")

    async with calling(gateway.url, token=fail) as caller:
        reply = await caller.call(a_call())
    assert told(reply) == ("forbidden", {"published": False})
    assert "hunter2" not in repr(reply)


async def test_a_certificate_that_nobody_trusts_is_refused_and_one_of_the_given_authority_taken(
    gateway: Gateway, tmp_path: Path, hasty: None
) -> None:
    authority, context = make_certificates(tmp_path)
    async with proxy_to(gateway.url, context=context) as proxy:
        url = f"https://localhost:{proxy.port}"
        async with calling(url, token="hunter2") as caller:
            assert told(await caller.call(a_call())) == ("provider_unavailable", {"published": False})
        trusted = ssl.create_default_context(cafile=authority)
        async with HttpBus(HttpCaller(url, tls=trusted)) as bus:
            assert (await bus.call("contractAdd", {"a": 1, "b": 2})).response.to_json()["result"] == {"sum": 3}
        async with calling(f"https://127.0.0.1:{proxy.port}", tls=trusted) as caller:
            assert told(await caller.call(a_call())) == ("provider_unavailable", {"published": False})


async def test_nothing_is_taken_from_the_environment(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with calling(gateway.url) as caller:
        assert (await caller.call(a_call("add", {"a": 1, "b": 2}))).response.to_json()["result"] == {"sum": 3}


def test_a_caller_needs_a_connection() -> None:
    with pytest.raises(ConfigurationError, match="connections=1"):
        HttpCaller("http://localhost", connections=0)
