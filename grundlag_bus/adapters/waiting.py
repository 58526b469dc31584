"""What a caller keeps of a call until its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grundlag_bus.schema.envelope import Call, Reply
    from grundlag_bus.schema.progress import Progress, ProgressSink


class Waiting:
    """A call without an end yet.

    due: when it is to be started, where that is not at once; published: False before it is written, None while unsure,
    True when confirmed; publishing: the task that is at it; timer: ends it when nothing else does; asking: waits for
    the signal to cancel it; asked: whether the workers were asked to.
    """

    __slots__ = (
        "_sink",
        "asked",
        "asking",
        "body",
        "call",
        "due",
        "published",
        "publishing",
        "reply",
        "stopped",
        "timer",
    )

    def __init__(
        self, call: Call, body: bytes, reply: asyncio.Future[Reply], sink: ProgressSink | None, *, due: float | None
    ) -> None:
        self._sink = sink
        self.call = call
        self.body = body
        self.reply = reply
        self.due = due
        self.published: bool | None = False
        self.publishing: asyncio.Task[object] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.asking: asyncio.Task[None] | None = None
        self.asked = False
        self.stopped = False

    @property
    def has_ended(self) -> bool:
        """Whether the reply is here: that its future is cancelled means that nobody awaits it."""
        return self.reply.done() and not self.reply.cancelled()

    def was_written(self) -> None:
        if self.published is False:
            self.published = None

    def hear(self, progress: Progress) -> None:
        if self._sink is not None:
            self._sink(progress)

    def rest(self) -> None:
        """Wait for nothing but the reply."""
        for waits in (self.timer, self.asking):
            if waits is not None:
                waits.cancel()
        self.timer = self.asking = None

    def end(self, reply: Reply) -> None:
        """Take the reply; a publish that is not confirmed yet will be in a moment."""
        self.rest()
        if not self.reply.done():
            self.reply.set_result(reply)

    def stop(self, reply: Reply) -> None:
        """Take the reply, and publish no longer: nobody knows when that would end."""
        self.end(reply)
        if self.publishing is not None and not self.stopped and self.publishing is not asyncio.current_task():
            self.stopped = True
            self.publishing.cancel()
