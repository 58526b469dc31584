"""The corpus of scripts: read, and run with the tools of the demo."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grundlag_bus import ItemStore, Sandbox, ScriptError, ScriptFailedError, ToolContext, ToolInterrupt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grundlag_bus import ScriptResult, Tool

SCRIPTS = Path(__file__).parents[1] / "corpus" / "scripts"
_UNKNOWN = object()


@dataclass(frozen=True)
class CorpusScript:
    """See the README of the corpus for its fields."""

    name: str
    source: str
    inputs: dict[str, Any]
    answers: list[Any]
    expects: Any
    expects_failure: str | None

    @classmethod
    def read(cls, path: Path) -> CorpusScript:
        source = path.read_text(encoding="utf-8")
        told = dict(re.findall(r"^# (task|inputs|expects|expects-failure|answers): (.*)$", source, re.MULTILINE))
        return cls(
            path.stem,
            source,
            json.loads(told.get("inputs", "{}")),
            json.loads(told.get("answers", "[]")),
            json.loads(told["expects"]) if "expects" in told else _UNKNOWN,
            told.get("expects-failure"),
        )

    async def complaint(self, tools: Mapping[str, Tool]) -> str | None:
        """Run it and say what is not as it is to be, or None. Its user is its own, so that its calendar is empty."""
        try:
            result = await self._run(Sandbox(tools), ToolContext(user_id=self.name, items=ItemStore()))
        except ScriptError as error:
            failure = error.exception if isinstance(error, ScriptFailedError) else type(error).__name__
            if self.expects_failure is not None and self.expects_failure in (failure, *error.message.split(": ")):
                return None
            return f"{type(error).__name__}: {error}"
        if self.expects_failure is not None:
            return f"it gave {result.value!r} and was to fail with {self.expects_failure}"
        if self.expects is not _UNKNOWN and result.value != self.expects:
            return f"it gave {result.value!r}"
        return None

    async def _run(self, sandbox: Sandbox, context: ToolContext) -> ScriptResult:
        answers = iter(self.answers)
        try:
            return await sandbox.run(self.source, inputs=self.inputs, context=context)
        except ToolInterrupt as interrupt:
            asked = interrupt
        while True:
            given = {str(one.interrupt_id): next(answers) for one in asked.pending}
            try:
                return await sandbox.resume(asked, given, context=context)
            except ToolInterrupt as interrupt:
                asked = interrupt


def corpus() -> list[CorpusScript]:
    return [CorpusScript.read(path) for path in sorted(SCRIPTS.glob("*.py"))]
