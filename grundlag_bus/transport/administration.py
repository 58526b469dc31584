"""What only operators ask of a bus, beside `Transport`: take messages out without consuming, count, delete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from grundlag_bus.schema.dead_letter import Death
    from grundlag_bus.transport.base import Message
    from grundlag_bus.transport.parts import Exchange, Queue, Stream


class Hold(Protocol):
    """One message that was taken out of its queue; nobody else is given it meanwhile.

    Only the first settling counts.
    """

    @property
    def held(self) -> bool:
        """Whether it is in hand still: not settled, and its connection not lost, as far as is known here."""

    async def ack(self) -> None:
        """Have it removed, and return when the bus has heard of it.

        Raises BusUnreachableError where it is held no more: its queue has it again, or may have it.
        """

    def nack(self) -> None:
        """Give it back now. What is still held when the administration closes is given back then."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A message with what the broker noted when it dead-lettered it; None where it did not."""

    message: Message
    death: Death | None
    hold: Hold


@dataclass(frozen=True, slots=True)
class Counts:
    """messages: those that wait, without those in hand; a broker's figure may lag."""

    messages: int
    consumers: int


class Administration(Protocol):
    """An operator's hands on a bus. It declares nothing.

    Implementations: `MemoryAdministration`, `RabbitAdministration`; both pass tests/contract/transport. Every request
    raises BusUnreachableError where the connection ends, or the broker does not let this user do it.
    """

    async def take(self, queue: str, most: int) -> list[Taken]:
        """Take up to `most` messages out, oldest first, and hold them. None, without waiting, where there are none."""

    async def count(self, queue: str) -> Counts | None:
        """Look at a queue or stream; None where there is none of this name."""

    async def read(self, stream: Stream) -> list[bytes]:
        """Return what `Transport.read` does, of a stream that is there."""

    async def delete(self, part: Exchange | Queue | Stream) -> None:
        """Delete it with all it holds, whoever uses it; nothing happens where it does not exist."""

    async def close(self) -> None:
        """Give back what is still held. Idempotent."""
