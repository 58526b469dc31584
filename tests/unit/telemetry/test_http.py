from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse

import pytest

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.telemetry import http
from grundlag_bus.telemetry.http import MOST_CONNECTIONS, HealthServer, Report

_WELL = Report(ok=True)


@contextmanager
def _serving(
    *, live: Report = _WELL, ready: Report = _WELL, metrics: bytes = b"", host: str = "127.0.0.1"
) -> Iterator[HealthServer]:
    server = HealthServer(0, live=lambda: live, ready=lambda: ready, metrics=lambda: metrics, host=host)
    server.start()
    try:
        yield server
    finally:
        server.close()


def _ask(server: HealthServer, path: str, method: str = "GET", host: str = "127.0.0.1") -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection(host, server.port, timeout=10)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def test_health_is_told_by_status_and_in_words() -> None:
    with _serving(ready=Report(ok=False, reasons=("draining",))) as server:
        live, live_body = _ask(server, "/live")
        ready, ready_body = _ask(server, "/ready?verbose=1")

    assert (live.status, json.loads(live_body)) == (200, {"ok": True, "reasons": []})
    assert (ready.status, json.loads(ready_body)) == (503, {"ok": False, "reasons": ["draining"]})
    assert ready.headers["Content-Type"] == "application/json"


def test_metrics_are_given_as_prometheus_reads_them() -> None:
    with _serving(metrics=b"grundlag_calls_total 1.0\n") as server:
        response, body = _ask(server, "/metrics")

    assert (response.status, body) == (200, b"grundlag_calls_total 1.0\n")
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize("path", ["/", "/live/", "/metrics/x", "/%00", "/../live"])
def test_anything_else_is_not_found(path: str) -> None:
    with _serving() as server:
        assert _ask(server, path)[0].status == 404


def test_head_gives_the_status_and_the_length_without_the_body() -> None:
    with _serving(metrics=b"twelve bytes") as server:
        response, body = _ask(server, "/metrics", "HEAD")

    assert (response.status, response.headers["Content-Length"], body) == (200, "12", b"")


def test_what_fails_is_500_with_a_log_line_and_the_next_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    divisors = iter([0, 1])

    def ready() -> Report:
        return Report(ok=bool(1 / next(divisors)))

    server = HealthServer(0, live=lambda: _WELL, ready=ready, metrics=bytes, host="127.0.0.1")
    server.start()
    try:
        failed, told = _ask(server, "/ready")
        assert (failed.status, b"ZeroDivision" in told) == (500, False)
        assert _ask(server, "/ready")[0].status == 200
    finally:
        server.close()
    assert "probe_failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_port_that_is_taken_is_a_configuration_error_that_says_what_to_do() -> None:
    with _serving() as first:
        second = HealthServer(first.port, live=lambda: _WELL, ready=lambda: _WELL, metrics=bytes, host="127.0.0.1")
        with pytest.raises(ConfigurationError, match=rf"^Port {first.port} of 127.0.0.1 .*in use.*choose another port"):
            second.start()
        second.close()
        assert _ask(first, "/live")[0].status == 200


@pytest.mark.parametrize(("host", "port"), [("203.0.113.7", 0), ("no such host", 0), ("127.0.0.1", 70000)])
def test_an_address_that_is_none_of_this_machine_is_a_configuration_error(host: str, port: int) -> None:
    server = HealthServer(port, live=lambda: _WELL, ready=lambda: _WELL, metrics=bytes, host=host)
    with pytest.raises(ConfigurationError, match="cannot be listened on"):
        server.start()


def test_ipv6_is_listened_on_as_well() -> None:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    with _serving(host="::1") as server:
        assert _ask(server, "/live", host="::1")[0].status == 200


def test_one_who_says_nothing_keeps_nobody_waiting_and_does_not_hold_up_the_end() -> None:
    before = set(threading.enumerate())
    with _serving() as server, socket.create_connection(("127.0.0.1", server.port)):
        assert _ask(server, "/live")[0].status == 200
        began = time.monotonic()
        server.close()
        assert time.monotonic() - began < 4  # less than a silent connection may last
        server.close()
    assert set(threading.enumerate()) == before


def test_one_who_says_a_little_now_and_then_is_closed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MOST_SECONDS", 0.5)
    with _serving() as server, socket.create_connection(("127.0.0.1", server.port), timeout=0.05) as slow:
        slow.sendall(b"GET /live?")
        end = time.monotonic() + 10  # far more would be needed for a line that is too long
        while time.monotonic() < end:
            try:
                slow.sendall(b"x")
                if slow.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() < end
        assert _ask(server, "/live")[0].status == 200


def test_connections_beyond_the_bound_are_closed_and_there_is_room_again_when_others_end() -> None:
    with _serving() as server:
        silent = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(MOST_CONNECTIONS)]
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as beyond:
            assert beyond.recv(1) == b""
        for connection in silent:
            connection.close()
        end = time.monotonic() + 10
        while True:
            try:
                assert _ask(server, "/live")[0].status == 200
                break
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.01)


def test_it_may_be_started_again() -> None:
    with _serving() as server:
        server.close()
        server.start()
        assert _ask(server, "/live")[0].status == 200
