"""The embedded bus: a transport inside one process, with the semantics of RabbitMQ.

For one event loop (not thread-safe). Accepting is confirming: `publish` returns in the next turn of the loop, and its
message is in its queues even if it was cancelled meanwhile. Nothing here survives the process.
"""

from grundlag_bus.transport.memory.administration import MemoryAdministration
from grundlag_bus.transport.memory.bus import MemoryBus, named_bus
from grundlag_bus.transport.memory.transport import MemoryTransport

__all__ = ["MemoryAdministration", "MemoryBus", "MemoryTransport", "named_bus"]
