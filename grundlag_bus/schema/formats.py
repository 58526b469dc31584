"""Formats that JSON Schema's authors and pydantic read differently.

A format must accept whatever pydantic writes under its name, or an action could not return it: times without an
offset, durations with years and days or a sign, addresses that RFC 3986 or RFC 5321 would have escaped, IPv6 addresses
with a zone. A pattern is any text: it is written in the dialect of whoever uses it, which need not be ECMA 262.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?(Z|z|[+-]([01]\d|2[0-3]):[0-5]\d)?", re.ASCII)
_DURATION = re.compile(r"[+-]?P(?=\d|T)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?", re.ASCII)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"\\\x00-\x1f]+")
_EMAIL = re.compile(r"[^\s@]+@[^\s@]+")


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _matching(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


FORMATS: dict[str, Callable[[str], bool]] = {
    "time": _matching(_TIME),
    "duration": _matching(_DURATION),
    "uri": _matching(_URI),
    "email": _matching(_EMAIL),
    "ipv6": _is_ipv6,
    "regex": lambda _: True,
}

# What to say of a text that is not of a format, where its name does not say it.
READS: dict[str, str] = {
    "date-time": "a time such as 2026-01-31T09:30:00Z, with an offset",
    "date": "a date such as 2026-01-31",
    "time": "a time of day such as 09:30:00",
    "duration": "a duration such as PT90M or P1DT2H",
    "uri": "an absolute URI",
    "email": "an e-mail address",
    "uuid": "a UUID with hyphens",
}
