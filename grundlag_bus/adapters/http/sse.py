"""Server-sent events, read from bytes as they come. Follows the HTML standard, and adds a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grundlag_bus.errors import EnvelopeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Sent:
    """One event, or a comment, whose kind is "". data: its lines, joined."""

    kind: str
    data: bytes


class EventReader:
    """Takes bytes and gives events. limit: bytes that one event may have."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._kind = b""
        self._data: list[bytes] = []
        self._size = 0
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[Sent]:
        """Take what came, and give what is complete. Raises EnvelopeError for an event that is too large."""
        searched = max(0, len(self._rest) - 1)
        self._rest += chunk
        start = 0
        while (end := self._line_end(max(start, searched))) is not None:
            line = bytes(self._rest[start : end[0]])
            start = end[1]
            if (sent := self._take(line)) is not None:
                yield sent
        del self._rest[:start]
        self._check(len(self._rest))

    def _line_end(self, start: int) -> tuple[int, int] | None:
        """Find the end of the line and the beginning of the next: a line ends with CR, LF, or both."""
        found = [at for at in (self._rest.find(b"\n", start), self._rest.find(b"\r", start)) if at >= 0]
        if not found:
            return None
        at = min(found)
        if self._rest[at] == ord("\r"):
            if at + 1 == len(self._rest):
                return None  # what follows says whether it is one end or two
            return at, at + 1 + (self._rest[at + 1] == ord("\n"))
        return at, at + 1

    def _take(self, line: bytes) -> Sent | None:
        if not self._begun:
            self._begun, line = True, line.removeprefix(_BOM)
        if not line:
            sent = (
                Sent(self._kind.decode(errors="replace") or "message", b"\n".join(self._data)) if self._data else None
            )
            self._kind, self._data, self._size = b"", [], 0
            return sent
        if line.startswith(b":"):
            return Sent("", line[1:].removeprefix(b" "))
        name, _, value = line.partition(b":")
        self._check(len(line))
        self._size += len(line)
        if name == b"event":
            self._kind = value.removeprefix(b" ")
        elif name == b"data":
            self._data.append(value.removeprefix(b" "))
        return None

    def _check(self, more: int) -> None:
        if self._size + more > self._limit:
            raise EnvelopeError(f"an event has more than {self._limit} bytes")


async def read_events(chunks: AsyncIterator[bytes], *, limit: int) -> AsyncIterator[Sent]:
    """Read to the end of the stream, where an event that is not complete is dropped. Raises EnvelopeError."""
    reader = EventReader(limit=limit)
    async for chunk in chunks:
        for sent in reader.feed(chunk):
            yield sent
