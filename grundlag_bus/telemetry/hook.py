"""Who listens to events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from grundlag_bus.logs import get_logger

if TYPE_CHECKING:
    from grundlag_bus.telemetry.events import Event


_LOGGER = get_logger("grundlag_bus.telemetry")


class Hook(Protocol):
    """Called in the event loop for each event; must return at once and must not raise."""

    def __call__(self, event: Event, /) -> None: ...


def guarded(hook: Hook) -> Hook:
    """Let no error of a hook reach what it listens to: it is logged."""
    if hook is ignore:
        return hook

    def call(event: Event, /) -> None:
        try:
            hook(event)
        except Exception:
            _LOGGER.exception("hook_failed", of=type(event).__name__)

    return call


def ignore(event: Event, /) -> None:
    """Do nothing: the hook where nobody listens."""
