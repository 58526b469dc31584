"""Sends what a run tells before it ends to whoever waits for it: in order, one message at a time.

What is told faster than it can be sent is joined: of the numbers the newest goes out, of the items all do. A report
that cannot be sent is dropped, since nothing depends on it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grundlag_bus.errors import GrundlagError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.progress import TYPE, Progress, encode_progress
from grundlag_bus.transport.base import Message

if TYPE_CHECKING:
    from grundlag_bus.transport.base import Transport
    from grundlag_bus.workers.run import Run

SEND_WITHIN = 5.0
"""Seconds that one report is tried for."""

_LOGGER = get_logger("grundlag_bus.workers")


class Reports:
    """The reports of one run."""

    def __init__(self, transport: Transport, run: Run) -> None:
        self._transport = transport
        self._run = run
        self._waiting: list[Progress] = []
        self._sending: asyncio.Task[None] | None = None

    def add(self, progress: Progress) -> None:
        """Send a report after those before it."""
        last = self._waiting[-1] if self._waiting else None
        if last is not None and progress.items and last.items:
            self._waiting[-1] = Progress(items=[*last.items, *progress.items])
        elif last is not None and progress.done is not None and last.done is not None:
            self._waiting[-1] = progress
        else:
            self._waiting.append(progress)
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def flush(self) -> None:
        """Wait until everything is sent, or dropped."""
        if self._sending is not None:
            await asyncio.wait((self._sending,))

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                # One turn, so that what is told at once goes out at once.
                await asyncio.sleep(0)
                await self._send(self._waiting.pop(0))
        finally:
            self._sending = None

    async def _send(self, progress: Progress) -> None:
        call_id = self._run.call.call_id
        message = Message(encode_progress(call_id, progress), TYPE, correlation_id=call_id)
        for mailbox in self._run.mailboxes:
            route = self._transport.topology.reply_route(mailbox)
            try:
                await self._transport.publish(route, message, deadline=self._transport.now() + SEND_WITHIN)
            except GrundlagError as error:
                _LOGGER.debug("progress_not_taken", call_id=call_id, reason=str(error))
