"""Closing several services: each in any case, and every error of it told."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grundlag_bus.logs import get_logger
from grundlag_bus.providers.recipes import name_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

_LOGGER = get_logger("grundlag_bus.providers")


class ClosingFailure(NamedTuple):
    """What closing one service raised."""

    kind: type
    error: BaseException


async def attempt(kind: type, closing: Awaitable[object]) -> ClosingFailure | None:
    """Await one service's closing and return its error, so that the next one is closed in any case."""
    try:
        await closing
    except BaseException as error:  # noqa: BLE001  raised by `raise_failures`, after all the others are closed
        error.add_note(f"while closing the service {name_of(kind)}")
        return ClosingFailure(kind, error)
    return None


def raise_failures(found: Iterable[ClosingFailure | None], pending: BaseException | None) -> None:
    """Raise what closing services raised; an error or a cancellation that is already on its way goes first."""
    failures = [failure for failure in found if failure is not None]
    for failure in failures:
        if not isinstance(failure.error, Exception):  # a cancellation that came while closing
            raise failure.error
    if pending is None and len(failures) == 1:
        raise failures[0].error
    if pending is None and failures:
        raise BaseExceptionGroup("Several services failed to close", [failure.error for failure in failures])
    for failure in failures:
        _LOGGER.error("service_closing_failed", service=name_of(failure.kind), exc_info=failure.error)
