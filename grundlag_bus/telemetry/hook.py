"""Who listens to events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from grundlag_bus.telemetry.events import Event


class Hook(Protocol):
    """Called in the event loop for each event; must return at once and must not raise."""

    def __call__(self, event: Event, /) -> None: ...


def ignore(event: Event, /) -> None:
    """Do nothing: the hook where nobody listens."""
