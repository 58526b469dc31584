"""`dead redrive`: each call is published anew and confirmed, and only then its letter is removed."""

from __future__ import annotations

from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from grundlag_bus.cli.administration import address_of, administer, check_namespace
from grundlag_bus.cli.dead.letters import find
from grundlag_bus.cli.dead.settling import Report, to_the_end
from grundlag_bus.cli.exits import Exit
from grundlag_bus.cli.running import run
from grundlag_bus.errors import (
    BusUnreachableError,
    EnvelopeError,
    PublishExpiredError,
    PublishForbiddenError,
    PublishRefusedError,
    PublishUnsureError,
    TransportClosedError,
    UnroutableError,
)
from grundlag_bus.schema.control import decode_cancel
from grundlag_bus.schema.envelope import encode_call
from grundlag_bus.tools.remote import default_timeout
from grundlag_bus.transport.base import Message
from grundlag_bus.transport.topology import Topology
from grundlag_bus.workers.tombstones import Tombstones

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.cli.dead.filters import Filters
    from grundlag_bus.cli.dead.letters import Found
    from grundlag_bus.schema.dead_letter import Letter
    from grundlag_bus.schema.envelope import Call
    from grundlag_bus.transport import Administration, Transport

_PUBLISH_WITHIN = 30.0


def redrive(  # noqa: PLR0913  the command's options
    url: str | None,
    namespace: str,
    filters: Filters,
    *,
    timeout: float | None,
    dry_run: bool,
    as_json: bool,
    level: str,
) -> int:
    """Redrive the letters that fit. Raises ConfigurationError, TransportError."""
    from grundlag_bus.transport.rabbitmq import RabbitTransport  # noqa: PLC0415  its client is slow to import

    address, topology = address_of(url), Topology(namespace)

    async def work() -> int:
        report = Report(dry_run=dry_run, as_json=as_json)
        async with administer(address) as bus:
            await check_namespace(bus, topology)  # opening a transport would make it
            transport = RabbitTransport(address, namespace=namespace)
            try:
                await transport.open()
                cancelled = await _cancelled(bus, topology, transport.now)
                redriving = Redriving(bus, transport, report, cancelled=cancelled, timeout=timeout)
                treat = redriving.foresee if dry_run else redriving.redrive
                async with report, aclosing(find(bus, topology, filters)) as letters:
                    async for found in letters:
                        await to_the_end(treat(found))
            finally:
                await transport.close()
        return Exit.FAILED if report.kept else Exit.COMPLETED

    return run(work(), level=level)


class Redriving:
    """One run of the command.

    cancelled: calls that no worker would start; timeout: seconds until the deadlines, None for as long as each had.
    """

    def __init__(
        self,
        administration: Administration,
        transport: Transport,
        report: Report,
        *,
        cancelled: Tombstones,
        timeout: float | None,
    ) -> None:
        self._administration = administration
        self._transport = transport
        self._report = report
        self._cancelled = cancelled
        self._timeout = timeout
        self._sent: set[str] = set()
        self._there: dict[str, bool] = {}

    async def redrive(self, found: Found) -> None:
        """Send the call of a letter, then remove the letter; or tell why not, and keep it.

        Raises BusUnreachableError where the broker takes nothing, or did not tell that it has the call or removed the
        letter: what follows must not be in doubt too.
        """
        letter = found.letter
        if not found.hold.held:
            raise BusUnreachableError(
                "The connection that held the letters ended: run it again for those that are left."
            )
        call, why = self._sendable(letter)
        if call is not None:
            try:
                why = await self._publish(call)
            except PublishUnsureError as error:
                why = "it was sent and the broker did not confirm it: it may run, so look before another try"
                self._report.tell("kept", letter, why)
                raise BusUnreachableError(
                    "The broker did not confirm a call: see what becomes of it, and run it again for those that follow."
                ) from error
        if why is None:
            try:
                await found.hold.ack()
            except BusUnreachableError:
                self._report.tell("kept", letter, "it was sent, and its letter may still be there: drop that")
                raise
        self._report.tell("redriven" if why is None else "kept", letter, why)

    async def foresee(self, found: Found) -> None:
        """Tell what `redrive` would do, as far as can be known."""
        letter = found.letter
        call, why = self._sendable(letter)
        if call is not None:
            queue = self._transport.topology.call_queue(call.provider_id, call.lane).name
            if queue not in self._there:
                self._there[queue] = await self._administration.count(queue) is not None
            why = None if self._there[queue] else _nobody(call)
            if why is None:
                self._sent.add(call.call_id)
        self._report.tell("redriven" if why is None else "kept", letter, why)

    def _sendable(self, letter: Letter) -> tuple[Call | None, str | None]:
        """Return the call as it is to be sent, or why it is not."""
        if letter.call is None or not letter.can_be_redriven:
            return None, f"it would be refused again ({letter.reason.code}): see it with `grundlag-bus dead show`"
        if letter.call.call_id in self._sent:
            # Its own call, which died again meanwhile, or another letter of the same one: never twice in one run.
            return None, "a call of this id was sent just now: see first what becomes of that"
        if letter.call.call_id in self._cancelled:
            return None, "its caller cancelled it, and no worker starts it for a day after that"
        return renewed(letter.call, now=self._transport.now(), timeout=self._timeout), None

    async def _publish(self, call: Call) -> str | None:
        """Publish a call that nobody waits for; why not, where it is not sent. Raises PublishUnsureError."""
        route = self._transport.topology.call_route(call.provider_id, call.lane)
        message = Message(encode_call(call), "call", correlation_id=call.call_id)
        try:
            await self._transport.publish(route, message, deadline=self._transport.now() + _PUBLISH_WITHIN)
        except UnroutableError:
            return _nobody(call)
        except PublishExpiredError as error:
            raise BusUnreachableError(
                f"The broker took nothing for {_PUBLISH_WITHIN:g} s: see what `grundlag-bus doctor` says of it."
            ) from error
        except (PublishRefusedError, PublishForbiddenError, TransportClosedError) as error:
            return str(error)
        self._sent.add(call.call_id)
        return None


async def _cancelled(administration: Administration, topology: Topology, clock: Callable[[], float]) -> Tombstones:
    """Learn which calls were cancelled within a day, as a worker does when it starts."""
    tombstones = Tombstones(clock)
    if await administration.count(topology.cancels.name) is not None:
        for body in await administration.read(topology.cancels):
            with suppress(EnvelopeError):  # the first entry is empty
                tombstones.add(decode_cancel(body))
    return tombstones


def renewed(call: Call, *, now: float, timeout: float | None) -> Call:
    """Return the call as it is sent again: the same id and request, everything that runs out anew.

    A generation of its own tells it from a redelivery of the one that died.
    """
    span = call.deadline - call.sent_at if timeout is None else timeout
    if not 0 < span < float("inf"):
        span = default_timeout(call.lane)
    return replace(call, generation=call.generation + 1, attempt=1, sent_at=now, deadline=now + span, watched=False)


def _nobody(call: Call) -> str:
    return f"no queue takes calls of {call.provider_id}.{call.lane}: start a worker of it once"
