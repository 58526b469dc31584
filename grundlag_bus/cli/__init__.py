"""The command line `grundlag-bus`: the only reader of the environment, and the only place that sets logging up."""

from grundlag_bus.cli.app import main

__all__ = ["main"]
