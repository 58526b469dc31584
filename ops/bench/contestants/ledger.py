"""The same calls as `grundlag_bus`, recorded in the ledger that GRUNDLAG_LEDGER names; in none where it is not set."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

from grundlag_bus import Ledger, Store
from ops.bench.contestants import grundlag_bus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ops.bench.contest import Call


def _ledger_url() -> str | None:
    return os.environ.get("GRUNDLAG_LEDGER")


def namespace_of(ledger_url: str | None) -> str:
    """Name the namespace of a ledger: the workers of one provider have all the same."""
    if ledger_url is None:
        return grundlag_bus.NAMESPACE
    return f"{grundlag_bus.NAMESPACE}-{sha256(ledger_url.encode()).hexdigest()[:8]}"


async def serve(url: str, ready: Callable[[], None]) -> None:
    ledger_url = _ledger_url()
    async with AsyncExitStack() as opened:
        ledger = None
        if ledger_url is not None:
            ledger = Ledger(await opened.enter_async_context(await Store.open(ledger_url)))
        await grundlag_bus.serve(url, ready, namespace=namespace_of(ledger_url), ledger=ledger)


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Call]:
    async with grundlag_bus.connect(url, namespace=namespace_of(_ledger_url())) as call:
        yield call
