"""The same run leaves the same transcript in process, on a bus in memory and over RabbitMQ."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from grundlag_bus.agent import ModelReply
from tests.support.agents import agent_of, calling
from tests.support.contract_registry import seen
from tests.support.hosts import HOSTS, open_host
from tests.support.namespaces import delete_namespaces, fresh_namespace
from tests.support.timeless import timeless


@pytest.fixture
def namespace_on_broker(amqp_url: str) -> Iterator[str]:
    namespace = fresh_namespace()
    yield namespace
    asyncio.run(delete_namespaces(amqp_url, [namespace]))


async def transcript_of(kind: str, namespace: str, address: str) -> Any:
    seen.reset()
    async with open_host(kind, namespace, address) as host:
        replies: list[ModelReply | str | Exception] = [
            calling(("add", {"a": 1, "b": 2}), ("add", {"a": "x"}), ("raise", {"name": "Exception"}), text="First."),
            calling(("remember", {"how": "completed"}), ("askBeside", {"id": "e1"}), ("askBeside", {"id": "e2"})),
            calling(("everything", {}), ("produce", {"length": 100_000}), ("nothing", {})),
            "Done.",
        ]
        run = agent_of(host, replies, user_id="ada")
        first, second = (await run.send("Go")).pending
        await run.answer({second.interrupt_id: {"approved": True}})
        await run.reject(first.interrupt_id, reason="Not today.")
        return run.to_json()


async def test_a_transcript_is_the_same_wherever_the_tools_are(amqp_url: str, namespace_on_broker: str) -> None:
    addresses = {"in-process": "", "memory": f"memory://{namespace_on_broker}", "rabbitmq": amqp_url}
    first, *others = [await transcript_of(kind, namespace_on_broker, addresses.get(kind, "")) for kind in HOSTS]
    told = timeless(first)
    assert len(told["transcript"]["records"]) == 7
    for other in others:
        assert orjson.dumps(timeless(other), option=orjson.OPT_INDENT_2) == orjson.dumps(
            told, option=orjson.OPT_INDENT_2
        )
