"""Where an HTTP host is."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from grundlag_bus.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class HostAddress:
    """`http(s)://host[:port]/base`, without a slash at its end. It holds no secret."""

    base: str

    @classmethod
    def parse(cls, url: str) -> HostAddress:
        """Read an address. Raises ConfigurationError, which does not repeat what may be a password."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise ConfigurationError("The address of the host cannot be read: write https://host:port/base.") from None
        if parts.scheme not in ("http", "https") or not host:
            raise ConfigurationError("That is no address of an HTTP host: write https://host:port/base.")
        if "@" in parts.netloc:
            raise ConfigurationError(f"The address of the host {host} holds a user or a password: give a token=.")
        if parts.query or parts.fragment:
            raise ConfigurationError(f"The address of the host {host} ends with ? or #: leave that out.")
        return cls(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}")

    @property
    def is_encrypted(self) -> bool:
        return self.base.startswith("https:")

    @property
    def manifest(self) -> str:
        return f"{self.base}/api/client/schema"

    @property
    def events(self) -> str:
        return f"{self.base}/api/events"

    @property
    def runs(self) -> str:
        return f"{self.base}/api/runs"

    def run(self, run_id: str, *more: str) -> str:
        return "/".join([self.runs, quote(run_id, safe=""), *more])

    @property
    def interrupts(self) -> str:
        return f"{self.base}/api/interrupts"

    def interrupt(self, interrupt_id: str, *more: str) -> str:
        return "/".join([self.interrupts, quote(interrupt_id, safe=""), *more])

    def action(self, provider_id: str, action_id: str) -> str:
        return f"{self.base}/api/actions/{quote(provider_id, safe='')}/{quote(action_id, safe='')}"

    def __str__(self) -> str:
        return self.base
