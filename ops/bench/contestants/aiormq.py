"""Hand-written request and reply on aiormq: the yardstick.

Quorum queue, confirms both ways, ack after the reply is written, replies by direct reply-to, no wait for the
socket. Input and output are JSON and not validated; no deadline, no reconnect, and a reply is lost with its caller's
connection.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import aiormq
import orjson

from ops.bench.contest import INPUT, QUEUE, Call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiormq.abc import DeliveredMessage
    from aiormq.channel import Channel

Properties = aiormq.spec.Basic.Properties
REPLY_TO = "amq.rabbitmq.reply-to"
ENVELOPE = {"v": 1, "callId": "0" * 36, "providerId": "demo", "actionId": "add", "request": {"input": INPUT}}
BODY = orjson.dumps(ENVELOPE)


async def serve(url: str, ready: Callable[[], None]) -> None:
    connection = await aiormq.connect(url)
    channel = cast("Channel", await connection.channel(publisher_confirms=True))
    await channel.queue_declare(f"{QUEUE}.aiormq", durable=True, arguments={"x-queue-type": "quorum"})
    await channel.basic_qos(prefetch_count=256)

    async def on_call(message: DeliveredMessage) -> None:
        numbers = orjson.loads(message.body)["request"]["input"]
        body = orjson.dumps({"status": "completed", "result": {"sum": numbers["a"] + numbers["b"]}, "items": []})
        asked = message.header.properties
        await channel.basic_publish(
            body,
            routing_key=asked.reply_to or "",
            properties=Properties(correlation_id=asked.correlation_id),
            wait=False,
        )
        await channel.basic_ack(message.delivery_tag or 0, wait=False)

    await channel.basic_consume(f"{QUEUE}.aiormq", on_call)
    ready()
    await asyncio.Event().wait()


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Call]:
    connection = await aiormq.connect(url)
    channel = cast("Channel", await connection.channel(publisher_confirms=True))
    waiting: dict[str, asyncio.Future[dict[str, object]]] = {}

    async def on_reply(message: DeliveredMessage) -> None:
        future = waiting.pop(str(message.header.properties.correlation_id), None)
        if future is not None:
            future.set_result(orjson.loads(message.body))

    await channel.basic_consume(REPLY_TO, on_reply, no_ack=True)
    ids = itertools.count()

    async def call() -> object:
        key = str(next(ids))
        waiting[key] = future = asyncio.get_running_loop().create_future()
        await channel.basic_publish(
            BODY,
            routing_key=f"{QUEUE}.aiormq",
            properties=Properties(correlation_id=key, reply_to=REPLY_TO, delivery_mode=2),
            mandatory=True,
            wait=False,
        )
        return (await future)["result"]

    try:
        yield call
    finally:
        await channel.queue_delete(f"{QUEUE}.aiormq", if_unused=False, if_empty=False)
        await connection.close()
