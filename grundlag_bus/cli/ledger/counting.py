"""`ledger stats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from grundlag_bus.cli.exits import Exit
from grundlag_bus.cli.ledger.asking import age, ask
from grundlag_bus.cli.output import console, print_json
from grundlag_bus.store.reading import AGES, count_all
from grundlag_bus.store.tables import ENDED, MOVING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grundlag_bus.store.reading import Statistics
    from grundlag_bus.store.store import Store

_MIB = 1024 * 1024


def count(url: str | None, *, as_json: bool, level: str) -> int:
    """Print the counts. Raises ConfigurationError, StoreAwayError."""

    async def work(store: Store) -> int:
        counted = await count_all(store)
        if as_json:
            print_json(to_json(store.id, counted), one_line=True)
        else:
            _print(store.id, counted)
        return Exit.COMPLETED

    return ask(url, work, level=level)


def to_json(ledger: str, counted: Statistics) -> dict[str, Any]:
    """Tell them as data. oldestLease: seconds since its call was claimed."""
    oldest = counted.oldest_lease
    return {
        "ledger": ledger,
        "database": counted.server,
        "version": counted.version,
        "bytes": counted.size,
        "calls": _in_order(counted.phases, (*MOVING, *ENDED)),
        "ages": _in_order(counted.ages, [*(name for name, _ in AGES), "older"]),
        "leases": {
            "held": counted.leased - counted.overdue,
            "overdue": counted.overdue,
            "oldest": None if oldest is None else round(oldest, 1),
        },
        "lettersUnpublished": counted.letters,
        "answersConsumed": counted.answers,
        "tombstones": counted.tombstones,
    }


def _in_order(counts: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    return {name: counts.get(name, 0) for name in dict.fromkeys((*names, *counts))}


def _print(ledger: str, counted: Statistics) -> None:
    told = to_json(ledger, counted)
    leases = f"{told['leases']['held']} held, {counted.overdue} overdue"
    if counted.oldest_lease is not None:
        leases += f", the oldest for {age(counted.oldest_lease)}"
    size = f"{counted.size / _MIB:.1f} MiB"
    out = console()
    for name, text in (
        ("ledger", f"{ledger} in {counted.server}, tables of version {counted.version}, {size}"),
        ("calls", _listed(told["calls"])),
        ("leases", leases),
        ("age", _listed(told["ages"])),
        ("letters", f"{counted.letters} not known to be published"),
        ("answers", f"{counted.answers} consumed"),
        ("cancelled", f"{counted.tombstones} that never start"),
    ):
        out.print(Text(f"{name:<11}", style="bold") + Text(text, style="not bold"), soft_wrap=True)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "none"
