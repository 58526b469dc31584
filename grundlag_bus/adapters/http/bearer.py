"""The token that says who calls."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from grundlag_bus.errors import ConfigurationError

Token: TypeAlias = str | Callable[[str | None], str | Awaitable[str]]
"""A token, or a function that gives the one for a user id: called for each request, in the loop."""


def check_token(token: object) -> str:
    """Return a token that a header can hold. Raises ConfigurationError, which does not repeat it."""
    if not isinstance(token, str):
        raise ConfigurationError(f"The token is of the type {type(token).__name__}: give a text.")
    if not token or not all("!" <= c <= "~" for c in token):
        raise ConfigurationError("The token is empty, or holds a space or a sign that no header can: correct it.")
    return token


async def token_for(token: Token | None, user_id: str | None) -> str | None:
    """Return the token to send on behalf of a user, None for none. Raises ConfigurationError, which holds none."""
    if token is None or isinstance(token, str):
        return token
    try:
        given = token(user_id)
        if inspect.isawaitable(given):
            given = await given
    except Exception as error:
        raise ConfigurationError(
            f"The token could not be had ({type(error).__name__}): see what the function given as `token` does."
        ) from error
    return check_token(given)
