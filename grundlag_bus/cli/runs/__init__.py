"""The commands of runs that survive whatever ends their processes, and their options."""

from grundlag_bus.cli.runs.commands import answer, host, inbox, runs
from grundlag_bus.cli.runs.group import run

__all__ = ["answer", "host", "inbox", "run", "runs"]
