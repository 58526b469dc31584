"""Actions behind an HTTP host: the same tools and calls, for whoever cannot reach a broker."""

from grundlag_bus.adapters.http.bus import HttpBus
from grundlag_bus.adapters.http.caller import HttpCaller
from grundlag_bus.adapters.http.runs import HttpRuns

__all__ = ["HttpBus", "HttpCaller", "HttpRuns"]
