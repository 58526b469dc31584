"""`dead drop`."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from grundlag_bus.cli.administration import address_of, administer
from grundlag_bus.cli.dead.letters import Found, find
from grundlag_bus.cli.dead.settling import Report, to_the_end
from grundlag_bus.cli.dead.showing import name_of, when
from grundlag_bus.cli.exits import Exit, say
from grundlag_bus.cli.running import run
from grundlag_bus.cli.terminal import Terminal
from grundlag_bus.errors import BusUnreachableError, ConfigurationError
from grundlag_bus.schema.envelope import Request
from grundlag_bus.transport.topology import Topology

if TYPE_CHECKING:
    from grundlag_bus.cli.dead.filters import Filters

_SHOWN = 10


def drop(  # noqa: PLR0913  the command's options
    url: str | None, namespace: str, filters: Filters, *, yes: bool, dry_run: bool, as_json: bool, level: str
) -> int:
    """Remove the letters that fit. Raises ConfigurationError, TransportError."""
    address, topology = address_of(url), Topology(namespace)
    asks = not (yes or dry_run)
    if asks and not Terminal.is_there():
        raise ConfigurationError("Nobody can be asked here: add --yes to drop dead letters for good, or --dry-run.")

    async def work() -> int:
        report = Report(dry_run=dry_run, as_json=as_json)
        async with administer(address) as bus, aclosing(find(bus, topology, filters)) as letters:
            if asks:
                held = [_slim(found) async for found in letters]
                if held and not await _agreed(held):
                    say("nothing was dropped.")
                    return Exit.FAILED
                async with report:
                    for found in held:
                        await to_the_end(_drop(found, report, dry_run=False))
            else:
                async with report:
                    async for found in letters:
                        await to_the_end(_drop(found, report, dry_run=dry_run))
        return Exit.FAILED if report.kept else Exit.COMPLETED

    return run(work(), level=level)


def _slim(found: Found) -> Found:
    """Leave out what may be large of a letter that is kept in memory until the question is answered."""
    call = found.letter.call
    slim = None if call is None else replace(call, request=Request(None), deferred=None)
    return Found(replace(found.letter, body=b"", call=slim), found.hold)


async def _agreed(held: list[Found]) -> bool:
    """Ask the person at the terminal, who is shown what it is about. What waits for the answer is held."""
    terminal = Terminal()
    for found in held[:_SHOWN]:
        letter = found.letter
        terminal.tell(f"  {when(letter)} {letter.id} {name_of(letter)} ({letter.reason.code})")
    if len(held) > _SHOWN:
        terminal.tell(f"  and {len(held) - _SHOWN} more")
    return await terminal.confirm(f"Drop {len(held)} dead letters for good? Write yes:", "yes")


async def _drop(found: Found, report: Report, *, dry_run: bool) -> None:
    if dry_run:
        report.tell("dropped", found.letter)
        return
    try:
        await found.hold.ack()
    except BusUnreachableError as error:
        report.tell("kept", found.letter, str(error))
    else:
        report.tell("dropped", found.letter)
