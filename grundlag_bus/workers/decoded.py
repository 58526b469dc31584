"""Reads what comes through the queue of a provider's lane."""

from __future__ import annotations

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.schema.envelope import Call, decode_call


def decoded(body: bytes, provider_id: str, lane: str) -> Call:
    """Read a call that came through the queue of a provider's lane. Raises EnvelopeError.

    Who may publish to a queue is the broker's permission: an envelope must not lead past it.
    """
    call = decode_call(body)
    if (call.provider_id, call.lane) != (provider_id, lane):
        named = f"provider {call.provider_id!r}, lane {call.lane!r}"
        raise EnvelopeError(f"it names {named} and came through the queue of {provider_id!r}, {lane!r}")
    return call
