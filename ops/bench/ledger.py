"""Print what a ledger costs: `python -m ops.bench.ledger [--url amqp://...] [--calls N] [--rounds N] [--rows N]`.

The same calls, one worker process and one caller process, in turns within one run: recorded nowhere, in SQLite, in a
private PostgreSQL on this machine, and in both with many calls in them already. Both write through to the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import literal

from grundlag_bus import Store
from grundlag_bus.store.given import as_given, given
from grundlag_bus.store.tables import calls
from ops.bench.__main__ import broker
from ops.bench.contest import Measured, measure
from ops.bench.contestants.ledger import namespace_of
from ops.postgresql.programs import installed_programs, unpacked_programs
from ops.postgresql.server import PrivateServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

IN_FLIGHT = (1, 64)
NONE = "no ledger"
_REPLY = b'{"v":1,"callId":"%s","generation":1,"attempt":1,"worker":"w","response":{"status":"completed","result":{}}}'
_CHUNK = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.ledger", description="What a ledger costs.")
    parser.add_argument("--url", help="a RabbitMQ that nothing else uses meanwhile (default: a private node)")
    parser.add_argument("--calls", type=int, default=3000, help="calls of each run at 64 in flight (default 3000)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each (default 5)")
    parser.add_argument("--rows", type=int, default=100_000, help="calls in the full ledgers (default 100000)")
    options = parser.parse_args(arguments)
    with ExitStack() as opened:
        url = opened.enter_context(broker(options.url))
        ledgers = _ledgers(opened, options.rows)
        try:
            print("| in flight | ledger | calls/s | of those without | p50 ms | worker CPU us/call |")
            print("|---|---|---|---|---|---|")
            for in_flight in IN_FLIGHT:
                print(_rows(options, url, in_flight, ledgers), flush=True)
        finally:
            _clean(url, ledgers)
    return 0


def _ledgers(opened: ExitStack, rows: int) -> dict[str, str | None]:
    """Return the ledgers by their names in the table, as URLs."""
    folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="grundlag-bench-")))
    programs = installed_programs() or unpacked_programs()
    servers = [opened.enter_context(PrivateServer(programs, durable=True)) for _ in range(2)]
    full = f"with {rows:,} calls in it"
    ledgers = {
        NONE: None,
        "SQLite": f"sqlite:///{folder}/new.sqlite",
        f"SQLite {full}": f"sqlite:///{folder}/full.sqlite",
        "PostgreSQL": servers[0].url,
        f"PostgreSQL {full}": servers[1].url,
    }
    for name, ledger in ledgers.items():
        if ledger is not None and name.endswith(full):
            asyncio.run(fill(ledger, rows))
    return ledgers


async def fill(ledger: str, count: int) -> None:
    """Write down so many calls that have ended, an hour of them."""
    async with await Store.open(ledger) as store:
        rows = given(store.dialect, call_id=calls.c.call_id.type, age=calls.c.changed_at.type, reply=calls.c.reply.type)
        at = store.now - rows.c.age
        ended = {
            "call_id": rows.c.call_id,
            "digest": "d" * 64,
            "provider_id": "demo",
            "action_id": "add",
            "phase": "ended",
            "generation": 1,
            "fence": 1,
            "lost": 0,
            "mailboxes": literal("a-mailbox-of-32-characters-or-so"),
            "reply": rows.c.reply,
            "created_at": at,
            "changed_at": at,
        }
        insert = store.insert_new(calls, ended, each=rows)
        for start in range(0, count, _CHUNK):
            numbers = range(start, min(start + _CHUNK, count))
            # In an order that is not theirs, as ids are.
            ids = ((number, f"{number * 2654435761 % 2**32:032x}") for number in numbers)
            told = [
                {"call_id": call_id, "age": 3600 * number / count, "reply": _REPLY % call_id.encode()}
                for number, call_id in ids
            ]
            async with store.transaction() as connection:
                await connection.execute(insert, as_given(told))


def _rows(options: argparse.Namespace, url: str, in_flight: int, ledgers: Mapping[str, str | None]) -> str:
    runs: dict[str, list[Measured]] = {name: [] for name in ledgers}
    calls_ = options.calls if in_flight > 1 else max(100, options.calls // 5)
    for each in range(options.rounds):
        for name, ledger in ledgers.items():
            around = {} if ledger is None else {"GRUNDLAG_LEDGER": ledger}
            runs[name].append(measure("ledger", url, calls=calls_, in_flight=in_flight, environment=around))
            print(f"round {each + 1}, {in_flight} in flight, {name}: {runs[name][-1]}", file=sys.stderr)
    return "\n".join(_row(in_flight, name, measured, runs[NONE]) for name, measured in runs.items())


def _row(in_flight: int, name: str, runs: Sequence[Measured], without: Sequence[Measured]) -> str:
    fields = ("calls_per_second", "p50", "worker_cpu")
    speed, p50, cpu = (statistics.median(getattr(run, field) for run in runs) for field in fields)
    pairs = zip(runs, without, strict=True)
    ratio = statistics.median(ours.calls_per_second / theirs.calls_per_second for ours, theirs in pairs)
    return f"| {in_flight} | {name} | {speed:.0f} | {ratio:.2f} | {p50:.2f} | {cpu:.0f} |"


def _clean(url: str, ledgers: Mapping[str, str | None]) -> None:
    """Remove what the runs declared: a broker may be one that is kept."""
    for ledger in ledgers.values():
        delete = ("namespace", "delete", namespace_of(ledger), "--force", "--yes", "--url", url)
        subprocess.run([sys.executable, "-m", "grundlag_bus", *delete], stdout=subprocess.DEVNULL, check=False)


if __name__ == "__main__":
    sys.exit(main())
