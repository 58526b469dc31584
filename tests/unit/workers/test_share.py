"""Which part of a registry a worker serves, and how."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import BaseModel

from grundlag_bus import ConfigurationError, MemoryTransport, Provider, ProviderRegistry, Worker
from grundlag_bus.transport.base import Broker
from grundlag_bus.transport.memory import MemoryBus
from grundlag_bus.workers.lanes import BROKERS_DEFAULT, LANES, Lane, lane_of
from grundlag_bus.workers.share import share_of
from tests.support.hosts import RunningWorker


class Nothing(BaseModel):
    pass


async def nothing(_: Nothing) -> None:
    """Does nothing."""


def provider(id: str, *lanes: str) -> Provider:  # noqa: A002  the field's name
    made = Provider(id, name=id)
    for lane in lanes:
        made.action(f"{lane}Action", name=lane, lane=lane)(nothing)
    return made


@pytest.fixture
def registry() -> ProviderRegistry:
    return ProviderRegistry([provider("calendar", "main", "long"), provider("mail", "main", "bulk")])


def broker(*, honours: bool) -> Broker:
    return Broker("RabbitMQ", (3, 10, 8), honours_consumer_timeout=honours, counts_only_losses=honours)


def places(registry: ProviderRegistry, **chosen: Any) -> list[tuple[str, str, int]]:
    share = share_of(registry, **chosen)
    return [(place.provider_id, place.lane_id, place.concurrency) for place in share.places]


def test_all_is_served_unless_told_otherwise_and_few_long_calls_at_once(registry: ProviderRegistry) -> None:
    assert places(registry) == [
        ("calendar", "long", 16),
        ("calendar", "main", 64),
        ("mail", "bulk", 64),
        ("mail", "main", 64),
    ]


def test_only_the_named_providers_and_lanes_are_served(registry: ProviderRegistry) -> None:
    assert places(registry, providers=["mail"]) == [("mail", "bulk", 64), ("mail", "main", 64)]
    assert places(registry, lanes={"long", "bulk"}) == [("calendar", "long", 16), ("mail", "bulk", 64)]
    assert places(registry, providers=["mail"], lanes=["main"]) == [("mail", "main", 64)]


def test_concurrency_is_one_number_for_all_or_one_by_lane(registry: ProviderRegistry) -> None:
    assert {at_once for _, _, at_once in places(registry, concurrency=3)} == {3}
    by_lane = {lane: at_once for _, lane, at_once in places(registry, concurrency={"long": 2, "bulk": 5})}
    assert by_lane == {"long": 2, "bulk": 5, "main": 64}


def test_a_share_tells_its_providers_lanes_and_concurrency(registry: ProviderRegistry) -> None:
    share = share_of(registry, lanes=["main", "bulk"], concurrency=4)
    assert (share.providers, share.lanes, share.concurrency) == (("calendar", "mail"), ("bulk", "main"), 12)


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"providers": ["calender"]}, "no provider 'calender': it has 'calendar', 'mail'"),
        ({"lanes": ["slow", "main"]}, "no lane 'slow': it has 'bulk', 'long', 'main'"),
        ({"providers": ["calendar"], "lanes": ["bulk"]}, "left to serve of 'calendar' in 'bulk': there is calendar in"),
        ({"lanes": []}, "Nothing is left to serve"),
        ({"lanes": "main"}, r"write \['main'\]"),
        ({"concurrency": {"slow": 2}}, "no lane 'slow'"),
        ({"concurrency": {"long": 0}}, "concurrency=0 runs nothing in lane 'long'"),
        ({"concurrency": -1}, "concurrency=-1 runs nothing: give at least 1"),
        ({"limits": {"slow": 2.0}}, "no lane 'slow'"),
        ({"limits": {"main": 0.0}}, "A limit of 0 s ends every action of lane 'main'"),
        ({"limits": {"main": float("nan")}}, "A limit of nan s"),
    ],
)
def test_what_cannot_be_served_is_refused_with_what_there_is(
    registry: ProviderRegistry, chosen: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        share_of(registry, **chosen)


def test_a_registry_without_actions_has_a_share_of_nothing() -> None:
    assert share_of(ProviderRegistry([provider("calendar")])).places == ()


# --- lanes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LANES)
def test_an_action_is_ended_well_before_the_broker_takes_its_call_back(name: str) -> None:
    assert lane_of(name).consumer_timeout - lane_of(name).limit >= 60


def test_a_lane_without_a_rule_of_its_own_is_as_main_and_needs_nothing_of_the_broker() -> None:
    assert lane_of("bulk") == lane_of("main")
    assert lane_of("bulk").consumer_timeout < BROKERS_DEFAULT
    assert not lane_of("bulk").needs_own_timeout


def test_another_limit_brings_another_consumer_timeout() -> None:
    assert lane_of("long", limit=10.0) == Lane(10.0, 190.0, 16)


def test_a_broker_that_goes_by_its_own_timeout_serves_no_lane_that_is_longer(registry: ProviderRegistry) -> None:
    share_of(registry).check_broker(broker(honours=True))
    share_of(registry, lanes=["main"]).check_broker(broker(honours=False))
    with pytest.raises(ConfigurationError, match=r"lane 'long' \(provider calendar\).*--lane main"):
        share_of(registry).check_broker(broker(honours=False))
    with pytest.raises(ConfigurationError, match="lane 'main'"):
        share_of(registry, lanes=["main"], limits={"main": 3600.0}).check_broker(broker(honours=False))


def test_a_ledger_holds_the_calls_of_lane_long_for_as_long_as_they_take(registry: ProviderRegistry) -> None:
    share = share_of(registry, ledger=True)
    assert (share.limit_of("long"), share.limit_of("main")) == (math.inf, lane_of("main").limit)
    assert {place.lane_id: place.lane.early for place in share.places} == {"main": False, "long": True, "bulk": False}
    share.check_broker(broker(honours=False))
    assert share_of(registry, limits={"long": 60.0}, ledger=True).limit_of("long") == 60.0


# --- a worker ---------------------------------------------------------------------------------------------------------


class OlderTransport(MemoryTransport):
    """A bus in memory behind which an old broker stands."""

    @property
    def broker(self) -> Broker:
        return broker(honours=False)


async def test_a_worker_of_a_lane_that_its_broker_would_cut_short_does_not_start(registry: ProviderRegistry) -> None:
    transport = OlderTransport(bus=MemoryBus())
    with pytest.raises(ConfigurationError, match=r"lane 'long'.*RabbitMQ 3\.10\.8"):
        await Worker(transport, registry).run()
    running = RunningWorker(Worker(transport, registry, lanes=["main", "bulk"]), transport)
    await running.started()
    await running.stop()


async def test_a_worker_announces_the_whole_of_its_providers_and_takes_calls_of_its_share_alone(
    registry: ProviderRegistry,
) -> None:
    bus = MemoryBus()
    transport = MemoryTransport(bus=bus)
    running = RunningWorker(Worker(transport, registry, providers=["mail"], lanes=["bulk"]), transport)
    await running.started()
    announced = b"".join(await transport.read(transport.topology.manifests)).decode()
    await running.stop()
    assert [name for name in bus._queues if ".calls." in name] == ["grundlag.1.calls.mail.bulk"]
    assert all(f"{lane}Action" in announced for lane in ("main", "long", "bulk"))
