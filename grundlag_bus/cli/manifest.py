"""`manifest show` and `manifest retire`."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from grundlag_bus.cli.exits import Exit, say
from grundlag_bus.cli.output import print_json
from grundlag_bus.cli.running import run
from grundlag_bus.cli.source import refuse_host
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.workers.announce import retire

if TYPE_CHECKING:
    from grundlag_bus.cli.source import Source


def show(source: Source, *, as_json: bool, level: str) -> int:
    """Print the manifest: one line with `as_json`, else indented."""

    async def work() -> int:
        async with source.open() as bus:
            manifest = await bus.manifest()
        print_json(manifest.to_json(), one_line=as_json)
        return Exit.COMPLETED

    return run(work(), level=level)


def retire_provider(source: Source, provider_id: str, *, level: str) -> int:
    """Remove a provider from the manifest. Raises ConfigurationError when nobody announced it."""
    refuse_host(source.url)

    async def work() -> int:
        async with source.open() as bus:
            if bus.transport is not None and await retire(bus.transport, provider_id):
                say(f"{provider_id} is retired in {source}; a worker of it that starts announces it again.")
                return Exit.COMPLETED
            known = [provider.id for provider in (await bus.manifest()).providers]
        near = difflib.get_close_matches(provider_id, known) or known
        hint = f"did you mean {' or '.join(near)}?" if near else "nothing is announced there."
        raise ConfigurationError(f"Nobody announced a provider {provider_id!r} in {source}: {hint}")

    return run(work(), level=level)
