"""Time zones by the names that a calendar file uses."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from icalendar.timezone import tzp
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

if TYPE_CHECKING:
    from datetime import tzinfo

    from icalendar import Component, Timezone, vRecur

_NAME_LENGTH = 255
_DAYS_OF_A_WEEK = 7  # as in BYMONTH=3;BYMONTHDAY=8,9,10,11,12,13,14;BYDAY=SU


def known_zone(name: str) -> ZoneInfo | None:
    """Return the zone of the IANA database, by its own name or the one that Windows has for it."""
    name = name.strip("/")
    if not name or len(name) > _NAME_LENGTH:
        return None
    try:
        return ZoneInfo(WINDOWS_TO_OLSON.get(name, name))
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: a folder of the database, such as `Europe`
        return None


class Zones:
    """The zones of one calendar: those of the IANA database, then those that the file defines.

    A definition is never kept beyond its file: icalendar's own cache would let the next file, of another user, take it.
    """

    def __init__(self) -> None:
        self._definitions: dict[str, Timezone] = {}
        self._found: dict[str, tzinfo | None] = {}

    def define(self, definition: Timezone) -> None:
        """Take a VTIMEZONE of the file; the first of a name counts."""
        if "TZID" in definition:
            self._definitions.setdefault(str(definition["TZID"]), definition)

    def find(self, name: str) -> tzinfo | None:
        """Return the zone, or None where the name means nothing. Raises ValueError for a definition without sense."""
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    def _look_up(self, name: str) -> tzinfo | None:
        # The database goes first: files define only the years that they need, and often not even those.
        zone = known_zone(name)
        if zone is not None:
            return zone
        if name in self._definitions:
            return _defined(self._definitions[name])
        if not name.startswith("/"):
            return None
        parts = name.strip("/").split("/")[-3:]  # /vendor.example/America/Argentina/Buenos_Aires
        tails = ("/".join(parts[start:]) for start in range(len(parts)))
        return next((zone for tail in tails if (zone := known_zone(tail)) is not None), None)


def _defined(definition: Timezone) -> tzinfo:
    observances = [part for part in definition.subcomponents if part.name in {"STANDARD", "DAYLIGHT"}]
    if not observances:
        raise ValueError("it has neither STANDARD nor DAYLIGHT")
    if not all(_is_countable(observance) for observance in observances):
        raise ValueError("it changes more often than a few times a year")
    for observance in observances:
        for bound in ("TZOFFSETFROM", "TZOFFSETTO"):
            if not isinstance(getattr(observance.get(bound), "td", None), timedelta):
                raise ValueError(f"a part of it has no {bound}")  # noqa: TRY004  the file's fault, not a caller's type
    try:
        zone: tzinfo = definition.to_tz(tzp, lookup_tzid=False)
    except Exception as exc:  # icalendar and dateutil raise whatever a strange definition makes them
        raise ValueError("its rules cannot be read") from exc
    return zone


def _is_countable(observance: Component) -> bool:
    """Say whether its rule names a handful of instants a year; anything else could be counted out for hours."""
    rules = observance.get("RRULE", [])
    return all(_is_yearly(rule) for rule in (rules if isinstance(rules, list) else [rules]))


def _is_yearly(rule: vRecur) -> bool:
    days_of_month = len(rule.get("BYMONTHDAY", []))
    return (
        [str(part) for part in rule.get("FREQ", [])] == ["YEARLY"]
        and rule.get("INTERVAL", [1])[0] >= 1
        and all(len(value) <= 1 for name, value in rule.items() if name.startswith("BY") and name != "BYMONTHDAY")
        and (days_of_month == 0 or (days_of_month <= _DAYS_OF_A_WEEK and "BYMONTH" in rule))
    )
