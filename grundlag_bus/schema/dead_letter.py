"""A dead letter: a call that could not be done, with the reason, as it waits in the dead queue.

    { v, diedAt, worker, reason: { code, message, details? }, call: <the call envelope> }

What the broker itself dead-letters (an envelope that a worker refused to read, say) has no such cover: it is the
message as it was published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from grundlag_bus.schema.envelope import Call, Failed, encode_call
from grundlag_bus.schema.fields import VERSION, instant_to_json


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """died_at: Unix seconds."""

    response: Failed
    worker: str
    died_at: float
    call: Call

    def encode(self) -> bytes:
        reason: dict[str, Any] = {"code": self.response.code, "message": self.response.message}
        if self.response.details is not None:
            reason["details"] = self.response.details
        return orjson.dumps(
            {
                "v": VERSION,
                "diedAt": instant_to_json(self.died_at),
                "worker": self.worker,
                "reason": reason,
                "call": orjson.Fragment(encode_call(self.call)),
            }
        )
