from __future__ import annotations

import pytest

from grundlag_bus.cli.demo.events import start_of


@pytest.mark.parametrize(
    ("local", "zone", "told"),
    [
        ("2024-10-05T13:00:00+01:00", "Europe/London", "2024-10-05 13:00 Europe/London (UTC+1)"),
        ("2014-08-29T08:00:00-04:00", "custom", "2014-08-29 08:00 custom (UTC-4)"),
        ("2024-01-01T00:00:00+05:30", "Asia/Kolkata", "2024-01-01 00:00 Asia/Kolkata (UTC+5:30)"),
        ("2024-10-04T18:15:00+00:00", "UTC", "2024-10-04 18:15 UTC"),
        ("2024-10-04T18:15:00Z", "Europe/London", "2024-10-04 18:15 Europe/London (UTC)"),
    ],
)
def test_a_start_is_shown_in_its_zone_with_the_offset(local: str, zone: str, told: str) -> None:
    assert start_of({"allDay": False, "localStart": local, "timeZone": zone}) == told


def test_an_all_day_start_is_a_day() -> None:
    assert start_of({"allDay": True, "localStart": "2014-08-29", "timeZone": "UTC"}) == "2014-08-29 all day"
