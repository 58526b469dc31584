"""A call that runs in a worker, with every delivery of it that is to be settled when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.providers.oversight import Oversight

if TYPE_CHECKING:
    import asyncio

    from grundlag_bus.schema.envelope import Call
    from grundlag_bus.transport.base import Delivery
    from grundlag_bus.workers.ledger.lease import Lease


class Run:
    """One call on its way through a worker.

    oversight: of its action, while that runs; over: whether it has its outcome; replied: whether the broker has the
    reply with it; settled: whether its deliveries are; stopping: whether the worker cancelled it, which no action can
    do by itself; size: bytes of its envelope; later: what waits for its end: newer generations, and whatever came once
    it was settled; begun: whether its action may have been started; began_at: when, by the monotonic clock, where that
    was told; redelivered, lost: as its deliveries say, at most; since: when it was begun, by the loop's clock;
    muted: whether its worker ends as if it were killed; lease: by which it is this worker's, where there is a ledger;
    early: whether its deliveries were settled when it began, and a watch copy looks after it; copies: the watch copies
    among its deliveries.
    """

    __slots__ = (
        "_deliveries",
        "_mailboxes",
        "began_at",
        "begun",
        "call",
        "copies",
        "early",
        "later",
        "lease",
        "lost",
        "muted",
        "over",
        "oversight",
        "redelivered",
        "replied",
        "serving",
        "settled",
        "since",
        "size",
        "stopping",
    )

    serving: asyncio.Task[None]

    def __init__(self, call: Call, delivery: Delivery) -> None:
        self.call = call
        self.since = 0.0
        self.size = len(delivery.message.body)
        self.oversight = Oversight()
        self.later: list[tuple[Call, Delivery]] = []
        self.begun = self.over = self.redelivered = self.replied = self.settled = False
        self.lost = 0
        self.stopping = False
        self.began_at: float | None = None
        self.early = self.muted = False
        self.lease: Lease | None = None
        self._deliveries: list[Delivery] = []
        self._mailboxes: dict[str, None] = {}
        self.copies: frozenset[str] = frozenset()
        self.adopt(delivery, copy=call.copy)

    def adopt(self, delivery: Delivery, *, copy: str | None = None) -> None:
        """Settle this delivery too when the call ends, and reply to whoever sent it."""
        if self.muted:
            return  # it goes back with the subscription
        self.redelivered = self.oversight.may_have_run = self.redelivered or delivery.redelivered
        self.lost = max(self.lost, delivery.lost)
        self._deliveries.append(delivery)
        if copy is not None:
            self.copies |= {copy}
        mailbox = mailbox_of(delivery)
        if mailbox is not None:
            self._mailboxes[mailbox] = None

    @property
    def held(self) -> bool:
        """Whether any delivery of it is in hand still, so that no other worker has it."""
        return any(delivery.held for delivery in self._deliveries)

    @property
    def mailboxes(self) -> tuple[str, ...]:
        """Who waits for a reply that is not published yet."""
        return tuple(self._mailboxes)

    @property
    def known(self) -> tuple[tuple[str, ...], frozenset[str]]:
        """What is decided by, of its deliveries: others if it came again since."""
        return self.mailboxes, self.copies

    @property
    def has_mailbox(self) -> bool:
        """Whether anybody waits for a reply that is not published yet."""
        return bool(self._mailboxes)

    def wait_at(self, mailbox: str) -> None:
        """Add to those who wait for the reply."""
        self._mailboxes[mailbox] = None

    def next_mailbox(self) -> str | None:
        """Take one of those who wait for the reply: each once, and again when the call came again since."""
        mailbox = next(iter(self._mailboxes), None)
        if mailbox is not None:
            del self._mailboxes[mailbox]
        return mailbox

    def stop(self) -> None:
        """Cancel the call; its deliveries are given back."""
        self.stopping = True
        self.serving.cancel()

    def mute(self) -> None:
        """Cancel the call, and let it neither reply nor settle anything."""
        self.muted = True
        self._deliveries.clear()
        self._mailboxes.clear()
        self.later.clear()
        self.stop()

    def settle_early(self) -> None:
        """Settle what is in hand, of a call that is looked after otherwise and goes on here."""
        self.early = True
        deliveries, self._deliveries = self._deliveries, []
        for delivery in deliveries:
            delivery.ack()

    def ack(self) -> None:
        self.settled = True
        for delivery in self._deliveries:
            delivery.ack()

    def nack(self) -> None:
        self.settled = True
        for delivery in self._deliveries:
            delivery.nack()

    def reject(self) -> None:
        self.settled = True
        for delivery in self._deliveries:
            delivery.reject()


def mailbox_of(delivery: Delivery) -> str | None:
    """Return who waits for a reply, if anybody does.

    A mailbox whose name no ledger can write down, one a line, is nobody's.
    """
    mailbox = delivery.message.reply_to
    return mailbox if mailbox is not None and mailbox.isprintable() else None
