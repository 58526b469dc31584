"""A worker: takes calls from the queues of its providers, runs them here, replies, and only then settles.

A delivery's way: decode, run in an asyncio task that the worker owns, publish the reply, wait for its confirm, ack.
Prefetch equals concurrency, so that whatever is delivered is started at once and nothing waits inside a worker.

Rules:
- A delivery is acked when its reply is confirmed, or when nobody can be replied to.
- A call that is delivered again while it runs here (its connection was lost, or its caller sent it again) is adopted:
  it runs once, and all its deliveries are settled together.
- What is not finished when the worker stops is given back unsettled, without a reply.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import socket
import time
from typing import TYPE_CHECKING

from grundlag_bus.errors import (
    ConfigurationError,
    EnvelopeError,
    PublishRefusedError,
    PublishUnsureError,
    TransportClosedError,
    UnroutableError,
)
from grundlag_bus.logs import get_logger
from grundlag_bus.providers.local import LocalCaller
from grundlag_bus.schema.envelope import Call, decode_call, encode_reply, new_call_id
from grundlag_bus.transport.base import Message
from grundlag_bus.workers.announce import announce

if TYPE_CHECKING:
    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.transport.base import Delivery, Subscription, Transport

REPLY_WITHIN = 60.0
"""Seconds that a finished call's reply is tried for, at least."""
STOP_WITHIN = 5.0
"""Seconds that calls get to end once they are cancelled, at least."""

_LOGGER = get_logger("grundlag_bus.workers")


class Worker:
    """Serves every action of a registry from one transport.

    concurrency: calls that run at once, for each provider and lane; grace: seconds that running calls get when the
    worker stops. Raises ConfigurationError when an action may interrupt and the registry has no keys to share with
    other workers, except on an embedded bus.
    """

    def __init__(
        self, transport: Transport, registry: ProviderRegistry, *, concurrency: int = 64, grace: float = 30.0
    ) -> None:
        if concurrency < 1:
            raise ConfigurationError(f"concurrency={concurrency} runs nothing: give at least 1.")
        if registry.interrupting and not registry.shared_keys and not transport.embedded:
            raise ConfigurationError(
                f"{', '.join(registry.interrupting)} may interrupt, and workers must share the keys that seal what an "
                "interrupt keeps: make a file with `grundlag-bus keys new FILE` and give it to every worker "
                "(--keys FILE, or ProviderRegistry(keys=SealKeys.load(FILE)))."
            )
        self.name = f"{socket.gethostname()}-{os.getpid()}-{new_call_id()[:8]}"
        self.started = asyncio.Event()
        self._transport = transport
        self._registry = registry
        self._concurrency = concurrency
        self._grace = grace
        queues = sum(len(provider.lanes) for provider in registry.providers.values())
        self._local = LocalCaller(
            registry, namespace=transport.topology.namespace, name=self.name, threads=concurrency * max(queues, 1)
        )
        self._subscriptions: list[Subscription] = []
        self._runs: dict[str, _Run] = {}
        self._aborted = asyncio.Event()
        self._context = contextvars.copy_context()

    @property
    def in_flight(self) -> int:
        """How many calls run here."""
        return len(self._runs)

    async def run(self) -> None:
        """Serve until cancelled, then drain: take nothing more, give running calls their grace time, flush.

        `started` is set while it serves. A second cancellation ends the grace time. Raises what the transport raises
        when it cannot serve. The transport is opened, and left open for its owner to close.
        """
        self._context = contextvars.copy_context()
        self._aborted.clear()
        self._local.drain.begun = False
        async with self._registry:
            try:
                await self._transport.open()
                await self._subscribe()
                await announce(self._transport, self._registry)
                self.started.set()
                await self._aborted.wait()
            finally:
                self.started.clear()
                await self._drain()
                self._local.close()

    async def abort(self) -> None:
        """Stop as if the process were killed: running actions are cancelled, nothing is replied, all is given back."""
        for run in list(self._runs.values()):
            run.mute()
        self._aborted.set()
        await self._close_subscriptions()

    async def _subscribe(self) -> None:
        topology = self._transport.topology
        for provider in self._registry.providers.values():
            for lane in provider.lanes:
                queue = topology.call_queue(provider.id, lane)
                subscription = await self._transport.subscribe(queue, self._receive, prefetch=self._concurrency)
                self._subscriptions.append(subscription)

    async def _drain(self) -> None:
        self._local.drain.begun = True
        try:
            await asyncio.gather(*(subscription.stop() for subscription in self._subscriptions))
            if self._runs and not self._aborted.is_set():
                await asyncio.wait([run.serving for run in self._runs.values()], timeout=self._grace)
        finally:
            unfinished = list(self._runs.values())
            for run in unfinished:
                run.serving.cancel()
            if unfinished:
                await asyncio.wait([run.serving for run in unfinished], timeout=max(self._grace, STOP_WITHIN))
            await self._close_subscriptions()

    async def _close_subscriptions(self) -> None:
        subscriptions, self._subscriptions = self._subscriptions, []
        await asyncio.gather(*(subscription.close() for subscription in subscriptions))

    def _receive(self, delivery: Delivery) -> None:
        try:
            call = decode_call(delivery.message.body)
        except EnvelopeError as error:
            _LOGGER.warning("envelope_refused", reason=error.reason, worker=self.name)
            delivery.reject()
            return
        running = self._runs.get(call.call_id)
        if running is not None:
            running.adopt(delivery)
            return
        run = _Run(delivery)
        self._runs[call.call_id] = run
        # Under the worker's context variables: a transport in memory calls here under those of whoever published.
        loop = asyncio.get_running_loop()
        run.serving = loop.create_task(self._serve(call, run), context=self._context.copy())

    async def _serve(self, call: Call, run: _Run) -> None:
        try:
            body = encode_reply(await self._local.call(call))
            await self._reply(call, run, body)
            await self._local.ended(call.call_id)
            await self._reply(call, run, body)  # to who asked meanwhile
            run.ack()
        except asyncio.CancelledError:
            run.nack()
            raise
        except Exception:
            # A defect of this package. Given back, the call would come again at once, and for ever.
            _LOGGER.exception("serving_failed", call_id=call.call_id, worker=self.name)
            run.reject()
        finally:
            del self._runs[call.call_id]

    async def _reply(self, call: Call, run: _Run, body: bytes) -> None:
        """Publish until confirmed. A mailbox that is gone, and a caller that waits no longer, end it as well."""
        give_up = max(call.deadline, time.time() + REPLY_WITHIN)
        while mailbox := run.next_mailbox():
            message = Message(body, "reply", correlation_id=call.call_id)
            route = self._transport.topology.reply_route(mailbox)
            while True:
                try:
                    await self._transport.publish(route, message, deadline=give_up)
                    break
                except UnroutableError:
                    _LOGGER.info("mailbox_gone", call_id=call.call_id, mailbox=mailbox)
                    break
                except (PublishUnsureError, PublishRefusedError) as error:
                    if time.time() >= give_up:
                        _LOGGER.warning("reply_given_up", call_id=call.call_id, reason=str(error))
                        break
                except TransportClosedError:
                    run.nack()
                    return


class _Run:
    """A call that runs here, with every delivery of it that is to be settled when it ends."""

    __slots__ = ("_deliveries", "_mailboxes", "serving")

    serving: asyncio.Task[None]

    def __init__(self, delivery: Delivery) -> None:
        self._deliveries: list[Delivery] = []
        self._mailboxes: dict[str, None] = {}
        self.adopt(delivery)

    def adopt(self, delivery: Delivery) -> None:
        self._deliveries.append(delivery)
        if delivery.message.reply_to is not None:
            self._mailboxes[delivery.message.reply_to] = None

    def next_mailbox(self) -> str | None:
        """Take one of those who wait for the reply: each once, and again when the call came again since."""
        mailbox = next(iter(self._mailboxes), None)
        if mailbox is not None:
            del self._mailboxes[mailbox]
        return mailbox

    def mute(self) -> None:
        """Let the call end without a reply, and without settling anything."""
        self._deliveries.clear()
        self._mailboxes.clear()
        self.serving.cancel()

    def ack(self) -> None:
        for delivery in self._deliveries:
            delivery.ack()

    def nack(self) -> None:
        for delivery in self._deliveries:
            delivery.nack()

    def reject(self) -> None:
        for delivery in self._deliveries:
            delivery.reject()
