"""What a worker process and its supervisor tell each other over the socket between them: lines.

The supervisor says `drain` or `abort`, and by the end of the stream that it is gone; the process says how it is.
"""

from __future__ import annotations

from grundlag_bus.workers.status import WorkerStatus, encode_status

DRAIN = b"drain\n"
ABORT = b"abort\n"
REPORT_EVERY = 1.0
"""Seconds."""


def status_line(status: WorkerStatus) -> bytes:
    return encode_status(status) + b"\n"
