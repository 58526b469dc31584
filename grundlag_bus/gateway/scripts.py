"""Scripts that run beside the host, with the tools that their user may call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.errors import (
    ActionInputValidationError,
    AnswerInvalidError,
    ConfigurationError,
    DeadlineExceededError,
    Issue,
    PayloadTooLargeError,
    RunStateError,
    ScriptCancelledError,
    ScriptError,
    ToolInterrupt,
)
from grundlag_bus.gateway.answered import Answered
from grundlag_bus.gateway.continuing import NAME
from grundlag_bus.gateway.kept import Ended
from grundlag_bus.gateway.refusing import Refused, failed_of
from grundlag_bus.gateway.status import status_of
from grundlag_bus.sandbox.script import Sandbox
from grundlag_bus.sandbox.script.inputs import checked_inputs
from grundlag_bus.schema.envelope import Failed
from grundlag_bus.tools import ItemStore, ToolContext, to_tools

if TYPE_CHECKING:
    from collections.abc import Container, Coroutine

    from grundlag_bus.gateway.continuing import Continuations, Script
    from grundlag_bus.sandbox.script import ScriptResult
    from grundlag_bus.schema.envelope import Resumption
    from grundlag_bus.schema.manifest import Manifest
    from grundlag_bus.schema.trace import Trace
    from grundlag_bus.tools import Caller

SECONDS = 300.0
"""How long a script may take in all where its request does not say."""
_SHOWN_CALLS = 1000


class Scripts:
    """Runs them, and knows how many run."""

    def __init__(self, caller: Caller, continuations: Continuations) -> None:
        self._caller = caller
        self._continuations = continuations
        self._answered = Answered()
        self._running: dict[asyncio.Task[ScriptResult], asyncio.Event] = {}

    @property
    def in_flight(self) -> int:
        return len(self._running)

    async def answer(  # noqa: PLR0913  what a request says
        self,
        script: Script,
        *,
        manifest: Manifest,
        user_id: str | None,
        seconds: float,
        trace: Trace | None,
        gone: asyncio.Task[None],
    ) -> Ended:
        """Run a script, or go on with it, and return what is answered. gone: when it is done, the script is cancelled.

        Raises Refused, ConfigurationError where scripts cannot be run here, and the CallErrors: of what is asked for
        (an input's name, a state, an answer), and DeadlineExceededError.
        """
        signal = asyncio.Event()
        items, resumption = ItemStore(), script.resumption
        tools = to_tools(manifest, self._caller)
        sandbox = Sandbox(tools)
        _ensure_inputs(script.inputs, tools)
        interrupt = None
        if resumption is not None:
            interrupt, items = self._continuations.opened(script, user_id, resumption)
            known = self._answered.begin(user_id, resumption)
            if known is not None:
                return known
        ended = None
        try:
            context = ToolContext(user_id=user_id, timeout=seconds, signal=signal, items=items, trace=trace)
            if interrupt is None or resumption is None:
                going = sandbox.run(script.source, inputs=script.inputs, context=context)
            else:
                going = _resumed(sandbox, interrupt, resumption, context)
            result = await self._end_of(going, signal, seconds=seconds, gone=gone)
            ended = _ended(result if isinstance(result, Failed) else _completed(result))
        except ToolInterrupt as asked:
            ended = _ended(self._asked(script, user_id, asked, items))
        finally:
            if resumption is not None:
                self._answered.end(user_id, resumption, ended)
        return ended

    async def _end_of(
        self,
        going: Coroutine[Any, Any, ScriptResult],
        signal: asyncio.Event,
        *,
        seconds: float,
        gone: asyncio.Task[None],
    ) -> ScriptResult | Failed:
        """Wait for the end of a script, its own failure among them. Raises ToolInterrupt, Refused, CallError."""
        running = asyncio.get_running_loop().create_task(going)
        self._running[running] = signal
        running.add_done_callback(self._forget)
        late = False
        try:
            await asyncio.wait((running, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            late = not running.done()
            signal.set()
            return await running
        except ScriptCancelledError as error:
            if late and not gone.done():
                raise DeadlineExceededError("The script did not end in time: give it a longer X-Timeout.") from error
            raise Refused(409, _failed(error, "cancelled")) from error
        except ScriptError as error:
            failed = _failed(error, "script_failed")
            if getattr(error, "limit", None) == "engine":
                raise Refused(422, failed) from error
            return failed
        finally:
            signal.set()

    def _asked(
        self, script: Script, user_id: str | None, asked: ToolInterrupt, items: ItemStore
    ) -> Failed | dict[str, Any]:
        try:
            response = self._continuations.asked(script, user_id, asked, items)
        except PayloadTooLargeError as error:
            return failed_of(error)
        refused = asked.__cause__
        if isinstance(refused, AnswerInvalidError):
            response["refused"] = {"message": refused.message, "issues": [issue.to_json() for issue in refused.issues]}
        return response

    def _forget(self, running: asyncio.Task[ScriptResult]) -> None:
        del self._running[running]
        if not running.cancelled():
            running.exception()  # it may be that nobody waits for it any more

    def cancel_all(self) -> None:
        for signal in self._running.values():
            signal.set()

    async def idle(self, within: float) -> bool:
        """Wait until none runs, and return whether it came to that."""
        if self._running:
            await asyncio.wait(tuple(self._running), timeout=within)
        return not self._running


async def _resumed(
    sandbox: Sandbox, interrupt: ToolInterrupt, resumption: Resumption, context: ToolContext
) -> ScriptResult:
    """Go on with a script. Raises AnswerInvalidError where an answer is none, or none to what it asks."""
    if not isinstance(resumption.answer, dict):
        issue = Issue(("answer",), "request_malformed", "is no object of answers by the ids of what the script asks")
        raise AnswerInvalidError(NAME, [issue])
    try:
        return await sandbox.resume(interrupt, resumption.answer, context=context, by=resumption.by)
    except RunStateError as error:
        raise AnswerInvalidError(NAME, [Issue(("answer",), "unknown", str(error))]) from error


def _ensure_inputs(inputs: dict[str, Any], tools: Container[str]) -> None:
    """Raise ActionInputValidationError for a name that a script cannot be given."""
    try:
        checked_inputs(inputs, tools)
    except ConfigurationError as error:
        raise ActionInputValidationError(NAME, [Issue(("inputs",), "request_malformed", str(error))]) from error


def _completed(result: ScriptResult) -> dict[str, Any]:
    return {"status": "completed", "value": result.value, "stdout": result.stdout, "calls": _calls(result.calls)}


def _failed(error: ScriptError, code: str) -> Failed:
    details = {
        "type": type(error).__name__,
        "line": error.line,
        "source": error.source,
        "signature": error.signature,
        "stdout": error.stdout,
        "calls": _calls(error.calls),
    }
    return Failed(code, error.message, details)


def _ended(answer: Failed | dict[str, Any]) -> Ended:
    if isinstance(answer, Failed):
        return Ended(NAME, status_of(answer), orjson.dumps(answer.to_json()), None)
    return Ended(NAME, 200, orjson.dumps(answer), None)


def _calls(calls: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Tell what was called and how it ended; what came of it is the script's to tell."""
    return [
        {"function": call.function, "status": call.status, "line": call.line, "code": call.code}
        for call in calls[:_SHOWN_CALLS]
    ]
