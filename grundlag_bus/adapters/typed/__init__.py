"""Typed clients: a module for each manifest, which a type checker reads, and what it is made of."""

from grundlag_bus.adapters.typed.client import TypedClient
from grundlag_bus.adapters.typed.moved import what_moved
from grundlag_bus.adapters.typed.options import ClientOptions, options_of
from grundlag_bus.adapters.typed.writing import write_client

__all__ = ["ClientOptions", "TypedClient", "options_of", "what_moved", "write_client"]
