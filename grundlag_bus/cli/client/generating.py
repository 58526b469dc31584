"""What `client generate` does."""

from __future__ import annotations

import difflib
import keyword
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from grundlag_bus.adapters.typed import what_moved, write_client
from grundlag_bus.cli.exits import Exit, say
from grundlag_bus.cli.running import run
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.schema.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Collection

    from grundlag_bus.cli.source import Source


def generate_client(  # noqa: PLR0913  the command's options
    source: Source, out: Path, *, providers: Collection[str], class_name: str, check: bool, level: str
) -> int:
    """Write the client, or say what has moved. Raises ConfigurationError, TransportError."""
    if not class_name.isidentifier() or keyword.iskeyword(class_name) or not class_name[0].isupper():
        raise ConfigurationError(
            f"{class_name!r} is no name of a class: begin with a capital letter, as in CalendarClient."
        )
    on_stdout = str(out) == "-"
    if check and on_stdout:
        raise ConfigurationError("--check compares with a file: name it with --out.")

    async def work() -> int:
        async with source.open() as bus:
            manifest = await bus.manifest()
        text = write_client(_chosen(manifest, providers, source), class_name=class_name)
        if on_stdout:
            sys.stdout.write(text)
            return Exit.COMPLETED
        return _checked(out, text) if check else _written(out, text, class_name)

    return run(work(), level=level)


def _chosen(manifest: Manifest, providers: Collection[str], source: Source) -> Manifest:
    """Keep the providers that were named, with the function names that they have among all."""
    known = [provider.id for provider in manifest.providers]
    for named in providers:
        if named not in known:
            near = difflib.get_close_matches(named, known) or known
            hint = f"did you mean {' or '.join(near)}?" if near else "nothing is announced there."
            raise ConfigurationError(f"Nobody announced a provider {named!r} in {source}: {hint}")
    chosen = tuple(provider for provider in manifest.providers if not providers or provider.id in providers)
    if not any(provider.actions for provider in chosen):
        raise ConfigurationError(f"There are no actions in {source}: {source.remedy}.")
    return Manifest(providers=chosen)


def _checked(out: Path, text: str) -> int:
    try:
        before = out.read_text(encoding="utf-8")
    except FileNotFoundError:
        say(f"{out} does not exist: write it without --check.")
        return Exit.FAILED
    except UnicodeDecodeError:
        before = "\0"  # which is no Python
    moved = what_moved(before, text)
    if moved:
        say(f"{out} is behind the manifest: write it anew without --check.\n  " + "\n  ".join(moved))
        return Exit.FAILED
    say(f"{out} is up to date.")
    return Exit.COMPLETED


def _written(out: Path, text: str, class_name: str) -> int:
    """Write the whole file or leave it as it is."""
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(out)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    say(f"wrote {out}: `{class_name}(await bus.to_tools())` calls what is in it.")
    return Exit.COMPLETED
