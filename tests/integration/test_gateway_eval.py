"""Scripts beside the host: with the tools that their user may call, and ended with whoever sent them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from grundlag_bus import GatewayLimits, SealKeys, StaticTokens, connect
from tests.support.contract_registry import make_registry, seen
from tests.support.eventually import eventually
from tests.support.gateway import Gateway, open_gateway

ADA = "ada-0123456789abcdef"


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    seen.reset()
    bus = connect(make_registry(SealKeys.generate()))
    allow = {
        "ada": ["contract.add", "contract.sleep", "contract.ask", "contract.work", "contract.recall", "contract.trace"]
    }
    async with open_gateway(bus, auth=StaticTokens({ADA: "ada"}), allow=allow) as opened:
        yield opened
    seen.reset()


async def run(gateway: Gateway, source: Any, headers: dict[str, str] | None = None, **more: Any) -> httpx2.Response:
    given = {"Authorization": f"Bearer {ADA}", **(headers or {})}
    async with httpx2.AsyncClient(base_url=gateway.url, headers=given, timeout=60) as client:
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


async def test_a_script_that_asks_a_person_says_what(gateway: Gateway) -> None:
    answer = await run(gateway, "await contractAsk(id='e1')")
    failed = answer.json()
    assert (answer.status_code, failed["code"]) == (422, "script_interrupted")
    assert failed["details"]["pending"][0]["message"] == "Delete e1?"


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
