from __future__ import annotations

from typing import Any

import pytest

from grundlag_bus.transport import Broker
from grundlag_bus.transport.rabbitmq.connection import broker_of


@pytest.mark.parametrize(
    ("version", "numbers", "modern"),
    [
        ("4.3.6", (4, 3, 6), True),
        ("4.4.0-rc.1", (4, 4, 0), True),
        ("5.0.0", (5, 0, 0), True),
        ("4.2.9", (4, 2, 9), False),
        ("3.10.8", (3, 10, 8), False),
        (None, (), False),
    ],
)
def test_what_a_broker_can_be_relied_on_for_follows_its_version(
    version: str | None, numbers: tuple[int, ...], modern: bool
) -> None:
    expected = Broker("RabbitMQ", numbers, honours_consumer_timeout=modern, counts_only_losses=modern)
    assert broker_of({"product": "RabbitMQ", "version": version} if version else {"product": "RabbitMQ"}) == expected


@pytest.mark.parametrize("properties", [{"product": "LavinMQ", "version": "4.9.0"}, {}])
def test_another_broker_is_relied_on_for_nothing(properties: dict[str, Any]) -> None:
    broker = broker_of(properties)
    assert not broker.honours_consumer_timeout
    assert not broker.counts_only_losses
