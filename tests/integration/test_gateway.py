"""The HTTP host answers calls as the bus behind it does: in front of a registry, and in front of RabbitMQ."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import orjson
import pytest

from grundlag_bus import GatewayLimits, SealKeys, StaticTokens, connect
from grundlag_bus.gateway import running
from tests.support.contract_registry import make_registry, seen
from tests.support.eventually import eventually
from tests.support.gateway import Gateway, open_gateway
from tests.support.hosts import open_host
from tests.support.namespaces import delete_namespaces, fresh_namespace
from tests.support.raw_http import post, send

ADA, BOB = "ada-0123456789abcdef", "bob-0123456789abcdef"
TOKENS = StaticTokens({ADA: "ada", BOB: "bob"})


def as_user(token: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **{name.replace("_", "-"): value for name, value in more.items()}}


@pytest.fixture(params=["local", "rabbitmq"])
async def gateway(request: pytest.FixtureRequest) -> AsyncIterator[Gateway]:
    """A host with two users, in front of the contract's actions."""
    seen.reset()
    async with AsyncExitStack() as opened:
        if request.param == "local":
            bus = connect(make_registry(SealKeys.generate()))
        else:
            namespace = fresh_namespace()
            address: str = request.getfixturevalue("amqp_url")
            opened.push_async_callback(delete_namespaces, address, [namespace])
            await opened.enter_async_context(open_host("rabbitmq", namespace, address))
            bus = connect(address, namespace=namespace)
        gateway = await opened.enter_async_context(
            open_gateway(bus, auth=TOKENS, limits=GatewayLimits(concurrent=1200, rate=1e6, burst=10**6))
        )
        yield gateway
        seen.reset()


@pytest.fixture
async def ada(gateway: Gateway) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=gateway.url, headers=as_user(ADA), timeout=60) as client:
        yield client


@pytest.fixture
async def bob(gateway: Gateway) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=gateway.url, headers=as_user(BOB), timeout=60) as client:
        yield client


async def call(client: httpx2.AsyncClient, action: str, input: Any = None, **more: Any) -> httpx2.Response:  # noqa: A002  the wire's word
    headers = more.pop("headers", {})
    body = {"input": {} if input is None else input, **more}
    return await client.post(f"/api/actions/contract/{action}", json=body, headers=headers)


def parts(text: str) -> list[tuple[str, Any]]:
    """Read server-sent events: names and data."""
    told = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            told.append((lines["event"], orjson.loads(lines["data"])))
    return told


# --- calls ------------------------------------------------------------------------------------------------------------


async def test_a_call_completes(ada: httpx2.AsyncClient) -> None:
    answer = await call(ada, "add", {"a": 1, "b": 2})
    assert (answer.status_code, answer.json()) == (200, {"status": "completed", "result": {"sum": 3}, "items": []})
    assert len(answer.headers["X-Call-Id"]) == 32


@pytest.mark.parametrize(
    ("action", "value", "status", "code"),
    [
        ("add", {"a": 1}, 400, "input_invalid"),
        ("nothingOfTheKind", {}, 404, "action_unknown"),
        ("wrong", {}, 502, "output_invalid"),
        ("remember", {"how": "failed"}, 422, "sold_out"),
        ("remember", {"how": "raised"}, 502, "internal"),
    ],
)
async def test_a_failure_has_the_status_of_its_code(
    ada: httpx2.AsyncClient, action: str, value: Any, status: int, code: str
) -> None:
    answer = await call(ada, action, value)
    failed = answer.json()
    assert (answer.status_code, failed["status"], failed["code"]) == (status, "failed", code)


async def test_a_deadline_is_a_gateway_timeout(ada: httpx2.AsyncClient) -> None:
    answer = await call(ada, "sleep", {"seconds": 30}, headers={"X-Timeout": "0.3"})
    assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")


PARENT = f"00-{'a' * 32}-{'b' * 16}-01"


async def test_a_call_belongs_to_the_trace_of_its_request(ada: httpx2.AsyncClient) -> None:
    sent = [("traceparent", PARENT), ("tracestate", "rojo=1"), ("tracestate", "congo=2")]
    traced = await call(ada, "traceWithin", headers=sent)
    assert traced.json()["result"] == {"traceparent": PARENT, "tracestate": "rojo=1,congo=2"}


@pytest.mark.parametrize("parents", [[PARENT.upper()], [PARENT, PARENT], ["x"], [""]])
async def test_a_malformed_trace_is_ignored(ada: httpx2.AsyncClient, parents: list[str]) -> None:
    sent = [*(("traceparent", parent) for parent in parents), ("tracestate", "rojo=1")]
    answer = await call(ada, "trace", headers=sent)
    assert (answer.status_code, answer.json()["result"]) == (200, None)


async def test_an_interrupt_is_answered(ada: httpx2.AsyncClient) -> None:
    asked = await call(ada, "ask", {"id": "e1"})
    interrupt = asked.json()
    assert (asked.status_code, interrupt["status"], interrupt["message"]) == (200, "interrupted", "Delete e1?")
    answer = await call(ada, "ask", {"id": "e1"}, resumption=answer_to(interrupt))
    assert answer.json()["result"]["approved"] is True
    assert answer.json()["result"]["call_id"] == answer.headers["X-Call-Id"]


async def test_an_answer_that_does_not_fit_is_refused(ada: httpx2.AsyncClient) -> None:
    interrupt = (await call(ada, "ask", {"id": "e1"})).json()
    answer = await call(ada, "ask", {"id": "e1"}, resumption=answer_to(interrupt, approved="maybe"))
    assert (answer.status_code, answer.json()["code"]) == (400, "answer_invalid")


async def test_items_travel_both_ways(ada: httpx2.AsyncClient) -> None:
    sent = {"id": "i1", "type": "note", "data": {"x": 1}, "createdAt": "2026-12-01T12:00:00Z"}
    assert (await call(ada, "recall", items=[sent])).json()["result"] == {"types": ["note"], "data": [{"x": 1}]}
    emitted = (await call(ada, "remember", {"how": "completed"})).json()["items"]
    assert [item["type"] for item in emitted] == ["note", "place"]


# --- streams ----------------------------------------------------------------------------------------------------------


async def test_a_stream_tells_of_progress_and_ends_with_the_reply(ada: httpx2.AsyncClient) -> None:
    answer = await call(ada, "work", {"length": 2}, headers={"Accept": "text/event-stream"})
    told = parts(answer.text)
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert [name for name, _ in told] == ["progress"] * (len(told) - 1) + ["reply"]
    assert {"done": 2, "total": 2, "text": "step 2"} in [data for _, data in told]  # the newest, of those that wait
    reply = told[-1][1]
    assert (reply["httpStatus"], reply["response"]["result"]) == (200, {"length": 2})


async def test_a_stream_tells_the_status_of_a_failure(ada: httpx2.AsyncClient) -> None:
    answer = await call(ada, "remember", {"how": "failed"}, headers={"Accept": "text/event-stream"})
    assert parts(answer.text)[-1][1]["httpStatus"] == 422


async def test_a_stream_shows_that_it_is_alive(ada: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grundlag_bus.gateway.stream.HEARTBEAT_SECONDS", 0.05)
    answer = await call(ada, "sleep", {"seconds": 0.5}, headers={"Accept": "text/event-stream"})
    assert ": alive\n\n" in answer.text


# --- going away, and coming again -------------------------------------------------------------------------------------


async def begin(client: httpx2.AsyncClient, gate: str, **headers: str) -> asyncio.Task[httpx2.Response]:
    """Begin a call that waits for a gate, and return when it runs."""
    going = asyncio.create_task(call(client, "hold", {"name": gate}, headers=headers))
    await eventually(lambda: seen.runs[f"hold {gate}"] == 1)
    return going


async def leave(going: asyncio.Task[Any]) -> None:
    going.cancel()
    await asyncio.wait({going})


async def test_who_goes_away_without_a_key_cancels(ada: httpx2.AsyncClient, gateway: Gateway) -> None:
    going = asyncio.create_task(call(ada, "sleep", {"seconds": 60}))
    await eventually(lambda: seen.runs["sleep"] == 1)
    await leave(going)
    await eventually(lambda: "cancelled" in seen.notes)
    await eventually(lambda: gateway.host.calls.in_flight == 0)


async def test_who_leaves_a_stream_cancels(ada: httpx2.AsyncClient) -> None:
    going = asyncio.create_task(call(ada, "sleep", {"seconds": 60}, headers={"Accept": "text/event-stream"}))
    await eventually(lambda: seen.runs["sleep"] == 1)
    await leave(going)
    await eventually(lambda: "cancelled" in seen.notes)


async def test_who_comes_again_joins_the_call(ada: httpx2.AsyncClient) -> None:
    key = {"Idempotency-Key": "k1"}
    await leave(await begin(ada, "g", **key))
    again = asyncio.create_task(call(ada, "hold", {"name": "g"}, headers=key))
    await asyncio.sleep(0.05)
    seen.gate("g").set()
    first = await again
    later = await call(ada, "hold", {"name": "g"}, headers=key)
    assert first.json()["status"] == "completed"
    assert (later.json(), later.headers["X-Call-Id"]) == (first.json(), first.headers["X-Call-Id"])
    assert seen.runs["hold g"] == 1


async def test_who_does_not_come_again_cancels(ada: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "AWAY_SECONDS", 0.2)
    going = asyncio.create_task(call(ada, "sleep", {"seconds": 60}, headers={"Idempotency-Key": "k1"}))
    await eventually(lambda: seen.runs["sleep"] == 1)
    await leave(going)
    assert "cancelled" not in seen.notes
    await eventually(lambda: "cancelled" in seen.notes)


async def test_a_key_is_one_call_s(ada: httpx2.AsyncClient) -> None:
    key = {"Idempotency-Key": "k1"}
    await call(ada, "add", {"a": 1, "b": 2}, headers=key)
    answer = await call(ada, "add", {"a": 1, "b": 3}, headers=key)
    assert (answer.status_code, answer.json()["code"]) == (409, "call_id_reused")


async def test_a_delete_cancels_and_the_reply_says_so(ada: httpx2.AsyncClient) -> None:
    key = {"Idempotency-Key": "k1"}
    going = await begin(ada, "g", **key)
    asked = await ada.delete("/api/actions/contract/hold", headers=key)
    answer = await going
    assert (asked.status_code, answer.status_code, answer.json()["code"]) == (204, 409, "cancelled")


async def test_a_call_that_was_cancelled_before_it_came_does_not_begin(ada: httpx2.AsyncClient) -> None:
    key = {"Idempotency-Key": "k1"}
    await ada.delete("/api/actions/contract/add", headers=key)
    answer = await call(ada, "add", {"a": 1, "b": 2}, headers=key)
    assert (answer.status_code, answer.json()["code"], seen.runs["add"]) == (409, "cancelled", 0)


# --- others -----------------------------------------------------------------------------------------------------------


async def test_a_key_leads_to_nobody_else_s_call(ada: httpx2.AsyncClient, bob: httpx2.AsyncClient) -> None:
    key = {"Idempotency-Key": "k1"}
    going = await begin(ada, "g", **key)
    assert (await bob.delete("/api/actions/contract/hold", headers=key)).status_code == 204
    other = asyncio.create_task(call(bob, "hold", {"name": "g"}, headers={"Idempotency-Key": "k2"}))
    await eventually(lambda: seen.runs["hold g"] == 2)
    seen.gate("g").set()
    hers, his = await going, await other
    assert hers.headers["X-Call-Id"] != his.headers["X-Call-Id"]
    assert hers.json()["result"]["name"] == hers.headers["X-Call-Id"]


async def test_the_same_key_of_two_users_is_two_calls(ada: httpx2.AsyncClient, bob: httpx2.AsyncClient) -> None:
    key = {"Idempotency-Key": "k1"}
    answers = [await call(client, "add", {"a": 1, "b": 2}, headers=key) for client in (ada, bob)]
    assert len({answer.headers["X-Call-Id"] for answer in answers}) == 2
    assert seen.runs["add"] == 2


async def test_a_call_s_id_is_no_key_to_it(ada: httpx2.AsyncClient, bob: httpx2.AsyncClient) -> None:
    first = await call(ada, "add", {"a": 1, "b": 2}, headers={"Idempotency-Key": "k1"})
    other = await call(bob, "add", {"a": 1, "b": 2}, headers={"Idempotency-Key": first.headers["X-Call-Id"]})
    assert other.headers["X-Call-Id"] != first.headers["X-Call-Id"]
    assert seen.runs["add"] == 2


def answer_to(interrupt: Any, *, approved: Any = True) -> dict[str, Any]:
    return {"interruptId": interrupt["interruptId"], "state": interrupt["state"], "answer": {"approved": approved}}


@pytest.mark.parametrize("told", ["", "0", "2", "yes"])
async def test_a_request_that_says_oddly_whether_it_came_before_is_refused(ada: httpx2.AsyncClient, told: str) -> None:
    answer = await call(ada, "add", {"a": 1, "b": 2}, headers={"Idempotency-Key": "k1", "X-Sent-Before": told})
    assert (answer.status_code, answer.json()["code"]) == (400, "input_invalid")
    assert answer.json()["details"]["issues"][0]["path"] == ["X-Sent-Before"]


async def test_another_user_s_interrupt_cannot_be_answered(ada: httpx2.AsyncClient, bob: httpx2.AsyncClient) -> None:
    interrupt = (await call(ada, "ask", {"id": "e1"})).json()
    answer = await call(bob, "ask", {"id": "e1"}, resumption=answer_to(interrupt))
    assert (answer.status_code, answer.json()["code"], seen.runs["ask"]) == (422, "state_invalid", 0)


@pytest.mark.parametrize("spoil", ["interruptId", "state", "input"])
async def test_a_forged_resumption_is_refused(ada: httpx2.AsyncClient, spoil: str) -> None:
    interrupt = (await call(ada, "ask", {"id": "e1"})).json()
    resumption = answer_to(interrupt)
    if spoil != "input":
        resumption[spoil] = interrupt[spoil][:-6] + "AAAAAA"
    answer = await call(ada, "ask", {"id": "e2" if spoil == "input" else "e1"}, resumption=resumption)
    assert (answer.status_code, answer.json()["code"], seen.runs["ask"]) == (422, "state_invalid", 0)


async def test_a_state_is_of_no_use_for_another_action(ada: httpx2.AsyncClient) -> None:
    interrupt = (await call(ada, "ask", {"id": "e1"})).json()
    answer = await call(ada, "askToo", {"id": "e1"}, resumption=answer_to(interrupt))
    assert (answer.status_code, answer.json()["code"], seen.runs["askToo"]) == (422, "state_invalid", 0)


async def test_nobody_answers_in_another_s_name(ada: httpx2.AsyncClient) -> None:
    interrupt = (await call(ada, "ask", {"id": "e1"})).json()
    answer = await call(ada, "ask", {"id": "e1"}, resumption={**answer_to(interrupt), "by": "bob"})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


# --- events -----------------------------------------------------------------------------------------------------------


async def listen(client: httpx2.AsyncClient, pattern: str, told: list[Any], listening: asyncio.Event) -> None:
    async with client.stream("GET", "/api/events", params={"pattern": pattern}) as answer:
        async for line in answer.aiter_lines():
            if line == ": listening":
                listening.set()
            elif line.startswith("data: "):
                told.append(orjson.loads(line.removeprefix("data: ")))


async def test_a_user_hears_own_events_and_nobody_else_s(ada: httpx2.AsyncClient, bob: httpx2.AsyncClient) -> None:
    hers: list[Any] = []
    his: list[Any] = []
    began = asyncio.Event(), asyncio.Event()
    going = [
        asyncio.create_task(listen(ada, "contract.*", hers, began[0])),
        asyncio.create_task(listen(bob, "#", his, began[1])),
    ]
    try:
        await asyncio.gather(*(each.wait() for each in began))
        called = await call(ada, "tell", {"times": 2})
        await call(bob, "tell", {"times": 1})
        await eventually(lambda: len(hers) == 2 and len(his) == 1)
        assert {told["callId"] for told in hers} == {called.headers["X-Call-Id"]}
        assert [told["data"]["number"] for told in hers] == [0, 1]
        assert (hers[0]["userId"], his[0]["userId"]) == ("ada", "bob")
    finally:
        for each in going:
            await leave(each)


async def test_a_pattern_that_matches_nothing_is_refused(ada: httpx2.AsyncClient) -> None:
    answer = await ada.get("/api/events", params={"pattern": "a.b.c"})
    assert (answer.status_code, answer.json()["code"]) == (400, "input_invalid")


# --- many -------------------------------------------------------------------------------------------------------------


async def test_a_thousand_calls_at_once_end_well(gateway: Gateway) -> None:
    def request(number: int) -> bytes:
        body = orjson.dumps({"input": {"a": number, "b": 1}})
        return post("/api/actions/contract/add", body, Authorization=f"Bearer {ADA}")

    answers = await asyncio.gather(*(send(gateway.url, request(number), within=120) for number in range(1000)))
    assert [answer and answer.json()["result"]["sum"] for answer in answers] == [number + 1 for number in range(1000)]
    assert gateway.host.calls.in_flight == 0


async def test_a_drain_lets_calls_end_and_takes_no_more(ada: httpx2.AsyncClient, gateway: Gateway) -> None:
    going = await begin(ada, "g")
    draining = asyncio.create_task(gateway.server.drain(30))
    await eventually(lambda: gateway.host.draining)
    refused = await call(ada, "add", {"a": 1, "b": 2})
    ready = await ada.get("/ready")
    assert (refused.status_code, refused.json()["code"], refused.headers["Retry-After"]) == (503, "overloaded", "2")
    assert (ready.status_code, ready.json()) == (503, {"ok": False, "reasons": ["it drains"]})
    seen.gate("g").set()
    assert (await going).json()["status"] == "completed"
    await draining


async def test_what_does_not_end_within_the_grace_time_is_cancelled(ada: httpx2.AsyncClient, gateway: Gateway) -> None:
    going = await begin(ada, "g")
    await gateway.server.drain(0.1)
    assert (await going).json()["code"] == "cancelled"
