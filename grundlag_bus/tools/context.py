"""What a tool is given beside its input, and the items of a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from grundlag_bus.logs import get_logger
from grundlag_bus.schema.items import Item, new_item

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Iterator

    from grundlag_bus.schema.progress import ProgressSink
    from grundlag_bus.schema.trace import Trace


class Logger(Protocol):
    """The part of a structlog logger that tools and actions use."""

    def debug(self, event: str, **fields: Any) -> Any: ...
    def info(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...
    def error(self, event: str, **fields: Any) -> Any: ...


_LOGGER: Logger = get_logger("grundlag_bus.tools")


class ToolItems(Protocol):
    """The typed items of a conversation: `ItemStore` keeps them in a list, an agent in its transcript."""

    def latest(self, type: str) -> Item | None:  # noqa: A002  the wire's word
        """Return the newest item of the type, or None."""

    def emit(self, type: str, data: Any) -> Item:  # noqa: A002  the wire's word
        """Add an item. Raises NotJsonError when `data` is no plain JSON data."""

    def list(self, type: str | None = None) -> list[Item]:  # noqa: A002  the wire's word
        """Return the items, oldest first, of one type or of all."""

    def fold(self, items: Iterable[Item]) -> None:
        """Take over items that a call emitted elsewhere, in order; one whose id is known already is left out."""


class ItemStore:
    """Items in a plain list, for a transport, a script or a test."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items = list(items)

    def latest(self, type: str) -> Item | None:  # noqa: A002  the wire's word
        return next((item for item in reversed(self._items) if item.type == type), None)

    def emit(self, type: str, data: Any) -> Item:  # noqa: A002  the wire's word
        item = new_item(type, data)
        self._items.append(item)
        return item

    def list(self, type: str | None = None) -> list[Item]:  # noqa: A002  the wire's word
        return [item for item in self._items if type is None or item.type == type]

    def fold(self, items: Iterable[Item]) -> None:
        known = {item.id for item in self._items}
        self._items.extend(item for item in items if item.id not in known)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


@dataclass(frozen=True, slots=True)
class ToolResumption:
    """The answer to an interrupt, for the call that goes on after it.

    state: as the interrupt carried it: sealed text of an action, JSON data of a tool made by `define_tool`; by: who
    answered, where that is known.
    """

    interrupt_id: str
    answer: Any
    state: Any
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool is given beside its input. It holds nothing of a server.

    user_id: on whose behalf; items: the conversation's, read and added to; timeout: seconds until the call ends as
    `deadline_exceeded` (default 5 minutes, 24 hours in lane `long`); signal: setting it cancels the action;
    on_progress: called with what the action tells while it runs; trace: where the call belongs, by default that of the
    action that makes it; call_id: what the call is known by, for one that is to be the same when it is made again (a
    script gives each of its calls one that is derived from it); without it each call has an id of its own.
    """

    logger: Logger = _LOGGER
    user_id: str | None = None
    resumption: ToolResumption | None = None
    items: ToolItems | None = None
    timeout: float | None = None
    signal: asyncio.Event | None = None
    on_progress: ProgressSink | None = None
    trace: Trace | None = None
    call_id: str | None = None
