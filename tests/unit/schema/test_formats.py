from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, timezone
from ipaddress import IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl, TypeAdapter

from grundlag_bus.schema.codec import dump
from grundlag_bus.schema.json_schema import JsonValidator, published

ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def assert_fits(kind: Any, value: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    assert JsonValidator(published(adapter, "serialization")).issues(dump(adapter, value)) == ()


def fits(format_name: str, text: str) -> bool:
    return JsonValidator({"type": "string", "format": format_name}).issues(text) == ()


@given(st.timedeltas())
def test_every_duration_that_pydantic_writes_fits(value: timedelta) -> None:
    assert_fits(timedelta, value)


@given(st.times(), st.none() | ZONES)
def test_every_time_that_pydantic_writes_fits(value: time, zone: timezone | None) -> None:
    assert_fits(time, value.replace(tzinfo=zone))


@given(st.datetimes(), ZONES)
def test_every_instant_fits(value: datetime, zone: timezone) -> None:
    if 1 < value.year < 9999:
        assert_fits(datetime, value.replace(tzinfo=zone))


@pytest.mark.parametrize(
    "text", ["http://a/?q=[1]", "http://exämple.com/ü?q=ä#f", "http://a/{x}|^", "mailto:a@b.c", "file:///a"]
)
def test_addresses_that_pydantic_reads_and_writes_fit(text: str) -> None:
    assert_fits(AnyUrl, AnyUrl(text))
    assert fits("uri", text)


@pytest.mark.parametrize(
    ("format_name", "text"),
    [
        ("time", "24:00:00"),
        ("time", "9:30"),
        ("time", "09:30:00+25:00"),
        ("time", "09:30:00\n"),
        ("duration", "P"),
        ("duration", "PT"),
        ("duration", "P1DT"),
        ("duration", "1 day"),
        ("duration", ""),
        ("uri", "no scheme"),
        ("uri", "/path"),
        ("uri", "http:// a"),
        ("email", "nobody"),
        ("email", "a@b@c"),
        ("date", "2026-02-30"),
        ("date-time", "2026-01-01T00:00:00"),
        ("date-time", "2026-01-01"),
        ("uuid", "x"),
    ],
)
def test_other_texts_do_not_fit(format_name: str, text: str) -> None:
    assert not fits(format_name, text)


def test_an_email_address_outside_ascii_fits() -> None:
    assert fits("email", "käse@exämple.com")


def test_an_instant_in_utc_fits() -> None:
    assert_fits(datetime, datetime.now(UTC))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (IPv6Address, IPv6Address("fe80::1%eth0")),
        (IPv6Address, IPv6Address("::ffff:1.2.3.4")),
        (re.Pattern, re.compile(r"(?P<name>a)\Z")),
    ],
)
def test_what_pydantic_writes_of_other_types_fits(kind: Any, value: Any) -> None:
    assert_fits(kind, value)


def test_an_address_of_another_version_does_not_fit() -> None:
    assert not fits("ipv6", "1.2.3.4")
