from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from grundlag_bus.errors import ConfigurationError, EnvelopeError
from grundlag_bus.schema.manifest import (
    ActionManifest,
    Announcement,
    EntityManifest,
    EventManifest,
    Manifest,
    ProviderManifest,
    build_manifest,
    current,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
SCHEMAS = st.dictionaries(st.text(max_size=4), JSON, max_size=3)
ACTIONS = st.builds(
    ActionManifest,
    id=st.sampled_from(["a", "b"]),
    name=st.text(max_size=4),
    description=st.none() | st.text(max_size=4),
    function_name=st.sampled_from(["", "pA"]),
    reads=st.none() | st.lists(st.text(max_size=4), max_size=2).map(tuple),
    idempotent=st.booleans(),
    parallel_safe=st.booleans(),
    input=SCHEMAS,
    output=SCHEMAS,
    answer=st.none() | SCHEMAS,
)
PROVIDERS = st.builds(
    ProviderManifest,
    id=st.sampled_from(["p", "q"]),
    name=st.text(max_size=4),
    description=st.none() | st.text(max_size=4),
    actions=st.lists(ACTIONS, max_size=2).map(tuple),
    entities=st.lists(SCHEMAS.map(lambda schema: EntityManifest(id="e", name="E", json_schema=schema)), max_size=1).map(
        tuple
    ),
    events=st.lists(SCHEMAS.map(lambda schema: EventManifest(id="e", name="E", json_schema=schema)), max_size=1).map(
        tuple
    ),
)


def an_action(id: str = "add", **more: Any) -> ActionManifest:  # noqa: A002  the field's name
    return ActionManifest(id=id, name="Add", input={"type": "object"}, output={"type": "object"}, **more)


def a_provider(id: str, *action_ids: str, name: str = "Any") -> ProviderManifest:  # noqa: A002  the field's name
    return ProviderManifest(id=id, name=name, actions=tuple(map(an_action, action_ids)))


def announced(id: str = "demo", *, revision: int = 0, name: str = "Any") -> bytes:  # noqa: A002  the field's name
    return Announcement(provider_id=id, revision=revision, provider=a_provider(id, "add", name=name)).encode()


def retired(id: str = "demo", *, revision: int = 0) -> bytes:  # noqa: A002  the field's name
    return Announcement(provider_id=id, revision=revision, retired=True).encode()


def names_of(*entries: bytes) -> dict[str, str]:
    return {id: told.provider.name for id, told in current(entries).items() if told.provider}  # noqa: A001  the word


# --- the document -----------------------------------------------------------------------------------------------------


@given(st.lists(PROVIDERS, max_size=3).map(tuple))
def test_a_manifest_round_trips_exactly(providers: tuple[ProviderManifest, ...]) -> None:
    manifest = Manifest(providers=providers)
    again = Manifest.decode(manifest.encode())
    assert again == manifest
    assert again.encode() == manifest.encode()


def test_schemas_are_carried_as_they_are() -> None:
    schema = {"const": None, "default": None, "properties": {"snake_case": {"enum": [None]}}, "x": {}}
    manifest = build_manifest([ProviderManifest(id="demo", name="D", actions=(an_action(answer=schema),))])
    told = orjson.loads(manifest.encode())
    assert told["providers"][0]["actions"][0]["answer"] == schema


def test_own_fields_are_camel_cased_and_absent_ones_left_out() -> None:
    provider = ProviderManifest(
        id="demo",
        name="Demo",
        actions=(an_action(),),
        entities=(EntityManifest(id="thing", name="Thing", json_schema={"type": "null"}),),
    )
    assert provider.to_json() == {
        "id": "demo",
        "name": "Demo",
        "actions": [
            {
                "id": "add",
                "name": "Add",
                "lane": "main",
                "idempotent": False,
                "parallelSafe": False,
                "input": {"type": "object"},
                "output": {"type": "object"},
            }
        ],
        "entities": [{"id": "thing", "name": "Thing", "schema": {"type": "null"}}],
        "events": [],
    }


def test_an_empty_list_and_an_absent_one_stay_distinct() -> None:
    assert "reads" not in an_action().to_json()
    assert an_action(reads=()).to_json()["reads"] == []


def test_unknown_fields_are_ignored_at_every_level() -> None:
    told = build_manifest([a_provider("demo", "add")]).to_json()
    told["new"] = told["providers"][0]["new"] = told["providers"][0]["actions"][0]["new"] = {"a": 1}
    assert Manifest.decode(orjson.dumps(told)) == build_manifest([a_provider("demo", "add")])


def test_a_manifest_is_frozen() -> None:
    with pytest.raises(ValidationError):
        build_manifest([]).providers = ()  # type: ignore[misc]  # what is refused


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no JSON"),
        (b"[]", "its root"),
        (b'{"v": 2, "providers": []}', "malformed at v"),
        (b'{"providers": [{"id": "demo"}]}', "providers.0.name"),
        (b'{"providers": [{"id": "d", "name": "D", "actions": [{}]}]}', "providers.0.actions.0.id"),
    ],
)
def test_a_malformed_manifest_is_refused_by_place(body: bytes, reason: str) -> None:
    with pytest.raises(EnvelopeError, match=reason):
        Manifest.decode(body)


# --- building ---------------------------------------------------------------------------------------------------------


def test_the_manifest_does_not_depend_on_the_order_of_the_parts() -> None:
    parts = [a_provider("my-thing", "x"), a_provider("my_thing", "x"), a_provider("demo", "add")]
    bodies = {build_manifest(order).encode() for order in itertools.permutations(parts)}
    assert len(bodies) == 1


def test_function_names_are_allocated_over_all_providers() -> None:
    manifest = build_manifest([a_provider("my_thing", "x"), a_provider("my-thing", "x")])
    assert [(p.id, a.function_name) for p in manifest.providers for a in p.actions] == [
        ("my-thing", "myThingX"),
        ("my_thing", "myThingX_2"),
    ]


def test_names_allocated_earlier_are_allocated_anew() -> None:
    (part,) = build_manifest([a_provider("my_thing", "x")]).providers
    manifest = build_manifest([part, a_provider("my-thing", "x")])
    assert manifest.find_function("myThingX_2") is not None


def test_actions_are_found_by_ids_and_by_function_name() -> None:
    manifest = build_manifest([a_provider("demo", "add", "echo"), a_provider("other", "add")])
    found = manifest.find_function("demoEcho")
    assert found is not None
    assert (found[0].id, found[1].id) == ("demo", "echo")
    assert manifest.find("demo", "echo") is found[1]
    assert manifest.find("demo", "nothing") is None
    assert manifest.find_function("demoNothing") is None
    assert manifest == build_manifest([a_provider("demo", "add", "echo"), a_provider("other", "add")])


def test_two_parts_with_one_id_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="'demo'"):
        build_manifest([a_provider("demo", "a"), a_provider("demo", "b")])


# --- announcements ----------------------------------------------------------------------------------------------------


def test_an_announcement_round_trips_to_the_same_bytes() -> None:
    assert Announcement.decode(announced()).encode() == announced()
    assert Announcement.decode(retired()).encode() == retired()


def test_the_newest_announcement_of_each_provider_counts() -> None:
    entries = (announced(name="old"), announced("other"), announced(name="new"))
    assert names_of(*entries) == {"demo": "new", "other": "Any"}


def test_an_older_revision_never_replaces_a_newer() -> None:
    new, old, again = announced(revision=2, name="2"), announced(revision=1, name="1"), announced(revision=2, name="2b")
    assert names_of(new, old) == {"demo": "2"}
    assert names_of(old, new) == {"demo": "2"}
    assert names_of(new, old, again) == {"demo": "2b"}


def test_a_retired_provider_is_gone_until_it_is_announced_again() -> None:
    assert names_of(announced(), retired()) == {}
    assert names_of(announced(), retired(), announced(name="again")) == {"demo": "again"}
    assert names_of(announced(revision=2), retired(revision=2), announced(revision=1)) == {}
    assert names_of(announced(revision=2), retired(revision=1)) == {"demo": "Any"}


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"v": 2, "providerId": "demo", "retired": true}',
        b'{"v": 1, "providerId": "demo"}',
        b'{"v": 1, "providerId": "demo", "provider": {"id": "other", "name": "O"}}',
        b'{"v": 1, "providerId": "demo", "provider": {"id": "demo"}}',
        b'{"v": 1, "providerId": "a.b", "provider": {"id": "a.b", "name": "A"}}',
        announced().replace(b'"demo"', b'"' + b"p" * 300 + b'"'),
        announced().replace(b'"demo"', b'"demo\\n"'),
        announced().replace(b'"lane":"main"', b'"lane":"#"'),
        announced().replace(b'"lane":"main"', b'"lane":"' + b"l" * 300 + b'"'),
    ],
)
def test_entries_that_cannot_be_read_are_skipped(entry: bytes) -> None:
    assert names_of(entry) == {}
    assert names_of(entry, announced(), entry) == {"demo": "Any"}
