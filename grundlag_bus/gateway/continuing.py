"""Scripts that ask: what they need to go on travels sealed with whoever sent them, and nothing of it is kept here.

Rules:
- The state opens for the same user, source, inputs and interrupt, unchanged, until the first of its questions expires.
- It holds the script's journal, so that what has ended is not called again, and the items that its calls emitted.
- It is as large as a request that brings it back may be; a script that has more to keep fails when it asks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.errors import NotJsonError, PayloadTooLargeError, ToolInterrupt
from grundlag_bus.providers.interrupts import EXPIRY
from grundlag_bus.providers.seal import Binding, seal, unseal
from grundlag_bus.schema.codec import digest
from grundlag_bus.schema.fields import instant_to_json
from grundlag_bus.schema.items import Item
from grundlag_bus.tools import ItemStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.providers.seal import SealKeys
    from grundlag_bus.schema.envelope import Resumption

NAME = "eval"
_ROOM = 64 * 1024
"""Bytes of a request that are left to answers."""
_GIVEN = ("source", "inputs")


@dataclass(frozen=True, slots=True)
class Script:
    """What a request asks to run, or to go on with."""

    source: str
    inputs: dict[str, Any]
    resumption: Resumption | None = None


class Continuations:
    """Seals what a script that asks has to keep, and opens it. limit: bytes of a request."""

    def __init__(self, keys: SealKeys, *, limit: int, clock: Callable[[], float] = time.time) -> None:
        self._keys = keys
        self._limit = limit
        self._clock = clock

    def asked(self, script: Script, user_id: str | None, interrupt: ToolInterrupt, items: ItemStore) -> dict[str, Any]:
        """Make the response of a script that asks. Raises PayloadTooLargeError."""
        began, *after = interrupt.state["journal"]
        began = {name: value for name, value in began.items() if name not in _GIVEN}  # they come again
        kept = {"state": {**interrupt.state, "journal": [began, *after]}, "items": [item.to_json() for item in items]}
        expires_at = self._clock() + EXPIRY
        if interrupt.expires_at is not None:
            expires_at = min(expires_at, interrupt.expires_at.timestamp())
        given = len(orjson.dumps([script.source, script.inputs]))
        room = max(0, self._limit - given - _ROOM) * 3 // 4  # base64
        binding = _binding(script, user_id, str(interrupt.interrupt_id))
        try:
            state = seal(self._keys, kept, binding, expires_at=expires_at, limit=room)
        except NotJsonError as error:
            raise PayloadTooLargeError(
                "The script asks, and has more to keep than a request can bring back, its calls' inputs and results: "
                "ask earlier in the script, or let its calls return less. What it called has happened.",
                details={"limit": room},
            ) from error
        return {
            "status": "interrupted",
            "interruptId": interrupt.interrupt_id,
            "message": interrupt.message,
            "data": interrupt.data,
            "state": state,
            "answerSchema": interrupt.answer_schema,
            "expiresAt": instant_to_json(expires_at),
        }

    def opened(self, script: Script, user_id: str | None, resumption: Resumption) -> tuple[ToolInterrupt, ItemStore]:
        """Return the interrupt to resume, and the items of before. Raises StateInvalidError, InterruptExpiredError."""
        binding = _binding(script, user_id, resumption.interrupt_id)
        kept = unseal(self._keys, resumption.state, binding, now=self._clock())
        began, *after = kept["state"]["journal"]
        began = {**began, "source": script.source, "inputs": script.inputs}
        interrupt = ToolInterrupt("", state={**kept["state"], "journal": [began, *after]})
        return interrupt, ItemStore(map(Item.from_json, kept["items"]))


def _binding(script: Script, user_id: str | None, interrupt_id: str) -> Binding:
    """Say what a state belongs to; no action's is ever bound to the same, since every action has a provider."""
    return Binding(
        namespace="",
        provider_id="",
        action_id=NAME,
        user_id=user_id,
        input_digest=digest([script.source, script.inputs]),
        interrupt_id=interrupt_id,
        answer_schema_digest=None,
    )
