"""`worker`: serve a registry's actions until a signal comes."""

from grundlag_bus.cli.worker.options import WorkerOptions
from grundlag_bus.cli.worker.serve import serve

__all__ = ["WorkerOptions", "serve"]
