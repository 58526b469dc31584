"""Goes through all checks, one after the other, and prints each finding as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.cli.administration import address_of
from grundlag_bus.cli.doctor.broker import examine_broker
from grundlag_bus.cli.doctor.cluster import examine_cluster
from grundlag_bus.cli.doctor.namespace import examine_namespace
from grundlag_bus.cli.doctor.report import Finding, fails, print_finding
from grundlag_bus.cli.exits import Exit
from grundlag_bus.cli.output import print_json
from grundlag_bus.cli.running import run
from grundlag_bus.errors import BusUnreachableError
from grundlag_bus.transport.rabbitmq import Address
from grundlag_bus.transport.rabbitmq.examination import Examination
from grundlag_bus.transport.topology import Topology

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def examine(url: str | None, namespace: str, *, management: str | None, as_json: bool, level: str) -> int:
    """Print what is found. Raises ConfigurationError."""
    address, topology = Address.parse(address_of(url)), Topology(namespace)

    async def work() -> int:
        findings: list[Finding] = []
        code = Exit.COMPLETED
        try:
            async for finding in _findings(address, topology, management):
                findings.append(finding)
                if not as_json:
                    print_finding(finding)
        except BusUnreachableError as error:
            findings.append(Finding("fail", "connection", str(error)))
            if not as_json:
                print_finding(findings[-1])
            code = Exit.UNREACHABLE
        if as_json:
            told = [finding.to_json() for finding in findings]
            print_json({"ok": not fails(findings), "findings": told}, one_line=True)
        return code if code or not fails(findings) else Exit.FAILED

    return run(work(), level=level)


async def _findings(address: Address, topology: Topology, management: str | None) -> AsyncIterator[Finding]:
    examination = await Examination.open(address, topology)
    try:
        yield Finding("ok", "connection", f"{examination.broker} lets this user in at {address}")
        async for finding in examine_broker(examination, topology):
            yield finding
        async for finding in examine_namespace(examination, topology):
            yield finding
    finally:
        await examination.close()
    async for finding in examine_cluster(address, topology, management):
        yield finding
