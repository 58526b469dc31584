"""Whatever is asked about runs, the host answers as its OpenAPI document declares, and never with 500."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grundlag_bus import Runs, Store, connect, create_app
from grundlag_bus.schema.json_schema import JsonValidator
from grundlag_bus.schema.run import STATUSES

_text = st.text(max_size=6)
_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | _text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_text, inner, max_size=2),
    max_leaves=4,
)
_bodies = st.fixed_dictionaries(
    {},
    optional={
        "source": st.sampled_from(["1", "await contractEcho(1)", "\0", ""]) | _json,
        "inputs": _json,
        "prompt": _text | _json,
        "function": _text | _json,
        "input": _json,
        "answer": _json,
        "reason": _text | _json,
        "answerer": _text | _json,
        "timeout": st.floats() | _json,
    },
)
_queries = st.dictionaries(
    st.sampled_from(["status", "before", "limit", "wait", "forPeople", "after", "runId"]),
    _text | st.sampled_from([*STATUSES, "0", "1", "true", "2026-12-01T00:00:00Z"]),
    max_size=2,
)


def undeclared(document: dict[str, Any], path: str, method: str, answer: httpx2.Response) -> list[Any]:
    """Return what is wrong with an answer by the document."""
    responses = document["paths"][path][method]["responses"]
    assert str(answer.status_code) in responses, answer.text
    kind = answer.headers["Content-Type"].partition(";")[0]
    content = responses[str(answer.status_code)]["content"][kind]
    if kind == "text/event-stream":
        return []
    check = JsonValidator({**content["schema"], "components": document["components"]})
    return list(check.issues(answer.json()))


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
async def test_every_answer_is_declared(tmp_path: Path, data: st.DataObject) -> None:
    bus = connect("memory://")
    async with await Store.open(f"sqlite:///{tmp_path}/runs.sqlite") as store:
        host = create_app(bus, runs=Runs(store, bus, drives=False))
        transport = httpx2.ASGITransport(app=host)
        async with host.opened(), httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            document = (await client.get("/openapi.json")).json()
            wanted = [path for path in document["paths"] if re.match("/api/(runs|interrupts)", path)]
            for _ in range(8):
                path = data.draw(st.sampled_from(wanted))
                method = data.draw(st.sampled_from(sorted(document["paths"][path])))
                known = (await client.get("/api/runs")).json()["runs"]
                if path.endswith("/events"):
                    known = []  # it would go on
                ids = st.sampled_from([run["runId"] for run in known] or ["a"]) | st.sampled_from(["a", "%00", "%ff"])
                url = re.sub(r"\{.*?\}", data.draw(ids), path)
                asked: dict[str, Any] = {"params": data.draw(_queries)} if method == "get" else {}
                if method == "post":
                    asked = {"content": _encoded(data.draw(_bodies | _json))}
                headers = {"Content-Type": "application/json", "Idempotency-Key": data.draw(st.sampled_from("ab"))}
                answer = await client.request(method.upper(), url, headers=headers, **asked)
                assert not undeclared(document, path, method, answer), (path, asked, answer.text)


def _encoded(body: Any) -> bytes:
    return json.dumps(body).encode(errors="surrogatepass")
