"""Run calls in this process: what a worker does with a call, and all that an in-process tool needs.

A call's way: find the action, check the input, open the sealed state, check the answer, run, check the output. Whatever
happens becomes a response; only the cancellation of whoever awaits the call is raised.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import (
    ActionFailed,
    ActionInputValidationError,
    ActionOutputValidationError,
    CallError,
    NotJsonError,
    PayloadTooLargeError,
    ToolInterrupt,
)
from grundlag_bus.logs import get_logger
from grundlag_bus.providers.context import ActionContext, ActionResumption, Drain
from grundlag_bus.providers.seal import Binding, digest, seal, unseal
from grundlag_bus.providers.sharing import Sharing
from grundlag_bus.providers.threads import Threads
from grundlag_bus.schema.codec import ensure_size, plain
from grundlag_bus.schema.envelope import (
    Call,
    Completed,
    Failed,
    Interrupted,
    Reply,
    Response,
    derived_interrupt_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from grundlag_bus.providers.action import Action
    from grundlag_bus.providers.registry import ProviderRegistry
    from grundlag_bus.providers.services import Services

INTERRUPT_EXPIRY = 30 * 24 * 3600.0
"""Seconds until an interrupt can no longer be answered."""

_LOGGER = get_logger("grundlag_bus.providers")


class LocalCaller:
    """Runs the calls of a registry's actions in this process.

    namespace: sealed state is bound to it; name: who replies; threads: how many actions that are no coroutine functions
    run at once.
    """

    def __init__(
        self,
        registry: ProviderRegistry,
        *,
        namespace: str = "grundlag",
        name: str = "local",
        threads: int = 64,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.registry = registry
        self.drain = Drain()
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._threads = Threads(threads)
        self._resumptions: Sharing[Reply] = Sharing()

    async def call(self, call: Call) -> Reply:
        """Run one call and return how it ended. Raises nothing but CancelledError.

        The same answer to an interrupt, given twice at once, is one call: both callers get its reply.
        """
        if call.request.resumption is not None:
            return await self._resumptions.share(call.call_id, lambda: self._call(call))
        return await self._call(call)

    async def _call(self, call: Call) -> Reply:
        response = await self._respond(call)
        try:
            ensure_size(response.to_json())
        except PayloadTooLargeError as error:
            response = _failed(error)
        except TypeError as error:  # a text that is no Unicode, in the message of a model's own validator
            response = _internal(call, error, [])
        return Reply(call.call_id, response, self._name, call.generation, call.attempt)

    async def ended(self, call_id: str) -> None:
        """Wait until nothing works on the call any more: a thread may outlive its call's deadline."""
        await self._threads.ended(call_id)

    def close(self) -> None:
        """Let the threads go. A running one is not waited for."""
        self._threads.close()

    async def _respond(self, call: Call) -> Response:
        action = self.registry.find(call.provider_id, call.action_id)
        if action is None:
            return Failed(
                "action_unknown",
                f"Provider {call.provider_id!r} has no action {call.action_id!r} here: list what there is with "
                "`grundlag-bus tools`.",
            )
        left = call.deadline - self._clock()
        if left <= 0:
            return _deadline_exceeded(call)
        deadline = _Deadline(left)
        response: Response | None = None
        try:
            async with self.registry.opened().call_scope() as services:
                response = await self._run(action, call, services)
        except KeyboardInterrupt:
            deadline.end()
            raise
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError) and _this_task().cancelling()
            if deadline.end():
                return _deadline_exceeded(call)
            if cancelled:
                raise
            # A defect of a model's own validator, or a service that failed to close.
            return _internal(call, error, [] if response is None else response.items)
        # An action that swallowed the cancellation and ended all the same has ended too late.
        return _deadline_exceeded(call) if deadline.end() else response

    async def _run(self, action: Action, call: Call, services: Services) -> Response:
        context: ActionContext[Any] | None = None
        try:
            ensure_size(call.request.to_json())
            value = action.parse(plain(call.request.input))
            context = ActionContext(
                services=services,
                call_id=call.call_id,
                provider_id=call.provider_id,
                action_id=call.action_id,
                deadline=call.deadline,
                user_id=call.user_id,
                resumption=self._resumption(action, call),
                attempt=call.attempt,
                items=call.request.items,
                drain=self.drain,
            )
        except NotJsonError as error:
            return _failed(ActionInputValidationError(action.id, [error.issue]))
        except CallError as error:
            return _failed(error)
        return await self._execute(action, call, value, context)

    async def _execute(  # noqa: PLR0911  one response for each way to end
        self, action: Action, call: Call, value: Any, context: ActionContext[Any]
    ) -> Response:
        try:
            result = await action.run(value, context, threads=self._threads)
            return Completed(action.dump(result), context.emitted)
        except ActionFailed as error:
            return _told(action, error, context)
        except ActionOutputValidationError as error:
            _LOGGER.warning("output_invalid", **_fields(call), issues=[str(issue) for issue in error.issues])
            return _failed(error, context.emitted)
        except NotJsonError as error:  # from `items.emit`
            return _failed(ActionOutputValidationError(action.id, [error.issue]), context.emitted)
        except ToolInterrupt as interrupt:
            return self._interrupted(action, call, interrupt, context)
        except asyncio.CancelledError:
            if _this_task().cancelling():
                raise
            told = asyncio.CancelledError("something that the action awaited was cancelled")
            return _internal(call, told, context.emitted)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  whatever an action raises, its caller gets a response
            return _internal(call, error, context.emitted)

    def _resumption(self, action: Action, call: Call) -> ActionResumption[Any] | None:
        given = call.request.resumption
        if given is None:
            return None
        binding = self._binding(action, call, given.interrupt_id)
        state = unseal(self.registry.keys, given.state, binding, now=self._clock())
        return ActionResumption(given.interrupt_id, action.parse_answer(given.answer), state, given.by)

    def _interrupted(
        self, action: Action, call: Call, interrupt: ToolInterrupt, context: ActionContext[Any]
    ) -> Response:
        if interrupt.interrupt_id is not None:
            return Failed(
                "nested_interrupt",
                f"Action {call.provider_id}.{action.id} let the interrupt of an inner call pass "
                f"({interrupt.message!r}): it has to catch ToolInterrupt and ask itself.",
                items=context.emitted,
            )
        if action.answer is None:
            return _internal(
                call,
                TypeError(f"action {action.id} raised ToolInterrupt and declares no answer: add answer=Model to it"),
                context.emitted,
            )
        interrupt_id = derived_interrupt_id(call.call_id, call.generation)
        expires_at = self._clock() + INTERRUPT_EXPIRY
        try:
            message = plain(str(interrupt.message), at=("interrupt", "message"))
            data = plain(interrupt.data, at=("interrupt", "data"))
            state = plain(interrupt.state, at=("interrupt", "state"))
            binding = self._binding(action, call, interrupt_id)
            sealed = seal(self.registry.keys, state, binding, expires_at=expires_at)
        except NotJsonError as error:
            return _failed(ActionOutputValidationError(action.id, [error.issue]), context.emitted)
        return Interrupted(interrupt_id, message, data, sealed, expires_at, action.answer.schema, context.emitted)

    def _binding(self, action: Action, call: Call, interrupt_id: str) -> Binding:
        return Binding(
            namespace=self._namespace,
            provider_id=call.provider_id,
            action_id=call.action_id,
            user_id=call.user_id,
            input_digest=digest(call.request.input),
            interrupt_id=interrupt_id,
            answer_schema_digest=None if action.answer is None else digest(action.answer.schema),
        )


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a call runs inside an asyncio task")
    return task


class _Deadline:
    """Cancels the current task once, after some seconds. `asyncio.timeout` does the same at 7 us a call."""

    __slots__ = ("_task", "_timer", "passed")

    def __init__(self, seconds: float) -> None:
        self._task = _this_task()
        self.passed = False
        self._timer = asyncio.get_running_loop().call_later(seconds, self._pass)

    def _pass(self) -> None:
        self.passed = True
        self._task.cancel()

    def end(self) -> bool:
        """Take back our own cancellation, and say whether the deadline passed and no other cancellation stands."""
        self._timer.cancel()
        return self.passed and self._task.uncancel() == 0


def _deadline_exceeded(call: Call) -> Failed:
    return Failed(
        "deadline_exceeded",
        f"The call of {call.provider_id}.{call.action_id} did not end before its deadline: give it a longer timeout.",
        {"published": True},
    )


def _failed(error: CallError, items: list[dict[str, Any]] | None = None) -> Failed:
    return Failed(error.code, error.message, error.details, error.retryable, items or [])


def _told(action: Action, error: ActionFailed, context: ActionContext[Any]) -> Failed:
    """Pass on what an action says of its failure, if it is JSON data."""
    try:
        code = plain(str(error.code), at=("failed", "code"))
        message = plain(str(error.message), at=("failed", "message"))
        details = plain(error.details, at=("failed", "details"))
    except NotJsonError as refused:
        return _failed(ActionOutputValidationError(action.id, [refused.issue]), context.emitted)
    return Failed(code, message, details, error.retryable, context.emitted)


def _internal(call: Call, error: BaseException, items: list[dict[str, Any]]) -> Failed:
    """Log what an action raised in full, and tell its caller the type and where the log line is."""
    reference = uuid.uuid4().hex[:12]
    kind = type(error).__name__
    _LOGGER.error("action_raised", **_fields(call), reference=reference, exc_info=error)
    return Failed(
        "internal",
        f"Action {call.provider_id}.{call.action_id} raised {kind}: the log of its worker has it under {reference}.",
        {"type": kind, "reference": reference},
        items=items,
    )


def _fields(call: Call) -> dict[str, Any]:
    return {"provider": call.provider_id, "action": call.action_id, "call_id": call.call_id}
