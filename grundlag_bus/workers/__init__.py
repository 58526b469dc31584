"""Workers: a transport plus a `LocalCaller`."""

from grundlag_bus.workers.worker import Worker

__all__ = ["Worker"]
