"""What one script may take, each part with a limit that is always set."""

from __future__ import annotations

from dataclasses import dataclass, fields

from grundlag_bus.errors import ConfigurationError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a script.

    time: seconds of computing, while it does not wait for tools; memory: bytes that its values take, beside some 30 MiB
    of the engine itself; recursion: calls within calls; suspensions: how often it may stop for a tool, a name or an
    outcome, two for a call that is awaited; in_flight: calls that run at once, the others wait; journal: bytes of JSON
    that its calls' inputs and outcomes take in all; output: characters of what it prints that are kept, the rest is
    counted; source: characters of the script itself.
    """

    time: float = 10.0
    memory: int = 128 * MIB
    recursion: int = 500
    suspensions: int = 10_000
    in_flight: int = 16
    journal: int = 64 * MIB
    output: int = 64 * 1024
    source: int = 256 * 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < float("inf"):
                raise ConfigurationError(f"The limit {field.name}={value!r} of a script is no finite number over 0.")
        if self.memory < MIB:
            raise ConfigurationError(f"The limit memory={self.memory} is in bytes: give {MIB} (1 MiB) or more.")
