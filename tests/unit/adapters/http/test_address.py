"""Addresses and tokens of HTTP hosts: what cannot be one is refused, and no secret is repeated."""

from __future__ import annotations

import pytest

from grundlag_bus import ConfigurationError, connect
from grundlag_bus.adapters.http.address import HostAddress
from grundlag_bus.adapters.http.bearer import check_token, token_for


@pytest.mark.parametrize(
    ("url", "action"),
    [
        ("http://localhost:8000", "http://localhost:8000/api/actions/a/b"),
        ("https://example.com/base/", "https://example.com/base/api/actions/a/b"),
        ("http://[::1]:80", "http://[::1]:80/api/actions/a/b"),
    ],
)
def test_paths_are_below_the_address(url: str, action: str) -> None:
    assert HostAddress.parse(url).action("a", "b") == action


def test_ids_that_are_no_ids_stay_below_it_too() -> None:
    assert HostAddress.parse("http://h").action("..", "a/b?c") == "http://h/api/actions/../a%2Fb%3Fc"


@pytest.mark.parametrize(
    "url", ["http://", "https:///x", "http://u:hunter2@h", "http://h?hunter2", "http://h#hunter2", "http://h:70000"]
)
def test_what_is_no_address_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(ConfigurationError, match="host") as raised:
        connect(url)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("token", ["", "hunter2 x", "hunter2\n", "hunter2é"])
def test_what_no_header_can_hold_is_no_token_and_not_repeated(token: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        check_token(token)
    assert "hunter2" not in str(raised.value)


async def test_a_token_is_given_for_each_user() -> None:
    async def later(user_id: str | None) -> str:
        return f"later-{user_id}"

    assert await token_for(None, "ada") is None
    assert await token_for("fixed", "ada") == "fixed"
    assert await token_for(lambda user_id: f"of-{user_id}", "ada") == "of-ada"
    assert await token_for(later, None) == "later-None"


async def test_a_function_that_gives_no_token_is_told_of_without_what_it_said() -> None:
    def fail(_: str | None) -> str:
        raise LookupError("hunter2")

    with pytest.raises(ConfigurationError, match="LookupError") as raised:
        await token_for(fail, None)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("source", ["amqp://localhost", "memory://"])
def test_only_an_http_host_is_given_a_token(source: str) -> None:
    with pytest.raises(ConfigurationError, match="Only an HTTP host"):
        connect(source, token="hunter2")
