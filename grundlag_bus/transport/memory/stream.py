"""One stream in memory: its entries in order, each with the time at which it came."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from grundlag_bus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.transport.memory.queue import Entry
    from grundlag_bus.transport.topology import Stream

_HONOURED = {"x-max-age", "x-queue-type"}
_WITHOUT_MEANING_HERE = {"x-stream-max-segment-size-bytes"}
_AGE = re.compile(r"(\d+)([YMDhms])")
_SECONDS = {"Y": 365 * 86_400, "M": 30 * 86_400, "D": 86_400, "h": 3600, "m": 60, "s": 1}


class MemoryStream:
    """What is published to it stays, for as long as its `x-max-age` says. It begins with an empty entry.

    A broker drops whole segments, and so keeps some entries longer.
    """

    # What a bus asks of each end of a binding, and has no meaning for a stream.
    expires = ttl = max_length = None
    is_full = False

    def __init__(self, stream: Stream, clock: Callable[[], float]) -> None:
        arguments = stream.arguments
        if unknown := arguments.keys() - _HONOURED - _WITHOUT_MEANING_HERE:
            raise ConfigurationError(
                f"The stream {stream.name} has arguments that the memory bus does not know: "
                f"leave out {', '.join(sorted(unknown))}, or use RabbitMQ."
            )
        self.name = stream.name
        self.arguments = dict(arguments)
        self._max_age = age_seconds(arguments["x-max-age"]) if "x-max-age" in arguments else None
        self._clock = clock
        self._entries: deque[tuple[float, bytes]] = deque(((clock(), b"{}"),))

    def put(self, entry: Entry) -> None:
        self._trim()
        self._entries.append((self._clock(), entry.message.body))

    def read(self) -> list[bytes]:
        self._trim()
        return [body for _, body in self._entries]

    def _trim(self) -> None:
        if self._max_age is not None:
            oldest = self._clock() - self._max_age
            while self._entries and self._entries[0][0] < oldest:
                self._entries.popleft()


def age_seconds(age: object) -> int:
    """Read a broker's age, a number and one of Y, M, D, h, m, s. Raises ConfigurationError."""
    found = _AGE.fullmatch(str(age))
    if found is None:
        raise ConfigurationError(f"The age {age!r} of a stream cannot be read: write a number and Y, M, D, h, m or s.")
    return int(found[1]) * _SECONDS[found[2]]
