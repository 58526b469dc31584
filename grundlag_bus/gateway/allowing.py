"""Which actions a user may see and call, where an operator says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import ConfigurationError, NotJsonError
from grundlag_bus.schema.codec import parse
from grundlag_bus.schema.names import check_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

EVERYBODY = "*"


class AllowLists:
    """For each user, and for everybody as `*`: patterns `provider.action`, where `*` is any. Who has none has nothing.

    lists: patterns by user id. Raises ConfigurationError.
    """

    def __init__(self, lists: Mapping[str, Sequence[str]]) -> None:
        self._lists = {user: tuple(map(_read, patterns)) for user, patterns in lists.items()}

    @classmethod
    def load(cls, file: Path) -> AllowLists:
        """Read a JSON object {user: ["provider.action", ...]}. Raises ConfigurationError."""
        try:
            data: Any = parse(file.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"The allow-lists cannot be read from {file} ({error.strerror}).") from error
        except NotJsonError as error:
            raise ConfigurationError(f"The allow-lists in {file} are no JSON: {error.issue.message}.") from error
        if not isinstance(data, dict) or not all(_is_texts(patterns) for patterns in data.values()):
            raise ConfigurationError(f'The allow-lists in {file} are no object of the form {{"user": ["demo.*"]}}.')
        return cls(data)

    def allow(self, user_id: str | None, provider_id: str, action_id: str) -> bool:
        """Whether the user may call an action, there or not."""
        return any(
            provider in ("*", provider_id) and action in ("*", action_id) for provider, action in self._of(user_id)
        )

    def _of(self, user_id: str | None) -> tuple[tuple[str, str], ...]:
        own = () if user_id is None or user_id == EVERYBODY else self._lists.get(user_id, ())
        return own + self._lists.get(EVERYBODY, ())


def _read(pattern: str) -> tuple[str, str]:
    provider, dot, action = pattern.partition(".")
    if not dot:
        raise ConfigurationError(f"{pattern!r} allows nothing: write provider.action, where * is any, as in 'demo.*'.")
    for kind, part in (("provider", provider), ("action", action)):
        if part != "*":
            check_id(kind, part)
    return provider, action


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
