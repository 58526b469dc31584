"""Calls to an HTTP host."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.adapters.http.address import HostAddress
from grundlag_bus.adapters.http.exchange import Exchange
from grundlag_bus.adapters.http.host import HttpHost
from grundlag_bus.errors import ConfigurationError, PayloadTooLargeError, TransportClosedError, TransportError
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.codec import MAX_BYTES, ensure_size
from grundlag_bus.schema.envelope import Failed
from grundlag_bus.tools.endings import cancelled, deadline_exceeded, ended_here, outcome_unknown
from grundlag_bus.workers.beside import Beside

if TYPE_CHECKING:
    import ssl

    from grundlag_bus.adapters.http.bearer import Token
    from grundlag_bus.schema.envelope import Call, Reply
    from grundlag_bus.schema.progress import ProgressSink

CANCEL_WITHIN = 30.0
"""Seconds that a cancelled call's reply is waited for: longer than an action gets to stop."""
WORD_WITHIN = 1.0
"""Seconds after its deadline that a call waits for the host's own word on it, which knows whether it was started."""
CLOSE_WITHIN = 2.0
"""Seconds that what is closed waits for cancellations on their way."""

_LOGGER = get_logger("grundlag_bus.adapters")


class HttpCaller:
    """Runs calls on an HTTP host: `grundlag-bus serve`, or `Gateway`.

    url: `http(s)://host[:port]/base`; token: who calls, or a function that gives a token for each user id; proxy: the
    address of a proxy, since none is taken from the environment; tls: in place of what the system trusts; connections:
    calls that are on their way at once, each on a connection of its own.
    """

    def __init__(
        self,
        url: str,
        *,
        token: Token | None = None,
        proxy: str | None = None,
        tls: ssl.SSLContext | None = None,
        connections: int = 200,
    ) -> None:
        """Raise ConfigurationError for an address or a token that cannot be one."""
        if connections < 1:
            raise ConfigurationError("An HttpCaller needs a connection to call: give connections=1 or more.")
        self.host = HttpHost(HostAddress.parse(url), token=token, proxy=proxy, tls=tls, connections=connections)
        self._exchanges: set[Exchange] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._cancels = Beside()

    @property
    def in_flight(self) -> int:
        """How many calls wait for their end."""
        return len(self._exchanges)

    async def open(self) -> None:
        """Get ready; nothing is sent. Idempotent."""
        self.host.open()

    async def close(self) -> None:
        """End what still waits, and close every connection. Idempotent."""
        for exchange in tuple(self._exchanges):
            if exchange.published is False:
                exchange.end_here(Failed("cancelled", "The call was not sent: its caller closed the bus before."))
            else:
                told = "its caller closed the bus"
                exchange.end_here(outcome_unknown(exchange.call, told, published=exchange.published))
        await self._cancels.end(within=CLOSE_WITHIN)
        if self._sending:
            await asyncio.wait(self._sending)
        await self.host.close()

    async def call(
        self, call: Call, *, on_progress: ProgressSink | None = None, cancel: asyncio.Event | None = None
    ) -> Reply:
        """See `Caller.call`. Raises TransportClosedError while it is not open."""
        if not self.host.is_open:
            raise TransportClosedError("The bus is not open: call tools inside `async with connect(...) as bus`.")
        if cancel is not None and cancel.is_set():
            return ended_here(call, cancelled(call, published=False))
        if call.deadline <= time.time():
            return ended_here(call, deadline_exceeded(call, published=False))
        request = call.request.to_json()
        body = orjson.dumps(request)
        if len(body) > MAX_BYTES:
            try:
                ensure_size(request)
            except PayloadTooLargeError as error:
                return ended_here(call, Failed(error.code, error.message, error.details))
        exchange = Exchange(self.host, call, body, on_progress, clock=time.time)
        self._keep(exchange)
        try:
            return await self._end_of(exchange, cancel)
        except asyncio.CancelledError:
            if exchange.published is not False and not exchange.ended.done():
                self._ask_to_cancel(exchange)
            raise
        finally:
            exchange.sending.cancel()
            self._exchanges.discard(exchange)

    def _keep(self, exchange: Exchange) -> None:
        self._exchanges.add(exchange)
        self._sending.add(exchange.sending)
        exchange.sending.add_done_callback(self._sending.discard)

    async def _end_of(self, exchange: Exchange, cancel: asyncio.Event | None) -> Reply:
        call, ended = exchange.call, exchange.ended
        waits: set[asyncio.Future[Any]] = {ended}
        asking = None if cancel is None else asyncio.get_running_loop().create_task(cancel.wait())
        if asking is not None:
            waits.add(asking)
        try:
            left = call.deadline - time.time()
            await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if asking is not None:
                asking.cancel()
        if not ended.done() and cancel is not None and cancel.is_set():
            await self._cancelled(exchange)
        if not ended.done() and exchange.published is not False:
            await asyncio.wait({ended}, timeout=WORD_WITHIN)
        if not ended.done():
            exchange.end_here(deadline_exceeded(call, published=exchange.published))
        return ended.result()

    async def _cancelled(self, exchange: Exchange) -> None:
        """Ask the host to cancel the call, and wait no longer for its word than it needs."""
        call = exchange.call
        if exchange.published is False:
            exchange.end_here(cancelled(call, published=False))
            return
        self._ask_to_cancel(exchange)
        left = call.deadline - time.time()
        await asyncio.wait({exchange.ended}, timeout=max(0.0, min(CANCEL_WITHIN, left)))
        if not exchange.ended.done() and left > CANCEL_WITHIN:
            told = "it was cancelled, and the host did not say in time that it has stopped"
            exchange.end_here(outcome_unknown(call, told, published=exchange.published))

    def _ask_to_cancel(self, exchange: Exchange) -> None:
        self._cancels.do(self._send_cancel(exchange.call, exchange.key))

    async def _send_cancel(self, call: Call, key: str) -> None:
        """Send it once: the host also cancels the call when nobody comes back for it."""
        url = self.host.address.action(call.provider_id, call.action_id)
        try:
            async with self.host.answer(
                "DELETE", url, user_id=call.user_id, headers={"idempotency-key": key}, quiet=10.0
            ) as response:
                if response.is_success:
                    return
                reason = f"status {response.status_code}"
        except (ConfigurationError, TransportError) as error:
            reason = str(error)
        _LOGGER.warning("cancel_not_sent", call_id=call.call_id, reason=reason)
