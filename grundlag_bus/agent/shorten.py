"""Make JSON data fit a number of bytes, keep its shape, and say what was left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grundlag_bus.schema.codec import encoded_size

if TYPE_CHECKING:
    from grundlag_bus.errors import IssuePath

_LEAST = 64  # bytes: a field that would keep less is left out as a whole
_SHOWN = 5  # names of fields that a phrase holds


@dataclass(frozen=True, slots=True)
class Shortened:
    """What is missing of a value. size: its bytes of JSON as a whole; left_out: a phrase for each place."""

    size: int
    limit: int
    left_out: tuple[str, ...]


def shorten(value: Any, limit: int) -> tuple[Any, Shortened | None]:
    """Return plain data that takes at most `limit` bytes as JSON, and what is missing of it; None where all is there.

    The beginning of texts and lists is kept, and of objects the small fields before the large ones.
    """
    size = encoded_size(value)
    if size <= limit:
        return value, None
    left_out: list[str] = []
    kept = _fit(value, limit, (), left_out)
    return kept, Shortened(size, limit, tuple(left_out))


def _fit(value: Any, room: int, at: IssuePath, left_out: list[str]) -> Any:
    """Shorten a value that is larger than its room."""
    if isinstance(value, str):
        return _fit_text(value, room, at, left_out)
    if isinstance(value, list):
        return _fit_list(value, room, at, left_out)
    if isinstance(value, dict):
        return _fit_object(value, room, at, left_out)
    left_out.append(f"{_place(at)}: left out")
    return None


def _fit_text(text: str, room: int, at: IssuePath, left_out: list[str]) -> str:
    kept = text[: max(room - 2, 0)]
    while kept and (over := encoded_size(kept) - room) > 0:
        kept = kept[: len(kept) - max(over // 6, 1)]  # a character takes six bytes at most, as an escape
    left_out.append(f"{_place(at)}: the last {len(text) - len(kept)} of {len(text)} characters")
    return kept


def _fit_list(values: list[Any], room: int, at: IssuePath, left_out: list[str]) -> list[Any]:
    kept: list[Any] = []
    left = room - 2
    for value in values:
        left -= encoded_size(value) + 1
        if left < -1:  # the last one has no comma
            break
        kept.append(value)
    if not kept and room - 2 >= _LEAST:
        kept.append(_fit(values[0], room - 2, (*at, 0), left_out))
    if len(kept) < len(values):
        left_out.append(f"{_place(at)}: the last {len(values) - len(kept)} of {len(values)} elements")
    return kept


def _fit_object(value: dict[str, Any], room: int, at: IssuePath, left_out: list[str]) -> dict[str, Any]:
    kept = dict(value)
    total = encoded_size(value)
    sizes = {name: encoded_size(part) for name, part in value.items()}
    dropped: list[str] = []
    for name in sorted(sizes, key=lambda name: sizes[name], reverse=True):
        if total <= room:
            break
        rest = sizes[name] - (total - room)
        if rest >= _LEAST and isinstance(value[name], str | list | dict):
            kept[name] = _fit(value[name], rest, (*at, name), left_out)
            total -= sizes[name] - encoded_size(kept[name])
        else:
            del kept[name]
            total -= encoded_size(name) + 1 + sizes[name] + 1  # with the colon and a comma
            dropped.append(name)
    if dropped:
        shown = ", ".join(name[:_LEAST] for name in dropped[:_SHOWN])
        more = f" and {len(dropped) - _SHOWN} more" if len(dropped) > _SHOWN else ""
        left_out.append(f"{_place(at)}: without {shown}{more}")
    return kept


def _place(at: IssuePath) -> str:
    return ".".join(str(step)[:_LEAST] for step in at) or "the result itself"
