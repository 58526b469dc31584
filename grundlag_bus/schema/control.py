"""What is said to every worker at once.

cancel  { v, callId, at }
ping    { v, at }
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema import fields


@dataclass(frozen=True, slots=True)
class Cancel:
    """Do not start this call, and stop it where it runs. at: when that was asked, in Unix seconds."""

    call_id: str
    at: float

    def encode(self) -> bytes:
        return orjson.dumps({"v": fields.VERSION, "callId": self.call_id, "at": fields.instant_to_json(self.at)})


def decode_cancel(body: bytes) -> Cancel:
    """Read what asks for a cancellation. Raises EnvelopeError with the reason."""
    data = fields.load(body)
    try:
        return Cancel(fields.call_id(data), fields.instant(data, "at"))
    except KeyError as error:
        raise EnvelopeError(f"the cancel envelope lacks {error.args[0]!r}") from error
