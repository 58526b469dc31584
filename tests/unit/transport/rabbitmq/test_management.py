"""The management API is asked over HTTP; a password goes to nobody else, and in clear text only on demand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from grundlag_bus.errors import BusUnreachableError, ConfigurationError
from grundlag_bus.transport.rabbitmq import Address
from grundlag_bus.transport.rabbitmq.management import Management

ADDRESS = Address(host="127.0.0.1", user="ada", password="secret-word", vhost="a/b")


class Api(ThreadingHTTPServer):
    """Answers every path as it is told, and notes who asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked: list[tuple[str, str]] = []
        self.answer: tuple[int, dict[str, str], bytes] = (200, {}, b"[]")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization", "")))
        code, headers, body = self.server.answer
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield server
        server.shutdown()
        serving.join()


async def test_a_vhost_is_escaped_and_the_user_is_the_brokers(api: Api) -> None:
    assert await (await Management.at(ADDRESS, f"{api.url}/")).policies() == []
    paths, logins = zip(*api.asked, strict=True)
    assert paths == ("/api/policies/a%2Fb", "/api/operator-policies/a%2Fb")
    assert set(logins) == {"Basic YWRhOnNlY3JldC13b3Jk"}


async def test_the_address_may_name_another_user(api: Api) -> None:
    management = await Management.at(ADDRESS, api.url.replace("//", "//eve:p%40ss@"))
    await management.nodes()
    assert api.asked == [("/api/nodes", "Basic ZXZlOnBAc3M=")]
    assert management.url == api.url


async def test_operator_policies_are_marked(api: Api) -> None:
    api.answer = (200, {}, b'[{"name":"p"}]')
    assert await (await Management.at(ADDRESS, api.url)).policies() == [{"name": "p"}, {"name": "p", "operator": True}]


async def test_a_health_check_that_fails_says_why(api: Api) -> None:
    api.answer = (503, {}, b'{"status":"failed","alarms":[{"node":"n1","resource":"disk"}]}')
    assert await (await Management.at(ADDRESS, api.url)).alarms() == ["disk on n1"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((401, {}, b"no"), "answers 401 to /api/nodes"),
        ((302, {"Location": "http://127.0.0.1:1/"}, b""), "answers 302 to /api/nodes"),
        ((200, {}, b"<html>"), "no management API"),
        ((503, {}, b"<html>"), "no management API"),
    ],
)
async def test_what_is_no_answer_is_told_without_the_password(
    api: Api, answer: tuple[int, dict[str, str], bytes], told: str
) -> None:
    api.answer = answer
    with pytest.raises(BusUnreachableError, match=told) as raised:
        await (await Management.at(ADDRESS, api.url)).nodes()
    assert "secret-word" not in str(raised.value)
    assert len(api.asked) == 1


@pytest.mark.parametrize("answer", [b"null", b"7", b'"x"', b"{}", b"[1]", b"[[]]", b'{"alarms":7}'])
async def test_json_that_is_no_answer_is_told_to_be_of_something_else(api: Api, answer: bytes) -> None:
    api.answer = (200, {}, answer)
    management = await Management.at(ADDRESS, api.url)
    asked = [management.policies, management.nodes, *([] if answer == b"{}" else [management.alarms])]
    for ask in asked:
        with pytest.raises(BusUnreachableError, match="no management API"):
            await ask()


async def test_over_tls_nothing_is_asked_in_clear_text() -> None:
    assert (await Management.at(ADDRESS)).url == "http://127.0.0.1:15672"
    assert (await Management.at(Address(host="::1", tls=True))).url == "https://[::1]:15671"


@pytest.mark.parametrize("url", ["", "127.0.0.1:15672", "file:///etc/passwd", "http://", "http://h:port/"])
async def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="management API"):
        await Management.at(ADDRESS, url)
