from __future__ import annotations

from contextlib import suppress

import pytest

from grundlag_bus import ConfigurationError, GatewayLimits
from grundlag_bus.gateway.limits import Shares
from grundlag_bus.gateway.refusing import Refused


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def spend(shares: Shares, times: int, user_id: str | None = "ada") -> int:
    """Ask so often, and return how often that was allowed."""
    allowed = 0
    for _ in range(times):
        with suppress(Refused):
            shares.spend(user_id)
            allowed += 1
    return allowed


def test_a_burst_is_allowed_and_then_the_rate() -> None:
    clock = Clock()
    shares = Shares(GatewayLimits(rate=2, burst=5), clock)
    assert spend(shares, 10) == 5
    clock.now += 2
    assert spend(shares, 10) == 4
    clock.now += 1000
    assert spend(shares, 10) == 5


def test_each_user_has_a_share_of_its_own() -> None:
    shares = Shares(GatewayLimits(rate=1, burst=2), Clock())
    assert [spend(shares, 5, user) for user in ("ada", "bob", None)] == [2, 2, 2]


def test_the_answer_says_when_to_come_again() -> None:
    shares = Shares(GatewayLimits(rate=0.1, burst=1), Clock())
    shares.spend("ada")
    with pytest.raises(Refused) as raised:
        shares.spend("ada")
    assert raised.value.headers == {"Retry-After": "10"}


def test_so_many_run_at_once_and_no_more() -> None:
    shares = Shares(GatewayLimits(concurrent=2), Clock())
    with shares.one("ada"), shares.one("ada"), shares.one("bob"), pytest.raises(Refused):
        shares.enter("ada")
    with shares.one("ada"):
        pass
    assert not shares._running


def test_users_who_have_gone_are_forgotten() -> None:
    shares = Shares(GatewayLimits(), Clock())
    for number in range(10_100):
        shares.spend(f"user {number}")
    assert len(shares._buckets) == 10_000


@pytest.mark.parametrize("field", ["body", "body_seconds", "concurrent", "rate", "burst"])
def test_a_limit_of_nothing_is_refused(field: str) -> None:
    with pytest.raises(ConfigurationError):
        GatewayLimits(**{field: 0})
