from __future__ import annotations

from typing import Any

import pytest

from grundlag_bus.cli.doctor.broker import judge_broker, judge_heartbeat, judge_size
from grundlag_bus.cli.doctor.cluster import judge_alarms, judge_node
from grundlag_bus.cli.doctor.namespace import judge_answers, judge_dead, judge_lane, judge_silence
from grundlag_bus.cli.doctor.policies import judge_policies
from grundlag_bus.transport.administration import Counts
from grundlag_bus.transport.base import Broker
from grundlag_bus.transport.rabbitmq.connection import broker_of
from grundlag_bus.transport.rabbitmq.examination import Tried
from grundlag_bus.transport.topology import Topology
from grundlag_bus.workers.status import WorkerStatus

MIB = 1024**2
NODE = {
    "name": "n1",
    "running": True,
    "partitions": [],
    "mem_used": 100 * MIB,
    "mem_limit": 1000 * MIB,
    "disk_free": 9000 * MIB,
    "disk_free_limit": 50 * MIB,
}


# --- the broker -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "statuses"),
    [("4.3.6", ["ok", "ok"]), ("4.1.0", ["warn", "warn", "warn"]), ("3.10.8", ["warn", "warn", "warn"])],
)
def test_what_an_older_broker_lacks_is_told_with_what_to_do(version: str, statuses: list[str]) -> None:
    findings = judge_broker(broker_of({"product": "RabbitMQ", "version": version}))
    assert [finding.status for finding in findings] == statuses
    assert all((finding.remedy is None) == (finding.status == "ok") for finding in findings)


def test_another_product_is_told() -> None:
    broker = Broker("LavinMQ", (2, 0), honours_consumer_timeout=False, counts_only_losses=False)
    assert [finding.status for finding in judge_broker(broker)] == ["warn"]


def test_a_connection_without_heartbeats_is_told() -> None:
    assert (judge_heartbeat(4).status, judge_heartbeat(0).status) == ("ok", "warn")


def test_a_message_that_was_not_taken_in_time_is_no_refusal() -> None:
    assert [judge_size(tried).status for tried in (Tried.ALLOWED, Tried.REFUSED, Tried.BLOCKED)] == [
        "ok",
        "fail",
        "warn",
    ]


# --- the namespace ----------------------------------------------------------------------------------------------------


def test_a_lane_without_queue_or_worker_is_told() -> None:
    assert "provider_unavailable" in judge_lane("calendar.main", None).found
    assert judge_lane("calendar.main", Counts(3, 0)).status == "warn"
    assert judge_lane("calendar.main", Counts(3, 2)).found == "calendar.main has 2, and 3 calls wait"
    assert [judge_dead(count).status for count in (0, 1)] == ["ok", "warn"]


def test_a_worker_that_does_not_serve_is_told_with_its_reasons() -> None:
    serving = WorkerStatus("w1", ("calendar",), ("main",), True, False, 0, True, False, 1, 1)
    blocked = WorkerStatus("w2", ("calendar",), ("main",), True, False, 0, True, True, 1, 0)
    findings = judge_answers([serving, blocked])
    assert [finding.status for finding in findings] == ["ok", "warn"]
    assert findings[1].found.startswith("w2 does not serve: ")


def test_consumers_whose_workers_say_nothing_fail_and_are_warned_of_where_another_answers() -> None:
    answering = WorkerStatus("w1", ("calendar",), ("main",), True, False, 0, True, False, 1, 1)
    served = {("calendar", "main"): 1, ("calendar", "long"): 0}
    assert judge_silence([answering], served) == []
    [silent] = judge_silence([], served)
    assert (silent.status, silent.found) == ("fail", "calendar.main has 1 consumers, and 0 of their workers answer")
    assert "loop_blocked" in (silent.remedy or "")
    assert [finding.status for finding in judge_silence([answering], {("calendar", "main"): 2})] == ["warn"]
    assert [finding.status for finding in judge_silence([answering], {("mail", "main"): 2})] == ["fail"]


# --- the cluster ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "status", "told"),
    [
        ({}, "ok", "memory 100 of 1000 MiB, disk 9000 MiB free (alarm below 50)"),
        ({"running": False}, "fail", "does not run"),
        ({"partitions": ["n2"]}, "fail", "parted from n2"),
        ({"mem_used": 900 * MIB}, "warn", "memory 900 of 1000"),
        ({"disk_free": 60 * MIB}, "warn", "disk 60 MiB"),
    ],
)
def test_a_node_is_judged_by_its_figures(change: dict[str, Any], status: str, told: str) -> None:
    finding = judge_node({**NODE, **change})
    assert finding.status == status
    assert told in finding.found


def test_a_node_whose_figures_are_not_collected_yet_is_not_complained_of() -> None:
    assert judge_node({"name": "n1", "running": True}).status == "ok"


def test_an_alarm_fails() -> None:
    assert judge_alarms([]).status == "ok"
    assert "memory on n1" in judge_alarms(["memory on n1"]).found


# --- policies ---------------------------------------------------------------------------------------------------------


def policy(
    pattern: str, *, to: str = "all", priority: int = 0, operator: bool = False, **definition: Any
) -> dict[str, Any]:
    named = {key.replace("_", "-"): value for key, value in definition.items()}
    return {
        "name": "p",
        "pattern": pattern,
        "apply-to": to,
        "priority": priority,
        "operator": operator,
        "definition": named,
    }


@pytest.mark.parametrize(
    ("given", "hurt"),
    [
        (policy("", max_length=1), ["calls.", "delay.", "dead", "replies."]),
        (policy("", to="quorum_queues", max_length_bytes=1), ["calls.", "delay.", "dead"]),
        (policy("", to="classic_queues", expires=1), ["replies."]),
        (policy("", to="streams", max_age="1h"), ["manifests", "cancels", "starts"]),
        (policy("", delivery_limit=5), ["calls.", "dead"]),
        (policy("", operator=True, message_ttl=5), ["calls.", "delay.", "dead", "replies."]),
        (policy(r"\.dead$", message_ttl=5), ["dead"]),
        (policy("", queue_leader_locator="balanced"), []),
        (policy("^other", max_length=1), []),
        (policy("", to="exchanges", max_length=1), []),
    ],
)
def test_a_policy_is_told_for_each_kind_of_queue_that_it_hurts(given: dict[str, Any], hurt: list[str]) -> None:
    findings = judge_policies([given], Topology("mine"))
    failing = [finding.found for finding in findings if finding.status == "fail"]
    assert len(failing) == len(hurt)
    assert all(f" on mine.1.{kind}" in found for kind, found in zip(hurt, failing, strict=True))
    assert bool(failing) != (findings[0].status == "ok")


def test_only_the_policy_of_the_highest_priority_counts() -> None:
    low, high = policy("", max_length=1), policy("", priority=5, queue_leader_locator="balanced")
    for order in ([low, high], [high, low]):
        assert [finding.status for finding in judge_policies(order, Topology("mine"))] == ["ok"]


def test_a_pattern_that_cannot_be_read_is_told_once() -> None:
    findings = judge_policies([policy("(?|a)", max_length=1)], Topology("mine"))
    assert [finding.status for finding in findings] == ["warn"]
