"""What a worker process and its supervisor tell each other over the socket between them: lines.

The supervisor says `drain` or `abort`, and by the end of the stream that it is gone; the process says how it is.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import orjson

from grundlag_bus.workers.status import WorkerStatus

DRAIN = b"drain\n"
ABORT = b"abort\n"


def encode_status(status: WorkerStatus) -> bytes:
    return orjson.dumps(asdict(status), option=orjson.OPT_APPEND_NEWLINE)


def decode_status(line: bytes) -> WorkerStatus:
    data: dict[str, Any] = orjson.loads(line)
    return WorkerStatus(**{**data, "providers": tuple(data["providers"]), "lanes": tuple(data["lanes"])})
