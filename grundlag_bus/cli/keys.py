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
    try:
        SealKeys.generate().save(file)
    except OSError as error:
        raise ConfigurationError(f"The key file {file} cannot be written: {error.strerror or error}.") from error
    say(f"wrote {file}: give it to every worker of the same providers, with --keys {file}.")
    return Exit.COMPLETED
