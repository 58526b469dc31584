"""`keys new`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.cli.exits import Exit, say
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.providers.seal import SealKeys

if TYPE_CHECKING:
    from pathlib import Path


def write_new(file: Path) -> int:
    """Write a file with one new key, for its owner alone. Raises ConfigurationError."""
    if file.exists():
        raise ConfigurationError(f"The file {file} exists and is left alone: choose another name.")
    SealKeys.generate().save(file)
    say(f"wrote {file}: give it to every worker of the same providers, with --keys {file}.")
    return Exit.COMPLETED
