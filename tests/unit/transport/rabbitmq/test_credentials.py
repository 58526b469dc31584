from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from grundlag_bus.errors import BusUnreachableError, ConfigurationError
from grundlag_bus.transport.rabbitmq import Address
from grundlag_bus.transport.rabbitmq.credentials import login


async def test_an_address_s_own_are_used_where_nothing_else_gives_them() -> None:
    assert await login(Address(user="ada", password="p"), 1) == ("ada", "p")


@pytest.mark.parametrize(
    ("text", "password"), [("p", "p"), ("p\n", "p"), ("p\r\n", "p"), (" p \n", " p "), ("", ""), ("ä\n", "ä")]
)
async def test_a_password_file_is_read_each_time_without_its_last_newline(
    tmp_path: Path, text: str, password: str
) -> None:
    file = tmp_path / "password"
    address = Address(user="ada", password_file=str(file))
    file.write_text("another", encoding="utf-8")
    assert await login(address, 1) == ("ada", "another")
    file.write_bytes(text.encode())
    assert await login(address, 1) == ("ada", password)


async def test_a_password_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        await login(Address(password_file=str(tmp_path / "missing")), 1)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="UTF-8"):
        await login(Address(password_file=str(tmp_path / "binary")), 1)


async def test_credentials_come_from_a_function_or_a_coroutine_function() -> None:
    async def fetch() -> tuple[str, str]:
        await asyncio.sleep(0)
        return "ada", "fetched"

    assert await login(Address(credentials=fetch), 1) == ("ada", "fetched")
    assert await login(Address(credentials=lambda: ("bob", "given")), 1) == ("bob", "given")


async def test_credentials_that_cannot_be_had_make_the_broker_unreachable_and_are_not_told() -> None:
    def fail() -> tuple[str, str]:
        raise OSError("the vault says: secret")

    async def hang() -> tuple[str, str]:
        await asyncio.sleep(60)
        return "", ""

    for credentials in (fail, hang):
        with pytest.raises(BusUnreachableError) as raised:
            await login(Address("broker", credentials=credentials), 0.05)
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize("given", ["secret", ("secret",), ("ada", b"secret"), None, ["ada", "secret"]])
async def test_credentials_of_another_shape_are_refused_and_not_told(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"\(user, password\)") as raised:
        await login(Address(credentials=lambda: given), 1)
    assert "secret" not in str(raised.value)
