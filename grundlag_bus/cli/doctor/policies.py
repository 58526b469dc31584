"""Policies that break what callers rely on: a limit that drops, expires or turns back what waits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grundlag_bus.cli.doctor.report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.transport.topology import Topology

_LENGTH = ("max-length", "max-length-bytes")
_TIME = ("message-ttl", "expires")


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of queue: a name as an example of all, and which keys of a policy hurt it, and how."""

    name: str
    type: str
    keys: tuple[str, ...]
    harm: str


def judge_policies(policies: Iterable[dict[str, Any]], topology: Topology) -> list[Finding]:
    """Find the policies that hurt. policies: as the management API lists them, the operator's among them."""
    policies = list(policies)
    findings = []
    for kind in _kinds(topology):
        for operators in (False, True):
            policy, unreadable = _effective(policies, kind, operators=operators)
            if unreadable is not None:
                findings.append(
                    Finding(
                        "warn", "policies", f"the pattern of policy {unreadable!r} cannot be read here", "look at it"
                    )
                )
            hurting = [key for key in kind.keys if policy is not None and key in policy.get("definition", {})]
            if policy is not None and hurting:
                findings.append(
                    Finding(
                        "fail",
                        "policies",
                        f"policy {policy.get('name')!r} sets {', '.join(hurting)} on {kind.name}: {kind.harm}",
                        f"take {topology.prefix}.* out of its pattern",
                    )
                )
    return list(dict.fromkeys(findings)) or [Finding("ok", "policies", f"none limits {topology.prefix}.*")]


def _kinds(topology: Topology) -> Iterable[_Kind]:
    calls = topology.call_queue("PROVIDER", "main").name
    yield _Kind(calls, "quorum_queues", (*_LENGTH, *_TIME, "delivery-limit"), "calls are refused, or end early as dead")
    delay = topology.ladder.queues[0].name
    yield _Kind(delay, "quorum_queues", (*_LENGTH, *_TIME), "delayed calls are refused, come early or are lost")
    dead = topology.dead_queue.name
    yield _Kind(dead, "quorum_queues", (*_LENGTH, *_TIME, "delivery-limit"), "dead letters are lost")
    replies = topology.mailbox("0" * 32).name
    yield _Kind(replies, "classic_queues", (*_LENGTH, *_TIME), "replies are lost")
    manifests = topology.manifests.name
    yield _Kind(manifests, "streams", ("max-age", "max-length-bytes", "expires"), "quiet providers are forgotten")
    cancels = topology.cancels.name
    yield _Kind(cancels, "streams", ("max-age", "max-length-bytes", "expires"), "cancelled calls may start")
    starts = topology.starts.name
    lost = "a call that kills its workers may be started more often than it may be"
    yield _Kind(starts, "streams", ("max-age", "max-length-bytes", "expires"), lost)


def _effective(
    policies: list[dict[str, Any]], kind: _Kind, *, operators: bool
) -> tuple[dict[str, Any] | None, str | None]:
    """Return the one policy that counts for a queue, and the name of one whose pattern cannot be read."""
    found: dict[str, Any] | None = None
    unreadable = None
    for policy in policies:
        if bool(policy.get("operator")) != operators or policy.get("apply-to") not in ("all", "queues", kind.type):
            continue
        try:
            applies = re.search(str(policy.get("pattern", "")), kind.name) is not None
        except re.error:
            unreadable = str(policy.get("name"))
            continue
        if applies and (found is None or policy.get("priority", 0) > found.get("priority", 0)):
            found = policy
    return found, unreadable
