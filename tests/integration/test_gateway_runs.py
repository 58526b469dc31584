"""Runs over HTTP: what a user starts, follows and answers, and what nobody else gets to see of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from grundlag_bus import (
    ActionUnknownError,
    ConfigurationError,
    ForbiddenError,
    GatewayLimits,
    HttpRuns,
    InterruptUnknownError,
    Ledger,
    MemoryTransport,
    Runs,
    RunStateError,
    RunUnknownError,
    SealKeys,
    StaticTokens,
    Store,
    TypedClient,
    Worker,
    connect,
)
from grundlag_bus.transport import named_bus
from tests.support.contract_registry import make_registry, seen
from tests.support.gateway import Gateway, open_gateway
from tests.support.hosts import RunningWorker
from tests.support.namespaces import fresh_namespace
from tests.support.raw_http import Answer, post, send

ADA, BOB = "ada-0123456789abcdef", "bob-0123456789abcdef"
TOKENS = {"ada": ADA, "bob": BOB}
ENTRY = b"event: entry"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """A host where ada may ask, and bob everything; its worker has a ledger in the runs' store."""
    seen.reset()
    namespace = fresh_namespace()
    address = f"memory://{namespace}"
    async with AsyncExitStack() as opened:
        store = await opened.enter_async_context(await Store.open(f"sqlite:///{tmp_path}/store.sqlite"))
        bus = connect(address, namespace=namespace)
        transport = MemoryTransport(namespace=namespace, bus=named_bus(namespace))
        worker = RunningWorker(Worker(transport, make_registry(SealKeys.generate()), ledger=Ledger(store)), transport)
        opened.push_async_callback(worker.stop)
        await worker.started()
        yield await opened.enter_async_context(
            open_gateway(
                bus,
                auth=StaticTokens({token: user for user, token in TOKENS.items()}),
                allow={"ada": ["contract.ask"], "bob": ["*.*"]},
                limits=GatewayLimits(body=10_000),
                runs=Runs(store, bus),
            )
        )
    seen.reset()


@pytest.fixture
async def runs(gateway: Gateway) -> AsyncIterator[HttpRuns]:
    """The runs of whoever is named, by their own token."""
    async with connect(gateway.url, token=lambda user_id: TOKENS[user_id or "ada"]) as bus:
        yield bus.runs


async def asked(gateway: Gateway, request: bytes) -> Answer:
    answer = await send(gateway.url, request)
    assert answer is not None, "the connection was closed without an answer"
    return answer


def doing(path: str, body: bytes = b"{}", *, who: str | None = "ada", **headers: str) -> bytes:
    return post(path, body, **({} if who is None else {"Authorization": f"Bearer {TOKENS[who]}"}), **headers)


def looking(path: str, *, who: str = "ada", **headers: str) -> bytes:
    return doing(path, b"", who=who, **headers).replace(b"POST ", b"GET ", 1)


async def waiting(runs: HttpRuns, **given: Any) -> tuple[str, str]:
    """Start a run of ada's that asks, and return its id and that of its question, which bob answers if he is named."""
    run = await runs.start_call("contractAsk", {"id": "a"}, **given)
    assert (await runs.wait(run.run_id, timeout=60, for_people=True)).status == "waiting"
    (question,) = await runs.pending(given.get("answerer", "ada"), run_id=run.run_id)
    return run.run_id, question.interrupt_id


# --- what a user does -------------------------------------------------------------------------------------------------


async def test_a_run_is_started_followed_answered_and_shown(runs: HttpRuns) -> None:
    run_id, interrupt_id = await waiting(runs)
    heard: list[str] = []

    async def listen() -> None:
        async for entry in runs.events(run_id, after=1):
            heard.append(entry.kind)  # noqa: PERF401  it goes on meanwhile

    listening = asyncio.create_task(listen())
    given = await runs.answer(interrupt_id, {"approved": True})
    assert (given.status, given.answered_by) == ("answered", "ada")
    done = await runs.wait(run_id, timeout=60)
    assert (done.status, done.value["approved"], done.user_id) == ("completed", True, "ada")
    await asyncio.wait_for(listening, 60)
    assert heard == ["called", "settled", "answered", "settled", "run.ended"]
    assert [entry.kind async for entry in runs.events(run_id, after=5)] == ["run.ended"]
    assert [entry.kind async for entry in runs.events(run_id, after=6)] == []


async def test_a_browser_joins_with_the_id_of_the_last_entry(gateway: Gateway, runs: HttpRuns) -> None:
    run_id, interrupt_id = await waiting(runs)
    await runs.reject(interrupt_id)
    await runs.wait(run_id, timeout=60)
    request = looking(f"/api/runs/{run_id}/events", Last_Event_ID="4", Connection="close")
    answer = await asked(gateway, request)
    assert answer.body.count(ENTRY) == 1
    assert b"id: 5\n" in answer.body
    assert b"event: end\ndata: {}\n\n" in answer.body


async def test_a_key_starts_one_run_of_its_user(runs: HttpRuns) -> None:
    first = await runs.start_call("contractAsk", {"id": "a"}, key="mine")
    assert (await runs.start_call("contractAsk", {"id": "a"}, key="mine")).run_id == first.run_id
    other = await runs.start_call("contractAsk", {"id": "a"}, key="mine", user_id="bob")
    assert other.run_id != first.run_id
    with pytest.raises(RunStateError, match="Another run has the id"):
        await runs.start_call("contractAsk", {"id": "b"}, key="mine")
    assert len(await runs.list()) == 1


async def test_what_runs_ask_is_told_to_who_may_answer_it(gateway: Gateway, runs: HttpRuns) -> None:
    async with AsyncExitStack() as opened:
        heard = {}
        for who, token in TOKENS.items():
            bus = await opened.enter_async_context(connect(gateway.url, token=token))
            heard[who] = await opened.enter_async_context(bus.events("interrupt.*"))
        _, interrupt_id = await waiting(runs, answerer="bob")
        told = await asyncio.wait_for(anext(heard["bob"]), 60)
        assert (told.event_id, told.data["interruptId"]) == ("pending", interrupt_id)
        await waiting(runs)
        assert (await asyncio.wait_for(anext(heard["ada"]), 60)).data["interruptId"] != interrupt_id


# --- what a user may call ---------------------------------------------------------------------------------------------


async def test_a_run_calls_what_its_user_may_and_nothing_else(runs: HttpRuns) -> None:
    with pytest.raises(ActionUnknownError, match="You have no function 'contractEcho'"):
        await runs.start_call("contractEcho", {"value": 1})
    run = await runs.start_script("await contractEcho(1)")
    assert (await runs.wait(run.run_id, timeout=60)).status == "failed"
    assert not seen.runs["echo"]
    allowed = await runs.start_script("await contractEcho(1)", user_id="bob")
    assert (await runs.wait(allowed.run_id, timeout=60, user_id="bob")).value == {"value": 1}
    with pytest.raises(RunStateError, match="is completed"):
        await runs.retry(allowed.run_id, user_id="bob")


async def test_another_try_may_not_call_more_than_its_user(gateway: Gateway, runs: HttpRuns) -> None:
    assert gateway.host.runs is not None
    run = await gateway.host.runs.start_script("await contractEcho(1)\nawait contractAdd(1)", user_id="ada")
    await runs.wait(run.run_id, timeout=60)
    with pytest.raises(ForbiddenError, match="more than you may"):
        await runs.retry(run.run_id)
    mine = await runs.start_script("await contractEcho(1)")
    await runs.wait(mine.run_id, timeout=60)
    again = await runs.retry(mine.run_id, source="1 + 1")
    assert (await runs.wait(again.run_id, timeout=60)).value == 2
    assert again.retry_of == mine.run_id


# --- what nobody else sees --------------------------------------------------------------------------------------------


async def test_a_foreign_run_cannot_be_told_from_none(gateway: Gateway, runs: HttpRuns) -> None:
    run_id, _ = await waiting(runs)
    nothing = "0" * 32
    for path in ("", "/events", "?wait=1"):
        foreign = await asked(gateway, looking(f"/api/runs/{run_id}{path}", who="bob"))
        unknown = await asked(gateway, looking(f"/api/runs/{nothing}{path}", who="bob"))
        assert (foreign.status, foreign.json()["code"]) == (404, "run_unknown")
        assert foreign.body.replace(run_id.encode(), nothing.encode()) == unknown.body
    for what in ("cancel", "retry"):
        foreign = await asked(gateway, doing(f"/api/runs/{run_id}/{what}", who="bob"))
        assert (foreign.status, foreign.json()["code"]) == (404, "run_unknown")
    assert await runs.list(user_id="bob") == ()
    with pytest.raises(RunUnknownError):
        _ = [entry async for entry in runs.events(run_id, user_id="bob")]
    assert (await runs.get(run_id)).status == "waiting"


async def test_a_foreign_question_cannot_be_told_from_none_nor_answered(gateway: Gateway, runs: HttpRuns) -> None:
    run_id, interrupt_id = await waiting(runs)
    nothing = "0" * 32
    requests = {"answer": b'{"answer":{"approved":true}}', "reject": b"{}", "edit": b'{"input":{"id":"b"}}'}
    for what, body in requests.items():
        foreign = await asked(gateway, doing(f"/api/interrupts/{interrupt_id}/{what}", body, who="bob"))
        unknown = await asked(gateway, doing(f"/api/interrupts/{nothing}/{what}", body, who="bob"))
        assert (foreign.status, foreign.json()["code"]) == (404, "interrupt_unknown")
        assert foreign.body.replace(interrupt_id.encode(), nothing.encode()) == unknown.body
    foreign = await asked(gateway, looking(f"/api/interrupts/{interrupt_id}", who="bob"))
    assert foreign.status == 404
    assert await runs.pending("bob") == ()
    assert await runs.pending("bob", run_id=run_id) == ()
    assert (await runs.interrupt(interrupt_id)).status == "pending"


async def test_who_may_answer_sees_the_question_and_not_the_run(runs: HttpRuns) -> None:
    run_id, interrupt_id = await waiting(runs, answerer="bob")
    with pytest.raises(InterruptUnknownError):
        await runs.answer(interrupt_id, {"approved": True})
    with pytest.raises(RunUnknownError):
        await runs.get(run_id, user_id="bob")
    assert (await runs.answer(interrupt_id, {"approved": True}, by="bob")).answered_by == "bob"
    assert (await runs.wait(run_id, timeout=60)).value["by"] == "bob"


async def test_who_has_no_token_or_another_user_s_name_gets_nothing(gateway: Gateway, runs: HttpRuns) -> None:
    run_id, interrupt_id = await waiting(runs)
    for path in ("/api/runs", f"/api/runs/{run_id}/cancel", f"/api/interrupts/{interrupt_id}/reject"):
        answer = await asked(gateway, doing(path, who=None))
        assert (answer.status, answer.json()["code"]) == (401, "unauthenticated")
        answer = await asked(gateway, doing(path, who="bob", X_User_Id="ada"))
        assert (answer.status, answer.json()["code"]) == (403, "forbidden")
    assert (await runs.get(run_id)).status == "waiting"


# --- what is no request -----------------------------------------------------------------------------------------------


IDS = (
    *("..", "../runs", "..%2Fruns", "%00", "a%00b", "%ff%fe", "a%0d%0aX-Evil:%201", "%ED%A0%80", "*", "%25"),
    *("'%20OR%201=1%20--", "a" * 5000, "a/../b", "%20", "%E2%82%AC"),
)
BODIES = (
    *(b"", b"[]", b"{}", b"null", b'{"function":1,"input":1}', b'{"function":"contractAsk"}', b'{"source":1}'),
    *(b'{"source":"1","function":"contractAsk"}', b'{"source":"1","inputs":[]}', b'{"source":"1","user":"bob"}'),
    *(b'{"source":"1","timeout":0}', b'{"source":"1","timeout":true}', b'{"source":"1","timeout":1e300}'),
    *(b'{"source":"1","answerer":""}', b'{"source":"1","answerer":"a\\u0000b"}', b'{"source":"\\ud800"}'),
    b'{"source":"1","answerer":"' + b"a" * 256 + b'"}',
    b'{"function":"contractAsk","input":' + b"[" * 130 + b"]" * 130 + b"}",
    b'{"function":"contractAsk","input":{"id":1}}',
    b'{"source":"1","inputs":{"n":18446744073709551616}}',
)
QUERIES = (
    *("?status=gone", "?limit=0", "?limit=101", "?limit=x", "?limit=-1", "?before=yesterday", "?before=2026-01-01"),
    *("?limit=99999999999999999999", "/a?wait=nan", "/a?wait=31", "/a?wait=-1", "/a?wait=x", "/a?forPeople=1"),
    "/a/events?after=-1",
)


async def test_an_id_with_tricks_is_nobody_s(gateway: Gateway) -> None:
    for path in (f"{of}/{id_}" for of in ("/api/runs", "/api/interrupts") for id_ in IDS):
        answer = await asked(gateway, looking(path))
        assert answer.status == 404, path
        assert answer.json()["code"] in ("run_unknown", "interrupt_unknown", "not_found"), path
        assert "x-evil" not in answer.headers


async def test_a_body_that_starts_nothing_is_refused(gateway: Gateway, runs: HttpRuns) -> None:
    for body in BODIES:
        answer = await asked(gateway, doing("/api/runs", body))
        assert (answer.status, answer.json()["code"]) == (400, "input_invalid"), body
        assert answer.json()["details"]["issues"]
    assert await runs.list() == ()


async def test_nothing_larger_or_of_another_type_is_read(gateway: Gateway, runs: HttpRuns) -> None:
    run_id, interrupt_id = await waiting(runs)
    paths = ["/api/runs", f"/api/runs/{run_id}/cancel", f"/api/runs/{run_id}/retry"]
    paths += [f"/api/interrupts/{interrupt_id}/{what}" for what in ("answer", "reject", "edit")]
    for path in paths:
        large = await asked(gateway, doing(path, b"{}" + b" " * 10_000))
        assert (large.status, large.json()["code"]) == (413, "payload_too_large")
        page = await asked(gateway, doing(path, Content_Type="text/plain"))
        assert page.status == 415
    assert (await runs.get(run_id)).status == "waiting"


async def test_a_query_that_is_none_is_refused(gateway: Gateway) -> None:
    for query in QUERIES:
        assert (await asked(gateway, looking(f"/api/runs{query}"))).status == 400, query


async def test_a_host_without_a_store_has_no_runs_and_says_so() -> None:
    async with open_gateway(connect(make_registry(SealKeys.generate()))) as gateway:
        for path in ("/api/runs", "/api/runs/a", "/api/runs/a/events", "/api/interrupts", "/api/interrupts/a"):
            answer = await asked(gateway, looking(path))
            assert (answer.status, answer.json()["code"]) == (404, "not_found")
            assert "start it with --store URL" in answer.json()["message"]
        document = (await asked(gateway, looking("/openapi.json"))).json()
        assert not [path for path in document["paths"] if "/api/runs" in path or "/api/interrupts" in path]
        async with connect(gateway.url) as bus:
            with pytest.raises(ConfigurationError, match="start it with --store URL"):
                await bus.runs.list()
            with pytest.raises(ConfigurationError, match="was given no runs"):
                _ = TypedClient(await bus.to_tools()).runs
            runs = bus.runs
            assert TypedClient({}, runs=runs).runs is runs
    async with connect(make_registry(SealKeys.generate())) as local:
        with pytest.raises(ConfigurationError, match=r"make Runs\(store, bus\)"):
            _ = local.runs
