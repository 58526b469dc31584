"""Which calls were started alone, as every worker can know it.

A worker writes it down before such a start, confirmed. When the call comes back with a loss too many, whoever has it
reads whether the last start, with nothing beside it, was among those losses.

    { v, callId, generation, lost, worker }

lost: how often it was lost before. A start that was given back instead, by a worker that stops, loses nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.transport.base import Message
from grundlag_bus.workers.confirmed import Fate, publish_confirmed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.schema.envelope import Call
    from grundlag_bus.transport.base import Transport

_VERSION = 1


@dataclass(frozen=True, slots=True)
class LoneStart:
    """lost: how often the call had been lost before; worker: where it was started."""

    lost: int
    worker: str | None


class LoneStarts:
    """The stream of them, for one worker."""

    def __init__(self, transport: Transport, worker: str) -> None:
        self._transport = transport
        self._worker = worker
        self._asked = self._answered = 0
        self._reading = asyncio.Lock()
        self._known: dict[tuple[str, int], LoneStart] = {}

    async def note(self, call: Call, *, lost: int, within: float) -> Fate:
        """Write down that the call is about to be started alone. within: seconds. Raises as `Transport.read` does."""
        stream = self._transport.topology.starts
        entry = {
            "v": _VERSION,
            "callId": call.call_id,
            "generation": call.generation,
            "lost": lost,
            "worker": self._worker,
        }
        message = Message(orjson.dumps(entry), "start", correlation_id=call.call_id)
        until = self._transport.now() + within
        fate = await publish_confirmed(self._transport, stream.route, message, until=until)
        if fate is Fate.NOBODY:
            await self._transport.read(stream)  # which declares it
            fate = await publish_confirmed(self._transport, stream.route, message, until=until)
        return fate

    async def last(self, call: Call) -> LoneStart | None:
        """Return the last start of this generation of the call that was alone, if there was one.

        Those who ask meanwhile share the next reading. Raises as `Transport.read` does.
        """
        self._asked += 1
        ticket = self._asked
        async with self._reading:
            if self._answered < ticket:
                asked = self._asked
                self._known = _read(await self._transport.read(self._transport.topology.starts))
                self._answered = asked
        return self._known.get((call.call_id, call.generation))


def _read(entries: Iterable[bytes]) -> dict[tuple[str, int], LoneStart]:
    last = {}
    for entry in entries:
        try:
            read: Any = orjson.loads(entry)
        except orjson.JSONDecodeError:
            continue  # who may publish to the default exchange may write anything there
        match read:
            case {"v": int(version), "callId": str(call_id), "generation": int(generation), "lost": int(lost)}:
                if version == _VERSION:
                    worker = read.get("worker")
                    last[call_id, generation] = LoneStart(lost, worker if isinstance(worker, str) else None)
    return last
