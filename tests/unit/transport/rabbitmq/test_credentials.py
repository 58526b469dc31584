from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from grundlag_bus.errors import BusUnreachableError, ConfigurationError
from grundlag_bus.transport.rabbitmq import Address
from grundlag_bus.transport.rabbitmq.credentials import login
from tests.support.eventually import eventually


async def test_an_address_s_own_are_used_where_nothing_else_gives_them() -> None:
    assert await login(Address(user="ada", password="p"), 1) == ("ada", "p")


@pytest.mark.parametrize(
    ("text", "password"), [("p", "p"), ("p\n", "p"), ("p\r\n", "p"), (" p \n", " p "), ("ä\n", "ä")]
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


async def test_an_empty_user_or_password_is_refused_and_not_made_up(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("\n")
    for address in (
        Address(user="ada", password=""),
        Address(user="ada", password_file=str(tmp_path / "password")),
        Address(credentials=lambda: ("ada", "")),
    ):
        with pytest.raises(ConfigurationError, match=r"password .* is empty"):
            await login(address, 1)
    with pytest.raises(ConfigurationError, match=r"user .* is empty"):
        await login(Address(credentials=lambda: ("", "p")), 1)


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


async def test_credentials_that_cancel_themselves_fail_and_do_not_end_who_asks() -> None:
    async def share_a_cancelled_refresh() -> tuple[str, str]:
        raise asyncio.CancelledError

    with pytest.raises(BusUnreachableError, match="CancelledError"):
        await login(Address(credentials=share_a_cancelled_refresh), 1)


async def test_who_asks_for_credentials_can_be_cancelled() -> None:
    asked = asyncio.Event()

    async def hang() -> tuple[str, str]:
        asked.set()
        await asyncio.sleep(60)
        return "", ""

    asking = asyncio.create_task(login(Address(credentials=hang), 60))
    await asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_credentials_that_hang_take_no_thread_from_others_and_are_asked_for_a_few_times_alone() -> None:
    ended, asked = threading.Event(), 0

    def hang() -> tuple[str, str]:
        nonlocal asked
        asked += 1
        ended.wait()
        return "ada", "late"

    address = Address(credentials=hang)
    for _ in range(40):  # more than the event loop has threads for what blocks
        with pytest.raises(BusUnreachableError, match="TimeoutError"):
            await login(address, 0.01)
    assert asked < 10
    assert await asyncio.to_thread(lambda: "another") == "another"
    assert all(thread.daemon for thread in threading.enumerate() if "credentials" in thread.name), "none outlives it"
    ended.set()
    await eventually(lambda: not any("credentials" in thread.name for thread in threading.enumerate()))
    assert await login(address, 10) == ("ada", "late")


@pytest.mark.parametrize("given", ["secret", ("secret",), ("ada", b"secret"), None, ["ada", "secret"]])
async def test_credentials_of_another_shape_are_refused_and_not_told(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"\(user, password\)") as raised:
        await login(Address(credentials=lambda: given), 1)
    assert "secret" not in str(raised.value)
