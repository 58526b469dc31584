"""What the command line of a worker says: of concurrency by lane, and to each of several processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel

from grundlag_bus.cli.options import AtOnce, read_at_once
from grundlag_bus.cli.worker.options import WorkerOptions
from grundlag_bus.cli.worker.status import status_line
from grundlag_bus.providers.provider import Provider
from grundlag_bus.providers.registry import ProviderRegistry
from grundlag_bus.workers.status import WorkerStatus, decode_status


class Nothing(BaseModel):
    pass


async def nothing(_: Nothing) -> None:
    """Does nothing."""


def options(*said: str) -> WorkerOptions:
    return WorkerOptions(
        spec="a:b",
        url="amqp://localhost/",
        namespace="grundlag",
        providers=(),
        lanes=(),
        concurrency=[read_at_once(text) for text in said],
        keys_file=None,
        grace=30.0,
        level="info",
    )


@pytest.fixture
def registry() -> ProviderRegistry:
    provider = Provider("calendar", name="Calendar")
    for lane in ("main", "bulk", "long"):
        provider.action(lane, name=lane, lane=lane)(nothing)
    return ProviderRegistry([provider])


def test_a_number_is_for_every_lane_and_the_last_one_counts(registry: ProviderRegistry) -> None:
    assert options().concurrency_of(registry) is None
    assert options("8").concurrency_of(registry) == 8
    assert options("8", "9").concurrency_of(registry) == 9


def test_what_is_said_of_a_lane_counts_before_what_is_said_of_all(registry: ProviderRegistry) -> None:
    assert options("long=2").concurrency_of(registry) == {"long": 2}
    assert options("long=2", "8").concurrency_of(registry) == {"main": 8, "bulk": 8, "long": 2}


def test_a_lane_that_is_not_there_stays_to_be_refused(registry: ProviderRegistry) -> None:
    assert options("8", "lnog=2").concurrency_of(registry) == {"main": 8, "bulk": 8, "long": 8, "lnog": 2}


def test_a_number_and_a_lane_are_read() -> None:
    assert read_at_once("8") == AtOnce(None, 8)
    assert read_at_once("long=2") == AtOnce("long", 2)


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "x", "=2", "long=", "long=0", "long=2x", "\u0664"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="write N, or LANE=N"):
        read_at_once(text)


def test_a_process_is_told_all_that_its_supervisor_was_and_no_address() -> None:
    asked = replace(
        options("8", "long=2"),
        providers=["mail"],
        lanes=["main", "long"],
        keys_file=Path("my.keys"),
        grace=2.5,
        level="debug",
        processes=4,
        health_port=8080,
    )
    assert asked.arguments() == [
        *("worker", "a:b", "--namespace=grundlag", "--grace=2.5", "--provider=mail", "--lane=main", "--lane=long"),
        *("--concurrency=8", "--concurrency=long=2", "--keys=my.keys", "--debug"),
    ]
    assert options().arguments() == ["worker", "a:b", "--namespace=grundlag", "--grace=30.0"]


def test_a_status_crosses_the_socket_as_it_is() -> None:
    status = WorkerStatus(
        name="w", providers=("a", "b"), lanes=("main",), started=True, draining=False, in_flight=3, connected=True,
        blocked=False, consumers_wanted=2, consumers_actual=1,
    )  # fmt: skip
    line = status_line(status)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_status(line) == status
