"""What the bus asks of a transport: move bytes, decide nothing.

A transport knows exchanges, queues and streams by the data in `topology`; it knows no call and no reply. Settling a
delivery is synchronous: the transport joins what is settled and published in one turn of the loop into one write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.transport.topology import Queue, Route, Stream, Topology


@dataclass(frozen=True, slots=True)
class Message:
    """Bytes with the few properties that the broker acts on or that a reader of a dead letter needs.

    routing_key: of one that was delivered, what it was published with: who may publish what is decided by that.
    """

    body: bytes
    type: str
    correlation_id: str | None = None
    reply_to: str | None = None
    routing_key: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Broker:
    """Who is at the other end, and what it can be relied on for.

    honours_consumer_timeout: whether `subscribe(consumer_timeout=)` means anything to it.
    counts_only_losses: whether `Delivery.lost` leaves out what was given back.
    """

    product: str
    version: tuple[int, ...]
    honours_consumer_timeout: bool
    counts_only_losses: bool

    def __str__(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.version))}"


@dataclass(frozen=True, slots=True)
class TransportState:
    """How a transport is now.

    blocked: whether the broker refuses publishes for want of memory or disk; it tells so at the first publish that it
    holds back. consumers_wanted, consumers_actual: the subscriptions that take deliveries, and how many of them do.
    """

    connected: bool
    blocked: bool
    consumers_wanted: int
    consumers_actual: int


class Delivery(Protocol):
    """One message that was handed over and is not settled yet.

    Settling is idempotent: only the first of `ack`, `nack`, `reject` counts. On a delivery whose connection is gone
    they do nothing, since the broker hands the message out again.
    """

    @property
    def message(self) -> Message: ...

    @property
    def redelivered(self) -> bool: ...

    @property
    def lost(self) -> int:
        """How often a consumer had this message and lost it, by its process, connection or channel.

        By the broker's count, which begins anew when the message is published again. Where `counts_only_losses` is
        False it holds what was given back (`nack`, `Subscription.close`) too.
        """

    @property
    def held(self) -> bool:
        """Whether it is in hand still: not settled, and its connection not lost, as far as is known here."""

    def ack(self) -> None:
        """Settle: the broker forgets the message."""

    def nack(self) -> None:
        """Give back unstarted: the broker hands it to whoever is free."""

    def reject(self) -> None:
        """Refuse for good: the message is dead-lettered."""


class Subscription(Protocol):
    """A consumer of one queue, kept alive over reconnects until it is stopped."""

    async def pause(self) -> None:
        """Take no more deliveries for now. Those in hand can still be settled.

        What the broker has sent and was not handed over yet is given back. Returns when nothing more comes, or when
        `resume` was called meanwhile. Idempotent; of a stopped subscription it changes nothing.
        """

    def resume(self) -> None:
        """Take deliveries again after `pause`, as soon as that can be, and with no more in hand than `prefetch`.

        Idempotent; of a stopped subscription it changes nothing.
        """

    async def stop(self) -> None:
        """Take no more deliveries. Those in hand can still be settled. Idempotent."""

    async def close(self) -> None:
        """Stop, write out what is settled, and give back what is not. Idempotent."""


class Transport(Protocol):
    """Moves bytes. Implementations: `MemoryTransport`, `RabbitTransport`; both pass tests/contract/transport."""

    topology: Topology
    embedded: bool
    """Whether the bus lives and dies with this process."""

    @property
    def broker(self) -> Broker:
        """Tell what the transport is connected to, or was last. Raises TransportClosedError before `open`."""

    @property
    def state(self) -> TransportState:
        """Tell how it is now, from what is known here: cheap, never waits, and may be asked in any thread."""

    def now(self) -> float:
        """Return Unix seconds by the transport's clock, which is the one that its deadlines are by."""

    async def open(self) -> None:
        """Connect and declare the exchanges and the dead queue of the topology. Idempotent.

        After it failed, or its only caller was cancelled, nothing is open and another try is allowed; after `close` it
        is not. Raises BusUnreachableError, TopologyMismatchError, TransportClosedError.
        """

    async def close(self) -> None:
        """Write out what is settled, close every subscription and the connection. Idempotent.

        Publishes that are still unconfirmed then end as PublishUnsureError.
        """

    async def publish(
        self, route: Route, message: Message, *, deadline: float, written: Callable[[], None] | None = None
    ) -> None:
        """Publish durably and return when the broker has confirmed.

        deadline: seconds as `now` tells them; while the connection is down, the broker blocks or the byte budget is
        spent, this waits until then. written: called in the moment in which the message goes out, must not raise. Of a
        cancelled publish the broker knows nothing if `written` was not called, and otherwise it may be accepted.

        Raises UnroutableError, PublishForbiddenError, PublishRefusedError (nack), PublishExpiredError (nothing written
        by the deadline), PublishUnsureError (written, but not confirmed before the connection ended or the deadline
        passed), TransportClosedError; where the route needs something declared, TopologyMismatchError too. Suspends at
        least once, unless the transport is closed.
        """

    async def subscribe(
        self,
        queue: Queue,
        receive: Callable[[Delivery], None],
        *,
        prefetch: int,
        renewed: Callable[[], None] | None = None,
        consumer_timeout: float | None = None,
    ) -> Subscription:
        """Declare the queue with its bindings and consume it.

        receive: called in the loop for each delivery, must return at once and must not raise.
        renewed: called when, after a reconnect, the queue had to be made anew (what it held is gone).
        consumer_timeout: seconds after which the broker takes back a delivery that is not settled, and hands it out
        again, to whomever; it is not counted as lost, and settling it late does nothing. A broker that does not honour
        this (`Broker.honours_consumer_timeout`) goes by its own, and may take back all that is in hand with it.
        Raises BusUnreachableError, TopologyMismatchError, TransportClosedError.
        """

    async def read(self, stream: Stream) -> list[bytes]:
        """Declare the stream with its bindings and return the bodies of all its entries, oldest first.

        Whoever declares it writes an empty entry (`b"{}"`), which is returned as any other. What is older than the
        stream's `x-max-age` may be missing, and need not.
        """
