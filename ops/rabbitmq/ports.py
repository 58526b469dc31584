"""Ports of this machine, and what answers there."""

from __future__ import annotations

import random
import re
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ops.rabbitmq.roots import BrokerUnavailableError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

# Below the range of outgoing ports: a client that retries while the broker is down could otherwise be given the very
# port that it calls, and connect to itself.
_PORTS = range(20_000, 30_000)


def is_taken(port: int) -> bool:
    """Whether something listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def free_ports(count: int) -> list[int]:
    """Pick ports on 127.0.0.1 that nothing listens on."""
    free: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if probe.connect_ex(("127.0.0.1", port)):
                free.append(port)
        if len(free) == count:
            return free
    raise BrokerUnavailableError(f"No free port is left in {_PORTS}: end what listens there.")


def server_version(port: int, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> str | None:
    """Say hello as an AMQP client and return the version that the broker answers with; None when none answers."""
    try:
        with ExitStack() as opened:
            connection = opened.enter_context(socket.create_connection((host, port), timeout=5))
            if tls is not None:
                connection = opened.enter_context(tls.wrap_socket(connection, server_hostname=host))
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            greeting = connection.recv(4096)
    except OSError:
        return None
    found = re.search(rb"\x07versionS\x00\x00\x00(.)", greeting, re.DOTALL)
    return greeting[found.end() : found.end() + found[1][0]].decode() if found else None


def wait_until(condition: Callable[[], object], *, seconds: float, pause: float = 0.05) -> bool:
    """Ask for a condition until it holds; False when it did not in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True
