"""What a script is given: names with plain JSON data."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.refusal import short

if TYPE_CHECKING:
    from collections.abc import Container


def checked_inputs(inputs: Mapping[str, Any], taken: Container[str]) -> dict[str, Any]:
    """Return the inputs as plain JSON data. Raises ConfigurationError for a name that cannot be, NotJsonError."""
    if not isinstance(inputs, Mapping):
        raise ConfigurationError(
            f"""The inputs of a script are a {type(inputs).__name__}: give a dict, as in {{"day": "2026-12-01"}}."""
        )
    for name in inputs:
        if not isinstance(name, str):
            raise ConfigurationError(f"A script cannot be given {short(repr(name))}, which is no text: name it.")
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or hasattr(builtins, name):
            raise ConfigurationError(
                f"A script cannot be given {name!r}: name it with a Python identifier, no keyword and no builtin, that "
                "begins with no underscore."
            )
        if name in taken:
            raise ConfigurationError(f"A script cannot be given {name!r}, which is a tool: name it otherwise.")
    return {name: plain(value, at=(name,)) for name, value in inputs.items()}
