"""Adapters: how callers reach actions."""

from grundlag_bus.adapters.bus import Bus, connect
from grundlag_bus.adapters.bus_caller import BusCaller

__all__ = ["Bus", "BusCaller", "connect"]
