"""What a user is shown: the manifest as of a moment ago, without what is not the user's to call."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from grundlag_bus import AllowLists, Provider, ProviderRegistry, TransportClosedError, connect, create_app
from grundlag_bus.adapters import Bus
from grundlag_bus.gateway.catalogue import FRESH_SECONDS, Catalogue
from grundlag_bus.gateway.refusing import Refused
from grundlag_bus.schema.manifest import Manifest


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def make_registry(authorize: Any = None) -> ProviderRegistry:
    """Make two providers whose function names collide."""
    providers = []
    for provider_id in ("my-calendar", "my_calendar", "other"):
        provider = Provider(provider_id, name=provider_id)

        @provider.action("add", name="Add")
        async def add(_: int) -> int:
            return 1

        @provider.action("remove", name="Remove")
        async def remove(_: int) -> int:
            return 1

        providers.append(provider)
    return ProviderRegistry(providers, authorize=authorize)


def names(manifest: Manifest) -> list[str]:
    return [action.function_name for provider in manifest.providers for action in provider.actions]


async def test_a_function_has_one_name_whatever_is_hidden_beside_it() -> None:
    catalogue = Catalogue(connect(make_registry()), AllowLists({"ada": ["my_calendar.*"], "*": ["other.add"]}))
    assert names((await catalogue.shown_to("ada")).manifest) == ["myCalendarAdd_2", "myCalendarRemove_2", "otherAdd"]
    assert names((await catalogue.shown_to("bob")).manifest) == ["otherAdd"]


async def test_a_registry_hides_what_its_authorize_refuses() -> None:
    asked: list[Any] = []

    async def authorize(user_id: str | None, provider_id: str, action_id: str, input: Any) -> bool:  # noqa: A002  the wire's word
        asked.append(input)
        if provider_id == "other":
            raise LookupError
        return user_id == "ada" and action_id == "add"

    catalogue = Catalogue(connect(make_registry(authorize)), None)
    assert names((await catalogue.shown_to("ada")).manifest) == ["myCalendarAdd", "myCalendarAdd_2"]
    assert (await catalogue.shown_to(None)).providers == frozenset()
    assert set(asked) == {None}


async def test_providers_that_are_not_shown_are_not_heard_of() -> None:
    catalogue = Catalogue(connect(make_registry()), AllowLists({"ada": ["other.add"]}))
    assert (await catalogue.shown_to("ada")).providers == {"other"}


# --- how old it may be ------------------------------------------------------------------------------------------------


class Reading:
    """A bus whose manifest is read, which is counted, takes a moment, and may fail."""

    def __init__(self, bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        self.fails = False
        self._manifest = bus.manifest
        monkeypatch.setattr(bus, "manifest", self._read)

    async def _read(self) -> Manifest:
        self.times += 1
        await asyncio.sleep(0.01)
        if self.fails:
            raise TransportClosedError("It is closed.")
        return await self._manifest()


async def test_it_is_read_once_for_all_who_ask_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    bus, clock = connect(make_registry()), Clock()
    reading, catalogue = Reading(bus, monkeypatch), Catalogue(bus, None, clock=clock)
    await asyncio.gather(*(catalogue.current() for _ in range(20)))
    assert reading.times == 1
    clock.now += FRESH_SECONDS + 1
    await asyncio.gather(*(catalogue.current() for _ in range(20)))
    assert reading.times == 2


async def test_calls_go_on_while_it_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    bus, clock = connect(make_registry()), Clock()
    reading, catalogue = Reading(bus, monkeypatch), Catalogue(bus, None, clock=clock)
    reading.fails = True
    with pytest.raises(Refused) as raised:
        await catalogue.current()
    assert raised.value.status == 503
    reading.fails = False
    before = await catalogue.current()
    reading.fails = True
    clock.now += FRESH_SECONDS + 1
    assert (await catalogue.current()).manifest is before.manifest


async def test_who_knows_the_manifest_is_told_that_it_is_the_same() -> None:
    bus = connect(make_registry())
    host = create_app(bus)
    transport = httpx2.ASGITransport(app=host)
    async with bus, httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        first = await client.get("/api/client/schema")
        tag = first.headers["ETag"]
        for known in (tag, f'"other", W/{tag}', "*"):
            again = await client.get("/api/client/schema", headers={"If-None-Match": known})
            assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
        other = await client.get("/api/client/schema", headers={"If-None-Match": '"other"'})
        assert (other.status_code, other.json()) == (200, first.json())
        assert Manifest.decode(other.content) == await bus.manifest()
