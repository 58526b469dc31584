"""`ledger prune`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grundlag_bus.cli.exits import Exit, say
from grundlag_bus.cli.ledger.asking import ask
from grundlag_bus.cli.output import print_json
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.store.retention import DAY, LEAST, count_old, prune

if TYPE_CHECKING:
    from grundlag_bus.store.store import Store

_AGE = re.compile(r"(\d+)([dhms])")
_SECONDS = {"d": DAY, "h": 3600.0, "m": 60.0, "s": 1.0}


def prune_old(  # noqa: PLR0913  the command's options
    url: str | None, older_than: str, *, forget: bool, dry_run: bool, as_json: bool, level: str
) -> int:
    """Remove old records, and tell how many. Raises ConfigurationError, StoreAwayError."""
    seconds = read_age(older_than)
    if seconds < LEAST and not forget:
        raise ConfigurationError(
            f"--older-than {older_than} is less than the {LEAST / DAY:.0f}d in which something may still ask for a "
            "record: such a call would run again, and such an answer count twice. Add --forget where that may be."
        )

    async def work(store: Store) -> int:
        old = await (count_old if dry_run else prune)(store, older_than=seconds)
        if as_json:
            counts = {"calls": old.calls, "answers": old.answers, "tombstones": old.tombstones}
            print_json({"removed": counts, "dryRun": dry_run}, one_line=True)
        else:
            did = "would remove" if dry_run else "removed"
            say(f"{did} {old.calls} calls, {old.answers} consumed answers and {old.tombstones} cancellations.")
        return Exit.COMPLETED

    return ask(url, work, level=level)


def read_age(text: str) -> float:
    """Read `45d` or `36h` as seconds. Raises ConfigurationError."""
    found = _AGE.fullmatch(text)
    if found is None:
        raise ConfigurationError(f"--older-than {text!r} is no age: write a number with d, h, m or s, as 60d.")
    return int(found[1]) * _SECONDS[found[2]]
