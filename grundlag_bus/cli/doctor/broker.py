"""What the broker itself tells over AMQP: version, heartbeat, what this user may do, how large a message may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.cli.doctor.report import Finding
from grundlag_bus.schema.codec import MAX_BYTES
from grundlag_bus.transport.rabbitmq.examination import Tried

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grundlag_bus.transport.base import Broker
    from grundlag_bus.transport.rabbitmq.examination import Examination
    from grundlag_bus.transport.topology import Topology

_GUARANTEED = (4, 3)
_ENVELOPE = 256 * 1024
"""Bytes that an envelope, or a dead letter around it, may add to the largest request."""


async def examine_broker(examination: Examination, topology: Topology) -> AsyncIterator[Finding]:
    """Give what is found, whoever the namespace belongs to."""
    for finding in judge_broker(examination.broker):
        yield finding
    yield judge_heartbeat(examination.heartbeat)
    configure = await examination.try_to_configure()
    yield _permission("configure", configure, topology)
    if configure is Tried.ALLOWED:
        yield _permission("read", await examination.try_to_read(), topology)
    default = await examination.try_to_write("")
    write = default if default is Tried.BLOCKED else await examination.try_to_write(topology.calls.name)
    yield _permission("write", write, topology)
    if default is Tried.REFUSED:
        yield _default_exchange(topology)
    elif write in (Tried.ALLOWED, Tried.MISSING):
        yield judge_size(await examination.try_size(MAX_BYTES + _ENVELOPE))


def judge_broker(broker: Broker) -> list[Finding]:
    """Say what a broker of this version lacks."""
    if broker.product != "RabbitMQ":
        return [Finding("warn", "version", f"{broker} is no RabbitMQ", "use RabbitMQ 4.3: nothing else was tried")]
    findings = [
        Finding("ok", "version", str(broker))
        if broker.version >= _GUARANTEED
        else Finding("warn", "version", f"the guarantees hold on RabbitMQ 4.3, and this is {broker}", "upgrade to 4.3")
    ]
    findings.append(
        Finding("ok", "consumer time-out", "each lane's own is honoured")
        if broker.honours_consumer_timeout
        else Finding(
            "warn",
            "consumer time-out",
            "this version takes a call back after 30 minutes, or what its consumer_timeout says",
            "upgrade to 4.3, or raise consumer_timeout in rabbitmq.conf above the longest call of lane long",
        )
    )
    if not broker.counts_only_losses:
        findings.append(
            Finding(
                "warn",
                "delivery count",
                "this version counts what was given back as lost, so no call is given up for killing its workers",
                "upgrade to 4.3",
            )
        )
    return findings


def judge_heartbeat(seconds: int) -> Finding:
    if not seconds:
        return Finding(
            "warn", "heartbeat", "none: a half-open connection is noticed by TCP alone", "allow heartbeats on the way"
        )
    return Finding("ok", "heartbeat", f"every {seconds} s: a silent connection is given up after {2 * seconds} s")


def judge_size(tried: Tried) -> Finding:
    if tried is Tried.ALLOWED:
        return Finding("ok", "message size", f"the largest call ({MAX_BYTES // 1024**2} MiB) fits")
    if tried is not Tried.REFUSED:
        return Finding("warn", "message size", "the broker did not take a large message in time", "try it again")
    return Finding(
        "fail",
        "message size",
        f"the broker refuses messages of {(MAX_BYTES + _ENVELOPE) // 1024} KiB, and a call may be so large",
        f"set max_message_size = {2 * MAX_BYTES} or more in rabbitmq.conf",
    )


def _permission(kind: str, tried: Tried, topology: Topology) -> Finding:
    check = f"permission to {kind}"
    if tried is Tried.BLOCKED:
        return Finding(
            "fail",
            check,
            "the broker takes no messages: it is short of memory or disk",
            "free some, or raise vm_memory_high_watermark or lower disk_free_limit",
        )
    if tried is Tried.REFUSED:
        return Finding(
            "fail", check, f"this user may not {kind} what is named {topology.prefix}.*", _grant(kind, topology)
        )
    return Finding("ok", check, f"{topology.prefix}.*")


def _default_exchange(topology: Topology) -> Finding:
    return Finding(
        "fail",
        "permission to write",
        "this user may not write to amq.default, the broker's default exchange: a worker needs that, to announce what "
        "it offers and to note that it starts a call alone, and `grundlag-bus manifest retire` too; a caller does not",
        _grant("write", topology),
    )


def _grant(kind: str, topology: Topology) -> str:
    named = f"^({topology.namespace}\\..*|amq\\.default)$" if kind == "write" else f"^{topology.namespace}\\..*"
    return f"rabbitmqctl set_permissions, with '{named}' as its {kind} pattern"
