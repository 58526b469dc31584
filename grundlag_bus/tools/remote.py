"""From a manifest and a caller to tools: the one place where a tool's call is made and its reply is read.

In-process, HTTP and bus tools behave alike because they are all made here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import (
    ActionInputValidationError,
    ActionOutputValidationError,
    AnswerInvalidError,
    Issue,
    NotJsonError,
    ToolInterrupt,
    error_from_failure,
)
from grundlag_bus.logs import get_logger
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.envelope import (
    Call,
    Completed,
    Failed,
    Interrupted,
    Reply,
    Request,
    Response,
    Resumption,
    derived_call_id,
    new_call_id,
)
from grundlag_bus.schema.fields import instant_to_datetime
from grundlag_bus.schema.items import Item
from grundlag_bus.schema.json_schema import JsonValidator
from grundlag_bus.schema.trace import CURRENT
from grundlag_bus.tools.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.schema.manifest import ActionManifest, Manifest
    from grundlag_bus.schema.progress import Progress, ProgressSink
    from grundlag_bus.tools.caller import Caller
    from grundlag_bus.tools.context import ToolContext, ToolItems, ToolResumption

_LOGGER = get_logger("grundlag_bus.tools")
TIMEOUTS = {"long": 24 * 3600.0}
DEFAULT_TIMEOUT = 300.0


def default_timeout(lane: str) -> float:
    """Return the seconds until a call's deadline where its caller names none."""
    return TIMEOUTS.get(lane, DEFAULT_TIMEOUT)


def to_tools(manifest: Manifest, caller: Caller, *, clock: Callable[[], float] = time.time) -> dict[str, Tool]:
    """Make a tool of every action in the manifest, keyed by function name; the calls go to `caller`.

    The input is checked against the manifest's schema before anything is sent. That is a first filter: the verdict of
    whoever runs the action is final, and both raise ActionInputValidationError.
    """
    tools = {}
    for provider in manifest.providers:
        for action in provider.actions:
            remote = RemoteAction(provider.id, action, caller, clock, recorded=provider.ledger is not None)
            tools[action.function_name] = Tool(
                id=action.function_name,
                name=action.name,
                description=action.description,
                input=action.input,
                output=action.output,
                answer=action.answer,
                provider_id=provider.id,
                action_id=action.id,
                reads=action.reads,
                idempotent=action.idempotent,
                parallel_safe=action.parallel_safe,
                run=remote.run,
            )
    return tools


@dataclass(frozen=True)
class RemoteAction:
    """One action as a caller sees it: makes its calls and reads their replies.

    recorded: its workers have a ledger, so that a call which is sent twice runs once.
    """

    provider_id: str
    action: ActionManifest
    caller: Caller
    clock: Callable[[], float] = time.time
    recorded: bool = False

    @cached_property
    def _input(self) -> JsonValidator:
        return JsonValidator(self.action.input)

    @cached_property
    def _output(self) -> JsonValidator:
        return JsonValidator(self.action.output)

    @cached_property
    def _answer(self) -> JsonValidator | None:
        return None if self.action.answer is None else JsonValidator(self.action.answer)

    async def run(self, value: Any, context: ToolContext) -> Any:
        """Call the action and return its result. Raises ToolInterrupt, CallError."""
        call = self.call(value, context)
        reply = await self.send(call, context)
        return self._outcome(reply.response, call.request.input)

    async def send(self, call: Call, context: ToolContext) -> Reply:
        """Send a call and return its reply; the items that it emits are folded into the context's, each once."""
        reply = await self.caller.call(call, on_progress=self.sink(context), cancel=context.signal)
        if reply.response.items and context.items is not None:
            context.items.fold(Item.from_json(item) for item in reply.response.items)
        return reply

    def sink(self, context: ToolContext) -> ProgressSink | None:
        """Make what hears of a call's progress and takes its early items, where the context listens."""
        return None if context.on_progress is None else _listening(context.on_progress, context.items)

    def call(self, value: Any, context: ToolContext) -> Call:
        """Make the call. Raises ActionInputValidationError, AnswerInvalidError: then there is nothing to send.

        Raises NotJsonError for a user id that is no Unicode, and for anything else of the context that cannot be sent.
        """
        action = self.action
        user_id = context.user_id if context.user_id is None else plain(context.user_id, at=("userId",))
        try:
            data = plain(value)
        except NotJsonError as error:
            raise ActionInputValidationError(action.id, [error.issue]) from error
        if issues := self._input.issues(data):
            raise ActionInputValidationError(action.id, issues)
        call_id, resumption = context.call_id or new_call_id(), None
        if context.resumption is not None:
            resumption = self._resumption(context.resumption, user_id)
            claims = [self.provider_id, action.id, user_id, resumption.state, data]
            call_id = derived_call_id(resumption.interrupt_id, resumption.answer, claims)
        now = self.clock()
        return Call(
            call_id=call_id,
            provider_id=self.provider_id,
            action_id=action.id,
            request=Request(data, resumption, _sent_items(context.items, action.reads)),
            deadline=now + self._timeout(context),
            lane=action.lane,
            user_id=user_id,
            sent_at=now,
            trace=context.trace or CURRENT.get(),
            idempotent=action.idempotent or self.recorded,
        )

    def _timeout(self, context: ToolContext) -> float:
        if context.timeout is None:
            return default_timeout(self.action.lane)
        if isnan(context.timeout):
            raise NotJsonError(Issue(("timeout",), "not_finite", "NaN is no time: give seconds"))
        return max(context.timeout, -1.0)  # past is past, and no instant before the calendar's first

    def _resumption(self, given: ToolResumption, user_id: str | None) -> Resumption:
        try:
            answer = plain(given.answer)
        except NotJsonError as error:
            raise AnswerInvalidError(self.action.id, [error.issue]) from error
        if self._answer is not None and (issues := self._answer.issues(answer)):
            raise AnswerInvalidError(self.action.id, issues)
        by = user_id if given.by is None else given.by
        interrupt_id, state, by = plain((given.interrupt_id, given.state, by), at=("resumption",))
        return Resumption(interrupt_id, answer, state, by)

    def _outcome(self, response: Response, data: Any) -> Any:
        match response:
            case Completed(result):
                if issues := self._output.issues(result):
                    raise ActionOutputValidationError(self.action.id, issues)
                return result
            case Interrupted():
                raise ToolInterrupt(
                    response.message,
                    data=response.data,
                    state=response.state,
                    interrupt_id=response.interrupt_id,
                    input=data,
                    answer_schema=response.answer_schema,
                    expires_at=instant_to_datetime(response.expires_at),
                )
            case Failed(code, message, details, retryable):
                raise error_from_failure(code, message, details, retryable=retryable, action_id=self.action.id)


def _listening(listener: ProgressSink, items: ToolItems | None) -> ProgressSink:
    """Fold early items before the listener hears of them; its errors are logged, since they are nobody's else."""

    def hear(progress: Progress) -> None:
        if progress.items and items is not None:
            items.fold(Item.from_json(item) for item in progress.items)
        try:
            listener(progress)
        except Exception:
            _LOGGER.exception("progress_listener_failed")

    return hear


def _sent_items(items: ToolItems | None, reads: tuple[str, ...] | None) -> list[dict[str, Any]]:
    if items is None:
        return []
    return [item.to_json() for item in items.list() if reads is None or item.type in reads]
