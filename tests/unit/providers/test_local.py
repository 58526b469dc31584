"""What a call means to the services of its scope. How calls end is tested in tests/contract/caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from pydantic import BaseModel

from grundlag_bus import (
    ActionContext,
    ActionFailed,
    ActionOutputValidationError,
    DeadlineExceededError,
    InternalError,
    Provider,
    ProviderRegistry,
    ProviderUnavailableError,
    ServiceRegistry,
    Tool,
    ToolContext,
    ToolInterrupt,
)


class Nothing(BaseModel):
    pass


class Session:
    """Commits at the end of a call that went well, as a database session in a call scope does."""


Work = Callable[[], Coroutine[Any, Any, Any]]


async def tool_of(work: Work, ends: list[str]) -> Tool:
    async def session() -> AsyncIterator[Session]:
        try:
            yield Session()
        except BaseException as error:
            ends.append(f"rolled back by {type(error).__name__}")
            raise
        ends.append("committed")

    services = ServiceRegistry()
    services.register(Session, session, scope="call")
    provider = Provider("bank", name="Bank")

    @provider.action("pay", name="Pay", answer=Nothing)
    async def pay(_: Nothing, ctx: ActionContext) -> Nothing:
        await ctx.services.get(Session)
        result: Nothing = await work()
        return result

    return (await ProviderRegistry([provider], services=services).to_tools())["bankPay"]


async def goes_well() -> Nothing:
    return Nothing()


async def fails() -> Nothing:
    raise ActionFailed("no_money", "There is no money.")


async def interrupts() -> Nothing:
    raise ToolInterrupt("Really?")


async def returns_nonsense() -> str:
    return "nonsense"


async def takes_too_long() -> Nothing:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_service_of_the_call_ends_well_when_the_call_completes() -> None:
    ends: list[str] = []
    assert await (await tool_of(goes_well, ends)).execute({}) == {}
    assert ends == ["committed"]


@pytest.mark.parametrize(
    ("work", "raised", "end"),
    [
        (fails, ActionFailed, "rolled back by ActionFailed"),
        (interrupts, ToolInterrupt, "rolled back by ToolInterrupt"),
        (returns_nonsense, ActionOutputValidationError, "rolled back by ActionOutputValidationError"),
        (takes_too_long, DeadlineExceededError, "rolled back by CancelledError"),
    ],
)
async def test_a_service_of_the_call_learns_that_the_call_did_not_complete(
    work: Work, raised: type[BaseException], end: str
) -> None:
    ends: list[str] = []
    with pytest.raises(raised):
        await (await tool_of(work, ends)).execute({}, ToolContext(timeout=0.2))
    assert ends == [end]


@pytest.mark.parametrize(
    "inner", [ActionOutputValidationError("inner", []), ProviderUnavailableError("no worker of the inner provider")]
)
async def test_the_failure_of_an_inner_call_is_not_taken_for_one_of_the_outer(inner: Exception) -> None:
    async def calls_another() -> Nothing:
        raise inner

    with pytest.raises(InternalError) as raised:
        await (await tool_of(calls_another, [])).execute({})
    assert raised.value.details["type"] == type(inner).__name__
