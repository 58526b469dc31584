"""One run: a fleet that calls and serves, faults that befall it, and the verdict."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from grundlag_bus.chaos.checker import judge
from grundlag_bus.chaos.database import forget, make_table
from grundlag_bus.chaos.field import Field
from grundlag_bus.chaos.history import History, Mailbox, file_of, read_all
from grundlag_bus.chaos.processes.config import KEYS_FILE, Config
from grundlag_bus.chaos.processes.fleet import Member, fleet_of, until_began
from grundlag_bus.chaos.provider import KEPT
from grundlag_bus.chaos.remains import remove, take_remains, until_empty
from grundlag_bus.providers.seal import SealKeys
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.store.store import Store
from grundlag_bus.transport.rabbitmq import RabbitAdministration
from grundlag_bus.transport.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grundlag_bus.chaos.checker import Verdict
    from grundlag_bus.chaos.field import DatabaseControl, Nemesis, NodeControl, Proxy
    from grundlag_bus.chaos.processes.fleet import Fleet

_BEGINS_WITHIN = 60.0
_HEALS_WITHIN = 180.0
_AFTER_LAST = 60.0
"""Seconds after the last deadline in which a caller is to have ended: one that just died is started again before."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is called. rate: calls a second; at_once: in flight, of each caller; timeout: until their deadline.

    lease: seconds that the ledger leaves a call with a worker which says nothing; kept_share: of the calls, those that
    have a ledger.
    """

    workers: int = 3
    callers: int = 2
    rate: float = 200.0
    at_once: int = 200
    timeout: float = 60.0
    lease: float = 10.0
    kept_share: float = 0.3


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a run happens. url: the broker; ledger: the database; the rest: what faults may touch, see `Field`."""

    url: str
    ledger: str | None = None
    proxy: Proxy | None = None
    node: NodeControl | None = None
    database: DatabaseControl | None = None


async def run_chaos(  # noqa: PLR0913  what a run is made of
    ground: Ground,
    nemesis: Nemesis,
    *,
    seconds: float,
    seed: int,
    folder: Path,
    environment: Mapping[str, str],
    size: Size,
    tell: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """Call for so many seconds while the nemesis is at work, let everything come to rest, and judge.

    seed: decides what is called; folder: an empty one, for histories and logs; environment: that of the processes;
    tell: hears how far it is. Raises ConfigurationError, BusUnreachableError, StoreAwayError.
    """
    bus = await RabbitAdministration.open(ground.url)
    await bus.close()
    SealKeys.generate().save(folder / KEYS_FILE)
    ledger = ground.ledger or f"sqlite:///{folder / 'ledger.sqlite'}"
    async with await Store.open(ledger) as store:
        await forget(store, KEPT)
        await make_table(store)
    namespace = f"chaos-{new_call_id()[:8]}"
    config = Config(
        url=ground.url if ground.proxy is None else ground.proxy.url,
        namespace=namespace,
        folder=str(folder),
        name="",
        life=0,
        seed=seed,
        run=namespace,
        ledger=ledger,
        lease=size.lease,
        kept_share=size.kept_share,
        rate=size.rate / size.callers,
        at_once=size.at_once,
        timeout=size.timeout,
    )
    run = _Run(ground, nemesis, config, size, environment, tell)
    try:
        async with fleet_of(run.members) as fleet:
            await run.load(fleet, seconds)
            late = await run.rest(fleet)
        tell("looking at what is left")
        # Opened again: the connections of one that was there before do not outlast the database's restart.
        async with await Store.open(ledger) as store:
            remains = await take_remains(ground.url, run.topology, run.mailboxes(), store)
            await forget(store, KEPT)
    finally:
        with suppress(Exception):  # what is left is told already, and a broker that is away has nothing to remove
            await remove(ground.url, run.topology, run.mailboxes())
    return judge(read_all(folder), remains, until=run.until, late_processes=late)


@dataclass
class _Run:
    """See `run_chaos`. until: when the load ends; infinite before it began."""

    ground: Ground
    nemesis: Nemesis
    config: Config
    size: Size
    environment: Mapping[str, str]
    tell: Callable[[str], None]
    until: float = math.inf

    def __post_init__(self) -> None:
        self.topology = Topology(self.config.namespace)
        self.folder = Path(self.config.folder)
        self.workers = [self._member("worker", number) for number in range(1, self.size.workers + 1)]
        self.callers = [self._member("caller", number) for number in range(1, self.size.callers + 1)]
        self.members = [*self.workers, *self.callers]

    def _member(self, role: Literal["worker", "caller"], number: int) -> Member:
        """Make a process. The first of a role is not killed: it shows how memory grows."""
        name = f"{role}-{number}"
        return Member(replace(self.config, name=name), role, partial(self._environment_of, name), mortal=number > 1)

    def _environment_of(self, name: str) -> dict[str, str]:
        return {**self.environment, **self.nemesis.environment(name, self.folder)}

    async def load(self, fleet: Fleet, seconds: float) -> None:
        """Call, with the nemesis at work, until the time is over and everything is healed."""
        self.tell("starting workers")
        fleet.start("worker")
        await until_began(self.workers, within=_BEGINS_WITHIN)
        fleet.start("caller")
        await until_began(self.callers, within=_BEGINS_WITHIN)
        self.tell(f"calling for {seconds:g} s")
        field = Field(
            victims=lambda: self.members,
            url=self.ground.url,
            namespace=self.topology.namespace,
            proxy=self.ground.proxy,
            node=self.ground.node,
            database=self.ground.database,
        )
        with History(file_of(self.folder, "nemesis", 1)) as history:
            raging = asyncio.get_running_loop().create_task(self._rage(field, history))
            try:
                await asyncio.sleep(seconds)
            finally:
                raging.cancel()
                await asyncio.wait({raging}, timeout=_HEALS_WITHIN)
        self.until = time.monotonic()
        self.config.over.touch()
        if not raging.cancelled():
            raging.result()

    async def _rage(self, field: Field, history: History) -> None:
        await self.nemesis(field, history.write)

    async def rest(self, fleet: Fleet) -> list[str]:
        """Let every call end, then every process; name those that did not end."""
        self.tell("waiting for what is in flight")
        late = await fleet.ended("caller", self.size.timeout + _AFTER_LAST)
        late += await fleet.stop("caller", within=1.0)
        await until_empty(self.ground.url, self.topology, within=self.size.timeout)
        self.tell("stopping workers")
        return sorted({*late, *await fleet.stop("worker")})

    def mailboxes(self) -> list[str]:
        """Name the queues to which replies came."""
        return sorted({record.queue for record in read_all(self.folder) if isinstance(record, Mailbox)})
