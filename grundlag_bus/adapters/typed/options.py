"""What a typed client was written with: kept in the client, which is checked and written anew by it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

COMMAND = "grundlag-bus client generate"


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """providers: whose actions are in it, sorted; all where there are none."""

    class_name: str = "Client"
    providers: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Write them as they stand on the command line; nothing where they are the usual ones."""
        told = [f"--provider {provider}" for provider in self.providers]
        if self.class_name != "Client":
            told.append(f"--name {self.class_name}")
        return " ".join(told)

    @property
    def command(self) -> str:
        return f"{COMMAND} {self}".rstrip()

    def changed_by(self, *, class_name: str | None, providers: Collection[str]) -> ClientOptions:
        """Put what is given in the place of what was before."""
        return ClientOptions(class_name or self.class_name, tuple(sorted(set(providers))) or self.providers)


def options_of(text: str) -> ClientOptions | None:
    """Read what a client was written with; None where the text is no typed client. Pure."""
    try:
        docstring = ast.get_docstring(ast.parse(text)) or ""
    except (SyntaxError, ValueError):
        return None
    written = re.search(rf"`{COMMAND}([^`]*)`", docstring)
    if written is None:
        return None
    words = written[1].split()
    pairs = list(zip(words[::2], words[1::2], strict=False))
    names = [value for option, value in pairs if option == "--name"]
    providers = [value for option, value in pairs if option == "--provider"]
    return ClientOptions().changed_by(class_name=names[-1] if names else None, providers=providers)
