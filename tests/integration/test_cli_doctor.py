"""The doctor finds what is wrong with a broker and a namespace, says what to do, and changes nothing."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiormq
import pytest

from grundlag_bus import Provider, ProviderRegistry, RabbitTransport, Worker
from grundlag_bus.transport import Message
from grundlag_bus.transport.topology import Topology
from tests.support.broker import Broker
from tests.support.command_line import CommandLine, Ended
from tests.support.eventually import eventually
from tests.support.namespaces import delete_namespaces, fresh_namespace
from tests.support.transports import in_time

README = (Path(__file__).parents[2] / "README.md").read_text()

calendar = Provider("calendar", name="Calendar")


@calendar.action("double", name="Double")
async def double(number: int) -> int:
    return 2 * number


class Patient:
    """A broker of the test's own with its management API, and a namespace on it."""

    def __init__(self, broker: Broker, management: str, tmp_path: Path) -> None:
        self.broker = broker
        self.namespace = fresh_namespace()
        self.topology = Topology(self.namespace)
        self.management = management
        self.cli = CommandLine(tmp_path, GRUNDLAG_NAMESPACE=self.namespace)

    async def run(self, *arguments: str, url: str | None = None, management: str | None = None) -> Ended:
        bus = ("--url", url or self.broker.url, "--management", management or self.management)
        return await asyncio.to_thread(self.cli.run, "doctor", *bus, *arguments)

    async def examine(self, code: int = 0, *, url: str | None = None) -> Findings:
        ended = await self.run("--json", url=url)
        findings = Findings(ended.response["findings"])
        assert (ended.code, ended.err, ended.response["ok"]) == (code, "", code == 0), findings
        return findings

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[RabbitTransport]:
        transport = RabbitTransport(self.broker.url, namespace=self.namespace)
        await transport.open()
        try:
            yield transport
        finally:
            await transport.close()

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[RabbitTransport]:
        async with self.transport() as transport:
            worker = Worker(transport, ProviderRegistry([calendar]), grace=0)
            serving = asyncio.create_task(worker.run())
            try:
                await eventually(worker.started.is_set, within=60)
                yield transport
            finally:
                serving.cancel()
                await asyncio.wait({serving})

    async def left(self) -> list[str]:
        queues = await self.broker.ctl("list_queues", "name", "--silent")
        exchanges = await self.broker.ctl("list_exchanges", "name", "--silent")
        return [name for name in (queues + exchanges).split() if name.startswith(f"{self.namespace}.")]


class Findings(list[dict[str, Any]]):
    """What the doctor found."""

    def of(self, check: str, status: str = "") -> list[str]:
        """Return what was found, with what to do, by the beginning of the check's name."""
        return [
            f"{one['found']} -> {one.get('remedy', '')}"
            for one in self
            if one["check"].startswith(check) and one["status"].startswith(status)
        ]


@pytest.fixture
async def patient(own_broker: Broker, tmp_path: Path) -> AsyncIterator[Patient]:
    patient = Patient(own_broker, await own_broker.management(), tmp_path)
    yield patient
    await own_broker.lift_memory_alarm()
    await delete_namespaces(own_broker.url, [patient.namespace])


async def test_a_healthy_namespace_has_nothing_to_do(patient: Patient) -> None:
    async with patient.worker():
        findings = await patient.examine()
    assert {one["status"] for one in findings} == {"ok"}, findings
    assert findings.of("version", "ok") == [f"RabbitMQ {patient.broker.version} -> "]
    assert any("calendar.main has 1" in found for found in findings.of("workers"))
    assert any(found.startswith("1 answer within") for found in findings.of("workers"))
    assert findings.of("node ")
    assert findings.of("alarms") == ["none -> "]
    assert findings.of("policies") == [f"none limits {patient.namespace}.1.* -> "]


async def test_looking_at_nothing_makes_nothing(patient: Patient) -> None:
    findings = await patient.examine()
    assert "nobody has connected" in findings.of("namespace", "warn")[0]
    assert await patient.left() == []


async def test_without_the_management_api_it_says_what_was_not_checked(patient: Patient) -> None:
    async with patient.transport():
        ended = await patient.run(management="http://127.0.0.1:1")
    assert ended.code == 0
    assert "skip policies: not checked: nothing answers at http://127.0.0.1:1" in ended.out
    assert "skip alarms, memory, disk, partitions: not checked" in ended.out
    assert "--management" in ended.out


async def test_calls_without_a_worker_and_dead_letters_are_told(patient: Patient) -> None:
    async with patient.worker() as transport:
        await transport.publish(transport.topology.dead_route, Message(b"{}", "dead"), deadline=in_time())
    async with patient.transport() as transport:
        route = transport.topology.call_route("calendar", "main")
        await transport.publish(route, Message(b"{}", "call"), deadline=in_time())
        findings = await patient.examine()
    assert findings.of("workers", "warn") == ["calendar.main has no worker, and 1 calls wait -> start a worker of it"]
    assert findings.of("dead letters", "warn") == ["1 -> see why with `grundlag-bus dead list`"]


async def test_what_is_declared_otherwise_is_spelled_out(patient: Patient) -> None:
    async with patient.worker():
        pass
    connection = await aiormq.connect(patient.broker.url)
    channel = await connection.channel()
    call_queue = patient.topology.call_queue("calendar", "main").name
    await channel.queue_delete(call_queue)
    await channel.queue_declare(call_queue, durable=True, arguments={"x-queue-type": "classic"})
    await channel.exchange_delete(patient.topology.events.name)
    await channel.exchange_declare(patient.topology.events.name, exchange_type="fanout", durable=True)
    await connection.close()
    findings = await patient.examine(1)
    assert len(findings.of("topology", "fail")) == 2
    assert any(f"{call_queue} exists on the broker with" in found for found in findings.of("topology", "fail"))
    assert any(patient.topology.events.name in found and "fanout" in found for found in findings.of("topology", "fail"))


async def test_policies_that_limit_the_namespace_fail(patient: Patient) -> None:
    async with patient.transport():
        pass
    name = f"for-{patient.namespace}"
    await patient.broker.ctl(
        "set_policy", name, f"^{patient.namespace}\\.", '{"max-length":9,"message-ttl":1000}', "--apply-to", "queues"
    )
    try:
        findings = await patient.examine(1)
    finally:
        await patient.broker.ctl("clear_policy", name)
    told = findings.of("policies", "fail")
    assert len(told) == 4
    for kind in ("calls.PROVIDER.main", "delay.19", "dead", "replies."):
        assert any(f"{patient.namespace}.1.{kind}" in found and "max-length, message-ttl" in found for found in told)


async def test_what_a_user_may_not_do_is_told_with_what_to_grant(patient: Patient) -> None:
    async with patient.transport():
        pass
    await patient.broker.ctl("add_user", "weak", "secret-word")
    try:
        await patient.broker.ctl("set_permissions", "weak", "^$", "^nothing$", "^.*$")
        url = patient.broker.url.replace("guest:guest", "weak:secret-word")
        findings = await patient.examine(1, url=url)
        for kind in ("configure", "write"):
            assert f"{kind} pattern" in findings.of(f"permission to {kind}", "fail")[0]
        assert "monitoring" in findings.of("alarms", "skip")[0]
        ended = await patient.run(url=url)
        assert "secret-word" not in ended.out + ended.err
    finally:
        await patient.broker.ctl("delete_user", "weak")


async def test_the_permissions_of_the_readme_suffice_and_what_is_missing_of_them_is_told(
    patient: Patient, tmp_path: Path
) -> None:
    rows = re.findall(r"^(an? [a-z]+) +(\^\S+) +(\^\S+) +(\^\S+)$", README, re.MULTILINE)
    granted = {who: [pattern.replace("myapp", patient.namespace) for pattern in patterns] for who, *patterns in rows}
    assert set(granted) == {"a worker", "a caller", "an operator"}

    async def as_user(who: str, permissions: list[str]) -> str:
        await patient.broker.ctl("add_user", who, "secret-word")
        await patient.broker.ctl("set_permissions", who, *permissions)
        return patient.broker.url.replace("guest:guest", f"{who}:secret-word")

    users = [f"{who.split()[1]}-{patient.namespace}" for who in granted]
    try:
        serving, calling, operating = [
            await as_user(user, patterns) for user, patterns in zip(users, granted.values(), strict=True)
        ]
        lanes = "tests.support.lanes:registry"
        with patient.cli.start("worker", lanes, "--url", serving) as started:
            await asyncio.to_thread(started.wait_for, "serving")
            called = await asyncio.to_thread(patient.cli.run, "call", "swiftWho", "--url", calling)
            assert called.code == 0, called.err
            findings = await patient.examine(url=operating)
            assert findings.of("permission to", "fail") == []
            for line in (("workers",), ("dead", "list"), ("manifest", "retire", "heavy")):
                ended = await asyncio.to_thread(patient.cli.run, *line, "--url", operating)
                assert ended.code == 0, ended.err
        ours = granted["a caller"]
        users.append(f"weak-{patient.namespace}")
        told = (await patient.examine(1, url=await as_user(users[-1], ours))).of("permission to write", "fail")
        assert len(told) == 1
        assert "may not write to amq.default" in told[0]
        assert f"'{granted['a worker'][1]}'" in told[0]
    finally:
        for user in users:
            await patient.broker.ctl("delete_user", user)


async def test_consumers_whose_worker_is_blocked_fail(patient: Patient, tmp_path: Path) -> None:
    with patient.cli.start("worker", "tests.support.lanes:registry", "--url", patient.broker.url) as started:
        await asyncio.to_thread(started.wait_for, "serving")
        os.kill(started.process.pid, signal.SIGSTOP)
        try:
            findings = await patient.examine(1)
        finally:
            os.kill(started.process.pid, signal.SIGCONT)
    assert any("and 0 of their workers answer" in found for found in findings.of("workers", "fail"))


async def test_a_question_that_the_broker_does_not_take_is_told_as_that(patient: Patient) -> None:
    async with patient.worker():
        await patient.broker.raise_memory_alarm()
        ended = await asyncio.to_thread(patient.cli.run, "workers", "--url", patient.broker.url)
    assert ended.code == 4
    assert "short of memory or disk" in ended.err
    assert "start one" not in ended.err


async def test_a_call_that_ends_while_the_broker_takes_no_messages_says_so(patient: Patient) -> None:
    async with patient.worker():
        await patient.broker.raise_memory_alarm()
        called = ("call", "calendarDouble", "2", "--timeout", "4", "--url", patient.broker.url)
        ended = await asyncio.to_thread(patient.cli.run, *called, within=30)
    assert ended.code == 1
    assert "takes no messages now" in ended.err


async def test_a_broker_short_of_memory_is_told_with_and_without_the_management_api(patient: Patient) -> None:
    async with patient.transport():
        pass
    await patient.broker.raise_memory_alarm()
    findings = await patient.examine(1)
    assert "short of memory" in findings.of("permission to write", "fail")[0]
    assert "short of memory" in findings.of("alarms", "fail")[0]


async def test_a_broker_that_refuses_the_largest_call_fails(patient: Patient) -> None:
    setting = "persistent_term:put(max_message_size, {}), application:set_env(rabbit, max_message_size, {})."
    before = (
        await patient.broker.ctl("eval", "{ok, Size} = application:get_env(rabbit, max_message_size), Size.")
    ).strip()
    await patient.broker.ctl("eval", setting.format(4194304, 4194304))
    try:
        findings = await patient.examine(1)
    finally:
        await patient.broker.ctl("eval", setting.format(before, before))
    assert "max_message_size" in findings.of("message size", "fail")[0]


@pytest.mark.parametrize("login", ["guest:wrong-word", "nobody:wrong-word"])
async def test_who_is_not_let_in_exits_4_and_learns_why(tmp_path: Path, amqp_url: str, login: str) -> None:
    cli = CommandLine(tmp_path, GRUNDLAG_URL=amqp_url.replace("guest:guest", login))
    ended = await asyncio.to_thread(cli.run, "doctor")
    assert (ended.code, ended.err) == (4, "")
    assert ended.out.startswith("fail connection: The broker refuses the login")
    assert "wrong-word" not in ended.out


def test_a_broker_that_is_not_there_exits_4(tmp_path: Path) -> None:
    ended = CommandLine(tmp_path, GRUNDLAG_URL="amqp://nowhere.invalid/").run("doctor", "--json")
    assert (ended.code, ended.response["ok"]) == (4, False)
    assert "not known" in ended.response["findings"][0]["found"]
