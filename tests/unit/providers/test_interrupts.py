"""What an interrupt hands out is its caller's own."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from grundlag_bus import ActionContext, Provider, ProviderRegistry, ToolInterrupt


class Approval(BaseModel):
    approved: bool


class Nothing(BaseModel):
    pass


provider = Provider("notes", name="Notes")


@provider.action("delete", name="Delete", answer=Approval)
async def delete(_: Nothing, ctx: ActionContext[Approval]) -> Approval:
    if ctx.resumption is None:
        raise ToolInterrupt("Delete?")
    return ctx.resumption.answer


async def test_a_caller_may_change_the_schema_of_the_answer_it_was_given() -> None:
    tool = (await ProviderRegistry([provider]).to_tools())["notesDelete"]
    with pytest.raises(ToolInterrupt) as asked:
        await tool.execute({})
    assert asked.value.answer_schema == tool.answer
    assert asked.value.answer_schema is not None
    asked.value.answer_schema["properties"].clear()
    asked.value.answer_schema.pop("title")
    assert await tool.resume(asked.value, {"approved": True}) == {"approved": True}
    with pytest.raises(ToolInterrupt) as again:
        await tool.execute({})
    assert again.value.answer_schema == tool.answer
