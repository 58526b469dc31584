"""One call and its reply, over as many requests as that takes.

Rules:
- The host knows a call by its key: a request that comes again joins the call that runs, or gets its reply.
- A request that comes again says so: another host, or one that was started anew, then does not start the call anew.
- What was never written did not run. While it is so, the host is tried for a few seconds.
- After that the host is asked again for as long as it surely remembers: it forgets a reply after a minute, and asking
  then would start the call anew. A call that is idempotent is sent until its deadline.
- What takes long is waited for on a stream, which tells that the host is there.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from grundlag_bus.adapters.http.host import read_body
from grundlag_bus.adapters.http.replies import read_ended, read_progress, read_response
from grundlag_bus.adapters.http.sse import read_events
from grundlag_bus.errors import (
    BusUnreachableError,
    ConfigurationError,
    EnvelopeError,
    PublishUnsureError,
    TransportClosedError,
    TransportError,
)
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.codec import MAX_BYTES
from grundlag_bus.schema.envelope import Call, Failed, Reply, Response, new_call_id
from grundlag_bus.tools import default_timeout
from grundlag_bus.tools.endings import ended_here, outcome_unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx2

    from grundlag_bus.adapters.http.host import HttpHost
    from grundlag_bus.schema.progress import ProgressSink

REACH_WITHIN = 10.0
"""Seconds that a host is tried for which has nothing of the call."""
RETURN_WITHIN = 30.0
"""Seconds that it is tried for after a loss: the host cancels the call after 10, and keeps the reply for 60."""
SHORT = 20.0
"""Seconds that an answer is waited for without a stream: proxies end a silence after 60."""
QUIET = 25.0
"""Seconds without a heartbeat, of which one comes every 10, after which a connection counts as lost."""
LARGEST = MAX_BYTES + 64 * 1024
"""Bytes of an answer: what a response may have, and what is around it."""
LONGEST = 30 * 24 * 3600.0
"""Seconds that a host takes a call for at most; a deadline may be further away."""

_OF_THE_REPETITION = ("overloaded", "unauthenticated")
"""What a host may say of a request that comes again, without looking at the call that it asks for."""

_LOGGER = get_logger("grundlag_bus.adapters")


class Exchange:
    """A call on its way to a host.

    ended: the reply, when it is there; published: False while nothing was written, None while the host may have it,
    True when it has answered; key: what the host knows it by.
    """

    def __init__(
        self, host: HttpHost, call: Call, body: bytes, sink: ProgressSink | None, *, clock: Callable[[], float]
    ) -> None:
        loop = asyncio.get_running_loop()
        self.call = call
        # The id of a resumption is the same each time that the same answer is given, which may be meant anew.
        self.key = call.call_id if call.request.resumption is None else new_call_id()
        self.published: bool | None = False
        self.ended: asyncio.Future[Reply] = loop.create_future()
        self._host = host
        self._body = body
        self._sink = sink
        self._clock = clock
        self._streams = sink is not None or default_timeout(call.lane) > default_timeout("main")
        self._lost_at: float | None = None
        self.sending = loop.create_task(self._send())

    def end(self, response: Response, *, call_id: str | None = None) -> None:
        """Take the end of the call, of which the first counts."""
        if not self.ended.done():
            call = self.call
            self.ended.set_result(Reply(call_id or call.call_id, response, "host", call.generation, call.attempt))

    def end_here(self, response: Failed) -> None:
        """End the call without a word of the host, and send it no more."""
        if not self.ended.done():
            self.ended.set_result(ended_here(self.call, response))
        self.sending.cancel()

    async def _send(self) -> None:
        try:
            await self._ask_until_it_ends()
        except Exception:
            _LOGGER.exception("call_not_followed", call_id=self.call.call_id)
            told = "something that its caller did not expect happened while it waited, and is in its log"
            self.end(outcome_unknown(self.call, told, published=self.published))

    async def _ask_until_it_ends(self) -> None:
        tries = 0
        while not self.ended.done():
            before = self.published
            try:
                await self._ask()
            except ConfigurationError as error:
                self._refuse("forbidden", str(error))
            except TransportClosedError as error:
                self._refuse("overloaded", str(error))
            except (BusUnreachableError, PublishUnsureError) as error:
                if isinstance(error, BusUnreachableError):
                    self.published = before
                tries = 0 if self._lost_at is None else tries + 1
                if self._goes_on():
                    self._streams = self._streams or self.published is not False
                    await asyncio.sleep(_pause(tries))
                else:
                    self._give_up(error)
            except EnvelopeError as error:
                told = f"its reply cannot be read ({error.reason})"
                self.end(outcome_unknown(self.call, told, published=True))

    async def _ask(self) -> None:
        """Ask the host for the reply once."""
        call = self.call
        headers = {
            "idempotency-key": self.key,
            "x-timeout": f"{max(0.001, min(call.deadline - self._clock(), LONGEST)):.3f}",
            "accept": "text/event-stream" if self._streams else "application/json",
            **({} if call.trace is None else call.trace.to_json()),
        }
        again = self.published is not False
        if again:
            headers["x-sent-before"] = "1"
        async with self._host.answer(
            "POST",
            self._host.address.action(call.provider_id, call.action_id),
            user_id=call.user_id,
            headers=headers,
            body=self._body,
            quiet=QUIET if self._streams else SHORT,
            is_call=True,
            written=self._was_written,
        ) as response:
            call_id = response.headers.get("x-call-id")
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                self._was_answered()
                await self._listen(response, call_id)
            else:
                body = await read_body(response, limit=LARGEST)
                ended = read_response(response.status_code, body, at=self._host.address)
                if again and isinstance(ended, Failed) and ended.code in _OF_THE_REPETITION:
                    raise PublishUnsureError(f"the host does not say how it ended ({ended.message.rstrip('.')})")
                self._was_answered()
                self.end(ended, call_id=call_id)

    async def _listen(self, response: httpx2.Response, call_id: str | None) -> None:
        async for sent in read_events(response.aiter_raw(), limit=LARGEST):
            self._was_answered()
            if sent.kind == "reply":
                self.end(read_ended(sent.data), call_id=call_id)
                return
            if sent.kind == "progress" and self._sink is not None:
                try:
                    progress = read_progress(sent.data)
                except EnvelopeError as error:
                    _LOGGER.warning("envelope_refused", reason=error.reason, correlation_id=self.call.call_id)
                else:
                    self._sink(progress)
        raise PublishUnsureError(f"the stream of {self._host.address} ended before the reply")

    def _was_written(self) -> None:
        if self.published is False:
            self.published = None

    def _was_answered(self) -> None:
        self.published = True
        self._lost_at = None

    def _goes_on(self) -> bool:
        """Whether to ask once more; how long ago it was lost counts from when that was noticed."""
        now = self._clock()
        if self._lost_at is None:
            self._lost_at = now
        if self.published is not False and self.call.idempotent:
            return now < self.call.deadline
        return now - self._lost_at < (REACH_WITHIN if self.published is False else RETURN_WITHIN)

    def _give_up(self, error: TransportError) -> None:
        if self.published is False:
            self._refuse("provider_unavailable", str(error))
        else:
            self.end(outcome_unknown(self.call, str(error).rstrip("."), published=self.published))

    def _refuse(self, code: str, told: str) -> None:
        """End the call as one that was not sent, or whose repetition was not."""
        if self.published is False:
            self.end(Failed(code, told, {"published": False}, retryable=code != "forbidden"))
        else:
            self.end(outcome_unknown(self.call, told.rstrip("."), published=self.published))


def _pause(tries: int) -> float:
    """Return the seconds before the next try; none before the first."""
    return 0.0 if tries == 0 else random.uniform(0.5, 1) * min(2.0, 0.1 * 2 ** min(tries, 6))  # noqa: S311  it guards nothing
