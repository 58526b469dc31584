"""The chaos suite with every fault: `python -m ops.chaos --seconds 600 --nodes 3`.

It starts private brokers and a private PostgreSQL server, so that those may be killed and restarted too, and then does
what `grundlag-bus chaos` does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from grundlag_bus.chaos.faults import FAULTS
from grundlag_bus.chaos.field import Field
from grundlag_bus.chaos.nemesis import ScheduledNemesis
from grundlag_bus.chaos.page import page
from grundlag_bus.chaos.proxy import proxy_to
from grundlag_bus.chaos.report import Report
from grundlag_bus.chaos.run import Ground, Size, run_chaos
from grundlag_bus.cli.chaos.telling import print_report
from grundlag_bus.errors import GrundlagError
from ops.chaos.brokers import PrivateBrokers
from ops.chaos.database import PrivateDatabase
from ops.chaos.network import NetworkUnavailableError
from ops.postgresql.programs import PostgresUnavailableError
from ops.rabbitmq.roots import BrokerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from grundlag_bus.chaos.faults.fault import Fault

_SEEDS = 10**6
_TIMEOUT = 120.0
"""Seconds until a call's deadline: also on a busy machine, a call that was not lost ends by then."""
_NAMES = sorted(fault.kind.name for fault in FAULTS)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.chaos", description="The chaos suite with every fault.")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to call, under faults")
    parser.add_argument("--nodes", type=int, choices=[1, 3], default=1, help="how many nodes the broker has")
    parser.add_argument("--seed", type=int, help="repeat the calls and faults of a run that printed it")
    parser.add_argument("--only", nargs="+", metavar="FAULT", help="leave out every other fault", choices=_NAMES)
    parser.add_argument("--rate", type=float, default=Size().rate, help="calls a second")
    parser.add_argument("--calls", type=int, default=0, help="fail if there were fewer calls")
    parser.add_argument("--faults", type=int, default=0, help="fail if there were fewer faults, or a kind is missing")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report there too, as an HTML page")
    options = parser.parse_args(arguments)
    try:
        with ExitStack() as opened:
            brokers = opened.enter_context(PrivateBrokers(options.nodes))
            database = opened.enter_context(PrivateDatabase())
            report = asyncio.run(_run(brokers, database, options))
    except (GrundlagError, BrokerUnavailableError, PostgresUnavailableError, NetworkUnavailableError) as error:
        print(error, file=sys.stderr)
        return 1
    print_report(report)
    if options.report is not None:
        options.report.write_text(page(report), encoding="utf-8")
    short = list(_fell_short(report, options))
    for line in short:
        print(line, file=sys.stderr)
    return 0 if report.kept and not short else 1


async def _run(brokers: PrivateBrokers, database: PrivateDatabase, options: argparse.Namespace) -> Report:
    seed = secrets.randbelow(_SEEDS) if options.seed is None else options.seed
    folder = Path(mkdtemp(prefix="grundlag-chaos-"))
    _say(f"seed {seed}; histories and logs are in {folder}")
    nemesis = ScheduledNemesis(seed, options.seconds, _chosen(options))
    async with proxy_to(*brokers.urls) as proxy:
        ground = Ground(brokers.urls[0], database.url, proxy, brokers, database)
        verdict = await run_chaos(
            ground,
            nemesis,
            seconds=options.seconds,
            seed=seed,
            folder=folder,
            environment=os.environ,
            size=Size(rate=options.rate, timeout=_TIMEOUT),
            tell=_say,
        )
        field = Field(tuple, ground.url, "", proxy, brokers, database)
    broker = f"{options.nodes} private node{'s' if options.nodes > 1 else ''}"
    return Report(verdict, seed, options.seconds, broker, nemesis.left_out(field))


def _chosen(options: argparse.Namespace) -> list[Fault]:
    return [fault for fault in FAULTS if not options.only or fault.kind.name in options.only]


def _fell_short(report: Report, options: argparse.Namespace) -> Iterator[str]:
    """Say what was less than asked for."""
    happened = {mark.fault for mark in report.verdict.marks}
    missing = {fault.kind.name for fault in _chosen(options)} - happened - set(report.left_out)
    if report.verdict.attempted < options.calls:
        yield f"There were {report.verdict.attempted} calls instead of {options.calls}: raise --rate, or --seconds."
    if len(report.verdict.marks) < options.faults:
        yield f"There were {len(report.verdict.marks)} faults instead of {options.faults}: raise --seconds."
    if options.faults and missing:
        yield f"These faults never happened: {', '.join(sorted(missing))}. Raise --seconds."


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
