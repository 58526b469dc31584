"""What a script has done so far, read from its journal and written to it.

Only `delivered` decides what the script does: it is replayed from `began` and the outcomes in the order of delivery.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import ScriptReplayError
from grundlag_bus.sandbox.script.entries import check_entry
from grundlag_bus.sandbox.script.outcomes import CallOutcome
from grundlag_bus.schema.codec import digest, encoded_size

if TYPE_CHECKING:
    from grundlag_bus.errors import ToolInterrupt
    from grundlag_bus.sandbox.script.engine import MadeCall
    from grundlag_bus.tools import Journal


@dataclass(slots=True)
class CallState:
    """One call that was started.

    digest: of the input that the script gave; input: that one, or what a person put in its place, and edits: how often;
    answer: (answer, by) of its interrupt, until it has ended again; line: in the script, once it was run to there.
    """

    number: int
    function: str
    digest: str
    input: Any
    started_at: float
    ended_at: float | None = None
    outcome: CallOutcome | None = None
    answer: tuple[Any, str | None] | None = None
    line: int | None = None
    edits: int = 0

    @property
    def interrupt(self) -> ToolInterrupt | None:
        """The interrupt that nobody has answered yet."""
        return None if self.outcome is None or self.answer is not None else self.outcome.interrupt

    @property
    def open(self) -> bool:
        """Whether it is to be called, or called again with the answer."""
        return self.outcome is None or self.answer is not None


class History:
    """Reads a journal when it is made, and appends to it. Raises ScriptReplayError for what is none of a script.

    size: bytes of JSON that all entries take.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.began: dict[str, Any] | None = None
        self.calls: dict[int, CallState] = {}
        self.delivered: list[int] = []
        self.size = 0
        for entry in journal.entries():
            check_entry(entry)
            try:
                self._take(entry)
            except KeyError as error:
                raise ScriptReplayError(f"The journal of the script lacks what its call {error} began with.") from error

    async def begin(self, **began: Any) -> None:
        await self._write({"kind": "began", **began})

    async def call(self, made: MadeCall) -> None:
        await self._write(
            {
                "kind": "called",
                "call": made.number,
                "function": made.function,
                "digest": digest(made.input),
                "input": made.input,
                "at": time.time(),
            }
        )

    async def settle(self, number: int, outcome: CallOutcome) -> None:
        await self._write({"kind": "settled", "call": number, "outcome": outcome.to_json(), "at": time.time()})

    async def answer(self, number: int, interrupt_id: str, answer: Any, by: str | None) -> None:
        entry = {"kind": "answered", "call": number, "interruptId": interrupt_id, "answer": answer, "by": by}
        await self._write(entry)

    async def deliver(self, number: int) -> None:
        await self._write({"kind": "delivered", "call": number})

    def undelivered(self) -> list[int]:
        """List the calls that have something for the script, in the order in which they ended."""
        done = set(self.delivered)
        ended = [
            call for call in self.calls.values() if call.number not in done and not call.open and not call.interrupt
        ]
        return [call.number for call in sorted(ended, key=lambda call: (call.ended_at or 0.0, call.number))]

    def entries(self) -> list[dict[str, Any]]:
        return list(self._journal.entries())

    def check(self, made: MadeCall) -> None:
        """Raise ScriptReplayError where the journal has another call of this number."""
        known = self.calls.get(made.number)
        if known is None:
            return
        known.line = made.line
        if known.function != made.function:
            what = f"calls {made.function} where {known.function} was called"
        elif known.digest != digest(made.input):
            what = f"calls {made.function} with another input"
        else:
            return
        raise self.mismatch(f"its call {made.number} (line {made.line}) {what}", call=made.number)

    def mismatch(self, what: str, *, call: int | None = None) -> ScriptReplayError:
        """Make the error of a script that does something else than its journal says."""
        engine = "an unknown engine" if self.began is None else self.began["engine"]
        return ScriptReplayError(
            f"The script, which {engine} had begun, cannot be replayed: {what}. Start it anew.", call=call
        )

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _write(self, entry: dict[str, Any]) -> None:
        await self._journal.append(entry)
        self._take(entry)

    def _take(self, entry: dict[str, Any]) -> None:
        self.size += encoded_size(entry)
        match entry["kind"]:
            case "began":
                self.began = entry
            case "called":
                state = CallState(entry["call"], entry["function"], entry["digest"], entry["input"], entry["at"])
                self.calls.setdefault(state.number, state)
            case "settled":
                call = self.calls[entry["call"]]
                call.outcome, call.answer, call.ended_at = (
                    CallOutcome.from_json(entry["outcome"]),
                    None,
                    entry["at"],
                )
            case "answered":
                call = self.calls[entry["call"]]
                if call.interrupt is not None and call.interrupt.interrupt_id == entry["interruptId"]:
                    call.answer = (entry["answer"], entry["by"])
            case "edited":
                call = self.calls[entry["call"]]
                if call.interrupt is not None and call.interrupt.interrupt_id == entry["interruptId"]:
                    call.input, call.outcome, call.ended_at, call.edits = entry["input"], None, None, call.edits + 1
            case "delivered":
                if self.calls[entry["call"]].outcome is None:
                    raise KeyError(entry["call"])
                self.delivered.append(entry["call"])
