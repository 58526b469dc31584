"""Mutations of real messages: what a stranger, a bug or a newer version may put on the bus."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
from hypothesis import strategies as st

from grundlag_bus import Call, Completed, Failed, Interrupted, Reply, Request, Resumption
from grundlag_bus.schema.control import Cancel
from grundlag_bus.schema.dead_letter import DeadLetter
from grundlag_bus.schema.envelope import Response, encode_call, encode_reply
from grundlag_bus.schema.event import EmittedEvent, encode_event
from grundlag_bus.schema.manifest import ActionManifest, Announcement, EventManifest, ProviderManifest
from grundlag_bus.schema.progress import Progress, encode_progress
from grundlag_bus.workers.status import WorkerStatus, encode_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Path = tuple[str | int, ...]

DEEP = 900
"""Levels that orjson still reads, and far more than our codec lets through."""


def _nested(levels: int, leaf: str = "1") -> bytes:
    return b"[" * levels + leaf.encode() + b"]" * levels


class Raw(bytes):
    """JSON text that is written as it is: what orjson would not write."""


NEVER_READ: tuple[Raw, ...] = (
    Raw(b"1e999"),
    Raw(b"NaN"),
    Raw(b'"\\ud800"'),
    Raw(b'"\xff\xfe"'),
    Raw(_nested(5000)),
    Raw(_nested(DEEP)),
)
"""Of these none may be in an envelope."""
ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    Raw(b"18446744073709551616"),
    Raw(b"1e308"),
    Raw(b"-0.0"),
    Raw(b'{"a":1,"a":2}'),
    Raw(_nested(130)),
    0.5,
    "",
    " ",
    "x" * 255,
    "x" * 300,
    "é" * 200,
    "\0",
    "#",
    "*.*",
    "a.b.c",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "2026-12-01T12:00:00",
    "2026-W49-2T12:00:00Z",
    "completed",
    "failed",
    "interrupted",
    [],
    {},
    [None],
    [{}],
    [[]],
    {"": ""},
    {"input": 1},
    {"issues": [{}]},
    {"issues": [{"path": 5, "code": [], "message": None}]},
)
"""What a field may become."""


def places(value: Any, at: Path = ()) -> Iterator[Path]:
    """Name every place in plain data, the whole first."""
    yield at
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places(inner, (*at, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*at, index))


def written(value: Any) -> bytes:
    """Write data as JSON, raw parts as they are."""
    if isinstance(value, Raw):
        return bytes(value)
    if isinstance(value, dict):
        return b"{" + b",".join(orjson.dumps(name) + b":" + written(inner) for name, inner in value.items()) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(map(written, value)) + b"]"
    return orjson.dumps(value)


class Mutator:
    """Makes what is almost a real message, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def of(self, real: bytes, *, keep: frozenset[str] = frozenset()) -> bytes:
        """Mutate once, or a few times: bytes of it, or its fields. keep: fields of the top that stay."""
        chance = self.random.random()
        if chance < 0.15 and not keep:
            return self.bytes_of(real)
        data = orjson.loads(real)
        for _ in range(1 if chance < 0.7 else self.random.randint(2, 4)):
            data = self._field_of(data, keep)
            if not isinstance(data, dict):
                break
        return written(data)

    def bytes_of(self, real: bytes) -> bytes:
        """Flip, insert, cut out or double some bytes."""
        body = bytearray(real)
        for _ in range(self.random.randint(1, 4)):
            at = self.random.randrange(len(body) + 1)
            match self.random.randrange(5):
                case 0 if at < len(body):
                    body[at] ^= 1 << self.random.randrange(8)
                case 1:
                    body[at:at] = self.random.randbytes(self.random.randint(1, 8))
                case 2:
                    del body[at : at + self.random.randint(1, 16)]
                case 3:
                    del body[at:]
                case _:
                    body[at:at] = body[at : at + 32]
        return bytes(body)

    def _field_of(self, data: Any, keep: frozenset[str]) -> Any:
        whole = [path for path in places(_readable(data)) if path and path[0] not in keep]
        if not whole or (not keep and self.random.random() < 0.01):
            return self.random.choice(ODD)
        path = self.random.choice(whole)
        odd = self.random.choice(ODD if self.random.random() < 0.9 else NEVER_READ)
        other = self.random.choice(whole)

        def change(container: Any, key: Any) -> None:
            match self.random.randrange(6):
                case 0:
                    del container[key]
                case 1 if isinstance(container, dict):
                    container[f"{key}_"] = container.pop(key)
                case 2:
                    container[key] = [container[key]]
                case 3:
                    container[key] = _at(data, other)
                case _:
                    container[key] = odd

        return _with_raw(data, path, change)


def _readable(data: Any) -> Any:
    return None if isinstance(data, Raw) else data


def _at(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


def _with_raw(data: Any, path: Path, change: Callable[[Any, Any], None]) -> Any:
    """Apply a change to a copy whose raw parts stay."""
    if len(path) == 1:
        copy = data.copy()
        change(copy, path[0])
        return copy
    copy = data.copy()
    copy[path[0]] = _with_raw(copy[path[0]], path[1:], change)
    return copy


# --- by hypothesis ----------------------------------------------------------------------------------------------------

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20)
)
json_values = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcv", max_size=3), inner, max_size=3),
    max_leaves=8,
)
instants = st.datetimes().map(lambda moment: moment.isoformat() + "Z")


@st.composite
def almost(draw: st.DrawFn, reals: list[bytes], keep: frozenset[str] = frozenset()) -> bytes:
    """Draw something near one of these messages: with other values, without fields, or with none of it."""
    if not keep and draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200) | json_values.map(orjson.dumps))
    data = orjson.loads(draw(st.sampled_from(reals)))
    for _ in range(draw(st.integers(1, 3))):
        found = [path for path in places(data) if path and path[0] not in keep]
        path = draw(st.sampled_from(found))
        value = draw(json_values | instants | st.sampled_from(ODD + NEVER_READ))

        def change(container: Any, key: Any, value: Any = value) -> None:
            container[key] = value

        data = _with_raw(data, path, change)
        if draw(st.booleans()):
            data.pop(draw(st.sampled_from(sorted(data))) if not keep else "", None)
    return written(data)


# --- real messages ----------------------------------------------------------------------------------------------------

ITEM = {"id": "i1", "type": "note", "data": {"a": [1]}, "createdAt": "2026-12-01T12:00:00Z"}
CALL = Call(
    "c1",
    "demo",
    "echo",
    Request({"value": {"a": [1, "x"]}}, Resumption("i", {"approved": True}, "abc", "ada"), [ITEM]),
    deadline=4e9,
    sent_at=1.9e9,
    user_id="ada",
    deferred={"step": [2]},
    watched=True,
)
_ISSUES = {"actionId": "echo", "issues": [{"path": ["a", 0], "code": "type", "message": "no"}]}
RESPONSES: tuple[Response, ...] = (
    Completed({"value": {"a": [1]}}, [ITEM]),
    Failed("input_invalid", "no", _ISSUES, retryable=True, items=[ITEM]),
    Failed("outcome_unknown", "no", {"published": True}),
    Interrupted("i1", "Sure?", {"a": 1}, "state", 4e9, {"type": "object"}, [ITEM]),
)
PROGRESS = (Progress(1, 2, "half"), Progress(items=[ITEM]), Progress(started=1e9), Progress(deferred_until=1e9))
_ACTION = ActionManifest(
    id="echo", name="Echo", reads=("note",), input={"type": "object"}, output={"type": "object"}, answer={}
)
_EVENT = EventManifest(id="done", name="Done", json_schema={"type": "object"})
ANNOUNCED = Announcement(
    provider_id="demo", provider=ProviderManifest(id="demo", name="Demo", actions=(_ACTION,), events=(_EVENT,))
)
REAL: dict[str, list[bytes]] = {
    "call": [encode_call(CALL)],
    "reply": [encode_reply(Reply("c1", response, "w")) for response in RESPONSES],
    "progress": [encode_progress("c1", progress) for progress in PROGRESS],
    "cancel": [Cancel("c1", 1e9).encode()],
    "event": [
        encode_event(EmittedEvent("e1", "demo", "done", "c1", datetime(2026, 12, 1, tzinfo=UTC), {"a": 1}, "ada"))
    ],
    "letter": [DeadLetter(Failed("attempts_exhausted", "no", {"starts": 3}), "w", 1e9, CALL).encode()],
    "status": [encode_status(WorkerStatus("w", ("demo",), ("main",), True, False, 1, True, False, 1, 1))],
    "announcement": [ANNOUNCED.encode()],
}
"""Of each kind of message, what is really sent."""
