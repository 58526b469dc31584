"""What a script prints: kept up to a limit, and counted beyond."""

from __future__ import annotations


class Printed:
    """Takes prints as they come. limit: characters that are kept."""

    def __init__(self, limit: int) -> None:
        self._parts: list[str] = []
        self._room = limit
        self._left_out = 0

    def __call__(self, _stream: str, text: str) -> None:
        kept = text[: self._room]
        if kept:
            self._parts.append(kept)
        self._room -= len(kept)
        self._left_out += len(text) - len(kept)

    @property
    def text(self) -> str:
        """All that is kept; where something is left out, its last line says how much."""
        kept = "".join(self._parts)
        if not self._left_out:
            return kept
        return f"{kept}{'' if kept.endswith(chr(10)) else chr(10)}[{self._left_out} more characters were printed]\n"
