"""Items: the typed things in a conversation that calls read and emit."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, field_validator

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.refusal import short


class Item(BaseModel):
    """One item. `data` is plain JSON data; on the wire `created_at` is `createdAt`, RFC 3339 in UTC."""

    model_config = ConfigDict(frozen=True, extra="ignore", validate_by_name=True)

    id: str = Field(min_length=1)
    type: str = Field(min_length=1)
    data: Any
    created_at: AwareDatetime = Field(alias="createdAt")

    @field_validator("created_at")
    @classmethod
    def _to_utc(cls, moment: datetime) -> datetime:
        try:
            return moment.astimezone(UTC)
        except OverflowError:
            raise ValueError("the time is outside the years 1 to 9999 in UTC") from None

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "type": self.type, "data": self.data, "createdAt": plain(self.created_at)}

    @classmethod
    def from_json(cls, data: Any) -> Item:
        """Read an item. Raises EnvelopeError."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "the item itself"
            raise EnvelopeError(f"an item is malformed at {place}: {short(first['msg'])}") from error


def new_item(type: str, data: Any) -> Item:  # noqa: A002  the wire's word
    """Make an item with an id of its own, created now. Raises NotJsonError where `data` is no JSON data."""
    return Item(id=os.urandom(16).hex(), type=type, data=plain(data), created_at=datetime.now(UTC))
