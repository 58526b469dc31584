"""What a call tells before it ends, as far as its caller asked to hear it.

    { v, callId, progress: { done, total?, text? } | { items } | { started } | { deferredUntil } }

It may be lost with a connection: nothing depends on it. Early items come again with the reply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import orjson

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema import fields
from grundlag_bus.schema.items import Item

TYPE = "progress"
"""The type of such a message."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One report: how far the call is, or items, or that it was started or put off.

    done, total: in whatever the action counts; items: emitted now, as JSON data; started, deferred_until: Unix seconds.
    """

    done: float | None = None
    total: float | None = None
    text: str | None = None
    items: list[dict[str, Any]] = field(default_factory=list)
    started: float | None = None
    deferred_until: float | None = None


ProgressSink: TypeAlias = Callable[[Progress], object]
"""Called in the loop with each report, in order; must return at once."""


def encode_progress(call_id: str, progress: Progress) -> bytes:
    return orjson.dumps({"v": fields.VERSION, "callId": call_id, "progress": progress_to_json(progress)})


def decode_progress(body: bytes) -> tuple[str, Progress]:
    """Read a report, with the id of its call. Raises EnvelopeError with the reason."""
    data = fields.load(body)
    try:
        return fields.text(data, "callId"), progress_from_json(data["progress"])
    except KeyError as error:
        raise EnvelopeError(f"the progress envelope lacks {error.args[0]!r}") from error


def progress_to_json(progress: Progress) -> dict[str, Any]:
    """Write the report alone, as a stream over HTTP carries it."""
    if progress.items:
        return {"items": progress.items}
    if progress.started is not None:
        return {"started": fields.instant_to_json(progress.started)}
    if progress.deferred_until is not None:
        return {"deferredUntil": fields.instant_to_json(progress.deferred_until)}
    told = {"done": progress.done, "total": progress.total, "text": progress.text}
    return {name: value for name, value in told.items() if value is not None}


def progress_from_json(data: Any) -> Progress:
    """Read the report alone. Raises EnvelopeError."""
    if type(data) is not dict:
        raise EnvelopeError("the progress is no object")
    if "items" in data:
        items = fields.objects(data["items"])
        for item in items:
            Item.from_json(item)
        return Progress(items=items)
    if "started" in data:
        return Progress(started=fields.instant(data, "started"))
    if "deferredUntil" in data:
        return Progress(deferred_until=fields.instant(data, "deferredUntil"))
    return Progress(_number(data, "done"), _number(data, "total"), fields.optional_text(data, "text"))


def _number(data: dict[str, Any], name: str) -> float | None:
    value = data.get(name)
    if value is not None and type(value) not in (int, float):
        raise EnvelopeError(f"{name!r} is no number but of type {type(value).__name__}")
    return value
