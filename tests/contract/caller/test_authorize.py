"""A registry's `authorize` is asked wherever its actions run; hiding a tool at a client is no protection."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from grundlag_bus import (
    ActionInputValidationError,
    ForbiddenError,
    InternalError,
    Provider,
    ProviderRegistry,
    ToolContext,
    connect,
    testing,
)

asked: list[tuple[str | None, str, str, Any]] = []
ran: list[int] = []
bank = Provider("bank", name="Bank")


class Payment(BaseModel):
    amount: int


@bank.action("pay", name="Pay")
async def pay(payment: Payment) -> int:
    ran.append(payment.amount)
    return payment.amount


def small_sums_of_ada(user_id: str | None, provider_id: str, action_id: str, input: Any) -> bool:  # noqa: A002  the wire's word
    asked.append((user_id, provider_id, action_id, input))
    return user_id == "ada" and input["amount"] < 100


async def small_sums_of_ada_asked_elsewhere(*question: Any) -> bool:
    return small_sums_of_ada(*question)


async def broken(*_: Any) -> bool:
    raise ConnectionError


@pytest.fixture(autouse=True)
def _forget() -> None:
    asked.clear()
    ran.clear()


@pytest.mark.parametrize("authorize", [small_sums_of_ada, small_sums_of_ada_asked_elsewhere])
@pytest.mark.parametrize("host", ["in-process", "memory"])
async def test_who_may_not_is_refused_before_anything_runs(host: str, authorize: Any) -> None:
    registry = ProviderRegistry([bank], authorize=authorize)
    async with connect(registry) if host == "in-process" else testing.memory_bus(registry) as bus:
        tool = (await bus.to_tools())["bankPay"]
        assert await tool.execute({"amount": 5}, ToolContext(user_id="ada")) == 5
        for user_id, amount in (("ada", 500), ("eve", 5), (None, 5)):
            with pytest.raises(ForbiddenError):
                await tool.execute({"amount": amount}, ToolContext(user_id=user_id))
        assert ran == [5]
        assert asked[0] == ("ada", "bank", "pay", {"amount": 5})
        asked.clear()
        with pytest.raises(ActionInputValidationError):
            await tool.execute({"amount": "much"}, ToolContext(user_id="ada"))
        assert asked == []


async def test_an_authorize_that_breaks_lets_nobody_pass() -> None:
    async with connect(ProviderRegistry([bank], authorize=broken)) as bus:
        with pytest.raises(InternalError):
            await (await bus.to_tools())["bankPay"].execute({"amount": 5}, ToolContext(user_id="ada"))
    assert ran == []
