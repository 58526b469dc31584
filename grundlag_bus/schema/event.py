"""An event that an action emitted, as it travels to whoever listens.

    { v, id, providerId, eventId, callId, userId?, at, data }

Its id is derived from the start of the call that emitted it: a start that was lost with its worker and is repeated
gives its events the same ids, a retry or the start after a `Defer` gives them others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.errors import ConfigurationError, EnvelopeError, NotJsonError
from grundlag_bus.schema import fields
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.envelope import derived_id

if TYPE_CHECKING:
    from datetime import datetime

TYPE = "event"
"""The type of such a message."""

_WORD = re.compile(r"[*#]|[A-Za-z][A-Za-z0-9_-]{0,39}", re.ASCII)


@dataclass(frozen=True, slots=True)
class EmittedEvent:
    """Something that happened in a provider.

    id: the same each time that the same start of a call emits it; at: when, in UTC; data: plain JSON data; user_id: on
    whose behalf, as the caller of the action claims.
    """

    id: str
    provider_id: str
    event_id: str
    call_id: str
    at: datetime
    data: Any
    user_id: str | None = None

    @property
    def key(self) -> str:
        """What patterns are compared with: `provider.event`."""
        return f"{self.provider_id}.{self.event_id}"


def derived_event_id(call_id: str, generation: int, ordinal: int) -> str:
    """Make the id of the event that a start of a call emits as its first, second and so on."""
    return derived_id("event", call_id, f"{generation}.{ordinal}".encode())


def encode_event(event: EmittedEvent) -> bytes:
    data: dict[str, Any] = {
        "v": fields.VERSION,
        "id": event.id,
        "providerId": event.provider_id,
        "eventId": event.event_id,
        "callId": event.call_id,
    }
    if event.user_id is not None:
        data["userId"] = event.user_id
    data["at"] = fields.instant_to_json(event.at.timestamp())
    data["data"] = event.data
    return orjson.dumps(data)


def decode_event(body: bytes) -> EmittedEvent:
    """Read an event. Raises EnvelopeError with the reason."""
    data = fields.load(body)
    try:
        return EmittedEvent(
            id=fields.text(data, "id"),
            provider_id=fields.text(data, "providerId"),
            event_id=fields.text(data, "eventId"),
            call_id=fields.text(data, "callId"),
            at=fields.instant_to_datetime(fields.instant(data, "at")),
            data=plain(data["data"], at=("data",)),
            user_id=fields.optional_text(data, "userId"),
        )
    except KeyError as error:
        raise EnvelopeError(f"the event lacks {error.args[0]!r}") from error
    except NotJsonError as error:
        raise EnvelopeError(str(error)) from error


def check_pattern(pattern: str) -> str:
    """Return a pattern that some event can match. Raises ConfigurationError."""
    words = pattern.split(".")
    fixed = sum(word != "#" for word in words)
    known = all(_WORD.fullmatch(word) for word in words)
    if not known or fixed > 2 or (fixed < 2 and "#" not in words):  # noqa: PLR2004  a provider and an event
        raise ConfigurationError(
            f"{pattern!r} matches no event: write provider.event, with * for any word and # for any number of them, as "
            "in 'calendar.*' or '#'."
        )
    return pattern
