"""An event and a calendar as they come in, before they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class ParsedEvent:
    """An event.

    uid: identifies it among all calendars; recurrence_id: which occurrence of a series it replaces, or "";
    starts_at, ends_at: in UTC; local_start: as the wall clock shows it, with its offset, and for an all-day event its
    first day; recurrence: the lines of its rule, as the file has them; status: confirmed, tentative or cancelled.
    """

    uid: str
    recurrence_id: str
    title: str
    starts_at: datetime
    ends_at: datetime
    all_day: bool
    time_zone: str
    local_start: str
    location: str | None
    description: str | None
    recurrence: str
    status: str


@dataclass(frozen=True, slots=True)
class ParsedCalendar:
    """What a file holds; name: the first calendar's X-WR-CALNAME."""

    name: str | None
    events: tuple[ParsedEvent, ...]
