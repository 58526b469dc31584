"""What `client generate` does."""

from __future__ import annotations

import difflib
import keyword
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from grundlag_bus.adapters.typed import ClientOptions, options_of, what_moved, write_client
from grundlag_bus.cli.exits import Exit, say
from grundlag_bus.cli.running import run
from grundlag_bus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection

    from grundlag_bus.cli.source import Source
    from grundlag_bus.schema.manifest import Manifest


def generate_client(  # noqa: PLR0913  the command's options
    source: Source, out: Path, *, providers: Collection[str], class_name: str | None, check: bool, level: str
) -> int:
    """Write the client, or say what has moved. Raises ConfigurationError, TransportError."""
    if class_name is not None and not _is_class_name(class_name):
        raise ConfigurationError(
            f"{class_name!r} is no name of a class: begin with a capital letter, as in CalendarClient."
        )
    on_stdout = str(out) == "-"
    if check and on_stdout:
        raise ConfigurationError("--check compares with a file: name it with --out.")
    before = None if on_stdout else _read(out)
    if check and before is None:
        say(f"{out} does not exist: write it without --check.")
        return Exit.FAILED
    kept = options_of(before or "")
    options = (kept or ClientOptions()).changed_by(class_name=class_name, providers=providers)
    if check and kept is not None and options != kept:
        say(
            f"{out} was written by `{kept.command}`, not by `{options.command}`: leave these options out, or write it "
            "anew without --check."
        )
        return Exit.FAILED

    async def work() -> int:
        async with source.open() as bus:
            manifest = await bus.manifest()
        _ensure_actions(manifest, options.providers, source)
        text = write_client(manifest, options)
        if on_stdout:
            sys.stdout.write(text)
            return Exit.COMPLETED
        return _checked(out, before or "", text) if check else _written(out, text, options, again=options == kept)

    return run(work(), level=level)


def _is_class_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and name[0].isupper()


def _read(out: Path) -> str | None:
    try:
        return out.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        return "\0"  # which is no Python


def _ensure_actions(manifest: Manifest, providers: Collection[str], source: Source) -> None:
    """Raise ConfigurationError for a provider that nobody announced, and where there is nothing to call."""
    known = [provider.id for provider in manifest.providers]
    for named in providers:
        if named not in known:
            near = difflib.get_close_matches(named, known) or known
            hint = f"did you mean {' or '.join(near)}?" if near else "nothing is announced there."
            raise ConfigurationError(f"Nobody announced a provider {named!r} in {source}: {hint}")
    if not any(provider.actions for provider in manifest.providers if not providers or provider.id in providers):
        raise ConfigurationError(f"There are no actions in {source}: {source.remedy}.")


def _checked(out: Path, before: str, text: str) -> int:
    moved = what_moved(before, text)
    if moved:
        say(f"{out} is behind the manifest: write it anew without --check.\n  " + "\n  ".join(moved))
        return Exit.FAILED
    say(f"{out} is up to date.")
    return Exit.COMPLETED


def _written(out: Path, text: str, options: ClientOptions, *, again: bool) -> int:
    """Write the whole file or leave it as it is. again: with the options that it was written with before."""
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(out)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    as_before = f" with {options} as before" if again and str(options) else ""
    say(f"wrote {out}{as_before}: `{options.class_name}(await bus.to_tools())` calls what is in it.")
    return Exit.COMPLETED
