"""An action: a function with a validated input and output."""

from __future__ import annotations

import asyncio
import inspect
import math
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

from grundlag_bus.errors import (
    ActionInputValidationError,
    ActionOutputValidationError,
    AnswerInvalidError,
    ConfigurationError,
    ToolInterrupt,
)
from grundlag_bus.providers.context import ActionContext
from grundlag_bus.providers.disposition import Policy, Retry
from grundlag_bus.providers.threads import call_as_coroutine
from grundlag_bus.schema.manifest import ActionManifest
from grundlag_bus.schema.names import check_id
from grundlag_bus.schema.shape import MismatchError, Shape, make_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from grundlag_bus.providers.threads import Threads


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Action:
    """A function of a provider that callers may run.

    lane: the queue its calls wait in, apart from other lanes; policy: how often it may be started; reads: the item
    types a caller sends along, None for all; idempotent: a caller may send the call again after an unsure publish;
    parallel_safe: an agent may run it beside its neighbours; idle_timeout: seconds that it may run without telling of
    progress.
    """

    id: str
    name: str
    description: str | None
    input: Shape = field(repr=False)
    output: Shape = field(repr=False)
    function: Callable[..., Any] = field(repr=False)
    answer: Shape | None = field(default=None, repr=False)
    lane: str = "main"
    reads: tuple[str, ...] | None = None
    idempotent: bool = False
    parallel_safe: bool = False
    policy: Policy = field(default_factory=Policy)
    idle_timeout: float | None = None
    takes_context: bool = True
    is_async: bool = True

    async def execute(self, input: Any, context: ActionContext[Any]) -> Any:  # noqa: A002  the wire's word
        """Run the action here, with the same validation as in a worker, and return what it returned.

        input: a value of the input model, or JSON data for one; the same holds for the answer in `context`. Raises
        ActionInputValidationError and AnswerInvalidError (the function did not run), ActionOutputValidationError,
        ToolInterrupt, and what the function raises.
        """
        try:
            value = self.input.accept(input)
        except MismatchError as error:
            raise ActionInputValidationError(self.id, error.issues) from error
        self._check_answer(context)
        try:
            result = await self.run(value, context)
        except ToolInterrupt as interrupt:
            if self.answer is None and interrupt.interrupt_id is None:
                raise self.undeclared_interrupt() from interrupt
            raise
        self.dump(result)
        return self.output.accept(result)

    def _check_answer(self, context: ActionContext[Any]) -> None:
        if self.answer is not None and context.resumption is not None:
            try:
                answer = self.answer.accept(context.resumption.answer)
            except MismatchError as error:
                raise AnswerInvalidError(self.id, error.issues) from error
            context.resumption = replace(context.resumption, answer=answer)

    def undeclared_interrupt(self) -> ConfigurationError:
        """Make the error of an action that interrupts and does not say what it may be answered."""
        return ConfigurationError(
            f"Action {self.id} raised ToolInterrupt and declares no answer: add answer=Model to its definition."
        )

    def parse(self, data: Any) -> Any:
        """Turn JSON data into an input. Raises ActionInputValidationError."""
        try:
            return self.input.parse(data)
        except MismatchError as error:
            raise ActionInputValidationError(self.id, error.issues) from error

    def parse_answer(self, data: Any) -> Any:
        """Turn JSON data into an answer. Raises AnswerInvalidError."""
        if self.answer is None:
            return data
        try:
            return self.answer.parse(data)
        except MismatchError as error:
            raise AnswerInvalidError(self.id, error.issues) from error

    async def run(self, value: Any, context: ActionContext[Any], *, threads: Threads | None = None) -> Any:
        """Run the function on a parsed input: a coroutine function here, any other in a thread."""
        arguments = (value, context) if self.takes_context else (value,)
        if self.is_async:
            return await self.function(*arguments)
        if threads is None:
            return await asyncio.to_thread(call_as_coroutine, self.function, *arguments)
        return await threads.run(context, self.function, *arguments)

    def dump(self, result: Any) -> Any:
        """Turn what the function returned into JSON data. Raises ActionOutputValidationError."""
        try:
            return self.output.dump(result)
        except MismatchError as error:
            raise ActionOutputValidationError(self.id, error.issues) from error

    def to_manifest(self) -> ActionManifest:
        """Describe the action; its function name is allocated by whoever reads the whole manifest."""
        return ActionManifest(
            id=self.id,
            name=self.name,
            description=self.description,
            lane=self.lane,
            reads=self.reads,
            idempotent=self.idempotent,
            parallel_safe=self.parallel_safe,
            input=self.input.schema,
            output=self.output.schema,
            answer=None if self.answer is None else self.answer.schema,
        )


def define_action(  # noqa: PLR0913  what an action is made of
    *,
    id: str,  # noqa: A002  the field's name
    name: str,
    input: Any,  # noqa: A002  the field's name
    output: Any,
    execute: Callable[..., Any],
    description: str | None = None,
    answer: Any = None,
    lane: str = "main",
    retry: Retry | None = None,
    crashes: int = 3,
    rerun: bool = True,
    reads: Sequence[str] | None = None,
    idempotent: bool = False,
    parallel_safe: bool = False,
    idle_timeout: float | None = None,
) -> Action:
    """Make an action of a function `(input)` or `(input, context)`, async or not; one that is not runs in a thread.

    input, output, answer: pydantic models or other types, or JSON Schemas (dicts). Everything else is as
    `Provider.action` has it. Raises ConfigurationError.
    """
    check_id("action", id)
    check_id("lane", lane)
    of = f"action {id}"
    if answer is not None and _count_of_arguments(execute, of) == 1:
        raise ConfigurationError(
            f"{of} declares an answer, and its function takes no context to find it in: make it (input, context)."
        )
    if idle_timeout is not None and not 0 < idle_timeout < math.inf:
        raise ConfigurationError(f"{of}: idle_timeout={idle_timeout!r} is no time: give seconds above 0, or None.")
    if isinstance(reads, str):
        raise ConfigurationError(f"{of}: reads={reads!r} is one text: give a list of item types, as in [{reads!r}].")
    return Action(
        id=id,
        name=name,
        description=description,
        input=make_shape(input, "validation", of=of),
        output=make_shape(output, "serialization", of=of),
        answer=None if answer is None else make_shape(answer, "validation", of=of),
        function=execute,
        lane=lane,
        policy=_policy(retry, crashes, of, rerun=rerun),
        reads=None if reads is None else tuple(reads),
        idempotent=idempotent,
        parallel_safe=parallel_safe,
        idle_timeout=idle_timeout,
        takes_context=_count_of_arguments(execute, of) > 1,
        is_async=inspect.iscoroutinefunction(execute)
        or inspect.iscoroutinefunction(getattr(execute, "__call__", None)),  # noqa: B004  a callable object's own
    )


def _policy(retry: Retry | None, crashes: int, of: str, *, rerun: bool) -> Policy:
    try:
        return Policy(retry, crashes, rerun)
    except ConfigurationError as error:
        raise ConfigurationError(f"{of}: {error}") from None


def read_signature(function: Callable[..., Any], scope: Mapping[str, Any], *, of: str) -> tuple[Any, Any]:
    """Return the annotations of a function's first argument and of what it returns.

    scope: the local names where the function is defined, for models made in a function. Raises ConfigurationError.
    """
    _count_of_arguments(function, of)
    first, *others = inspect.signature(function).parameters
    _check_context(function, others[0] if others else None, scope, of)
    found = []
    for name, what in ((first, f"its first argument {first!r}"), ("return", "what it returns")):
        annotation = function.__annotations__.get(name, inspect.Parameter.empty)
        if annotation is inspect.Parameter.empty:
            raise ConfigurationError(f"{of} does not annotate {what}: annotate it with a pydantic model.")
        try:
            # Only these two are resolved, so that ActionContext may be imported for the type checker alone.
            hints = get_type_hints(_Only(name, annotation), vars(sys.modules[function.__module__]), dict(scope), True)  # noqa: FBT003  include_extras
        except NameError as error:
            raise ConfigurationError(
                f"{of}: the annotation {annotation!r} of {what} names {error.name!r}, which is not there at run time: "
                "import it at the top of the module, outside `if TYPE_CHECKING`."
            ) from error
        found.append(hints[name])
    return found[0], found[1]


def _check_context(function: Callable[..., Any], name: str | None, scope: Mapping[str, Any], of: str) -> None:
    """Refuse a second argument that says it is something else than the context."""
    annotation = function.__annotations__.get(name or "")
    if annotation is None:
        return
    try:
        kind = get_type_hints(_Only("ctx", annotation), vars(sys.modules[function.__module__]), dict(scope))["ctx"]
    except NameError:
        return  # imported for the type checker alone
    kind = get_origin(kind) or kind
    if inspect.isclass(kind) and not issubclass(kind, ActionContext):
        raise ConfigurationError(
            f"{of}: its second argument {name!r} is annotated as {kind.__qualname__}, and gets the ActionContext: "
            "put all of the input into the first."
        )


class _Only:
    """An object with one annotation, for `get_type_hints`."""

    def __init__(self, name: str, annotation: Any) -> None:
        self.__annotations__ = {name: annotation}


def _count_of_arguments(function: Callable[..., Any], of: str) -> int:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    count = sum(parameter.kind in positional for parameter in parameters)
    needed = sum(p.kind in positional and p.default is p.empty for p in parameters)
    only_named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if count < 1 or needed > 2 or only_named:  # noqa: PLR2004  the input and the context
        raise ConfigurationError(f"{of}: its function must take (input) or (input, context), by position.")
    return min(count, 2)
