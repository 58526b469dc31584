"""Who connects: asked for at each attempt, so that a password that was changed is taken without a restart."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import BusUnreachableError, ConfigurationError

if TYPE_CHECKING:
    from grundlag_bus.transport.rabbitmq.address import Address, Credentials

_MOST_ASKED = 8
"""Threads that may hang in one `credentials` before it is asked no more until one of them has ended."""


async def login(address: Address, seconds: float) -> tuple[str, str]:
    """Return user and password of this attempt. No error holds either.

    Raises ConfigurationError, BusUnreachableError (what gives the credentials failed, or took longer than `seconds`).
    """
    user, password = await _given(address, seconds)
    if not (user and password):  # aiormq would take its own for what is missing
        missing = "password" if user else "user"
        raise ConfigurationError(f"The {missing} for {address} is empty: give one.")
    return user, password


async def _given(address: Address, seconds: float) -> tuple[str, str]:
    if address.credentials is not None:
        return await _fetched(address, address.credentials, seconds)
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


async def _fetched(address: Address, credentials: Credentials, seconds: float) -> tuple[str, str]:
    this_task = asyncio.current_task()
    try:
        async with asyncio.timeout(seconds):
            given: Any = await asyncio.wrap_future(_asked(credentials))
            if inspect.isawaitable(given):
                given = await given
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and this_task is not None and this_task.cancelling():
            raise  # this attempt is cancelled, and not something within `credentials`
        raise BusUnreachableError(
            f"The credentials for {address} could not be had ({type(error).__name__}): see what `credentials` does."
        ) from error
    if not (isinstance(given, tuple) and list(map(type, given)) == [str, str]):
        raise ConfigurationError(
            f"The credentials for {address} are of the type {type(given).__name__}: return (user, password), two texts."
        )
    user, password = given
    return user, password


def _asked(credentials: Credentials) -> Future[Any]:
    """Call it in a thread of its own, since one that is no coroutine function may wait for a server.

    A daemon, so that one that hangs neither takes a thread from what else needs one nor keeps the program from ending.
    """
    name = f"grundlag-credentials-{id(credentials):x}"
    if sum(thread.name == name for thread in threading.enumerate()) >= _MOST_ASKED:
        raise TimeoutError("it did not answer before")
    answer: Future[Any] = Future()
    answer.set_running_or_notify_cancel()
    work = contextvars.copy_context().run
    threading.Thread(target=work, args=(_answer, credentials, answer), name=name, daemon=True).start()
    return answer


def _answer(credentials: Credentials, answer: Future[Any]) -> None:
    try:
        answer.set_result(credentials())
    except BaseException as error:  # noqa: BLE001  it is raised where it was asked for
        answer.set_exception(error)
