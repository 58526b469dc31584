"""Names: which ids are allowed, and by which function name an action is called everywhere.

The function name is decided here and nowhere else: a script that was written against tools in this process calls the
same names when its tools are on a bus.
"""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING, Annotated

from pydantic import StringConstraints

from grundlag_bus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_NAME = 64  # characters that every model vendor takes

_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}", re.ASCII)
Id = Annotated[str, StringConstraints(pattern=f"^{_ID.pattern}$")]
"""An id in a pydantic model, which is refused where `check_id` would refuse it."""

_BETWEEN_WORDS = re.compile(r"[^A-Za-z0-9]+")


def check_id(kind: str, value: str) -> str:
    """Return an id that is allowed. Raises ConfigurationError, naming the kind of thing it is for."""
    if _ID.fullmatch(value) is None:
        raise ConfigurationError(
            f"{value!r} is no valid {kind} id: take a letter, then at most 39 letters, digits, '_' or '-'."
        )
    return value


def allocate_action_names(actions: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Give each action, (provider id, action id), the function name it is called by.

    It is the camelCase of both ids, a Python identifier of 64 characters at most. Where several come to the same, the
    first in the order of the ids has it and the others get `_2`, `_3`. Depends on the set of actions, not on their
    order; to be called with all of them, before any are hidden.
    """
    taken: set[str] = set()
    names: dict[tuple[str, str], str] = {}
    for action in sorted(set(actions)):
        name = base = _natural(*action)
        number = 1
        while name in taken:
            number += 1
            suffix = f"_{number}"
            name = base[: LONGEST_NAME - len(suffix)] + suffix
        taken.add(name)
        names[action] = name
    return names


def _natural(provider_id: str, action_id: str) -> str:
    """Make the name of an action that has no rival. It never looks like a numbered one: `_` is no part of camelCase."""
    first, *others = [word for word in _BETWEEN_WORDS.split(f"{provider_id}_{action_id}") if word] or ["action"]
    head = first.lower() if first.isupper() else first[0].lower() + first[1:]
    name = head + "".join(word[0].upper() + word[1:] for word in others)
    if name[0].isdigit():
        name = f"_{name}"
    if keyword.iskeyword(name):
        name = f"{name}_"
    return name[:LONGEST_NAME]
