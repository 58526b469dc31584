"""From an HTTP request to a call: the headers and the body of `POST /api/actions/...`, checked."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import (
    ActionInputValidationError,
    ActionUnknownError,
    CallError,
    EnvelopeError,
    ForbiddenError,
    Issue,
    NotJsonError,
)
from grundlag_bus.gateway.catalogue import PAUSE_SECONDS
from grundlag_bus.schema.codec import canonical, digest, parse
from grundlag_bus.schema.envelope import derived_id, request_from_json
from grundlag_bus.schema.items import Item
from grundlag_bus.schema.trace import Trace
from grundlag_bus.tools import ItemStore, ToolContext, ToolResumption

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from grundlag_bus.gateway.catalogue import Catalogue
    from grundlag_bus.schema.envelope import Call, Request, Resumption

LONGEST_TIMEOUT = 30 * 24 * 3600.0
_KEY = re.compile(r"[A-Za-z0-9_.:-]{1,128}", re.ASCII)
_PARTS = frozenset(("input", "resumption", "items"))
_AROUND = 3
"""Levels of a request that enclose data: {items: [{data: ...}]}."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that somebody asks for.

    key: (user, key), where the request names a key, under which it may come again; digest: of what it asks for then;
    comes_again: whether it says that it was sent before.
    """

    call: Call
    key: tuple[str | None, str] | None
    digest: str
    comes_again: bool = False


class Asking:
    """Reads requests, whose calls the manifest knows."""

    def __init__(self, catalogue: Catalogue, *, asks_for_tokens: bool) -> None:
        self._catalogue = catalogue
        self._asks_for_tokens = asks_for_tokens

    async def read(
        self, provider_id: str, action_id: str, *, user_id: str | None, headers: Headers, body: bytes
    ) -> Asked:
        """Make the call. Raises CallError: then there is nothing to call."""
        self.ensure_allowed(user_id, provider_id, action_id)
        key, timeout = key_of(headers, user_id, action_id), timeout_of(headers, action_id)
        comes_again = comes_again_of(headers, action_id)
        request = self._request(body, user_id, action_id)
        context = _context(request, user_id, timeout, trace_of(headers), action_id)
        try:
            call = await self._call(provider_id, action_id, request, context, within=math.inf)
        except CallError:  # what was announced may have changed since it was read
            call = await self._call(provider_id, action_id, request, context, within=PAUSE_SECONDS)
        if key is None:
            return Asked(call, None, "")
        if request.resumption is None:
            call = replace(call, call_id=call_id_of(key))
        asks = digest([provider_id, action_id, request.to_json()])
        return Asked(call, key, asks, comes_again=comes_again)

    def ensure_allowed(self, user_id: str | None, provider_id: str, action_id: str) -> None:
        """Raise ForbiddenError for what is not allowed, whether it exists or not."""
        if not self._catalogue.allows(user_id, provider_id, action_id):
            raise ForbiddenError("You may not call this action here, if there is one: see GET /api/client/schema.")

    async def _call(
        self, provider_id: str, action_id: str, request: Request, context: ToolContext, *, within: float
    ) -> Call:
        snapshot = await self._catalogue.current(within=within)
        remote = snapshot.actions.get((provider_id, action_id))
        if remote is None:
            raise ActionUnknownError("Nobody announced such an action: GET /api/client/schema says what there is.")
        return remote.call(request.input, context)

    def _request(self, body: bytes, user_id: str | None, action_id: str) -> Request:
        try:
            data = parse(body, around=_AROUND)
        except NotJsonError as error:
            raise ActionInputValidationError(action_id, [error.issue]) from error
        if isinstance(data, dict) and (others := data.keys() - _PARTS):
            raise _malformed(action_id, (min(others),), "is no part of a request (input, resumption, items)")
        try:
            request = request_from_json(data)
        except EnvelopeError as error:
            raise _malformed(action_id, (), error.reason) from error
        ensure_own_name(request.resumption, user_id, asks_for_tokens=self._asks_for_tokens)
        return request


def ensure_own_name(resumption: Resumption | None, user_id: str | None, *, asks_for_tokens: bool) -> None:
    """Raise ForbiddenError for an answer in the name of somebody else than the token's user."""
    by = None if resumption is None else resumption.by
    if by is not None and asks_for_tokens and by != user_id:
        raise ForbiddenError("Nobody answers in another's name: leave `by` out of the resumption.")


def key_of(headers: Headers, user_id: str | None, action_id: str) -> tuple[str | None, str] | None:
    """Return the key of a request, which is its user's own. Raises ActionInputValidationError."""
    key = headers.get("idempotency-key")
    if key is None:
        return None
    if _KEY.fullmatch(key) is None:
        raise _malformed(action_id, ("Idempotency-Key",), "is no 1 to 128 letters, digits, '_', '.', ':' and '-'")
    return user_id, key


def comes_again_of(headers: Headers, action_id: str) -> bool:
    """Return whether a request says that it may have come before. Raises ActionInputValidationError."""
    told = headers.get("x-sent-before")
    if told not in (None, "1"):
        raise _malformed(action_id, ("X-Sent-Before",), "is not 1: leave it out of what comes for the first time")
    return told is not None


def call_id_of(key: tuple[str | None, str]) -> str:
    """Make the id of the call that a user's key stands for: no other user's keys lead to it."""
    user_id, text = key
    return derived_id("http", text, canonical(user_id))


def timeout_of(headers: Headers, action_id: str) -> float | None:
    """Return the seconds that a request gives. Raises ActionInputValidationError."""
    told = headers.get("x-timeout")
    if told is None:
        return None
    try:
        seconds = float(told)
    except ValueError:
        seconds = math.nan
    if not seconds <= LONGEST_TIMEOUT or not told.isascii():
        raise _malformed(action_id, ("X-Timeout",), f"is no number of seconds of {LONGEST_TIMEOUT:.0f} at most")
    return seconds


def trace_of(headers: Headers) -> Trace | None:
    """Return where a request belongs, if that is told and well-formed."""
    parents = headers.getlist("traceparent")
    return Trace.of(parents[0], ",".join(headers.getlist("tracestate"))) if len(parents) == 1 else None


def _context(
    request: Request, user_id: str | None, timeout: float | None, trace: Trace | None, action_id: str
) -> ToolContext:
    given = request.resumption
    resumption = None
    if given is not None:
        resumption = ToolResumption(given.interrupt_id, given.answer, given.state, given.by)
    try:
        items = ItemStore(Item.from_json(item) for item in request.items) if request.items else None
    except EnvelopeError as error:
        raise _malformed(action_id, ("items",), error.reason) from error
    return ToolContext(user_id=user_id, resumption=resumption, items=items, timeout=timeout, trace=trace)


def _malformed(action_id: str, path: tuple[Any, ...], told: str) -> ActionInputValidationError:
    return ActionInputValidationError(action_id, [Issue(path, "request_malformed", told)])
