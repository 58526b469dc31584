"""A worker: takes calls from the queues of its providers, and stops without losing one.

Its life: connect, hear what is cancelled, take calls, announce what is offered; at its end it drains: it takes nothing
more, gives what runs its grace time, and gives back the rest. What becomes of each delivery: see `serving`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

from grundlag_bus.errors import ConfigurationError, GrundlagError
from grundlag_bus.logs import get_logger
from grundlag_bus.providers.local import CANCEL_GRACE, LocalCaller
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.telemetry import Hook, Report, ignore
from grundlag_bus.telemetry.loop import LoopWatch
from grundlag_bus.workers.announce import announce, check_ledger
from grundlag_bus.workers.beside import Beside
from grundlag_bus.workers.control import Control
from grundlag_bus.workers.event_sender import EventSender
from grundlag_bus.workers.serving import Serving
from grundlag_bus.workers.share import share_of
from grundlag_bus.workers.status import LIVE_WITHIN, WorkerStatus, live, ready
from grundlag_bus.workers.told import Told, served_by
from grundlag_bus.workers.tombstones import Tombstones

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.transport.base import Transport
    from grundlag_bus.workers.ledger import Ledger

STOP_WITHIN = 5.0
"""Seconds that calls get to end once they are cancelled."""

_LOGGER = get_logger("grundlag_bus.workers")


class Worker:
    """Serves the actions of a registry from one transport.

    providers, lanes: serve these alone (None: all); the manifest is announced whole in any case. concurrency: calls
    that run at once for each provider and lane, as one number or by lane; a lane that is not named runs 64, and lane
    `long` 16. limits: seconds that an action may run, by lane, instead of what `lanes.py` says. grace: seconds that
    running calls get when the worker stops; cancel_grace: those that an action gets when its call is cancelled. hook:
    told what happens to calls. ledger: where calls are recorded, so that none that ended is run again; all workers of a
    provider have the same one, or none has.

    Raises ConfigurationError when that names what is not there or leaves nothing to serve; also when an action may
    interrupt and the registry has no keys to share with other workers, except on an embedded bus.
    """

    def __init__(  # noqa: PLR0913  what a worker can be told
        self,
        transport: Transport,
        registry: ProviderRegistry,
        *,
        providers: Collection[str] | None = None,
        lanes: Collection[str] | None = None,
        concurrency: int | Mapping[str, int] | None = None,
        limits: Mapping[str, float] | None = None,
        grace: float = 30.0,
        cancel_grace: float = CANCEL_GRACE,
        hook: Hook = ignore,
        ledger: Ledger | None = None,
    ) -> None:
        self._share = share_of(
            registry,
            providers=providers,
            lanes=lanes,
            concurrency=concurrency,
            limits=limits,
            ledger=ledger is not None,
        )
        if registry.interrupting and not registry.shared_keys and not transport.embedded:
            raise ConfigurationError(
                f"{', '.join(registry.interrupting)} may interrupt, and workers must share the keys that seal what an "
                "interrupt keeps: make a file with `grundlag-bus keys new FILE` and give it to every worker "
                "(--keys FILE, or ProviderRegistry(keys=SealKeys.load(FILE)))."
            )
        self.name = f"{socket.gethostname()}-{os.getpid()}-{new_call_id()[:8]}"
        self.started = asyncio.Event()
        self._transport = transport
        self._registry = registry
        self._grace = grace
        self._local = LocalCaller(
            registry,
            namespace=transport.topology.namespace,
            name=self.name,
            threads=max(self._share.concurrency, 1),
            clock=transport.now,
            limit_of=self._share.limit_of,
            events=EventSender(transport),
            checkpoints=False,
        )
        told = Told(hook, transport.now)
        self._watch = LoopWatch(told.hook, whose=lambda task: served_by(task, tuple(self._serving.started)))
        cancelled = Tombstones(transport.now)
        self._serving = Serving(
            transport,
            self._share,
            self._local,
            told,
            name=self.name,
            cancelled=cancelled,
            cancel_grace=cancel_grace,
            renewed=self._queue_renewed,
            ledger=ledger,
        )
        self._ledger_id = None if ledger is None else ledger.store.id
        self._control = Control(
            transport, self.name, cancelled=cancelled, cancel=self._serving.cancel, status=self.status
        )
        self._beside = Beside()
        self._aborted = asyncio.Event()

    @property
    def providers(self) -> tuple[str, ...]:
        """The ids of the providers that it serves, sorted."""
        return self._share.providers

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes that it serves, sorted."""
        return self._share.lanes

    @property
    def in_flight(self) -> int:
        """How many calls run here."""
        return len(self._serving.runs)

    def status(self) -> WorkerStatus:
        """Tell how it stands now. May be asked in any thread."""
        return WorkerStatus.of(
            self,
            self._transport.state,
            draining=self._local.drain.begun,
            still=self._watch.late,
            calls=[run.call.call_id for run in tuple(self._serving.runs.values()) if run.begun and not run.over],
            ledger_away=self._serving.ledger_away,
            leases=self._serving.leases[0],
            oldest_lease=self._serving.leases[1],
        )

    def ready(self) -> Report:
        """Report whether it takes calls and can reply to them. May be asked in any thread."""
        return ready(self.status())

    def live(self, *, within: float = LIVE_WITHIN) -> Report:
        """Report whether its event loop turned in the last seconds. May be asked in any thread."""
        return live(self._watch, within=within)

    async def run(self) -> None:
        """Serve until cancelled, then drain: take nothing more, give running calls their grace time, flush.

        `started` is set while it serves. A second cancellation ends the grace time. Raises what the transport raises
        when it cannot serve. The transport is opened, and left open for its owner to close.
        """
        self._aborted.clear()
        self._local.drain.begun = False
        self._local.open()
        async with self._registry, self._watch:
            try:
                await self._transport.open()
                self._share.check_broker(self._transport.broker)
                await check_ledger(self._transport, self._registry, self._ledger_id)
                await self._control.open()
                await self._serving.open()
                await announce(self._transport, self._registry, worker=self.name, ledger_id=self._ledger_id)
                self.started.set()
                await self._aborted.wait()
            finally:
                self.started.clear()
                try:
                    await self._drain()
                finally:
                    self._local.close()

    async def abort(self) -> None:
        """Stop as if the process were killed: running actions are cancelled, nothing is replied, all is given back."""
        self._aborted.set()
        await self._serving.abort()

    async def _announce_again(self) -> None:
        """Announce what is offered: a broker that lost a queue may have lost the manifests too."""
        try:
            await announce(self._transport, self._registry, worker=self.name, ledger_id=self._ledger_id)
        except GrundlagError as error:
            _LOGGER.warning("announcing_failed", reason=str(error), worker=self.name)

    async def _drain(self) -> None:
        self._local.drain.begun = True
        self._beside.cancel()
        try:
            await self._serving.drain(0 if self._aborted.is_set() else self._grace)
        finally:
            await self._control.close()

    def _queue_renewed(self) -> None:
        self._beside.do(self._announce_again())
