"""Sends what a run tells before it ends to whoever waits for it: in order, one message at a time.

What is told faster than it can be sent is joined: of the numbers the newest goes out, of the items all do. A report
that cannot be sent is dropped, since nothing depends on it, and the reply waits for reports no longer than for one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from grundlag_bus.errors import GrundlagError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.codec import MAX_BYTES
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
        """Send a report after those before it, joined with what waits of its kind."""
        if progress.items:
            self._add_items(progress)
        else:
            if progress.done is not None:
                self._waiting = [other for other in self._waiting if other.done is None]
            self._waiting.append(progress)
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    def _add_items(self, progress: Progress) -> None:
        for other in self._waiting:
            if other.items:
                other.items.extend(progress.items)  # one list: a copy for each would take a flood seconds
                return
        self._waiting.append(Progress(items=list(progress.items)))

    async def flush(self) -> None:
        """Wait until everything is sent, or dropped."""
        sending = self._sending
        if sending is not None:
            try:
                await asyncio.wait((sending,), timeout=SEND_WITHIN)
            finally:
                sending.cancel()

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
        body = encode_progress(call_id, progress)
        if len(body) > MAX_BYTES:  # the broker would close the channel for it, under all that others publish there
            _LOGGER.debug("progress_not_taken", call_id=call_id, reason=f"it has {len(body)} bytes")
            return
        message = Message(body, TYPE, correlation_id=call_id)
        for mailbox in self._run.mailboxes:
            route = self._transport.topology.reply_route(mailbox)
            try:
                await self._transport.publish(route, message, deadline=self._transport.now() + SEND_WITHIN)
            except GrundlagError as error:
                _LOGGER.debug("progress_not_taken", call_id=call_id, reason=str(error))
