"""A password that is changed while programs run: they take the new one at their next attempt to connect."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from grundlag_bus.errors import BusUnreachableError
from grundlag_bus.transport.rabbitmq import Address, RabbitTransport
from tests.support.broker import Broker
from tests.support.eventually import eventually
from tests.support.transports import Inbox, send


@pytest.fixture
async def user(own_broker: Broker) -> AsyncIterator[str]:
    name = f"ada-{uuid.uuid4().hex[:8]}"
    await own_broker.ctl("add_user", name, "first-secret")
    await own_broker.ctl("set_permissions", name, ".*", ".*", ".*")
    yield name
    await own_broker.ctl("delete_user", name)


def cut(transport: RabbitTransport) -> None:
    for link in transport._links:
        assert link.connection is not None
        link.connection.wire.abort("a test cut it")


async def test_a_password_file_is_read_again_after_the_password_was_changed(
    own_broker: Broker, namespace: str, user: str, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("first-secret\n")
    address = replace(Address.parse(own_broker.url), user=user, password="", password_file=str(file))
    transport, inbox = RabbitTransport(address, namespace=namespace), Inbox(ack=True)
    await transport.open()
    try:
        await transport.subscribe(transport.topology.call_queue("calendar", "main"), inbox, prefetch=1)
        await own_broker.ctl("change_password", user, "second-secret")
        with structlog.testing.capture_logs() as logged:
            cut(transport)
            await eventually(lambda: any(entry["event"] == "bus.connecting_fails" for entry in logged))
            file.write_text("second-secret\n")
            await eventually(lambda: transport.state.connected and transport.state.consumers_actual == 1, within=20)
            await eventually(lambda: len(logged) >= 3)
        await send(transport, b"call")
        await inbox.holds(1)
        told = [entry["event"] for entry in logged]
        assert told == ["bus.connection_lost", "bus.connecting_fails", "bus.connection_recovered"]
        assert "secret" not in str(logged)
    finally:
        await transport.close()


async def test_credentials_are_fetched_for_each_attempt(own_broker: Broker, namespace: str, user: str) -> None:
    password, asked = "first-secret", 0

    async def fetch() -> tuple[str, str]:
        nonlocal asked
        asked += 1
        return user, password

    transport = RabbitTransport(own_broker.url, namespace=namespace, credentials=fetch)
    assert "guest" not in repr(transport)
    await transport.open()
    try:
        assert asked == 2, "one for each connection"
        password = "second-secret"
        await own_broker.ctl("change_password", user, password)
        cut(transport)
        await eventually(lambda: asked >= 4 and transport.state.connected)
        await transport.read(transport.topology.manifests)
        assert asked == 5, "a reader has a connection of its own"
    finally:
        await transport.close()


async def test_a_wrong_password_fails_at_once_and_is_not_told(
    own_broker: Broker, namespace: str, user: str, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("wrong-secret")
    address = replace(Address.parse(own_broker.url), user=user, password="", password_file=str(file))
    with pytest.raises(BusUnreachableError, match="refuses the login") as raised:
        await RabbitTransport(address, namespace=namespace).open()
    assert "secret" not in str(raised.value)
