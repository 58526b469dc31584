from __future__ import annotations

import pytest

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.transport import Topology
from grundlag_bus.transport.topology import Queue, Route


def routes_of(queue: Queue) -> list[Route]:
    return [Route(binding.exchange.name, binding.routing_key) for binding in queue.bindings]


def test_every_name_says_namespace_and_version() -> None:
    topology = Topology("acme")
    names = [exchange.name for exchange in topology.exchanges]
    names += [topology.dead_queue.name, topology.call_queue("calendar", "main").name]
    names += [topology.mailbox("m").name, topology.manifests.name, topology.cancels.name]
    names += [topology.control_queue("w").name, topology.event_queue("e", "#").name]
    names += [exchange.name for exchange in topology.ladder.exchanges]
    assert all(name.startswith("acme.1.") for name in names)
    assert len(set(names)) == len(names) - 1, "only the dead queue is named as its exchange"


@pytest.mark.parametrize("namespace", ["", "1a", "a.b", "a b", "ä", "a" * 41, "a\n", "#"])
def test_a_namespace_that_could_be_read_as_a_pattern_or_another_is_refused(namespace: str) -> None:
    with pytest.raises(ConfigurationError, match="namespace"):
        Topology(namespace)


@pytest.mark.parametrize("namespace", ["a", "grundlag", "a" * 40, "Team-1_x"])
def test_a_plain_namespace_is_taken(namespace: str) -> None:
    assert Topology(namespace).namespace == namespace


def test_a_call_is_published_to_where_its_queue_is_bound() -> None:
    topology = Topology()
    queue = topology.call_queue("calendar", "main")
    assert topology.call_route("calendar", "main") in routes_of(queue)


def test_a_reply_is_published_to_where_its_mailbox_is_bound() -> None:
    topology = Topology()
    queue = topology.mailbox("ada")
    assert [topology.reply_route("ada")] == routes_of(queue)


def test_a_stream_is_published_to_by_its_name() -> None:
    stream = Topology().manifests
    assert stream.route == Route("", stream.name)


def test_a_cancel_reaches_the_workers_and_the_stream_and_a_ping_the_workers_alone() -> None:
    topology = Topology()
    routes = [Route(each.exchange.name, each.routing_key) for each in topology.cancels.bindings]
    assert routes == [topology.control_route("cancel")] != [topology.control_route("ping")]
    assert routes_of(topology.control_queue("ada")) == [Route(topology.control.name, "#")]


def test_an_event_is_published_to_where_its_listeners_are_bound() -> None:
    topology = Topology()
    queue = topology.event_queue("ada", "calendar.changed")
    assert [topology.event_route("calendar", "changed")] == routes_of(queue)


@pytest.mark.parametrize("queue", [Topology().control_queue("ada"), Topology().event_queue("ada", "#")])
def test_who_only_listens_leaves_no_queue_behind(queue: Queue) -> None:
    assert queue.arguments == {"x-queue-type": "classic", "x-expires": 60_000}


def test_a_call_queue_s_dead_letters_go_to_a_queue_without_a_limit() -> None:
    topology = Topology()
    arguments = topology.call_queue("calendar", "main").arguments
    assert [arguments["x-dead-letter-exchange"]] == [binding.exchange.name for binding in topology.dead_queue.bindings]
    assert not {"x-max-length", "x-max-length-bytes", "x-overflow"} & topology.dead_queue.arguments.keys()


def test_arguments_are_the_caller_s_own() -> None:
    topology = Topology()
    topology.call_queue("calendar", "main").arguments.clear()
    assert topology.call_queue("calendar", "main").arguments
