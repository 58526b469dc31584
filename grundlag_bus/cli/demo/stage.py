"""Where the demo plays: a bus, and workers that serve the demo's providers on it."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grundlag_bus.adapters import connect
from grundlag_bus.cli.demo.process import WorkerProcess
from grundlag_bus.demo import registry
from grundlag_bus.workers import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from grundlag_bus.adapters import Bus
    from grundlag_bus.transport import Topology

WORKERS = 2
_PACKAGE_HOME = Path(__file__).parents[3]
_DEPLOYMENT = '''"""The demo's registry, with its database and its keys beside this file."""

from pathlib import Path

from grundlag_bus.demo import registry as make

registry = make(Path(__file__).parent)
'''


@dataclass(frozen=True, slots=True)
class Stage:
    """bus: where the calls go; workers: what to call each worker of the demo, by its name in replies."""

    about: str
    bus: Bus
    topology: Topology
    workers: Mapping[str, str]


@asynccontextmanager
async def embedded_stage(namespace: str, directory: Path) -> AsyncIterator[Stage]:
    """Serve an embedded bus by a worker in this process."""
    async with connect("memory://", namespace=namespace) as bus:
        assert bus.transport is not None  # noqa: S101  for mypy: a bus by its address has one
        worker = Worker(bus.transport, registry(directory), grace=0)
        running = asyncio.create_task(worker.run())
        starting = asyncio.create_task(worker.started.wait())
        try:
            await asyncio.wait((running, starting), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            about = "the embedded bus (memory://), with a worker in this process"
            yield Stage(about, bus, bus.transport.topology, {worker.name: "this process"})
        finally:
            starting.cancel()
            running.cancel()
            await asyncio.gather(running, starting, return_exceptions=True)


@asynccontextmanager
async def rabbitmq_stage(url: str, namespace: str, directory: Path) -> AsyncIterator[Stage]:
    """Serve a RabbitMQ bus by workers in processes of their own, which end with the stage."""
    async with connect(url, namespace=namespace) as bus:
        assert bus.transport is not None  # noqa: S101  for mypy: a bus by its address has one
        directory.joinpath("deployment.py").write_text(_DEPLOYMENT)
        command = (sys.executable, "-m", "grundlag_bus", "worker", "deployment:registry", "--namespace", namespace)
        search_path = os.pathsep.join(filter(None, (str(_PACKAGE_HOME), os.environ.get("PYTHONPATH"))))
        # The address goes by the environment: every user of this machine sees the arguments of a process.
        environment = {**os.environ, "GRUNDLAG_URL": url, "PYTHONPATH": search_path}
        processes = [WorkerProcess(command, directory, environment) for _ in range(WORKERS)]
        try:
            names = await asyncio.gather(*(process.start() for process in processes))
            pids = (process.pid for process in processes)
            workers = {
                name: f"worker {n} (pid {pid})" for n, (name, pid) in enumerate(zip(names, pids, strict=True), 1)
            }
            about = f"RabbitMQ (namespace {namespace}), with {WORKERS} workers in processes of their own"
            yield Stage(about, bus, bus.transport.topology, workers)
        finally:
            await asyncio.gather(*(process.stop() for process in processes))
