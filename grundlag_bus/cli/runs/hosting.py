"""`host`: drives runs until a signal comes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from grundlag_bus.cli.exits import Exit
from grundlag_bus.cli.running import run
from grundlag_bus.cli.worker.signals import on_signals
from grundlag_bus.durable import Runs
from grundlag_bus.store.store import Store

if TYPE_CHECKING:
    import signal

    from grundlag_bus.agent import Model
    from grundlag_bus.cli.source import Source

_LOGGER = structlog.get_logger("grundlag_bus.cli")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """What the command line asks of a host. model: of agents, as pydantic-ai names it."""

    store: str
    source: Source
    concurrency: int
    model: str | None
    without_ledger: bool


def host_runs(options: HostOptions, *, level: str) -> int:
    """Drive runs until SIGTERM or SIGINT, which gives them back; a second one leaves them to their leases.

    Raises ConfigurationError, TransportError.
    """
    return run(_host(options), level=level)


async def _host(options: HostOptions) -> int:
    received: list[signal.Signals] = []
    model = None if options.model is None else _model(options.model)
    told, hosting = asyncio.Event(), asyncio.current_task()
    assert hosting is not None  # noqa: S101  for mypy: a coroutine runs in a task
    try:
        async with await Store.open(options.store) as store, options.source.open() as bus:
            opened = Runs(
                store,
                bus,
                model=model,
                concurrency=options.concurrency,
                without_ledger=options.without_ledger,
            )
            async with opened as runs:

                def receive(which: signal.Signals) -> None:
                    received.append(which)
                    if len(received) == 1:
                        _LOGGER.info("draining", signal=which.name, runs=runs.driven)
                        told.set()
                    else:
                        _LOGGER.warning("aborting", signal=which.name, runs=runs.driven)
                        hosting.cancel()

                on_signals(receive)
                share = {"namespace": options.source.namespace, "store": store.dialect}
                _LOGGER.info("serving", **share, **({} if model is None else {"model": model.name}))
                await told.wait()
    except asyncio.CancelledError:
        if len(received) < 2:  # noqa: PLR2004  the second one
            raise
        return 128 + received[-1]
    _LOGGER.info("stopped")
    return Exit.COMPLETED


def _model(name: str) -> Model:
    from grundlag_bus.adapters.pydantic_ai import PydanticAIModel  # noqa: PLC0415  of an extra, and slow to import

    return PydanticAIModel(name)
