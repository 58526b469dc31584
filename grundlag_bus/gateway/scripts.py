"""Scripts that run beside the host, with the tools that their user may call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import (
    ActionInputValidationError,
    ConfigurationError,
    DeadlineExceededError,
    Issue,
    ScriptCancelledError,
    ScriptError,
    ToolInterrupt,
)
from grundlag_bus.gateway.refusing import Refused
from grundlag_bus.sandbox.script import Sandbox
from grundlag_bus.sandbox.script.inputs import checked_inputs
from grundlag_bus.schema.envelope import Failed
from grundlag_bus.tools import ItemStore, ToolContext, to_tools

if TYPE_CHECKING:
    from collections.abc import Container

    from grundlag_bus.sandbox.script import ScriptResult
    from grundlag_bus.schema.manifest import Manifest
    from grundlag_bus.schema.trace import Trace
    from grundlag_bus.tools import Caller

SECONDS = 300.0
"""How long a script may take in all where its request does not say."""
_SHOWN_CALLS = 1000


class Scripts:
    """Runs them, and knows how many run."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._running: dict[asyncio.Task[ScriptResult], asyncio.Event] = {}

    @property
    def in_flight(self) -> int:
        return len(self._running)

    async def run(  # noqa: PLR0913  what a request says
        self,
        source: str,
        inputs: dict[str, Any],
        *,
        manifest: Manifest,
        user_id: str | None,
        seconds: float,
        trace: Trace | None,
        gone: asyncio.Task[None],
    ) -> dict[str, Any]:
        """Run a script and return what is answered. gone: when it is done, the script is cancelled.

        Raises Refused, DeadlineExceededError, ActionInputValidationError for a name that cannot be given, and
        ConfigurationError where scripts cannot be run here.
        """
        signal = asyncio.Event()
        context = ToolContext(user_id=user_id, timeout=seconds, signal=signal, items=ItemStore(), trace=trace)
        tools = to_tools(manifest, self._caller)
        sandbox = Sandbox(tools)
        _ensure_inputs(inputs, tools)
        running = asyncio.get_running_loop().create_task(sandbox.run(source, inputs=inputs, context=context))
        self._running[running] = signal
        running.add_done_callback(self._ended)
        late = False
        try:
            await asyncio.wait((running, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            late = not running.done()
            signal.set()
            result = await running
        except ScriptCancelledError as error:
            if late and not gone.done():
                raise DeadlineExceededError("The script did not end in time: give it a longer X-Timeout.") from error
            raise _failed(error, 409, "cancelled") from error
        except ScriptError as error:
            raise _failed(error, 422, "script_failed") from error
        except ToolInterrupt as interrupt:
            details = {"pending": interrupt.data}
            told = "The script's call asks a person, and nobody is asked here: run such a script with a Sandbox."
            raise Refused(422, Failed("script_interrupted", told, details)) from interrupt
        finally:
            signal.set()
        return {"status": "completed", "value": result.value, "stdout": result.stdout, "calls": _calls(result.calls)}

    def _ended(self, running: asyncio.Task[ScriptResult]) -> None:
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


def _ensure_inputs(inputs: dict[str, Any], tools: Container[str]) -> None:
    """Raise ActionInputValidationError for a name that a script cannot be given."""
    try:
        checked_inputs(inputs, tools)
    except ConfigurationError as error:
        raise ActionInputValidationError("eval", [Issue(("inputs",), "request_malformed", str(error))]) from error


def _failed(error: ScriptError, status: int, code: str) -> Refused:
    details = {
        "type": type(error).__name__,
        "line": error.line,
        "source": error.source,
        "signature": error.signature,
        "stdout": error.stdout,
        "calls": _calls(error.calls),
    }
    return Refused(status, Failed(code, error.message, details))


def _calls(calls: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Tell what was called and how it ended; what came of it is the script's to tell."""
    return [
        {"function": call.function, "status": call.status, "line": call.line, "code": call.code}
        for call in calls[:_SHOWN_CALLS]
    ]
