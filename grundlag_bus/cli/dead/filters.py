"""Which dead letters are meant."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grundlag_bus.errors import ConfigurationError, EnvelopeError
from grundlag_bus.schema.fields import instant_from_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grundlag_bus.schema.dead_letter import Letter

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_SECONDS = (86_400, 3600, 60, 1)


@dataclass(frozen=True, slots=True)
class Filters:
    """All that is given has to fit. since, until: Unix seconds; what died at an unknown time fits neither."""

    ids: tuple[str, ...] = ()
    provider: str | None = None
    action: str | None = None
    code: str | None = None
    since: float | None = None
    until: float | None = None
    limit: int | None = None

    @property
    def takes_all(self) -> bool:
        return not self.ids and (self.provider, self.action, self.code, self.since, self.until) == (None,) * 5

    def take(self, letter: Letter) -> bool:
        """Whether the letter fits all but the ids, which are only unique among all letters."""
        call, died_at = letter.call, letter.died_at
        if self.code is not None and letter.reason.code != self.code:
            return False
        if self.provider is not None and (call is None or call.provider_id != self.provider):
            return False
        if self.action is not None and (
            call is None or self.action not in (call.action_id, f"{call.provider_id}.{call.action_id}")
        ):
            return False
        if self.since is not None and (died_at is None or died_at < self.since):
            return False
        return self.until is None or (died_at is not None and died_at < self.until)


def choose(  # noqa: PLR0913  the options of a command
    ids: Sequence[str] | None = None,
    *,
    provider: str | None = None,
    action: str | None = None,
    code: str | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: int | None = None,
    every: bool | None = None,
) -> Filters:
    """Read the options. every: what --all says, for a command that takes all letters only then.

    Raises ConfigurationError.
    """
    now = time.time()
    chosen = Filters(
        tuple(ids or ()),
        provider,
        action,
        code,
        None if since is None else read_when("--since", since, now),
        None if until is None else read_when("--until", until, now),
        limit,
    )
    if "" in chosen.ids:
        raise ConfigurationError("An id is empty: give a letter's id as `grundlag-bus dead list` shows it.")
    if every is not None and every != chosen.takes_all:
        raise ConfigurationError(
            "Both --all and which letters are given: use one of them."
            if every
            else "Nothing says which letters are meant: give an id, a filter such as --provider, or --all."
        )
    return chosen


def read_when(option: str, text: str, now: float) -> float:
    """Read an age (1d2h30m) or an instant as Unix seconds. Raises ConfigurationError."""
    age = _DURATION.fullmatch(text) if text else None
    if age is not None:
        return now - sum(int(count or 0) * unit for count, unit in zip(age.groups(), _SECONDS, strict=True))
    try:
        return instant_from_json(text)
    except EnvelopeError as error:
        raise ConfigurationError(
            f"{option} cannot be read ({error.reason}): give an age such as 90s, 15m, 2h or 1d12h, or RFC 3339 as in "
            "2026-12-01T12:00:00Z."
        ) from error
