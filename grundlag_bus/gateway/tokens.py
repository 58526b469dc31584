"""Bearer tokens that an operator gave out, from a file."""

from __future__ import annotations

import hmac
import os
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import ConfigurationError, NotJsonError, UnauthenticatedError
from grundlag_bus.gateway.access import LONGEST_TOKEN, is_user_id
from grundlag_bus.schema.codec import parse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SHORTEST_TOKEN = 16


class StaticTokens:
    """Knows users by tokens that do not expire.

    Kept as digests under a key of this process: how long a look-up takes tells nothing of a token.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        """users: the user id of each token. Raises ConfigurationError."""
        self._key = os.urandom(32)
        self._users: dict[bytes, str] = {}
        for token, user_id in users.items():
            if not (SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN and token.isascii() and token.isprintable()):
                raise ConfigurationError(
                    f"The token of user {user_id!r} is no token: take {SHORTEST_TOKEN} letters and digits or more, as "
                    "`openssl rand -hex 32` prints them."
                )
            if not is_user_id(user_id):
                raise ConfigurationError(f"{user_id!r} is no user id: take 1 to 256 printable characters.")
            self._users[self._digest(token)] = user_id
        if not self._users:
            raise ConfigurationError("There is no token, so that nobody could call: add lines of `TOKEN USER`.")

    @classmethod
    def load(cls, file: Path) -> StaticTokens:
        """Read lines of `TOKEN USER` (# begins a comment), or JSON {token: user}. Raises ConfigurationError."""
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"The tokens cannot be read from {file} ({error}).") from error
        return cls(_from_json(text, file) if text.lstrip().startswith("{") else _from_lines(text, file))

    async def user_id(self, token: str) -> str:
        """See `Authenticator.user_id`."""
        user_id = self._users.get(self._digest(token))
        if user_id is None:
            raise UnauthenticatedError("Nobody has this token.")
        return user_id

    def _digest(self, token: str) -> bytes:
        return hmac.digest(self._key, token.encode(errors="replace"), "sha256")


def _from_lines(text: str, file: Path) -> dict[str, str]:
    users: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        token, _, user_id = line.strip().partition(" ")
        if not user_id.strip() or token in users:
            raise ConfigurationError(f"Line {number} of {file} is no `TOKEN USER` with a token of its own.")
        users[token] = user_id.strip()
    return users


def _from_json(text: str, file: Path) -> dict[str, str]:
    try:
        users: Any = parse(text)
    except NotJsonError as error:
        raise ConfigurationError(f"The tokens in {file} are no JSON: {error.issue.message}.") from error
    if not all(isinstance(user_id, str) for user_id in users.values()):
        raise ConfigurationError(f"The tokens in {file} are no object of the form {{token: user}}.")
    return dict(users)
