"""HTTP by hand: for what no client would send, and for many connections at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)


async def send(url: str, request: bytes, *, within: float = 30.0) -> Answer | None:
    """Send bytes over a connection of their own and read the answer; None where it is closed without one."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        writer.write(request)
        async with asyncio.timeout(within):
            return await _read(reader)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader) -> Answer:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name}
    if "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
    else:
        body = await reader.read()
    return Answer(int(first.split(" ")[1]), headers, body)


def post(path: str, body: bytes, **headers: str) -> bytes:
    """Write a request with a JSON body; `_` in a header's name is `-`."""
    told = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(len(body))}
    told |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body
