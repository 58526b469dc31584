"""Whatever is asked of the host, it answers as its OpenAPI document declares, and never with 500."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grundlag_bus import SealKeys, connect, create_app
from grundlag_bus.schema.json_schema import JsonValidator
from tests.support.contract_registry import make_registry

LEFT_OUT = ("hold", "wait", "deaf", "sleep", "stubborn", "block", "die", "dawdle", "cleanUp", "tellAndHold", "work")
"""Actions that wait, or end their process."""

_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_fitting = st.sampled_from(
    [
        {},
        {"a": 1, "b": 2},
        {"value": 1},
        {"id": "e1"},
        {"how": "failed"},
        {"how": "raised"},
        {"number": 3},
        {"times": 1},
    ]
)
_resumption = st.fixed_dictionaries({"interruptId": st.text(max_size=8), "answer": _json, "state": st.text(max_size=8)})
_item = st.fixed_dictionaries({"id": st.text(max_size=3), "type": st.text(max_size=3), "data": _json})
_bodies = st.fixed_dictionaries(
    {"input": _fitting | _json},
    optional={"resumption": _resumption | _json, "items": st.lists(_item, max_size=2) | _json},
)


def declared(document: dict[str, Any], path: str, answer: httpx2.Response) -> list[Any]:
    """Return what is wrong with an answer by the document."""
    responses = document["paths"][path]["post"]["responses"]
    assert str(answer.status_code) in responses, answer.text
    content = responses[str(answer.status_code)]["content"][answer.headers["Content-Type"]]
    check = JsonValidator({**content["schema"], "components": document["components"]})
    return list(check.issues(answer.json()))


@pytest.fixture(scope="module")
def paths() -> list[str]:
    manifest = make_registry(SealKeys.generate()).manifest()
    return [
        f"/api/actions/{provider.id}/{action.id}"
        for provider in manifest.providers
        for action in provider.actions
        if not action.id.startswith(LEFT_OUT)
    ]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
async def test_every_answer_is_declared(paths: list[str], data: st.DataObject) -> None:
    bus = connect(make_registry(SealKeys.generate()))
    host = create_app(bus)
    transport = httpx2.ASGITransport(app=host)
    async with bus, httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        document = (await client.get("/openapi.json")).json()
        for _ in range(5):
            path, body = data.draw(st.sampled_from(paths)), data.draw(_bodies | _json)
            content = str(body).encode() if data.draw(st.booleans()) else _encoded(body)
            headers = {"Content-Type": "application/json", "X-Timeout": data.draw(st.sampled_from(["5", "0", "x"]))}
            answer = await client.post(path, content=content, headers=headers)
            assert not declared(document, path, answer), (path, body, answer.text)


def _encoded(body: Any) -> bytes:
    return json.dumps(body).encode(errors="surrogatepass")
