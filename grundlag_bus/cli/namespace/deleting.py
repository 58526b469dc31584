"""`namespace delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.cli.administration import address_of, administer, check_namespace
from grundlag_bus.cli.exits import Exit, say
from grundlag_bus.cli.namespace.inventory import Inventory, take_inventory
from grundlag_bus.cli.output import console, print_json
from grundlag_bus.cli.running import run
from grundlag_bus.cli.terminal import Terminal
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.transport.topology import Topology

if TYPE_CHECKING:
    from grundlag_bus.transport import Administration


def delete(  # noqa: PLR0913  the command's options
    url: str | None, name: str, *, force: bool, yes: bool, dry_run: bool, as_json: bool, level: str
) -> int:
    """Delete the namespace, unless it is in use. Raises ConfigurationError, TransportError."""
    address, topology = address_of(url), Topology(name)
    asks = not (yes or dry_run)
    if asks and not Terminal.is_there():
        raise ConfigurationError(f"Nobody can be asked here: add --yes to delete namespace {name!r}, or --dry-run.")

    async def work() -> int:
        async with administer(address) as bus:
            await check_namespace(bus, topology)
            inventory = await take_inventory(bus, topology)
            deleted = False
            if not as_json:
                _print(inventory)
            if inventory.used and not force:
                used = ", ".join(inventory.used)
                say(
                    f"namespace {name!r} is in use ({used}): stop its workers, redrive or drop dead letters, or add "
                    "--force."
                )
            elif dry_run:
                say("nothing was deleted.")
            elif asks and not await Terminal().confirm(f"Delete all this for good? Write {name}:", name):
                say("nothing was deleted.")
                return Exit.FAILED
            else:
                await _delete(bus, inventory)
                deleted = True
                say(f"namespace {name!r} is deleted.")
        if as_json:
            print_json({**inventory.to_json(), "deleted": deleted}, one_line=True)
        return Exit.FAILED if inventory.used and not force else Exit.COMPLETED

    return run(work(), level=level)


async def _delete(administration: Administration, inventory: Inventory) -> None:
    for part in inventory.in_order:
        await administration.delete(part)


def _print(inventory: Inventory) -> None:
    out = console()
    for line in inventory.lines:
        out.print(line, soft_wrap=True)
    out.print(f"and up to {len(inventory.exchanges)} exchanges", soft_wrap=True)
