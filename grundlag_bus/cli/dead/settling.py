"""Goes through the letters that are meant, and says what became of each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from grundlag_bus.cli.dead.showing import name_of
from grundlag_bus.cli.exits import printable, say
from grundlag_bus.cli.output import console, print_json

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from grundlag_bus.schema.dead_letter import Letter

T = TypeVar("T")
_STOP_WITHIN = 5.0
"""Seconds that what is under way gets when Ctrl-C comes."""


class Report:
    """Prints a line for each letter, and in the end how many there were of each kind."""

    def __init__(self, *, dry_run: bool, as_json: bool) -> None:
        self._would = "would be " if dry_run else ""
        self._dry_run = dry_run
        self._as_json = as_json
        self._console = console()
        self._counts: dict[str, int] = {}

    @property
    def kept(self) -> int:
        return self._counts.get("kept", 0)

    def tell(self, result: str, letter: Letter, why: str | None = None) -> None:
        """Tell what became of a letter; why: where it is kept."""
        self._counts[result] = self._counts.get(result, 0) + 1
        if self._as_json:
            print_json(self._to_json(result, letter, why), one_line=True)
        else:
            more = f": {printable(why)}" if why else ""
            self._console.print(f"{self._would}{result} {letter.id} {name_of(letter)}{more}", soft_wrap=True)

    async def __aenter__(self) -> None:
        """Begin; what comes to an end, in whatever way, is summed up."""

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self._counts:
            return
        told = ", ".join(f"{count} {self._would}{result}" for result, count in self._counts.items())
        say(f"{told or 'no dead letter fits'}{'' if kind is None else ', then it was ended'}.")

    def _to_json(self, result: str, letter: Letter, why: str | None) -> dict[str, object]:
        told: dict[str, object] = {"id": letter.id}
        if letter.call is not None:
            told |= {"providerId": letter.call.provider_id, "actionId": letter.call.action_id}
        told["result"] = result
        if why is not None:
            told["why"] = why
        return {**told, "dryRun": True} if self._dry_run else told


async def to_the_end(step: Coroutine[None, None, T]) -> T:
    """Await a step that Ctrl-C must not end in its middle: it gets some seconds, then the cancellation goes on."""
    running = asyncio.ensure_future(step)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running}, timeout=_STOP_WITHIN)
        running.cancel()
        raise
