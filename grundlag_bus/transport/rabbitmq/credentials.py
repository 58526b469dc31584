"""Who connects: asked for at each attempt, so that a password that was changed is taken without a restart."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import BusUnreachableError, ConfigurationError

if TYPE_CHECKING:
    from grundlag_bus.transport.rabbitmq.address import Address


async def login(address: Address, seconds: float) -> tuple[str, str]:
    """Return user and password of this attempt. No error holds either.

    Raises ConfigurationError, BusUnreachableError (what gives the credentials failed, or took longer than `seconds`).
    """
    if address.credentials is not None:
        return await _fetched(address, seconds)
    if address.password_file is None:
        return address.user, address.password
    try:
        text = await asyncio.to_thread(Path(address.password_file).read_text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigurationError(
            f"The password file {address.password_file} for {address} cannot be read ({why}): correct password_file."
        ) from error
    return address.user, text.rstrip("\r\n")


async def _fetched(address: Address, seconds: float) -> tuple[str, str]:
    assert address.credentials is not None  # noqa: S101  its caller looked
    try:
        async with asyncio.timeout(seconds):
            # In a thread, since one that is no coroutine function may wait for a server.
            given: Any = await asyncio.to_thread(address.credentials)
            if inspect.isawaitable(given):
                given = await given
    except Exception as error:
        raise BusUnreachableError(
            f"The credentials for {address} could not be had ({type(error).__name__}): see what `credentials` does."
        ) from error
    if not (isinstance(given, tuple) and list(map(type, given)) == [str, str]):
        raise ConfigurationError(
            f"The credentials for {address} are of the type {type(given).__name__}: return (user, password), two texts."
        )
    user, password = given
    return user, password
