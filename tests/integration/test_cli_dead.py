"""The `dead` commands over RabbitMQ: what is shown of dead letters, and what becomes of them."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from grundlag_bus import Call, Failed, RabbitTransport, Request
from grundlag_bus.cli.dead import redriving
from grundlag_bus.cli.dead.filters import choose
from grundlag_bus.cli.dead.letters import find
from grundlag_bus.cli.dead.settling import Report
from grundlag_bus.errors import BusUnreachableError
from grundlag_bus.schema.control import Cancel
from grundlag_bus.schema.dead_letter import DeadLetter
from grundlag_bus.schema.envelope import decode_call, encode_call
from grundlag_bus.transport import Message
from grundlag_bus.workers.tombstones import Tombstones
from tests.support.broker import Broker
from tests.support.command_line import CommandLine, Ended
from tests.support.eventually import eventually
from tests.support.namespaces import delete_namespaces, fresh_namespace
from tests.support.proxy import proxy_to
from tests.support.strangers import NO_TEXT, NO_TIME, NO_TIME_IN_TABLE, TEXT_AS_DEATH, publish_as_stranger
from tests.support.transports import Inbox, administration_of, in_time

NOW = time.time()


class Dead:
    """The dead letters of one namespace, and a command line to treat them."""

    def __init__(self, transport: RabbitTransport, cli: CommandLine) -> None:
        self.transport = transport
        self.cli = cli

    async def run(self, *arguments: str) -> Ended:
        return await asyncio.to_thread(self.cli.run, "dead", *arguments)

    async def bury(self, call_id: str, *, code: str = "attempts_exhausted", ago: float = 0, **call: Any) -> Call:
        """Dead-letter a call as a worker does."""
        fields = {"provider_id": "calendar", "action_id": "createEvent", "request": Request({"title": "Lunch"}), **call}
        dead = Call(call_id=call_id, **{"deadline": NOW + 60, "sent_at": NOW, "generation": 2, "attempt": 3, **fields})
        failed = Failed(code, "It failed 3 times, at last with: no room.", {"starts": 3})
        await self.write(DeadLetter(failed, "host-1", time.time() - ago, dead).encode())
        return dead

    async def write(self, body: bytes) -> None:
        await self.transport.publish(self.transport.topology.dead_route, Message(body, "dead"), deadline=in_time())

    async def refuse(self, body: bytes, properties: tuple[int, bytes] = (0, b"")) -> None:
        """Have a worker of calendar.main refuse a message, so that the broker dead-letters it."""
        inbox, topology = Inbox(), self.transport.topology
        subscription = await self.transport.subscribe(topology.call_queue("calendar", "main"), inbox, prefetch=1)
        await publish_as_stranger(self.transport, topology.call_route("calendar", "main"), body, properties)
        await inbox.holds(1)
        inbox.deliveries[0].reject()
        await subscription.close()

    async def served(self) -> Inbox:
        """Take what is redriven, as a worker does."""
        inbox = Inbox(ack=True)
        await self.transport.subscribe(self.transport.topology.call_queue("calendar", "main"), inbox, prefetch=10)
        return inbox

    async def ids(self, *arguments: str) -> list[str]:
        ended = await self.run("list", "--json", *arguments)
        assert (ended.code, ended.err) == (0, "")
        return [json.loads(line)["id"] for line in ended.out.splitlines()]


@pytest.fixture
async def dead(tmp_path: Path, amqp_url: str, namespace: str) -> AsyncIterator[Dead]:
    transport = RabbitTransport(amqp_url, namespace=namespace)
    await transport.open()
    yield Dead(transport, CommandLine(tmp_path, GRUNDLAG_URL=amqp_url, GRUNDLAG_NAMESPACE=namespace))
    await transport.close()


# --- list and show ----------------------------------------------------------------------------------------------------


async def test_letters_are_listed_with_when_what_and_why(dead: Dead) -> None:
    await dead.bury("0123456789abcdef")
    await dead.bury("0123456789xyz", code="delivery_limit")
    ended = await dead.run("list")
    assert (ended.code, ended.err) == (0, "")
    *_, first, second = (" ".join(line.split()[2:]) for line in ended.out.splitlines() if line.strip())
    told = "3 It failed 3 times, at last with: no room."
    assert first == f"0123456789a calendar.createEvent attempts_exhausted {told}"
    assert second == f"0123456789x calendar.createEvent delivery_limit {told}"


async def test_what_another_operator_holds_is_not_seen(dead: Dead) -> None:
    await dead.bury("a1")
    await dead.bury("b2")
    administration = await administration_of(dead.transport)
    await administration.take(dead.transport.topology.dead_queue.name, 1)
    assert await dead.ids() == ["b2"]
    await administration.close()


async def test_looking_leaves_all_as_it_was(dead: Dead) -> None:
    for call_id in ("a1", "b2", "c3"):
        await dead.bury(call_id)
    for _ in range(2):
        assert await dead.ids() == ["a1", "b2", "c3"]
    assert (await dead.run("show", "b2")).code == 0
    assert await dead.ids("--limit", "2") == ["a1", "b2"]
    assert await dead.ids() == ["a1", "b2", "c3"]


@pytest.mark.parametrize("properties", [NO_TEXT, NO_TIME, NO_TIME_IN_TABLE])
async def test_a_message_that_cannot_be_read_hides_no_other_and_can_be_dropped(
    dead: Dead, properties: tuple[int, bytes]
) -> None:
    await dead.bury("a1")
    await dead.refuse(b"rubbish", properties)
    await publish_as_stranger(dead.transport, dead.transport.topology.dead_route, b"more", properties, b"\xff")
    await dead.bury("b2")
    ids = await dead.ids()
    assert (len(ids), ids[0], ids[3]) == (4, "a1", "b2")
    assert (await dead.run("show", ids[1])).code == 0
    assert (await dead.run("redrive", ids[1])).code == 1
    assert (await dead.run("drop", "--yes", *ids[1:3])).code == 0
    assert await dead.ids() == ["a1", "b2"]


@pytest.mark.parametrize("properties", [NO_TEXT, NO_TIME_IN_TABLE, TEXT_AS_DEATH])
async def test_a_made_up_letter_is_not_redriven_past_its_queue_whatever_its_properties(
    dead: Dead, properties: tuple[int, bytes]
) -> None:
    call = Call("made-up", "notes", "delete", Request(None), NOW + 60, sent_at=NOW)
    made_up = DeadLetter(Failed("attempts_exhausted", "It failed."), "host-1", time.time(), call)
    await dead.refuse(made_up.encode(), properties)
    (id,) = await dead.ids()  # noqa: A001  the word
    ended = await dead.run("redrive", id)
    assert ended.code == 1
    assert "envelope_refused" in ended.out


async def test_filters_choose(dead: Dead) -> None:
    await dead.bury("a1", ago=7200)
    await dead.bury("b2", provider_id="notes")
    await dead.bury("c3", code="refused", action_id="deleteEvent")
    assert await dead.ids("--provider", "notes") == ["b2"]
    assert await dead.ids("--action", "deleteEvent") == ["c3"]
    assert await dead.ids("--action", "calendar.createEvent") == ["a1"]
    assert await dead.ids("--code", "attempts_exhausted", "--since", "1h") == ["b2"]
    assert await dead.ids("--until", "1h30m") == ["a1"]
    assert await dead.ids("c", "a1") == ["c3", "a1"]
    ended = await dead.run("list", "--provider", "nobody")
    assert (ended.code, ended.out) == (0, "")
    assert "no dead letters" in ended.sentence


async def test_a_code_that_no_letter_has_is_named(dead: Dead) -> None:
    await dead.bury("a1")
    for line, told in (
        (("--code", "nonsense"), "no dead letters with code 'nonsense' in namespace"),
        (("--code", "nonsense", "--since", "2h"), "no dead letters with code 'nonsense' that fit in namespace"),
        (("--action", "nothing"), "no dead letters that fit in namespace"),
    ):
        assert told in (await dead.run("list", *line)).err


async def test_a_letter_is_shown_whole(dead: Dead) -> None:
    call = await dead.bury("0123456789abcdef", user_id="ada")
    ended = await dead.run("show", "0123")
    assert ended.code == 0
    head, _, shown = ended.out.partition("\n{")
    assert json.loads("{" + shown) == json.loads(encode_call(call))
    for told in ("0123456789abcdef", "for ada", "given up by host-1", "attempts_exhausted", "no room", '{"starts":3}'):
        assert told in head
    assert (await dead.run("show", "0123", "--json")).response["call"] == json.loads(encode_call(call))


async def test_what_cannot_be_read_is_shown_with_the_reason(dead: Dead) -> None:
    await dead.refuse(b'{"v":2,"callId":"of-tomorrow"}')
    await dead.refuse(b"\x1b[31m no json")
    ended = await dead.run("show", "of-tomorrow")
    assert ended.code == 0
    assert "envelope_refused" in ended.out
    assert "version 2" in ended.out
    ended = await dead.run("list")
    assert "the body is no JSON" in ended.out
    assert "\x1b" not in ended.out


@pytest.mark.parametrize("command", [("show",), ("redrive",), ("drop", "--yes")])
async def test_an_id_has_to_name_one_letter(dead: Dead, command: tuple[str, ...]) -> None:
    await dead.bury("abc1")
    await dead.bury("abc2")
    for given, told in (("abc", "Several ids begin with 'abc' (abc1, abc2)"), ("b", "No dead letter fits 'b'")):
        ended = await dead.run(*command, given)
        assert ended.code == 2
        assert told in ended.sentence
    assert await dead.ids() == ["abc1", "abc2"]


async def test_an_id_that_begins_another_one_is_meant_by_itself(dead: Dead) -> None:
    for call_id in ("abcd", "abce", "abc"):
        await dead.bury(call_id)
    assert await dead.ids("abc") == ["abc"]


async def test_a_mistyped_namespace_is_told_and_not_made(dead: Dead) -> None:
    for command in (("list",), ("redrive", "--all"), ("drop", "--all", "--yes")):
        ended = await dead.run(*command, "--namespace", "mistyped")
        assert ended.code == 2
        assert "no namespace 'mistyped'" in ended.sentence
    administration = await administration_of(dead.transport)
    assert await administration.count("mistyped.1.dead") is None
    await administration.close()


# --- redrive ----------------------------------------------------------------------------------------------------------


async def test_a_redriven_call_begins_anew_and_its_letter_is_gone(dead: Dead) -> None:
    call = await dead.bury("a1", deferred={"step": 2}, user_id="ada")
    await dead.bury("b2")
    served = await dead.served()
    ended = await dead.run("redrive", "a1")
    assert (ended.code, ended.out) == (0, "redriven a1 calendar.createEvent\n")
    await served.holds(1)
    message = served.deliveries[0].message
    sent = decode_call(message.body)
    assert (message.type, message.correlation_id, message.reply_to) == ("call", "a1", None)
    assert (sent.call_id, sent.request, sent.user_id, sent.deferred) == ("a1", call.request, "ada", {"step": 2})
    assert (sent.generation, sent.attempt, served.deliveries[0].lost) == (3, 1, 0)
    assert sent.sent_at > call.sent_at
    assert sent.deadline - sent.sent_at == pytest.approx(60, abs=0.01)
    assert await dead.ids() == ["b2"]


async def test_a_redriven_call_may_be_given_another_timeout(dead: Dead) -> None:
    await dead.bury("a1")
    served = await dead.served()
    assert (await dead.run("redrive", "--provider", "calendar", "--timeout", "5")).code == 0
    await served.holds(1)
    sent = decode_call(served.deliveries[0].message.body)
    assert sent.deadline - sent.sent_at == pytest.approx(5, abs=0.01)


async def test_what_cannot_be_redriven_is_told_and_kept(dead: Dead) -> None:
    await dead.refuse(b"no json")
    elsewhere = Call("e5", "notes", "add", Request(1), deadline=NOW + 60, sent_at=NOW)
    await dead.refuse(encode_call(elsewhere))
    await dead.bury("n1", provider_id="notes")
    await dead.bury("a1")
    served = await dead.served()
    kept: set[str] = set()
    for dry_run, told in ((("--dry-run",), "1 would be redriven"), ((), "1 redriven")):
        ended = await dead.run("redrive", "--all", *dry_run, "--json")
        results = {line["id"]: line for line in map(json.loads, ended.out.splitlines())}
        assert (ended.code, len(results)) == (1, 4)
        assert "3 " in ended.sentence
        assert told in ended.sentence
        assert "no queue takes calls of notes.main" in results["n1"]["why"]
        assert "envelope_refused" in results["e5"]["why"]
        assert results["a1"]["result"] == "redriven"
        kept = results.keys() - {"a1"}
        assert [line.get("dryRun", False) for line in results.values()] == [bool(dry_run)] * 4
    await served.holds(1)
    assert set(await dead.ids()) == kept


async def test_a_call_that_dies_again_is_redriven_once_by_one_command(dead: Dead) -> None:
    await dead.bury("a1")
    inbox = Inbox()
    await dead.transport.subscribe(dead.transport.topology.call_queue("calendar", "main"), inbox, prefetch=10)
    redriving = asyncio.create_task(dead.run("redrive", "--all", "--json"))
    await eventually(lambda: len(inbox) == 1 or redriving.done(), within=30)
    inbox.deliveries[0].reject()  # the broker moves it at once, mostly before the command looks again
    ended = await redriving
    assert len(inbox) == 1
    assert [json.loads(line)["result"] for line in ended.out.splitlines()] in (["redriven"], ["redriven", "kept"])
    assert await dead.ids() == ["a1"]


async def test_a_call_that_its_caller_cancelled_is_kept(dead: Dead) -> None:
    await dead.bury("a1")
    await dead.bury("b2")
    served = await dead.served()
    topology = dead.transport.topology
    await dead.transport.read(topology.cancels)  # declares it
    cancel = Message(Cancel("a1", time.time()).encode(), "cancel")
    await dead.transport.publish(topology.control_route("cancel"), cancel, deadline=in_time())
    ended = await dead.run("redrive", "--all")
    assert ended.code == 1
    assert "kept a1 calendar.createEvent: its caller cancelled it" in ended.out
    await served.holds(1)
    assert await dead.ids() == ["a1"]


async def test_two_letters_of_one_call_are_not_sent_at_once(dead: Dead) -> None:
    await dead.bury("a1")
    await dead.bury("a1")
    served = await dead.served()
    ended = await dead.run("redrive", "a1")
    assert ended.code == 1
    assert "sent just now" in ended.out
    await served.holds(1)
    assert await dead.ids() == ["a1"]


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_what_ends_it_loses_and_doubles_nothing(dead: Dead, sign: signal.Signals, code: int) -> None:
    sent = [f"{number:04}" for number in range(300)]
    for call_id in sent:
        await dead.bury(call_id)
    served = await dead.served()
    with dead.cli.start("dead", "redrive", "--all", "--json") as command:
        await eventually(lambda: len(served) > 20, within=30)
        command.process.send_signal(sign)
        ended = await asyncio.to_thread(command.end)
    assert ended.code == code
    told = [json.loads(line)["id"] for line in ended.out.splitlines()]
    assert f"{len(told)} redriven, then it was ended." in ended.err
    await served.holds(len(told))
    assert [decode_call(body).call_id for body in served.bodies] == told
    assert told + await dead.ids() == sent


async def test_a_killed_command_doubles_no_more_than_the_one_in_flight(dead: Dead) -> None:
    sent = [f"{number:04}" for number in range(300)]
    for call_id in sent:
        await dead.bury(call_id)
    served = await dead.served()
    with dead.cli.start("dead", "redrive", "--all", "--json") as command:
        await eventually(lambda: len(served) > 20, within=30)
        command.process.kill()
        await asyncio.to_thread(command.end)
    kept: list[str] = []
    end = time.monotonic() + 20
    while len(kept) < len(sent) - len(served) and time.monotonic() < end:  # the broker gives back a moment later
        kept = await dead.ids()
    calls = [decode_call(body).call_id for body in served.bodies]
    assert sorted({*calls, *kept}) == sent
    assert len(calls) + len(kept) <= len(sent) + 1


@pytest.mark.parametrize("fault", ["cut", "crash"])
async def test_a_connection_that_is_lost_in_the_middle_ends_the_command(
    own_broker: Broker, tmp_path: Path, fault: str
) -> None:
    namespace = fresh_namespace()
    cli = CommandLine(tmp_path, GRUNDLAG_URL=own_broker.url, GRUNDLAG_NAMESPACE=namespace)
    sent = [f"{number:04}" for number in range(300)]
    transport = RabbitTransport(own_broker.url, namespace=namespace)
    await transport.open()
    dead = Dead(transport, cli)
    for call_id in sent:
        await dead.bury(call_id)
    served = await dead.served()
    await own_broker.persist()
    async with proxy_to(own_broker.url) as proxy:
        with cli.start("dead", "redrive", "--all", "--json", "--url", proxy.url) as command:
            await eventually(lambda: len(served) > 20, within=30)
            proxy.delay = 0.05  # a minute for those that are left, so that the fault comes in the middle
            if fault == "crash":
                await own_broker.restart()
            else:
                await own_broker.ctl("close_all_connections", "by a test")
            ended = await asyncio.to_thread(command.end, 60)
    assert ended.code == 4, ended.err
    assert "then it was ended." in ended.err
    await transport.close()
    transport = RabbitTransport(own_broker.url, namespace=namespace)
    await transport.open()
    again = Dead(transport, cli)
    late = await again.served()
    kept = await again.ids()

    def calls() -> set[str]:
        return {decode_call(body).call_id for body in served.bodies + late.bodies}

    await eventually(lambda: sorted(calls().union(kept)) == sent)
    if fault == "cut":  # a broker that crashes may forget what it was told last
        assert len(calls()) + len(kept) <= len(sent) + 1, ended.out
    await transport.close()
    await delete_namespaces(own_broker.url, [namespace])


async def test_a_call_that_the_broker_does_not_confirm_ends_the_command_before_the_next(
    dead: Dead, amqp_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(redriving, "_PUBLISH_WITHIN", 1.0)
    await dead.bury("a1")
    await dead.bury("b2")
    served = await dead.served()
    topology = dead.transport.topology
    async with proxy_to(amqp_url) as proxy:
        transport = RabbitTransport(proxy.url, namespace=topology.namespace)
        await transport.open()
        bus = await administration_of(dead.transport)
        command = redriving.Redriving(
            bus, transport, Report(dry_run=False, as_json=True), cancelled=Tombstones(time.time), timeout=None
        )
        letters = find(bus, topology, choose(every=True))
        await command.redrive(await anext(letters))
        proxy.freeze()
        with pytest.raises(BusUnreachableError, match="did not confirm a call"):
            await command.redrive(await anext(letters))
        proxy.thaw()
        await served.holds(2)  # as it may be
        await letters.aclose()
        await bus.close()
        await transport.close()
    redriven, kept = map(json.loads, capsys.readouterr().out.splitlines())
    assert (redriven["id"], redriven["result"], kept["id"], kept["result"]) == ("a1", "redriven", "b2", "kept")
    assert "it may run" in kept["why"]
    assert await dead.ids() == ["b2"]


# --- drop -------------------------------------------------------------------------------------------------------------


async def test_dropping_removes_what_fits(dead: Dead) -> None:
    await dead.bury("a1")
    await dead.bury("b2", provider_id="notes")
    await dead.refuse(b"no json")
    ended = await dead.run("drop", "--provider", "notes", "--dry-run")
    assert (ended.code, ended.out) == (0, "would be dropped b2 notes.createEvent\n")
    ended = await dead.run("drop", "--provider", "notes", "--yes")
    assert (ended.code, ended.out) == (0, "dropped b2 notes.createEvent\n")
    assert len(await dead.ids()) == 2
    assert (await dead.run("drop", "--all", "--yes")).code == 0
    assert await dead.ids() == []


@pytest.mark.parametrize(
    ("typed", "code", "left"),
    [("yes\n", 0, []), ("no\n", 1, ["a1", "b2"]), ("\x04", 1, ["a1", "b2"]), ("\x03", 130, ["a1", "b2"])],
)
async def test_dropping_asks_on_a_terminal(dead: Dead, typed: str, code: int, left: list[str]) -> None:
    await dead.bury("a1")
    await dead.bury("b2")

    def converse() -> Ended:
        with dead.cli.on_terminal("dead", "drop", "--all") as terminal:
            terminal.expect("b2 calendar.createEvent (attempts_exhausted)")
            terminal.expect("Drop 2 dead letters for good? Write yes:")
            terminal.expect("> ")
            terminal.type(typed)
            return terminal.end()

    ended = await asyncio.to_thread(converse)
    assert ended.code == code
    assert await dead.ids() == left


async def test_dropping_without_a_terminal_needs_yes(dead: Dead) -> None:
    await dead.bury("a1")
    ended = await dead.run("drop", "--all")
    assert ended.code == 2
    assert "--yes" in ended.sentence
    assert await dead.ids() == ["a1"]


# --- usage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (("redrive",), "Nothing says which letters are meant"),
        (("drop", "--yes", "--limit", "3"), "Nothing says which letters are meant"),
        (("redrive", "--all", "a1"), "use one of them"),
        (("list", "--since", "yesterday"), "--since cannot be read"),
        (("list", "--until", "2026-12-01T12:00:00"), "has no offset"),
        (("show", ""), "An id is empty"),
    ],
)
def test_a_wrong_line_is_usage(tmp_path: Path, line: tuple[str, ...], told: str) -> None:
    ended = CommandLine(tmp_path, GRUNDLAG_URL="amqp://127.0.0.1:1/").run("dead", *line)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.sentence


@pytest.mark.parametrize("command", [("list",), ("show", "a"), ("redrive", "--all"), ("drop", "--all", "--yes")])
def test_without_a_bus_it_says_how_to_name_one(tmp_path: Path, command: tuple[str, ...]) -> None:
    ended = CommandLine(tmp_path).run("dead", *command)
    assert ended.code == 2
    assert "--url" in ended.sentence
    ended = CommandLine(tmp_path).run("dead", *command, "--url", "memory://")
    assert ended.code == 2
