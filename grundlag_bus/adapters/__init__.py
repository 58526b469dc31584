"""Adapters: how callers reach actions."""

from grundlag_bus.adapters.bus import Bus
from grundlag_bus.adapters.bus_caller import BusCaller
from grundlag_bus.adapters.connecting import connect
from grundlag_bus.adapters.listening import EventListener
from grundlag_bus.adapters.submission import Submission

__all__ = ["Bus", "BusCaller", "EventListener", "Submission", "connect"]
