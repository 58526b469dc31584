"""A socket whose other end is the test: it keeps what is written, and is full or closed when told."""

from __future__ import annotations

import asyncio
from typing import Any


class Socket(asyncio.Transport):
    """What a protocol writes to."""

    def __init__(self, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.writes: list[bytes] = []
        self._closing = False
        protocol.connection_made(self)

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)
