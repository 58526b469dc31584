"""Registries: providers and services, opened and closed by whoever uses them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from contextvars import ContextVar

import pytest
from pydantic import BaseModel

from grundlag_bus import (
    ActionContext,
    ConfigurationError,
    Provider,
    ProviderRegistry,
    SealKeys,
    ServiceRegistry,
    connect,
    to_tool,
)


class Nothing(BaseModel):
    pass


class Database:
    def __init__(self) -> None:
        self.open = True


provider = Provider("notes", name="Notes")


@provider.action("look", name="Look")
async def look(_: Nothing, ctx: ActionContext) -> int:
    """Returns which database it saw."""
    database = await ctx.services.get(Database)
    assert database.open
    return id(database)


@provider.action("ask", name="Ask", answer=Nothing)
async def ask(_: Nothing, ctx: ActionContext) -> None:
    pass


class Opened:
    """Counts the databases that a registry opens and closes."""

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.services = ServiceRegistry()
        self.services.register(Database, self._open)

    async def _open(self) -> AsyncIterator[Database]:
        self.opened += 1
        database = Database()
        yield database
        database.open = False
        self.closed += 1


async def test_services_live_as_long_as_the_registry_is_open() -> None:
    counts = Opened()
    registry = ProviderRegistry([provider], services=counts.services)
    tools = await registry.to_tools()
    async with registry:
        assert counts.opened == 0  # on first use
        assert await tools["notesLook"].execute({}) == await tools["notesLook"].execute({})
        assert (counts.opened, counts.closed) == (1, 0)
    assert (counts.opened, counts.closed) == (1, 1)


async def test_a_registry_may_be_opened_again() -> None:
    counts = Opened()
    registry = ProviderRegistry([provider], services=counts.services)
    for times in (1, 2):
        async with connect(registry) as bus:
            await (await bus.to_tools())["notesLook"].execute({})
        assert (counts.opened, counts.closed) == (times, times)


async def test_the_last_of_several_users_closes_the_services() -> None:
    counts = Opened()
    registry = ProviderRegistry([provider], services=counts.services)
    async with connect(registry) as outer:
        async with connect(registry) as inner:
            tools = (await outer.to_tools(), await inner.to_tools())
            first, second = [await each["notesLook"].execute({}) for each in tools]
            assert first == second
        assert counts.closed == 0
        await tools[0]["notesLook"].execute({})
    assert (counts.opened, counts.closed) == (1, 1)


async def test_services_open_on_first_use_where_nobody_opens_the_registry() -> None:
    counts = Opened()
    registry = ProviderRegistry([provider], services=counts.services)
    tools = await registry.to_tools()
    assert await tools["notesLook"].execute({}) == await tools["notesLook"].execute({})
    assert (counts.opened, counts.closed) == (1, 0)
    async with registry:  # who opens it closes what was open
        pass
    assert counts.closed == 1


request_id: ContextVar[str] = ContextVar("request_id", default="none")


@pytest.mark.parametrize(("opens", "seen"), [(False, "of whoever made it"), (True, "of whoever opened it")])
async def test_no_service_of_the_worker_sees_the_context_variables_of_the_first_call(opens: bool, seen: str) -> None:
    told: list[str] = []

    def make() -> Database:
        told.append(request_id.get())
        return Database()

    services = ServiceRegistry()
    services.register(Database, make)
    request_id.set("of whoever made it")
    registry = ProviderRegistry([provider], services=services)
    tools = await registry.to_tools()
    request_id.set("of whoever opened it")
    async with registry if opens else nullcontext():
        request_id.set("of the first call")
        await tools["notesLook"].execute({})
    assert told == [seen]


def test_a_registry_serves_one_loop_after_another() -> None:
    counts = Opened()
    registry = ProviderRegistry([provider], services=counts.services)

    async def use() -> None:
        async with connect(registry) as bus:
            await (await bus.to_tools())["notesLook"].execute({})

    asyncio.run(use())
    asyncio.run(use())
    assert (counts.opened, counts.closed) == (2, 2)


def test_services_of_a_loop_that_has_ended_are_opened_anew() -> None:
    counts = Opened()
    registry = ProviderRegistry([provider], services=counts.services)

    async def use() -> None:
        await (await registry.to_tools())["notesLook"].execute({})

    asyncio.run(use())
    asyncio.run(use())
    assert counts.opened == 2


async def test_a_service_that_fails_to_close_is_told_to_who_closes() -> None:
    async def broken() -> AsyncIterator[Database]:
        yield Database()
        raise ConnectionError("gone")

    services = ServiceRegistry()
    services.register(Database, broken)
    registry = ProviderRegistry([provider], services=services)
    with pytest.raises(ConnectionError, match="gone"):
        async with connect(registry) as bus:
            await (await bus.to_tools())["notesLook"].execute({})


async def test_one_action_becomes_a_tool_by_its_own_id() -> None:
    counts = Opened()
    tool = to_tool(look, counts.services)
    assert (tool.id, tool.action_id, tool.description) == ("look", "look", "Returns which database it saw.")
    assert await tool.execute({}) == await tool.execute({})
    assert counts.opened == 1


def test_two_providers_of_one_id_are_refused() -> None:
    registry = ProviderRegistry()
    assert registry.register(provider) is provider
    with pytest.raises(ConfigurationError) as raised:
        registry.register(Provider("notes", name="Other"))
    assert str(raised.value) == "The registry has two providers with the id 'notes': rename one of them."


def test_actions_are_found_by_their_ids() -> None:
    registry = ProviderRegistry([provider])
    assert registry.find("notes", "look") is look
    assert registry.find("notes", "nothing") is None
    assert registry.find("nobody", "look") is None


def test_keys_are_made_once_where_none_are_given() -> None:
    registry = ProviderRegistry([provider])
    assert not registry.shared_keys
    assert registry.keys is registry.keys
    keys = SealKeys.generate()
    shared = ProviderRegistry([provider], keys=keys)
    assert shared.shared_keys
    assert shared.keys is keys
    assert registry.interrupting == ("notes.ask",)


def test_function_names_do_not_depend_on_the_order_of_registration() -> None:
    providers = [Provider("a-b", name="1"), Provider("a_b", name="2")]
    for each in providers:
        each.action("x", name="X")(look.function)
    names = [
        {
            (part.id, action.function_name)
            for part in ProviderRegistry(order).manifest().providers
            for action in part.actions
        }
        for order in (providers, providers[::-1])
    ]
    assert names[0] == names[1] == {("a-b", "aBX"), ("a_b", "aBX_2")}
