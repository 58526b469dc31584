"""The brokers and the database that the suite may kill: what is done to them happens, and is healed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from grundlag_bus.chaos.faults import FAULTS
from grundlag_bus.chaos.faults.fault import Ground
from grundlag_bus.chaos.field import Field
from grundlag_bus.chaos.nemesis import ScheduledNemesis
from ops.chaos.brokers import PrivateBrokers
from ops.chaos.database import PrivateDatabase
from tests.support.eventually import eventually

NODE = ("node-restart", "node-kill", "memory-alarm")
CLUSTER = ("node-pause", "node-partition")


@pytest.fixture
def one() -> Iterator[PrivateBrokers]:
    with PrivateBrokers() as brokers:
        yield brokers


@pytest.fixture
def three() -> Iterator[PrivateBrokers]:
    with PrivateBrokers(3) as brokers:
        yield brokers


def field_of(brokers: PrivateBrokers) -> Field:
    return Field(tuple, brokers.urls[0], "chaos", node=brokers)


def serves(brokers: PrivateBrokers, node: str) -> bool:
    return brokers._nodes[node].serves()


async def befall(name: str, brokers: PrivateBrokers, during: dict[str, list[bool]]) -> None:
    """Make a fault, and note which nodes serve meanwhile."""
    fault = next(each for each in FAULTS if each.kind.name == name)
    async with fault.inflict(Ground(field_of(brokers), Path(), {}, set()), 1) as target:
        assert target == brokers.nodes[1 % len(brokers.nodes)]
        during[name] = [serves(brokers, node) for node in brokers.nodes]


@pytest.mark.long
async def test_a_single_node_is_itself_again_after_each_fault(one: PrivateBrokers) -> None:
    during: dict[str, list[bool]] = {}
    for name in NODE:
        await befall(name, one, during)
        await eventually(lambda: serves(one, one.nodes[0]))
    assert during == {"node-restart": [True], "node-kill": [False], "memory-alarm": [True]}
    assert set(CLUSTER) <= set(ScheduledNemesis(1, 60).left_out(field_of(one)))


@pytest.mark.long
async def test_of_three_nodes_one_is_paused_or_cut_off_and_comes_back(three: PrivateBrokers) -> None:
    first, second, third = three.nodes
    during: dict[str, list[bool]] = {}
    await befall("node-pause", three, during)
    assert during == {"node-pause": [True, False, True]}
    await eventually(lambda: serves(three, second))
    assert reaches(three, first, second)
    await three.partition(second)
    assert not reaches(three, first, second)
    assert reaches(three, first, third)
    assert all(serves(three, node) for node in three.nodes), "clients reach it all the same"
    await three.join(second)
    await eventually(lambda: reaches(three, first, second))


def reaches(brokers: PrivateBrokers, one: str, other: str) -> bool:
    """Whether a node can connect to the port at which another one hears of nodes."""
    here, there = (brokers._nodes[node]._place for node in (one, other))
    connect = f"exec 3<>/dev/tcp/{there.between}/4369"
    return not subprocess.run([*here.enter, "timeout", "3", "bash", "-c", connect], check=False).returncode


@pytest.mark.long
async def test_a_restarted_database_keeps_what_it_has_and_ends_its_connections() -> None:
    with PrivateDatabase() as database:
        before = await asyncpg.connect(database.url)
        await before.execute("CREATE TABLE kept (number INT); INSERT INTO kept VALUES (7)")
        await database.restart()
        assert before.is_closed()
        after = await asyncpg.connect(database.url)
        assert await after.fetchval("SELECT number FROM kept") == 7
        await after.close()
