from __future__ import annotations

import pytest

from grundlag_bus.cli.dead.filters import Filters, choose, read_when
from grundlag_bus.errors import ConfigurationError
from grundlag_bus.schema.dead_letter import Death, read_dead_letter

NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("90s", NOW - 90),
        ("15m", NOW - 900),
        ("1d2h", NOW - 93_600),
        ("1970-01-01T00:00:07Z", 7.0),
        ("1970-01-01T02:00:07+02:00", 7.0),
    ],
)
def test_an_age_or_an_instant_is_read(text: str, instant: float) -> None:
    assert read_when("--since", text, NOW) == instant


@pytest.mark.parametrize("text", ["", "2", "h", "2h1d", "-2h", "2 h", "1.5h", "1970-01-01T00:00:07", "noon"])
def test_what_is_neither_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--since cannot be read"):
        read_when("--since", text, NOW)


def test_a_letter_without_a_call_fits_no_provider_and_no_action() -> None:
    letter = read_dead_letter(b"no json", Death("rejected", "grundlag.1.calls.calendar.main", 5.0))
    assert Filters(code="envelope_refused", since=5.0, until=6.0).take(letter)
    assert not Filters(provider="calendar").take(letter)
    assert not Filters(action="createEvent").take(letter)


def test_a_letter_of_an_unknown_time_fits_no_time() -> None:
    letter = read_dead_letter(b"no json")
    assert Filters().take(letter)
    assert not Filters(since=0.0).take(letter)
    assert not Filters(until=NOW).take(letter)


def test_a_command_that_takes_all_only_on_demand_asks_for_it() -> None:
    assert choose(every=True).takes_all
    assert not choose(["a"], every=False).takes_all
    with pytest.raises(ConfigurationError, match="--all"):
        choose(limit=3, every=False)
