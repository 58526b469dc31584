"""Scripts beside the host: with the tools that their user may call, and ended with whoever sent them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from grundlag_bus import GatewayLimits, SealKeys, StaticTokens, connect
from tests.support.contract_registry import make_registry, seen
from tests.support.eventually import eventually
from tests.support.gateway import Gateway, open_gateway

ADA, BOB = "ada-0123456789abcdef", "bob-0123456789abcdef"
USERS = StaticTokens({ADA: "ada", BOB: "bob"})
NO_TLS = ssl.create_default_context()  # to make one for each client takes longer than a request
ACTIONS = [f"contract.{name}" for name in ("add", "sleep", "ask", "work", "recall", "trace")]


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    seen.reset()
    keys = SealKeys.generate()
    bus = connect(make_registry(keys))
    async with open_gateway(bus, auth=USERS, allow={"ada": ACTIONS, "bob": ACTIONS}, keys=keys) as opened:
        yield opened
    seen.reset()


async def run(gateway: Gateway, source: Any, headers: dict[str, str] | None = None, **more: Any) -> httpx2.Response:
    given = {"Authorization": f"Bearer {ADA}", **(headers or {})}
    async with httpx2.AsyncClient(base_url=gateway.url, headers=given, timeout=60, verify=NO_TLS) as client:
        return await client.post("/api/eval", json={"source": source, **more})


async def test_a_script_calls_tools_and_gives_a_value(gateway: Gateway) -> None:
    source = "first = await contractAdd(a=1, b=n)\nprint('so far', first['sum'])\nfirst['sum'] * 2"
    answer = await run(gateway, source, inputs={"n": 2})
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "completed",
        "value": 6,
        "stdout": "so far 3\n",
        "calls": [{"function": "contractAdd", "status": "completed", "line": 1, "code": None}],
    }


async def test_the_calls_of_a_script_share_its_items(gateway: Gateway) -> None:
    source = "await contractWork(length=2)\n(await contractRecall())"
    answer = (await run(gateway, source)).json()
    assert answer["status"] == "completed", answer
    assert "step" in str(answer["value"])


async def test_the_calls_of_a_script_belong_to_the_trace_of_its_request(gateway: Gateway) -> None:
    traced = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    assert (await run(gateway, "await contractTrace()", traced)).json()["value"] == traced


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("x = 1\nawait contractEcho(value=1)", 2),
        ("await contractAdd(a=1, c=2)", 1),
        ("raise ValueError('no')", 1),
        ("x =", 1),
        ("(" * 50_000, None),
        ("x = " + "-" * 100_000 + "1", None),
        ("import os\nos.system('true')", None),
        ("open('/etc/passwd').read()", None),
        ("x" * 300_000, None),
    ],
)
async def test_what_is_wrong_with_a_script_is_told(gateway: Gateway, source: str, line: int | None) -> None:
    answer = await run(gateway, source)
    failed = answer.json()
    assert (answer.status_code, failed["code"]) == (422, "script_failed")
    assert line is None or failed["details"]["line"] == line


async def test_who_goes_away_cancels_the_script(gateway: Gateway) -> None:
    going = asyncio.create_task(run(gateway, "await contractSleep(seconds=60)"))
    await eventually(lambda: seen.runs["sleep"] == 1, within=30)
    going.cancel()
    await asyncio.wait({going})
    await eventually(lambda: "cancelled" in seen.notes)
    await eventually(lambda: gateway.host.scripts.in_flight == 0)


async def test_a_script_has_a_deadline(gateway: Gateway) -> None:
    answer = await run(gateway, "await contractSleep(seconds=60)", {"X-Timeout": "0.5"})
    assert answer.status_code in (422, 504)
    await eventually(lambda: gateway.host.scripts.in_flight == 0)


@pytest.mark.parametrize("body", [{}, [], {"source": 1}, {"source": "1", "inputs": []}, {"source": "1", "more": 1}])
async def test_a_body_that_is_no_script_is_refused(gateway: Gateway, body: Any) -> None:
    async with httpx2.AsyncClient(base_url=gateway.url, headers={"Authorization": f"Bearer {ADA}"}) as client:
        answer = await client.post("/api/eval", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "input_invalid")


@pytest.mark.parametrize("name", ["len", "_x", "a b", "contractAdd"])
async def test_an_input_that_a_script_cannot_be_given_is_the_requests_mistake(gateway: Gateway, name: str) -> None:
    answer = await run(gateway, "1", inputs={name: 1})
    assert (answer.status_code, answer.json()["code"]) == (400, "input_invalid")
    assert name in str(answer.json()["details"])


async def test_who_has_no_token_runs_nothing(gateway: Gateway) -> None:
    assert (await run(gateway, "1", {"Authorization": "Bearer nobody"})).status_code == 401


async def test_one_user_has_so_many_scripts_at_once_and_no_more() -> None:
    seen.reset()
    bus = connect(make_registry(SealKeys.generate()))
    async with open_gateway(bus, auth=StaticTokens({ADA: "ada"}), limits=GatewayLimits(scripts=1)) as gateway:
        first = asyncio.create_task(run(gateway, "await contractSleep(seconds=60)"))
        await eventually(lambda: seen.runs["sleep"] == 1, within=30)
        answer = await run(gateway, "1")
        assert (answer.status_code, answer.json()["code"]) == (429, "overloaded")
        first.cancel()
        await asyncio.wait({first})
        await eventually(lambda: gateway.host.scripts.in_flight == 0)
        assert (await run(gateway, "1")).status_code == 200
    seen.reset()


# --- scripts that ask -------------------------------------------------------------------------------------------------

ASKING = (
    "first = await contractAdd(a=1, b=n)\nprint('asking')\nsaid = await contractAsk(id='e1')\n[first, said['approved']]"
)


def answered(asked: Any, answer: Any = None, **more: Any) -> dict[str, Any]:
    """Answer what a script asks: everything with yes, where no answer is given."""
    yes = {question["interruptId"]: {"approved": True} for question in asked["data"]}
    answer = yes if answer is None else answer
    return {"interruptId": asked["interruptId"], "answer": answer, "state": asked["state"], **more}


async def ask(gateway: Gateway, source: str = ASKING, **more: Any) -> Any:
    answer = await run(gateway, source, **more)
    assert (answer.status_code, answer.json()["status"]) == (200, "interrupted"), answer.text
    return answer.json()


async def test_a_script_that_asks_goes_on_with_the_answer_and_calls_nothing_again(gateway: Gateway) -> None:
    asked = await ask(gateway, inputs={"n": 2})
    (question,) = asked["data"]
    assert (question["function"], question["message"], asked["message"]) == ("contractAsk", "Delete e1?", "Delete e1?")
    assert list(asked["answerSchema"]["properties"]) == [question["interruptId"]]
    assert datetime.fromisoformat(asked["expiresAt"]) > datetime.now(UTC) + timedelta(days=29)
    answer = await run(gateway, ASKING, inputs={"n": 2}, resumption=answered(asked))
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "completed",
        "value": [{"sum": 3}, True],
        "stdout": "asking\n",
        "calls": [
            {"function": "contractAdd", "status": "completed", "line": 1, "code": None},
            {"function": "contractAsk", "status": "completed", "line": 3, "code": None},
        ],
    }
    assert (seen.runs["add"], seen.runs["ask"]) == (1, 1)


async def test_questions_are_answered_one_after_the_other(gateway: Gateway) -> None:
    source = """
import asyncio
both = await asyncio.gather(contractAsk(id='a'), contractAsk(id='b'))
third = await contractAsk(id='c')
[said['approved'] for said in [*both, third]]
"""
    asked = await ask(gateway, source)
    first = asked["data"][0]["interruptId"]
    again = (await run(gateway, source, resumption=answered(asked, {first: {"approved": False}}))).json()
    assert [question["message"] for question in again["data"]] == ["Delete b?"]
    last = (await run(gateway, source, resumption=answered(again))).json()
    assert [question["message"] for question in last["data"]] == ["Delete c?"]
    assert (await run(gateway, source, resumption=answered(last))).json()["value"] == [False, True, True]
    assert seen.runs["ask"] == 3


async def test_a_script_keeps_its_items_over_a_question(gateway: Gateway) -> None:
    source = "await contractWork(length=2)\nawait contractAsk(id='e1')\nawait contractRecall()"
    asked = await ask(gateway, source)
    assert "step" in str((await run(gateway, source, resumption=answered(asked))).json()["value"])


async def test_an_answer_that_does_not_fit_leaves_the_question_open(gateway: Gateway) -> None:
    asked = await ask(gateway, inputs={"n": 2})
    misfit = {asked["data"][0]["interruptId"]: {"approved": "often"}}
    for answer, place in (
        ([], ["answer"]),
        ("yes", ["answer"]),
        ({}, ["answer"]),
        ({"unknown": {"approved": True}}, ["answer"]),
        (misfit, ["approved"]),
    ):
        refused = await run(gateway, ASKING, inputs={"n": 2}, resumption=answered(asked, answer))
        assert (refused.status_code, refused.json()["code"]) == (400, "answer_invalid")
        assert refused.json()["details"]["issues"][0]["path"] == place
    assert (await run(gateway, ASKING, inputs={"n": 2}, resumption=answered(asked))).status_code == 200


async def test_an_answer_counts_once(gateway: Gateway) -> None:
    asked = await ask(gateway, inputs={"n": 2})
    first, same = [await run(gateway, ASKING, inputs={"n": 2}, resumption=answered(asked)) for _ in range(2)]
    assert (first.status_code, same.status_code, same.json()) == (200, 200, first.json())
    no = {asked["data"][0]["interruptId"]: {"approved": False}}
    other = await run(gateway, ASKING, inputs={"n": 2}, resumption=answered(asked, no))
    assert (other.status_code, other.json()["code"]) == (409, "answer_conflict")
    assert seen.runs["ask"] == 1


async def test_a_script_that_is_being_answered_is_answered_by_nobody_else(gateway: Gateway) -> None:
    source = "await contractAsk(id='e1')\nawait contractSleep(seconds=60)"
    asked = await ask(gateway, source)
    going = asyncio.create_task(run(gateway, source, resumption=answered(asked)))
    await eventually(lambda: seen.runs["sleep"] == 1, within=30)
    other = await run(gateway, source, resumption=answered(asked))
    assert (other.status_code, other.json()["code"]) == (409, "answer_conflict")
    going.cancel()
    await asyncio.wait({going})
    await eventually(lambda: gateway.host.scripts.in_flight == 0)
    late = await run(gateway, source, {"X-Timeout": "20"}, resumption=answered(asked, by="eve"))
    assert late.status_code == 403
    again = asyncio.create_task(run(gateway, source, resumption=answered(asked)))
    await eventually(lambda: seen.runs["sleep"] == 2, within=30)
    again.cancel()
    await asyncio.wait({again})


def changed(text: str, at: int) -> str:
    return text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]


async def test_a_forged_continuation_is_refused(gateway: Gateway) -> None:
    asked = await ask(gateway, inputs={"n": 2})
    another = await ask(gateway, inputs={"n": 2})
    given: dict[str, Any] = {"source": ASKING, "inputs": {"n": 2}, "resumption": answered(asked)}
    state = asked["state"]
    forgeries: list[dict[str, Any]] = [
        {"resumption": {**given["resumption"], "state": changed(state, len(state) - 10)}},
        {"resumption": {**given["resumption"], "state": changed(state, 4)}},  # the key
        {"resumption": {**given["resumption"], "state": changed(state, 16)}},  # when it expires
        {"resumption": {**given["resumption"], "state": another["state"]}},
        {"resumption": {**given["resumption"], "state": "{}"}},
        {"resumption": {**given["resumption"], "interruptId": asked["data"][0]["interruptId"]}},
        {"source": ASKING + "\nawait contractAdd(a=1, b=1)"},
        {"inputs": {"n": 3}},
        {"inputs": {}},
    ]
    for forged in forgeries:
        refused = await run(gateway, **{**given, **forged})
        assert (refused.status_code, refused.json()["code"]) == (422, "state_invalid"), forged
    assert seen.runs["ask"] == 0
    assert (await run(gateway, **given)).status_code == 200


async def test_nobody_goes_on_with_another_s_script(gateway: Gateway) -> None:
    asked = await ask(gateway, inputs={"n": 2})
    for more in ({}, {"by": "ada"}):
        stolen = await run(
            gateway, ASKING, {"Authorization": f"Bearer {BOB}"}, inputs={"n": 2}, resumption=answered(asked, **more)
        )
        assert stolen.status_code == (403 if more else 422)
    assert seen.runs["ask"] == 0
    mine = await run(gateway, ASKING, inputs={"n": 2}, resumption=answered(asked, by="ada"))
    assert mine.json()["value"] == [{"sum": 3}, True]


async def test_an_action_s_state_is_no_script_s(gateway: Gateway) -> None:
    """Both are sealed, here under the same keys."""
    given = {"Authorization": f"Bearer {ADA}"}
    async with httpx2.AsyncClient(base_url=gateway.url, headers=given) as client:
        asked = (await client.post("/api/actions/contract/ask", json={"input": {"id": "e1"}})).json()
    refused = await run(gateway, ASKING, inputs={"n": 2}, resumption=answered({**asked, "data": []}, {"x": 1}))
    assert (refused.status_code, refused.json()["code"]) == (422, "state_invalid")


async def test_an_answer_comes_too_late(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = await ask(gateway, inputs={"n": 2})
    later = datetime.fromisoformat(asked["expiresAt"]).timestamp() + 1
    monkeypatch.setattr(gateway.host.scripts._continuations, "_clock", lambda: later)
    late = await run(gateway, ASKING, inputs={"n": 2}, resumption=answered(asked))
    assert (late.status_code, late.json()["code"]) == (410, "interrupt_expired")


async def test_another_host_with_the_same_keys_goes_on() -> None:
    seen.reset()
    keys = SealKeys.generate()
    asked = None
    for shared in (True, True, False):
        bus = connect(make_registry(keys))
        async with open_gateway(bus, auth=USERS, keys=keys if shared else None) as gateway:
            if asked is None:
                asked = await ask(gateway, inputs={"n": 2})
                continue
            answer = await run(gateway, ASKING, inputs={"n": 2}, resumption=answered(asked))
        assert answer.status_code == (200 if shared else 422), answer.text
        assert answer.json()["status"] == "completed" if shared else answer.json()["retryable"]
    assert (seen.runs["add"], seen.runs["ask"]) == (1, 1)
    seen.reset()


async def test_a_script_that_has_more_to_keep_than_a_request_may_bring_fails_when_it_asks() -> None:
    source = "kept = await contractProduce(length=n)\nawait contractAsk(id='e1')\nlen(kept)"
    seen.reset()
    async with open_gateway(
        connect(make_registry(SealKeys.generate())), auth=USERS, limits=GatewayLimits(body=200_000)
    ) as gateway:
        asked = await ask(gateway, source, inputs={"n": 90_000})
        assert (await run(gateway, source, inputs={"n": 90_000}, resumption=answered(asked))).json()["value"] == 90_000
        large = await run(gateway, source, inputs={"n": 110_000})
        assert (large.status_code, large.json()["code"]) == (413, "payload_too_large")
    seen.reset()
