"""A worker that is given whatever a stranger may publish, and an account of what became of each message."""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

import structlog
from pydantic import BaseModel

from grundlag_bus import (
    ActionContext,
    ActionFailed,
    Defer,
    Provider,
    ProviderRegistry,
    Retry,
    SealKeys,
    ToolInterrupt,
    Worker,
)
from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema.envelope import decode_reply, encode_call
from grundlag_bus.telemetry.events import CallEnded, EnvelopeRefused
from grundlag_bus.transport import Message
from grundlag_bus.transport.parts import Binding, Queue, Route
from grundlag_bus.workers.decoded import decoded
from tests.support.eventually import eventually
from tests.support.hosts import RunningWorker
from tests.support.transports import in_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grundlag_bus import Call, Ledger, Transport
    from grundlag_bus.telemetry.events import Event
    from grundlag_bus.transport import Delivery

SECRET = {"kept": [1, 2]}


class Anything(BaseModel):
    value: Any = None


class Approval(BaseModel):
    approved: bool


def registry(keys: SealKeys) -> ProviderRegistry:
    """Make the provider `demo`, with an action for each way in which a call goes."""
    demo = Provider("demo", name="Demo")

    @demo.action("echo", name="Echo")
    async def echo(given: Anything) -> Anything:
        return given

    @demo.action("thread", name="Echo, in a thread")
    def thread(given: Anything) -> Anything:
        return given

    @demo.action("fail", name="Fail")
    async def fail(given: Anything) -> Anything:
        raise ActionFailed("no_luck", "It fails.", details=given.value)

    @demo.action("again", name="Try again", retry=Retry(on=(ValueError,), attempts=3, backoff=0))
    async def again(given: Anything) -> Anything:
        raise ValueError(repr(given)[:50])

    @demo.action("later", name="Start again")
    async def later(given: Anything, ctx: ActionContext) -> Anything:
        if ctx.deferred is None:
            raise Defer({"value": given.value}, after=1)
        return Anything(value=ctx.deferred)

    @demo.action("ask", name="Ask", answer=Approval)
    async def ask(given: Anything, ctx: ActionContext[Approval]) -> Anything:
        if ctx.resumption is None:
            raise ToolInterrupt("Sure?", data=given.value, state=SECRET)
        return Anything(value=[ctx.resumption.answer.approved, ctx.resumption.state])

    return ProviderRegistry([demo], keys=keys)


class Logged:
    """Counts log lines by event instead of writing them; defects: those that no message may cause."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.defects: list[dict[str, Any]] = []
        structlog.configure(processors=[self._count])

    def _count(self, _: Any, __: str, line: Any) -> Any:
        self.events[line["event"]] += 1
        if line["event"] == "bus.connection_lost" or (line.get("exc_info") and line["event"] != "action_raised"):
            self.defects.append(dict(line, why=traceback.format_exc()))
        raise structlog.DropEvent

    def in_loop(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take what the event loop would log: a callback or an asyncio task that raised."""
        error = context.get("exception")
        self.defects.append({"why": "".join(traceback.format_exception(error)) if error else context["message"]})


class Stage:
    """One worker, and a stranger on the same bus who hears all replies and dead letters."""

    def __init__(self, make: Callable[[], Transport], *, ledger: Ledger | None = None) -> None:
        self.keys = SealKeys.generate()
        self.transport = make()
        self.refused = self.ended = 0
        self.replies: dict[str, list[bytes]] = {}
        self.dead: Counter[bytes] = Counter()
        self.logged = Logged()
        self._make = make
        self._ledger = ledger
        self._opened = AsyncExitStack()
        self._sent = 0
        self.running: RunningWorker

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().set_exception_handler(self.logged.in_loop)
        await self.transport.open()
        self._opened.push_async_callback(self.transport.close)
        topology = self.transport.topology
        bindings = (Binding(topology.replies, "s.#"),)
        mailboxes = Queue(f"{topology.prefix}.replies.stranger", bindings, _PASSING, passing=True)
        await self.transport.subscribe(mailboxes, self._reply, prefetch=1000)
        await self.transport.subscribe(topology.dead_queue, self._bury, prefetch=1000)
        await self.start_worker()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()
        gc.collect()  # an asyncio task whose error nobody took tells of it then
        assert not self.logged.defects, self.logged.defects[0]["why"]

    async def start_worker(self) -> None:
        """Start one more worker, with keys and provider as the first."""
        transport = self._make()
        self.running = await RunningWorker(
            Worker(transport, registry(self.keys), concurrency=64, grace=5.0, hook=self._hear, ledger=self._ledger),
            transport,
        ).started()
        self._opened.push_async_callback(self.running.stop)

    def _hear(self, event: Event) -> None:
        self.refused += isinstance(event, EnvelopeRefused)
        self.ended += isinstance(event, CallEnded)

    def _reply(self, delivery: Delivery) -> None:
        delivery.ack()
        if delivery.message.type == "reply":
            self.replies.setdefault(delivery.message.routing_key or "", []).append(delivery.message.body)

    def _bury(self, delivery: Delivery) -> None:
        delivery.ack()
        self.dead[delivery.message.body] += 1

    async def account_for(self, bodies: Iterable[bytes]) -> None:
        """Feed these as calls; each must get one reply that can be read, or be refused and dead-lettered as it was."""
        fed = {f"s.{self._sent + number}": body for number, body in enumerate(bodies)}
        self._sent += len(fed)
        refused = {mailbox: body for mailbox, body in fed.items() if not _is_read(body)}
        dead, told = self.dead.copy(), self.refused
        await self.publish(
            (self.transport.topology.call_route("demo", "main"), Message(body, "call", mailbox[:200], mailbox))
            for mailbox, body in fed.items()
        )
        expected = dead + Counter(refused.values())

        def accounted() -> bool:
            return all(mailbox in self.replies for mailbox in fed.keys() - refused.keys()) and all(
                self.dead[body] >= count for body, count in expected.items()
            )

        try:
            await eventually(accounted, within=60)
        except AssertionError as error:
            waits = fed.keys() - refused.keys() - self.replies.keys()
            lost = [fed[mailbox][:400] for mailbox in waits]
            raise AssertionError(f"{len(lost)} calls have no reply: {lost[:3]}; {self.logged.defects[:1]}") from error
        assert self.refused - told == len(refused), "each refused one is counted"
        for mailbox, body in fed.items():
            replies = self.replies.pop(mailbox, [])
            assert len(replies) == (mailbox not in refused), (body, replies)
            for reply in replies:
                decode_reply(reply)
        assert not self.logged.defects, self.logged.defects[0]["why"]

    async def publish(self, messages: Iterable[tuple[Route, Message]]) -> None:
        """Publish side by side, as quickly as a stranger can."""
        waiting = [self.transport.publish(route, message, deadline=in_time()) for route, message in messages]
        for first in range(0, len(waiting), 256):
            await asyncio.gather(*waiting[first : first + 256])

    async def call(self, call: Call) -> Any:
        """Send a call that is well, and return its response."""
        mailbox = f"s.well.{call.call_id}"
        route = self.transport.topology.call_route(call.provider_id, call.lane)
        await self.publish([(route, Message(encode_call(call), "call", call.call_id, mailbox))])
        await eventually(lambda: mailbox in self.replies)
        [body] = self.replies.pop(mailbox)
        return decode_reply(body).response


_PASSING = {"x-queue-type": "classic", "x-expires": 300_000}


def _is_read(body: bytes) -> bool:
    try:
        decoded(body, "demo", "main")
    except EnvelopeError:
        return False
    return True
