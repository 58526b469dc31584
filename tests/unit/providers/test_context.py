"""What an action may tell by its context."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from grundlag_bus import (
    ActionContext,
    InternalError,
    NotJsonError,
    Provider,
    ProviderRegistry,
    ToolContext,
    Trace,
    testing,
)


@pytest.mark.parametrize("told", [(True,), (None,), ("half",), (Decimal(1),), (1, "2"), (1, 2, 3)])
def test_progress_that_no_caller_could_read_is_refused_where_it_is_told(told: Any) -> None:
    with pytest.raises(TypeError, match="progress is told in two numbers and a text"):
        _ = testing.context().progress(*told)


def test_progress_that_is_no_json_is_refused() -> None:
    with pytest.raises(NotJsonError):
        _ = testing.context().progress(float("nan"))


async def test_progress_that_nobody_hears_is_well() -> None:
    await testing.context().progress(1, 2.5, "almost")


async def test_the_lines_of_an_action_and_of_its_failure_name_the_trace(caplog: pytest.LogCaptureFixture) -> None:
    warned = Provider("warned", name="Warned")

    @warned.action("act", name="Act")
    async def act(_: dict[str, Any], ctx: ActionContext) -> None:
        ctx.logger.warning("acting")
        raise LookupError

    tool = (await ProviderRegistry([warned]).to_tools())["warnedAct"]
    for trace in (Trace(f"00-{'a' * 32}-{'b' * 16}-01"), None):
        caplog.clear()
        with pytest.raises(InternalError):
            await tool.execute({}, ToolContext(trace=trace))
        assert [("trace_id" in text, "a" * 32 in text) for text in caplog.messages] == [(trace is not None,) * 2] * 2
