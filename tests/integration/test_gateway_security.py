"""The HTTP host stands up to who should not use it, or uses it badly; whatever is refused is said in one form."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from grundlag_bus import (
    ActionContext,
    GatewayLimits,
    JwtTokens,
    Ledger,
    Provider,
    ProviderRegistry,
    StaticTokens,
    Store,
    connect,
)
from grundlag_bus.gateway import serving, stream
from tests.support.contract_registry import seen
from tests.support.eventually import eventually
from tests.support.gateway import Gateway, open_gateway
from tests.support.hosts import open_host
from tests.support.namespaces import fresh_namespace
from tests.support.raw_http import Answer, post, send

TOKEN = "ada-0123456789abcdef"
CALL = "/api/actions/bank/pay"
BODY = b'{"input":1}'
ran: list[tuple[str | None, Any]] = []

bank = Provider("bank", name="Bank")
secret = Provider("secret", name="Secret")


@bank.action("pay", name="Pay")
async def pay(amount: Any, ctx: ActionContext) -> int:
    ran.append((ctx.user_id, amount))
    return 1


@secret.action("open", name="Open")
async def open_it(_: Any) -> int:
    ran.append((None, "open"))
    return 1


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    """A host where ada may use the bank."""
    ran.clear()
    bus = connect(ProviderRegistry([bank, secret]))
    limits = GatewayLimits(body=10_000, body_seconds=0.3)
    async with open_gateway(
        bus, auth=StaticTokens({TOKEN: "ada"}), allow={"ada": ["bank.*"]}, cors=["https://app.example"], limits=limits
    ) as opened:
        yield opened


async def asked(gateway: Gateway, request: bytes) -> Answer:
    answer = await send(gateway.url, request)
    assert answer is not None, "the connection was closed without an answer"
    return answer


async def refused(gateway: Gateway, request: bytes) -> tuple[int, str]:
    """Send what must be refused, and return the status and the code; nothing may have run."""
    answer = await asked(gateway, request)
    failed = answer.json()
    assert failed["status"] == "failed"
    assert isinstance(failed["message"], str)
    assert "Traceback" not in failed["message"]
    assert not ran
    return answer.status, failed["code"]


def get(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


BEARER = f"Authorization: Bearer {TOKEN}"

# --- who --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["Authorization: "],
        ["Authorization: Bearer"],
        ["Authorization: Bearer "],
        ["Authorization: Bearer nobody-has-this-token"],
        [f"Authorization: Basic {TOKEN}"],
        [f"Authorization: {TOKEN}"],
        [f"Authorization: Bearer {TOKEN[:-1]}"],
        [f"Authorization: Bearer {TOKEN}x"],
        [f"Authorization: Bearer {'x' * 9000}"],
        [BEARER, BEARER],
        ["Cookie: token=ada"],
    ],
)
@pytest.mark.parametrize("path", ["/api/client/schema", "/openapi.json", "/api/events"])
async def test_who_has_no_token_of_a_user_is_shown_nothing(gateway: Gateway, path: str, given: list[str]) -> None:
    assert await refused(gateway, get(path, *given)) == (401, "unauthenticated")


async def test_who_has_no_token_calls_nothing(gateway: Gateway) -> None:
    assert await refused(gateway, post(CALL, BODY)) == (401, "unauthenticated")
    answer = await asked(gateway, post(CALL, BODY))
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_token_in_the_query_is_no_token(gateway: Gateway) -> None:
    assert await refused(gateway, get(f"/api/events?access_token={TOKEN}")) == (401, "unauthenticated")


async def test_nobody_acts_as_somebody_else(gateway: Gateway) -> None:
    given = {"Authorization": f"Bearer {TOKEN}", "X_User_Id": "bob"}
    assert await refused(gateway, post(CALL, BODY, **given)) == (403, "forbidden")
    given["X_User_Id"] = "ada"
    assert (await asked(gateway, post(CALL, BODY, **given))).status == 200
    assert ran == [("ada", 1)]


async def test_what_is_not_allowed_is_neither_shown_nor_called(gateway: Gateway) -> None:
    shown = (await asked(gateway, get("/api/client/schema", BEARER))).json()
    assert [provider["id"] for provider in shown["providers"]] == ["bank"]
    given = {"Authorization": f"Bearer {TOKEN}"}
    there = await asked(gateway, post("/api/actions/secret/open", BODY, **given))
    nowhere = await asked(gateway, post("/api/actions/secret/nothing", BODY, **given))
    assert (there.status, there.json()["code"]) == (403, "forbidden")
    assert there.body == nowhere.body, "it can be told whether there is such an action"
    assert not ran


# --- signed tokens ----------------------------------------------------------------------------------------------------


async def test_a_signed_token_is_of_the_right_key_algorithm_and_audience_or_nobody_s(tmp_path: Path) -> None:
    ran.clear()
    key, other = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [{**jwk, "kid": "one"}]}))
    claims = {"sub": "ada", "aud": "us", "iss": "https://issuer.example/", "exp": time.time() + 600}

    def bearer(by: Any = key, algorithm: str = "RS256", **changed: Any) -> str:
        return f"Bearer {jwt.encode(claims | changed, by, algorithm, headers={'kid': 'one'})}"

    auth = JwtTokens(str(tmp_path / "jwks.json"), audience="us", issuer="https://issuer.example/")
    async with open_gateway(connect(ProviderRegistry([bank])), auth=auth) as gateway:
        for given in (
            bearer(other),
            bearer("secret-secret-secret-secret-secret", "HS256"),
            bearer(None, "none"),
            bearer(aud="them"),
            bearer(iss="https://other.example/"),
            bearer(exp=time.time() - 600),
        ):
            assert await refused(gateway, post(CALL, BODY, Authorization=given)) == (401, "unauthenticated")
        assert (await asked(gateway, post(CALL, BODY, Authorization=bearer()))).status == 200
    assert ran == [("ada", 1)]


# --- states -----------------------------------------------------------------------------------------------------------


async def test_a_state_that_was_used_is_of_no_use_where_the_workers_have_a_ledger(tmp_path: Path) -> None:
    seen.reset()
    namespace = fresh_namespace()
    async with (
        await Store.open(f"sqlite:///{tmp_path}/ledger.sqlite") as store,
        open_host("memory", namespace, f"memory://{namespace}", ledger=Ledger(store)) as host,
        open_gateway(connect(host.address, namespace=namespace), auth=StaticTokens({TOKEN: "ada"})) as gateway,
    ):

        async def ask(**more: Any) -> Answer:
            body = orjson.dumps({"input": {"id": "e1"}, **more})
            return await asked(gateway, post("/api/actions/contract/ask", body, Authorization=f"Bearer {TOKEN}"))

        interrupt = (await ask()).json()
        answer = {name: interrupt[name] for name in ("interruptId", "state")}
        first, again = [await ask(resumption={**answer, "answer": {"approved": True}}) for _ in range(2)]
        assert (first.status, again.status, again.json()) == (200, 200, first.json())
        other = await ask(resumption={**answer, "answer": {"approved": False}})
        assert (other.status, other.json()["code"]) == (409, "answer_conflict")
    assert seen.runs["ask"] == 1
    seen.reset()


# --- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/api/actions/bank/..",
        "/api/actions/../secret/open",
        "/api/actions/bank/../secret/open",
        "/api/actions/bank/..%2F..%2Fsecret%2Fopen",
        "/api/actions/bank%2Fpay/pay",
        "/api/actions/bank/pay%00",
        "/api/actions/bank/pay%0d%0aX-Evil:%201",
        "/api/actions/bank/%E2%82%AC",
        "/api/actions/bank/%ff%fe",
        "/api/actions/bank/pay.secret",
        "/api/actions/*/*",
        "/api/actions/bank/*",
        "/api/actions/bank/" + "a" * 5000,
        "//api/actions/bank/pay",
        "/api/actions/bank/pay/",
        "/api/actions//pay",
        "/API/actions/bank/pay",
    ],
)
async def test_a_path_that_is_no_action_calls_none(gateway: Gateway, path: str) -> None:
    answer = await asked(gateway, post(path, BODY, Authorization=f"Bearer {TOKEN}"))
    assert not ran
    if answer.status == 307:
        assert answer.headers["location"].endswith("/api/actions/bank/pay")
    else:
        assert answer.status in (403, 404)
        assert answer.json()["code"] in ("action_unknown", "not_found", "forbidden")
    assert "x-evil" not in answer.headers


# --- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nothing",
        b"null",
        b"[]",
        b"{}",
        b'{"input":1',
        b'{"input":1}}',
        b'{"input":1,"more":2}',
        b'{"input":NaN}',
        b'{"input":1e999}',
        b'{"input":18446744073709551616}',
        b'{"input":"\\ud800"}',
        b'{"input":"\xff"}',
        b'{"input":1,"items":{}}',
        b'{"input":1,"items":[1]}',
        b'{"input":1,"items":[{"id":"1"}]}',
        b'{"input":1,"resumption":1}',
        b'{"input":1,"resumption":{"interruptId":1,"answer":1,"state":1}}',
        b'{"input":' + b"[" * 130 + b"]" * 130 + b"}",
        b'{"input":' + b"[" * 4000 + b"]" * 4000 + b"}",
        b'{"input":' + b'{"a":' * 1500 + b"1" + b"}" * 1500 + b"}",
    ],
)
async def test_a_body_that_is_no_request_is_refused(gateway: Gateway, body: bytes) -> None:
    assert await refused(gateway, post(CALL, body, Authorization=f"Bearer {TOKEN}")) == (400, "input_invalid")


async def test_data_may_be_as_deep_as_on_the_bus(gateway: Gateway) -> None:
    body = b'{"input":' + b"[" * 128 + b"]" * 128 + b"}"
    assert (await asked(gateway, post(CALL, body, Authorization=f"Bearer {TOKEN}"))).status == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_a_body_of_a_type_that_any_page_can_send_is_refused(gateway: Gateway, kind: str) -> None:
    given = {"Authorization": f"Bearer {TOKEN}", "Content_Type": kind}
    assert (await refused(gateway, post(CALL, BODY, **given)))[0] == 415


async def test_an_oversized_body_is_refused_before_it_is_read(gateway: Gateway) -> None:
    request = post(CALL, BODY, Authorization=f"Bearer {TOKEN}", Content_Length="10001")
    answer = await asked(gateway, request)
    assert (answer.status, answer.json()["code"]) == (413, "payload_too_large")
    assert answer.headers["connection"] == "close"


async def test_an_oversized_body_of_unknown_length_is_refused_while_it_comes(gateway: Gateway) -> None:
    request = post(CALL, b"", Authorization=f"Bearer {TOKEN}")
    request = request.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunks = b"".join(b"1000\r\n%s\r\n" % (b"x" * 4096) for _ in range(4))
    assert await refused(gateway, request + chunks) == (413, "payload_too_large")


async def test_a_slow_body_is_not_waited_for(gateway: Gateway) -> None:
    request = post(CALL, BODY[:5], Authorization=f"Bearer {TOKEN}", Content_Length="100")
    assert (await refused(gateway, request))[0] == 408


async def test_a_body_that_never_begins_is_not_waited_for(gateway: Gateway) -> None:
    request = post(CALL, b"", Authorization=f"Bearer {TOKEN}", Content_Length="100")
    assert (await refused(gateway, request))[0] == 408


async def test_what_is_refused_of_a_call_is_refused_of_a_script(gateway: Gateway) -> None:
    path, given = "/api/eval", {"Authorization": f"Bearer {TOKEN}"}
    deep = b'{"source":"1","inputs":{"a":' + b"[" * 4000 + b"]" * 4000 + b"}}"
    answers = b'{"source":"1","resumption":{"interruptId":"i","state":"s","answer":' + b"[" * 130 + b"]" * 130 + b"}}"
    for body in (b"", deep, answers, b'{"source":"\xff"}', b'{"source":"1","resumption":{"answer":{}}}'):
        assert await refused(gateway, post(path, body, **given)) == (400, "input_invalid")
    assert (await refused(gateway, post(path, BODY[:5], **given, Content_Length="100")))[0] == 408
    assert (await refused(gateway, post(path, BODY, **given, Content_Length="10001")))[0] == 413
    assert (await refused(gateway, post(path, BODY, **given, Content_Type="text/plain")))[0] == 415
    assert await refused(gateway, post(path, b'{"source":"1"}')) == (401, "unauthenticated")


async def test_two_lengths_are_refused(gateway: Gateway) -> None:
    request = post(CALL, BODY, Authorization=f"Bearer {TOKEN}", Transfer_Encoding="chunked")
    answer = await send(gateway.url, request)
    assert answer is None or answer.status == 400
    assert not ran


# --- heads ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["a b", "\xe9", "a" * 129, "", "a/b", "a;b", '"a"', "a%0d%0ab"])
async def test_a_key_of_other_characters_is_refused(gateway: Gateway, key: str) -> None:
    given = {"Authorization": f"Bearer {TOKEN}", "Idempotency_Key": key}
    assert await refused(gateway, post(CALL, BODY, **given)) == (400, "input_invalid")


@pytest.mark.parametrize("seconds", ["soon", "nan", "inf", "1e300", "", "5 s", "0x10"])
async def test_a_timeout_that_is_none_is_refused(gateway: Gateway, seconds: str) -> None:
    given = {"Authorization": f"Bearer {TOKEN}", "X_Timeout": seconds}
    assert await refused(gateway, post(CALL, BODY, **given)) == (400, "input_invalid")


async def test_a_timeout_that_has_passed_is_a_deadline(gateway: Gateway) -> None:
    given = {"Authorization": f"Bearer {TOKEN}", "X_Timeout": "-5"}
    assert await refused(gateway, post(CALL, BODY, **given)) == (504, "deadline_exceeded")


async def test_a_header_cannot_bring_another(gateway: Gateway) -> None:
    request = post(CALL, BODY, Authorization=f"Bearer {TOKEN}", Idempotency_Key="k\r\nX-User-Id: bob")
    assert await refused(gateway, request) == (403, "forbidden")  # it is a header of its own, and judged as one


async def test_a_head_without_end_is_refused(gateway: Gateway) -> None:
    answer = await send(gateway.url, b"GET /live HTTP/1.1\r\nX-Long: " + b"x" * 1_000_000, within=10)  # of 15
    assert answer is None or answer.status == 400


async def test_a_large_head_is_refused(gateway: Gateway) -> None:
    request = post(CALL, BODY, Authorization=f"Bearer {TOKEN}", X_Long="x" * 40_000)
    assert await refused(gateway, request) == (431, "input_invalid")


async def test_a_slow_head_is_not_waited_for(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.2)
    assert await send(gateway.url, b"GET /live HTTP/1.1\r\nHost: loc", within=10) is None
    assert await send(gateway.url, b"", within=10) is None


async def test_the_next_head_on_a_connection_is_not_waited_for_either(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.3)
    host, _, port = gateway.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for _ in range(2):
        writer.write(get("/live"))
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
        await asyncio.sleep(0.4)  # nothing is begun, and the connection stays
    writer.write(b"GET /live HT")
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()


# --- pages ------------------------------------------------------------------------------------------------------------


def preflight(origin: str) -> bytes:
    lines = [
        f"Origin: {origin}",
        "Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: authorization",
    ]
    return get(CALL, *lines).replace(b"GET", b"OPTIONS", 1)


async def test_only_a_page_that_may_is_let_in(gateway: Gateway) -> None:
    allowed = await asked(gateway, preflight("https://app.example"))
    other = await asked(gateway, preflight("https://evil.example"))
    assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (200, "https://app.example")
    assert "access-control-allow-origin" not in other.headers
    assert "access-control-allow-credentials" not in allowed.headers


async def test_the_page_to_read_runs_nothing_but_its_own(gateway: Gateway) -> None:
    page = await asked(gateway, get("/docs"))
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert b"http" not in page.body.replace(b"https://", b"", 0).split(b"<script>")[0]


# --- nobody asked for a token -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[2001:db8::1]"])
async def test_without_tokens_no_page_reaches_it_by_a_name_of_its_own(name: str) -> None:
    ran.clear()
    async with open_gateway(connect(ProviderRegistry([bank]))) as gateway:
        assert await refused(gateway, post(CALL, BODY, Host=name)) == (403, "forbidden")


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:80"])
async def test_without_tokens_a_user_is_a_claim(name: str) -> None:
    ran.clear()
    async with open_gateway(connect(ProviderRegistry([bank]))) as gateway:
        assert (await asked(gateway, post(CALL, BODY, Host=name, X_User_Id="%C3%A5da"))).status == 200
    assert ran == [("åda", 1)]


# --- too much ---------------------------------------------------------------------------------------------------------


async def test_who_asks_too_often_is_told_when_to_come_again() -> None:
    bus = connect(ProviderRegistry([bank]))
    limits = GatewayLimits(rate=0.01, burst=2)
    async with open_gateway(bus, auth=StaticTokens({TOKEN: "ada", TOKEN * 2: "bob"}), limits=limits) as gateway:
        answers = [await asked(gateway, post(CALL, BODY, Authorization=f"Bearer {TOKEN}")) for _ in range(3)]
        assert [answer.status for answer in answers] == [200, 200, 429]
        assert answers[-1].json()["code"] == "overloaded"
        assert answers[-1].json()["retryable"] is True
        assert 50 < int(answers[-1].headers["retry-after"]) <= 102
        assert (await asked(gateway, post(CALL, BODY, Authorization=f"Bearer {TOKEN * 2}"))).status == 200


async def test_streams_of_events_are_counted_as_calls_are() -> None:
    bus = connect(ProviderRegistry([bank]))
    async with open_gateway(bus, auth=StaticTokens({TOKEN: "ada"}), limits=GatewayLimits(concurrent=1)) as gateway:
        host, _, port = gateway.url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(get("/api/events", BEARER))
        await reader.readuntil(stream.HEARTBEAT[:2] + b"listening")
        assert (await asked(gateway, get("/api/events", BEARER))).status == 429
        writer.close()
        await eventually(lambda: not gateway.host.shares._running)
        assert (await asked(gateway, post(CALL, BODY, Authorization=f"Bearer {TOKEN}"))).status == 200
