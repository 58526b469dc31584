"""Ask a ledger that is there: nothing is made, and nothing upgraded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.cli.options import LEDGER
from grundlag_bus.cli.running import run
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def ask(url: str | None, question: Callable[[Store], Awaitable[int]], *, level: str) -> int:
    """Run a question and return its exit code. Raises ConfigurationError, StoreAwayError."""
    if not url:
        raise ConfigurationError(
            f"No ledger is given: add --ledger sqlite:///FILE or --ledger postgresql://user:password@host/name, or set "
            f"{LEDGER}, as its workers have it."
        )
    address = url

    async def work() -> int:
        async with await Store.open(address, make=False) as store:
            return await question(store)

    return run(work(), level=level)


def age(seconds: float) -> str:
    """Tell a time span in its two greatest units."""
    left = max(int(seconds), 0)
    parts: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
