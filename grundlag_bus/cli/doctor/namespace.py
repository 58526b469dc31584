"""What is in the namespace: as this version declares it, and whether somebody serves what is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.cli.doctor.report import Finding
from grundlag_bus.errors import BusUnreachableError, TopologyMismatchError, TransportError
from grundlag_bus.schema.manifest import current
from grundlag_bus.transport.rabbitmq import RabbitTransport
from grundlag_bus.workers.roll_call import roll_call
from grundlag_bus.workers.status import ready

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grundlag_bus.transport.administration import Counts
    from grundlag_bus.transport.parts import Exchange, Queue, Stream
    from grundlag_bus.transport.rabbitmq import Address
    from grundlag_bus.transport.rabbitmq.examination import Examination
    from grundlag_bus.transport.topology import Topology
    from grundlag_bus.workers.status import WorkerStatus

ANSWER_WITHIN = 1.0
"""Seconds that the workers get to say how they stand."""
_SILENT = (
    "ask /live and /ready of each: an action may block its event loop (its log says loop_blocked), the broker may "
    "block its connection (bus.blocked), or it hears nothing any more: then start it again"
)


async def examine_namespace(examination: Examination, topology: Topology) -> AsyncIterator[Finding]:
    """Give what is found; what is not there is not made."""
    try:
        if not await examination.is_there(topology.dead_queue):
            yield Finding(
                "warn",
                "namespace",
                f"nobody has connected to {topology.namespace!r} yet",
                "start a worker or a caller, or correct --namespace",
            )
            return
        lanes = await _announced(examination, topology)
        drifted = False
        async for finding in _topology(examination, topology, lanes):
            drifted |= finding.status == "fail"
            yield finding
        consumers: dict[tuple[str, str], int] = {}
        async for finding in _serving(examination, topology, lanes, consumers):
            yield finding
        if not drifted:
            async for finding in _answering(examination.address, topology, consumers):
                yield finding
    except BusUnreachableError as error:
        yield Finding("skip", "namespace", f"not looked at: {error}", "run it as a user that may configure there")


async def _announced(examination: Examination, topology: Topology) -> list[tuple[str, str]]:
    """List provider and lane of every action in the manifest."""
    if not await examination.is_there(topology.manifests):
        return []
    announcements = current(await examination.administration.read(topology.manifests)).values()
    parts = [told.provider for told in announcements if told.provider is not None]
    return sorted({(part.id, action.lane) for part in parts for action in part.actions})


async def _topology(
    examination: Examination, topology: Topology, lanes: list[tuple[str, str]]
) -> AsyncIterator[Finding]:
    parts: list[Exchange | Queue | Stream] = [
        *topology.exchanges,
        topology.dead_queue,
        topology.manifests,
        topology.cancels,
        topology.starts,
        *(topology.call_queue(*lane) for lane in lanes),
        *topology.ladder.exchanges,
        *topology.ladder.queues,
    ]
    same, drifted = 0, False
    for part in parts:
        if not await examination.is_there(part):
            continue  # whoever needs it declares it
        try:
            await examination.compare(part)
            same += 1
        except TopologyMismatchError as error:
            drifted = True
            yield Finding("fail", "topology", str(error))
    if not drifted:
        yield Finding("ok", "topology", f"{same} exchanges, queues and streams are as this version declares them")


async def _serving(
    examination: Examination,
    topology: Topology,
    lanes: list[tuple[str, str]],
    consumers: dict[tuple[str, str], int],
) -> AsyncIterator[Finding]:
    """Look at the queues. consumers: filled with how many each lane has."""
    if not lanes:
        yield Finding("warn", "workers", "no provider is announced", "start a worker with `grundlag-bus worker`")
    for provider_id, lane in lanes:
        counts = await examination.administration.count(topology.call_queue(provider_id, lane).name)
        consumers[provider_id, lane] = 0 if counts is None else counts.consumers
        yield judge_lane(f"{provider_id}.{lane}", counts)
    dead = await examination.administration.count(topology.dead_queue.name)
    yield judge_dead(0 if dead is None else dead.messages)


async def _answering(
    address: Address, topology: Topology, consumers: dict[tuple[str, str], int]
) -> AsyncIterator[Finding]:
    """Ask the workers themselves: one whose loop is blocked consumes and says nothing."""
    transport = RabbitTransport(address, namespace=topology.namespace)
    try:
        await transport.open()
        answers = await roll_call(transport, within=ANSWER_WITHIN)
    except TransportError as error:
        yield Finding("skip", "workers", f"not asked how they stand: {error}")
        return
    finally:
        await transport.close()
    for finding in (*judge_answers(answers), *judge_silence(answers, consumers)):
        yield finding


def judge_silence(answers: list[WorkerStatus], consumers: dict[tuple[str, str], int]) -> list[Finding]:
    """Say which lanes have consumers whose workers say nothing. consumers: of each provider and lane."""
    findings = []
    for (provider_id, lane), there in consumers.items():
        heard = sum(provider_id in status.providers and lane in status.lanes for status in answers)
        if heard < there:
            told = f"{provider_id}.{lane} has {there} consumers, and {heard} of their workers answer"
            findings.append(Finding("warn" if heard else "fail", "workers", told, _SILENT))
    return findings


def judge_answers(answers: list[WorkerStatus]) -> list[Finding]:
    """Say how the workers stand by their own words."""
    found = f"{len(answers)} answer within {ANSWER_WITHIN:g} s"
    findings = [Finding("ok", "workers", f"{found}: {', '.join(status.name for status in answers) or 'none'}")]
    for status in answers:
        report = ready(status)
        if not report.ok:
            told = f"{status.name} does not serve: {'; '.join(report.reasons)}"
            findings.append(Finding("warn", "workers", told, "see its log, and `grundlag-bus workers`"))
    return findings


def judge_lane(name: str, counts: Counts | None) -> Finding:
    """Say how a lane of a provider is served; counts: of its queue, None where there is none."""
    if counts is None:
        return Finding(
            "warn",
            "workers",
            f"{name} has no queue, so that its calls fail as provider_unavailable",
            "start a worker of it once",
        )
    waiting = f"{counts.messages} calls wait"
    if not counts.consumers:
        return Finding("warn", "workers", f"{name} has no worker, and {waiting}", "start a worker of it")
    return Finding("ok", "workers", f"{name} has {counts.consumers}, and {waiting}")


def judge_dead(letters: int) -> Finding:
    if not letters:
        return Finding("ok", "dead letters", "none")
    return Finding("warn", "dead letters", f"{letters}", "see why with `grundlag-bus dead list`")
