"""Start what `worker` asks for: a worker in this process, or several in processes of their own."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from grundlag_bus.cli.running import run
from grundlag_bus.cli.source import refuse_embedded, refuse_host

if TYPE_CHECKING:
    from grundlag_bus.cli.worker.options import WorkerOptions


def serve(options: WorkerOptions) -> int:
    """Serve until SIGTERM or SIGINT, which drains; a second one aborts. Raises ConfigurationError, TransportError."""
    refuse_embedded(options.url)
    refuse_host(options.url)
    if options.report_to is not None:
        from grundlag_bus.cli.worker.child import work_for_supervisor  # noqa: PLC0415  a supervisor needs none of it

        return run(work_for_supervisor(options, options.report_to), level=options.level)
    if options.processes > 1:
        return run(_supervise(options), level=options.level)
    from grundlag_bus.cli.worker.one import work  # noqa: PLC0415  a supervisor needs none of it

    return run(work(options), level=options.level)


async def _supervise(options: WorkerOptions) -> int:
    from grundlag_bus.cli.worker.port import answering  # noqa: PLC0415  a worker needs none of it
    from grundlag_bus.cli.worker.supervisor import Supervisor  # noqa: PLC0415  the same
    from grundlag_bus.telemetry.processes import ProcessMetrics  # noqa: PLC0415  the same

    if options.health_port is None:
        return await Supervisor(options, environment={}, gone=lambda _: None).run()
    with TemporaryDirectory(prefix="grundlag-bus-") as directory:
        metrics = ProcessMetrics(Path(directory))
        supervisor = Supervisor(options, environment=metrics.environment, gone=metrics.ended)
        with answering(
            options,
            live=supervisor.live,
            ready=supervisor.ready,
            metrics=lambda: metrics.expose(supervisor.statuses()),
        ):
            return await supervisor.run()
