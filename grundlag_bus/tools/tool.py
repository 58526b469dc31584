"""A tool: a plain callable with schemas, which knows nothing of where its action runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import (
    ConfigurationError,
    NotJsonError,
    ToolInputValidationError,
    ToolInterrupt,
    ToolOutputValidationError,
)
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.shape import MismatchError, make_shape
from grundlag_bus.tools.context import ToolContext, ToolResumption

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_NO_CONTEXT = ToolContext()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """Something that an agent or a script can call.

    id: the function name it is addressed by; input, output, answer: JSON Schemas (draft 2020-12); provider_id and
    action_id: where it comes from, None for a tool of `define_tool`; reads: the item types it looks at, None for all.
    """

    id: str
    name: str
    input: dict[str, Any]
    output: dict[str, Any]
    run: Callable[[Any, ToolContext], Awaitable[Any]] = field(repr=False)
    description: str | None = None
    answer: dict[str, Any] | None = None
    provider_id: str | None = None
    action_id: str | None = None
    reads: tuple[str, ...] | None = None
    idempotent: bool = False
    parallel_safe: bool = False

    async def execute(self, input: Any, context: ToolContext | None = None) -> Any:  # noqa: A002  the wire's word
        """Call the tool with plain JSON data, or values that become it, and return plain JSON data.

        Raises ToolInterrupt when a person must answer first, and a CallError when the call fails.
        """
        return await self.run(input, context or _NO_CONTEXT)

    async def resume(
        self, interrupt: ToolInterrupt, answer: Any, context: ToolContext | None = None, *, by: str | None = None
    ) -> Any:
        """Call again with the same input and the answer to its interrupt.

        by: who answered, where that is not the context's user. Raises as `execute` does, and AnswerInvalidError, which
        leaves the interrupt pending. Raises ConfigurationError for an interrupt that no call returned.
        """
        if interrupt.interrupt_id is None:
            raise ConfigurationError(
                f"The interrupt {interrupt.message!r} was not returned by a call of {self.id}: "
                "resume with the ToolInterrupt that execute() raised."
            )
        context = context or _NO_CONTEXT
        resumption = ToolResumption(interrupt.interrupt_id, answer, interrupt.state, by or context.user_id)
        return await self.run(interrupt.input, replace(context, resumption=resumption))


def define_tool(  # noqa: PLR0913  what a tool is made of
    *,
    id: str,  # noqa: A002  the field's name
    name: str,
    input: Any,  # noqa: A002  the field's name
    output: Any,
    execute: Callable[[Any, ToolContext], Awaitable[Any]],
    description: str | None = None,
    parallel_safe: bool = False,
) -> Tool:
    """Make a tool of an async function `(input, context) -> output`, which runs here and needs no provider.

    input, output: pydantic models or other types, or JSON Schemas. The input is checked before the function runs and
    the output after it. Its `execute` raises ToolInputValidationError and ToolOutputValidationError. parallel_safe: an
    agent may run it beside its neighbours.
    """
    input_shape = make_shape(input, "validation", of=f"tool {id}")
    output_shape = make_shape(output, "serialization", of=f"tool {id}")

    async def run(value: Any, context: ToolContext) -> Any:
        try:
            parsed = input_shape.parse(plain(value))
        except NotJsonError as error:
            raise ToolInputValidationError(id, [error.issue]) from error
        except MismatchError as error:
            raise ToolInputValidationError(id, error.issues) from error
        result = await execute(parsed, context)
        try:
            return output_shape.dump(result)
        except MismatchError as error:
            raise ToolOutputValidationError(id, error.issues) from error

    return Tool(
        id=id,
        name=name,
        description=description,
        input=input_shape.schema,
        output=output_shape.schema,
        run=run,
        parallel_safe=parallel_safe,
    )
