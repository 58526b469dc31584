"""The items of a transcript, by the same interface as an `ItemStore`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grundlag_bus.agent.records import ItemRecord
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.items import Item, new_item

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.agent.records import Record


class TranscriptItems:
    """Reads items among the records of a transcript, and adds them at its end. See `ToolItems`."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records

    def latest(self, type: str) -> Item | None:  # noqa: A002  the wire's word
        return next((item for item in reversed(self.list()) if item.type == type), None)

    def emit(self, type: str, data: Any) -> Item:  # noqa: A002  the wire's word
        item = new_item(type, data)
        self._records.append(ItemRecord(item=item))
        return item

    def list(self, type: str | None = None) -> list[Item]:  # noqa: A002  the wire's word
        items = [record.item for record in self._records if isinstance(record, ItemRecord)]
        return [item for item in items if type is None or item.type == type]

    def fold(self, items: Iterable[Item]) -> None:
        known = {item.id for item in self.list()}
        for item in items:
            if item.id not in known:
                self._records.append(ItemRecord(item=item.model_copy(update={"data": plain(item.data)})))
