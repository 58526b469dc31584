"""Start what `worker` asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.cli.running import run
from grundlag_bus.cli.source import refuse_embedded
from grundlag_bus.cli.worker.one import work

if TYPE_CHECKING:
    from grundlag_bus.cli.worker.options import WorkerOptions


def serve(options: WorkerOptions) -> int:
    """Serve until SIGTERM or SIGINT, which drains; a second one aborts. Raises ConfigurationError, TransportError."""
    refuse_embedded(options.url)
    return run(work(options), level=options.level)
