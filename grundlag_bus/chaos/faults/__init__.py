"""The faults that there are, a module for each family."""

from grundlag_bus.chaos.faults import broker, clock, cluster, database, network, node, processes

FAULTS = (
    *processes.FAULTS,
    *clock.FAULTS,
    *network.FAULTS,
    *broker.FAULTS,
    *node.FAULTS,
    *cluster.FAULTS,
    *database.FAULTS,
)
