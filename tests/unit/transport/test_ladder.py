"""The ladder as a broker reads it: by exchanges, binding keys and dead letters alone."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.transport import Topology
from grundlag_bus.transport.ladder import LEVELS, LONGEST, levels_of
from grundlag_bus.transport.memory.exchange import topic_matches
from grundlag_bus.transport.topology import Route

TOPOLOGY = Topology("acme")
LADDER = TOPOLOGY.ladder
QUEUES = {queue.name: queue for queue in LADDER.queues}


def queue_of_level(level: int) -> str:
    return f"acme.1.delay.{level:02}"


def walk(route: Route) -> tuple[list[str], int]:
    """Follow a message to the outlet. Returns the queues it waits in, and how many milliseconds."""
    exchange, waits, waited = route.exchange, list[str](), 0
    while exchange != TOPOLOGY.outlet.name:
        queues = [
            queue.name
            for queue in LADDER.queues
            for binding in queue.bindings
            if binding.exchange.name == exchange and topic_matches(binding.routing_key, route.routing_key)
        ]
        bridges = [
            bridge.target.name
            for bridge in LADDER.bridges
            if bridge.binding.exchange.name == exchange and topic_matches(bridge.binding.routing_key, route.routing_key)
        ]
        assert len(queues) + len(bridges) == 1, "there is one way on from each exchange"
        for name in queues:
            waits.append(name)
            waited += QUEUES[name].arguments["x-message-ttl"]
            exchange = QUEUES[name].arguments["x-dead-letter-exchange"]
        for name in bridges:
            exchange = name
    return waits, waited


@given(st.integers(0, LONGEST))
@example(0)
@example(1)
@example(LONGEST)
@example(2**19)
def test_a_delay_takes_the_levels_of_its_bits_and_no_others(seconds: int) -> None:
    route = TOPOLOGY.delayed_call_route("calendar", "main", seconds)
    if not seconds:
        assert route == TOPOLOGY.call_route("calendar", "main")
        return
    waits, waited = walk(route)
    assert waited == seconds * 1000
    assert waits == [queue_of_level(level) for level in reversed(range(LEVELS)) if seconds & 2**level]
    assert waits == [queue_of_level(level) for level in levels_of(seconds)]


IDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,39}", fullmatch=True)


@given(st.integers(1, LONGEST), IDS, IDS, IDS, IDS)
def test_what_comes_out_goes_to_its_own_call_queue_alone(
    seconds: int, provider_id: str, lane: str, other_provider: str, other_lane: str
) -> None:
    route = TOPOLOGY.delayed_call_route(provider_id, lane, seconds)
    for provider, its_lane in ((provider_id, lane), (other_provider, lane), (provider_id, other_lane)):
        (binding,) = [
            binding
            for binding in TOPOLOGY.call_queue(provider, its_lane).bindings
            if binding.exchange == TOPOLOGY.outlet
        ]
        assert topic_matches(binding.routing_key, route.routing_key) == ((provider, its_lane) == (provider_id, lane))


@given(st.floats(0, LONGEST))
def test_a_delay_is_rounded_up(seconds: float) -> None:
    route = TOPOLOGY.delayed_call_route("calendar", "main", seconds)
    assert route == TOPOLOGY.delayed_call_route("calendar", "main", math.ceil(seconds))


@pytest.mark.parametrize("seconds", [-1, -0.5, -math.inf])
def test_what_is_due_is_not_delayed(seconds: float) -> None:
    assert TOPOLOGY.delayed_call_route("calendar", "main", seconds) == TOPOLOGY.call_route("calendar", "main")


@pytest.mark.parametrize("seconds", [2**20, LONGEST + 0.5, math.inf, math.nan])
def test_more_than_the_ladder_holds_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match=r"at most 1048575 s \(12 days\)"):
        TOPOLOGY.delayed_call_route("calendar", "main", seconds)


def test_a_delayed_route_needs_the_ladder_of_its_topology_and_a_plain_one_nothing() -> None:
    assert TOPOLOGY.delayed_call_route("calendar", "main", 5).needs is Topology("acme").ladder
    assert Topology("other").ladder is not Topology("acme").ladder
    assert TOPOLOGY.delayed_call_route("calendar", "main", 0).needs is None


def test_a_route_is_the_same_whatever_it_needs() -> None:
    route = TOPOLOGY.delayed_call_route("calendar", "main", 5)
    plain = Route(route.exchange, route.routing_key)
    assert route == plain
    assert hash(route) == hash(plain)


def test_no_delay_queue_loses_a_message() -> None:
    assert len(QUEUES) == LEVELS
    for queue in LADDER.queues:
        arguments = queue.arguments
        assert arguments["x-queue-type"] == "quorum"
        assert arguments["x-dead-letter-strategy"] == "at-least-once"
        assert arguments["x-overflow"] == "reject-publish", "the broker takes at-most-once without it"
        assert not {"x-max-length", "x-max-length-bytes", "x-expires"} & arguments.keys()
    assert TOPOLOGY.outlet.alternate == TOPOLOGY.dead.name


def test_everything_is_declared_before_it_is_bound() -> None:
    known = {exchange.name for exchange in (*TOPOLOGY.exchanges, *LADDER.exchanges)}
    bindings = [binding for queue in LADDER.queues for binding in queue.bindings]
    bindings += [bridge.binding for bridge in LADDER.bridges]
    assert {binding.exchange.name for binding in bindings} <= known
    assert {bridge.target.name for bridge in LADDER.bridges} <= known
    assert {queue.arguments["x-dead-letter-exchange"] for queue in LADDER.queues} <= known
