"""Uses a generated client as its types allow. Checked by mypy, and run."""

from __future__ import annotations

import asyncio

from contract_client import Client, ContractTreeInputTree

from grundlag_bus import ItemStore, ToolContext, ToolInterrupt, connect
from tests.support.contract_registry import make_registry


async def main() -> None:
    async with connect(make_registry()) as bus:
        client = Client(await bus.to_tools())
        added = await client.contractAdd({"a": 1, "b": 2})
        total: int = added["sum"]
        assert total == 3
        leaf: ContractTreeInputTree = {"name": "b"}
        tree = await client.contractTree({"name": "a", "children": [leaf]}, ToolContext(items=ItemStore()))
        assert [child["name"] for child in tree["children"]] == ["b"]
        owner = await client.contractOwner({"pet": {"kind": "cat", "lives": 7}, "others": None})
        assert owner["pet"]["kind"] == "cat"
        if owner["pet"]["kind"] == "cat":
            lives: int = owner["pet"]["lives"]
            assert lives == 7
        assert await client.contractWhichSet({"x": None}) == ["x"]
        assert await client.contractWhichSet() == []
        try:
            await client.contractAsk({"id": "e1"})
        except ToolInterrupt as interrupt:
            decided = await client.resume_contractAsk(interrupt, {"approved": True}, by="ada")
            assert (decided["approved"], decided["by"]) == (True, "ada")
    print("all is well")  # noqa: T201  the test reads it


if __name__ == "__main__":
    asyncio.run(main())
