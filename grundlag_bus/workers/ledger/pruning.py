"""Records that are too old are removed by the workers themselves."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from grundlag_bus.logs import get_logger
from grundlag_bus.store.retention import prune

if TYPE_CHECKING:
    from grundlag_bus.store.store import Store
    from grundlag_bus.workers.ledger.presence import Presence

PRUNE_EVERY = 3600.0
"""Seconds, on average."""

_LOGGER = get_logger("grundlag_bus.workers")


async def prune_now_and_then(store: Store, presence: Presence) -> None:
    """Remove them for as long as this runs, and not with all workers at once."""
    while True:
        await asyncio.sleep(PRUNE_EVERY * (0.5 + random.random()))  # noqa: S311  it spreads them, and guards nothing
        gone = await presence.ask(lambda: prune(store))
        if gone.total:
            _LOGGER.info("ledger_pruned", records=gone.total)
