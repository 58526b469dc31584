"""`chaos`: run the suite on a broker, and tell what it showed."""

from __future__ import annotations

import os
import secrets
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from grundlag_bus.chaos.faults import FAULTS
from grundlag_bus.chaos.field import CLOCK_JUMP, Field
from grundlag_bus.chaos.nemesis import ScheduledNemesis
from grundlag_bus.chaos.page import page
from grundlag_bus.chaos.proxy import proxy_to
from grundlag_bus.chaos.report import Report
from grundlag_bus.chaos.run import Ground, Size, run_chaos
from grundlag_bus.cli.administration import address_of
from grundlag_bus.cli.chaos.telling import print_report
from grundlag_bus.cli.exits import Exit, say
from grundlag_bus.cli.output import print_json
from grundlag_bus.cli.running import run
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.transport.rabbitmq import Address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from grundlag_bus.chaos.faults.fault import Fault
    from grundlag_bus.chaos.field import Proxy

_SEEDS = 10**6
_KEPT_IN_SQLITE = 0.05
"""The share of calls with a ledger where several processes write to one SQLite file: one after the other."""


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    seconds: float
    seed: int | None
    rate: float
    ledger: str | None
    report: Path | None
    folder: Path | None
    as_json: bool


def rage(url: str | None, options: ChaosOptions, *, level: str) -> int:
    """Run the suite and return its exit code. Raises ConfigurationError, TransportError."""
    address = address_of(url)
    seed = secrets.randbelow(_SEEDS) if options.seed is None else options.seed
    if options.report is not None and not options.report.parent.is_dir():
        raise ConfigurationError(
            f"There is no folder {options.report.parent} for the report: make it, or name another."
        )

    async def work() -> int:
        with _folder(options.folder) as folder:
            say(f"seed {seed}; `--seed {seed}` repeats it.")
            async with _proxied(address) as proxy:
                report = await _run(address, proxy, seed, options, folder)
        if options.report is not None:
            options.report.write_text(page(report), encoding="utf-8")
        if options.as_json:
            print_json(report.to_json(), one_line=True)
        else:
            print_report(report)
        return Exit.COMPLETED if report.kept else Exit.FAILED

    return run(work(), level=level)


async def _run(address: str, proxy: Proxy | None, seed: int, options: ChaosOptions, folder: Path) -> Report:
    size, more = Size(rate=options.rate), {}
    faults: tuple[Fault, ...] = FAULTS
    if options.ledger is None or options.ledger.startswith("sqlite"):
        size = replace(size, kept_share=_KEPT_IN_SQLITE)
        faults = tuple(fault for fault in FAULTS if fault.kind.name != CLOCK_JUMP)
        more = {CLOCK_JUMP: "a ledger in SQLite goes by the clock of each process, which all share on one machine"}
    nemesis = ScheduledNemesis(seed, options.seconds, faults)
    verdict = await run_chaos(
        Ground(address, ledger=options.ledger, proxy=proxy),
        nemesis,
        seconds=options.seconds,
        seed=seed,
        folder=folder,
        environment=os.environ,
        size=size,
        tell=say,
    )
    nothing = Field(victims=tuple, url=address, namespace="", proxy=proxy)
    return Report(verdict, seed, options.seconds, str(Address.parse(address)), {**nemesis.left_out(nothing), **more})


@asynccontextmanager
async def _proxied(address: str) -> AsyncIterator[Proxy | None]:
    """Stand between the fleet and the broker, unless its certificate names another host than ours."""
    if address.startswith("amqps://"):
        yield None
        return
    async with proxy_to(address) as proxy:
        yield proxy


@contextmanager
def _folder(wanted: Path | None) -> Iterator[Path]:
    """Give an empty folder, which is kept where one is wanted. Raises ConfigurationError."""
    if wanted is None:
        with TemporaryDirectory(prefix="grundlag-chaos-") as made:
            yield Path(made)
        return
    wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(wanted.iterdir()):
        raise ConfigurationError(f"The folder {wanted} is not empty: name another one for --folder.")
    yield wanted.resolve()
