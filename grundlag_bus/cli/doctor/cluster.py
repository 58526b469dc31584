"""What only the management API tells: policies, alarms, memory, disk, partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grundlag_bus.cli.doctor.policies import judge_policies
from grundlag_bus.cli.doctor.report import Finding
from grundlag_bus.errors import BusUnreachableError
from grundlag_bus.transport.rabbitmq.management import Management

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grundlag_bus.transport.rabbitmq import Address
    from grundlag_bus.transport.topology import Topology

_MEBIBYTE = 1024**2
_NEARLY = 0.8
"""From this share of its memory limit on, a node is warned of."""


async def examine_cluster(address: Address, topology: Topology, url: str | None) -> AsyncIterator[Finding]:
    """Give what is found, or which checks were not made and why."""
    management = await Management.at(address, url)
    try:
        for finding in judge_policies(await management.policies(), topology):
            yield finding
    except BusUnreachableError as error:
        yield _skipped("policies", error, "policymaker")
    try:
        yield judge_alarms(await management.alarms())
        for node in await management.nodes():
            yield judge_node(node)
    except BusUnreachableError as error:
        yield _skipped("alarms, memory, disk, partitions", error, "monitoring")


def judge_alarms(alarms: list[str]) -> Finding:
    if not alarms:
        return Finding("ok", "alarms", "none")
    return Finding("fail", "alarms", f"the broker takes no messages: it is short of {', '.join(alarms)}", "free some")


def judge_node(node: dict[str, Any]) -> Finding:
    """Say how a node of the cluster is."""
    check = f"node {node.get('name', '?')}"
    if not node.get("running"):
        return Finding("fail", check, "it does not run", "start it, or take it out of the cluster")
    if node.get("partitions"):
        apart = ", ".join(map(str, node["partitions"]))
        return Finding("fail", check, f"it is parted from {apart}", "mend the network, then restart one side")
    if "mem_used" not in node:
        return Finding("ok", check, "it runs, and its figures are not collected yet")
    used, limit = node["mem_used"], node.get("mem_limit", 0)
    free, least = node.get("disk_free", 0), node.get("disk_free_limit", 0)
    told = (
        f"memory {used // _MEBIBYTE} of {limit // _MEBIBYTE} MiB, disk {free // _MEBIBYTE} MiB free "
        f"(alarm below {least // _MEBIBYTE})"
    )
    if used > _NEARLY * limit or free < 2 * least:
        return Finding("warn", check, told, "at its limit the broker takes no messages: give it more")
    return Finding("ok", check, told)


def _skipped(check: str, error: BusUnreachableError, tag: str) -> Finding:
    remedy = (
        f"give the user the tag {tag}, or another one in --management URL"
        if " answers 40" in str(error)
        else "name the management API with --management URL, or enable the plugin rabbitmq_management"
    )
    return Finding("skip", check, f"not checked: {error}", remedy)
