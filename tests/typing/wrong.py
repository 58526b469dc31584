"""Each line that is marked has a mistake which the types tell."""

from __future__ import annotations

from contract_client import Client

from grundlag_bus import ToolInterrupt


async def use(client: Client, interrupt: ToolInterrupt) -> None:
    await client.contractAdd({"a": 1, "b": "two"})  # wrong
    await client.contractAdd({"a": 1})  # wrong
    await client.contractAdd({"a": 1, "b": 2, "c": 3})  # wrong
    await client.contractSubtract({"a": 1, "b": 2})  # wrong
    await client.contractOwner({"pet": {"kind": "fish"}})  # wrong
    await client.contractRemember({"how": "somehow"})  # wrong
    await client.resume_contractAsk(interrupt, {"approved": "yes"})  # wrong
    (await client.contractAdd({"a": 1, "b": 2}))["total"]  # wrong
