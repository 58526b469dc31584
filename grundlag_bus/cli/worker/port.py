"""The port where a worker, or the supervisor of several, is asked how it is and what it counted."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

from grundlag_bus.telemetry.http import HealthServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grundlag_bus.cli.worker.options import WorkerOptions
    from grundlag_bus.telemetry import Report

_LOGGER = structlog.get_logger("grundlag_bus.cli")


@contextmanager
def answering(
    options: WorkerOptions, *, live: Callable[[], Report], ready: Callable[[], Report], metrics: Callable[[], bytes]
) -> Iterator[None]:
    """Answer there for as long as it is entered. Nothing happens where no port is asked for.

    Raises ConfigurationError.
    """
    if options.health_port is None:
        yield
        return
    server = HealthServer(options.health_port, host=options.health_host, live=live, ready=ready, metrics=metrics)
    server.start()
    _LOGGER.info("health", host=options.health_host, port=server.port)
    try:
        yield
    finally:
        server.close()
