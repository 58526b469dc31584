"""Tells of questions on the bus: `interrupt.pending`, `interrupt.answered`, `interrupt.expired`.

What is still to be told stands in the question's row, so that none is lost with its host; it may be told twice, under
one id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from grundlag_bus.durable.failpoints import reach
from grundlag_bus.durable.reading import interrupt_of
from grundlag_bus.errors import PublishForbiddenError, TransportError, UnroutableError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.envelope import derived_id
from grundlag_bus.schema.event import TYPE, EmittedEvent, encode_event
from grundlag_bus.schema.fields import instant_to_datetime
from grundlag_bus.store.tables import interrupts
from grundlag_bus.transport.base import Message

if TYPE_CHECKING:
    from sqlalchemy import Row

    from grundlag_bus.store.store import Store
    from grundlag_bus.transport.base import Transport

PROVIDER = "interrupt"
"""What stands in the place of a provider's id."""
_WITHIN = 10.0
_MOST = 100

_LOGGER = get_logger("grundlag_bus.durable")


class Notices:
    """Publishes them."""

    def __init__(self, store: Store, transport: Transport) -> None:
        self._store = store
        self._transport = transport

    async def tell(self) -> None:
        """Publish what is to be told; where the bus does not take it, another time."""
        read = select(interrupts).where(interrupts.c.tell.is_not(None)).limit(_MOST)
        async with self._store.transaction() as connection:
            rows = (await connection.execute(read)).all()
        for row in rows:
            try:
                await self._publish(row)
            except UnroutableError:
                pass  # nobody listens
            except PublishForbiddenError as error:
                _LOGGER.error("notice_forbidden", interrupt_id=row.interrupt_id, reason=str(error))  # noqa: TRY400  a sentence
            except TransportError as error:
                _LOGGER.warning("notice_not_sent", interrupt_id=row.interrupt_id, reason=str(error))
                return
            reach("notice.published")
            told = (interrupts.c.interrupt_id == row.interrupt_id, interrupts.c.tell == row.tell)
            async with self._store.transaction() as connection:
                await connection.execute(update(interrupts).where(*told).values(tell=None))

    async def _publish(self, row: Row[Any]) -> None:
        transport, now = self._transport, self._transport.now()
        event = EmittedEvent(
            id=derived_id("notice", row.interrupt_id, f"{row.tell} {row.ended_at}".encode()),
            provider_id=PROVIDER,
            event_id=row.tell,
            call_id=row.run_id,
            at=instant_to_datetime(row.asked_at if row.ended_at is None else row.ended_at),
            data=interrupt_of(row).to_json(),
            user_id=row.answerer,
        )
        route = transport.topology.event_route(PROVIDER, row.tell)
        await transport.publish(route, Message(encode_event(event), TYPE), deadline=now + _WITHIN)
