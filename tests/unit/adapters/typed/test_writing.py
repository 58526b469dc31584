"""Typed clients of manifests that are unlike the usual: each is Python, calls what it says, and is always the same."""

from __future__ import annotations

from typing import Any

import pytest

from grundlag_bus import ActionUnknownError, Tool, ToolContext
from grundlag_bus.adapters.typed import ClientOptions, options_of, what_moved, write_client
from grundlag_bus.schema.manifest import Manifest, ProviderManifest, build_manifest

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


def manifest(*actions: dict[str, Any], **parts: Any) -> Manifest:
    full = [{"name": "Act", "input": NOTHING, "output": {}, **action} for action in actions]
    provider = {"id": "odd", "name": 'Odd """ one', "actions": full, **parts}
    return build_manifest([ProviderManifest.model_validate(provider)])


def loaded(text: str) -> dict[str, Any]:
    module: dict[str, Any] = {"__name__": "odd_client"}
    exec(compile(text, "odd_client.py", "exec"), module)  # noqa: S102  its own output
    return module


def tools(given: Manifest, called: list[Any]) -> dict[str, Tool]:
    async def run(value: Any, _: ToolContext) -> Any:
        called.append(value)
        return value

    return {
        action.function_name: Tool(
            id=action.function_name, name="", input={}, output={}, run=run, provider_id=provider.id, action_id=action.id
        )
        for provider in given.providers
        for action in provider.actions
    }


@pytest.mark.parametrize(
    ("schema", "annotation"),
    [
        ({"type": "string"}, "str"),
        ({}, "Any"),
        ({"type": "object", "properties": {"from": {"type": "string"}}, "required": ["from"]}, "OddActInput"),
        ({"type": "object", "properties": {"list": {"type": "array"}}, "required": ["list"]}, "OddActInput"),
        (NOTHING, "dict[str, Any] | None"),
        ({"type": "object", "properties": {"a": {"type": ["integer", "null"]}}}, "OddActInput | None"),
        ({"enum": ["it's", '"""', "\\"]}, "Literal[\"it's\", '\"\"\"', '\\\\']"),
    ],
)
async def test_an_input_is_one_argument_of_its_type(schema: dict[str, Any], annotation: str) -> None:
    given = manifest({"id": "act", "input": schema})
    called: list[Any] = []
    client = loaded(write_client(given))["Client"](tools(given, called))
    assert client.oddAct.__annotations__["input"] == annotation
    assert await client.oddAct({"from": "x"}) == {"from": "x"}
    assert called == [{"from": "x"}]


async def test_an_input_without_needs_may_be_left_out() -> None:
    given = manifest({"id": "act"})
    assert await loaded(write_client(given))["Client"](tools(given, [])).oddAct() == {}


def test_texts_of_strangers_stay_texts() -> None:
    text = '"""\nimport os\n"""\\'
    given = manifest({"id": "act", "description": text, "output": {**NOTHING, "description": text}})
    assert loaded(write_client(given))["Client"].oddAct.__doc__ == " ".join(text.split())


def test_names_that_clash_are_told_apart() -> None:
    parts = {"a": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    clash = {"type": "object", "properties": parts}
    given = manifest({"id": "act", "input": clash}, {"id": "actInput", "output": clash}, {"id": "a-ct"}, {"id": "a_ct"})
    module = loaded(write_client(given, ClientOptions("OddActInput")))
    assert isinstance(module["OddActInput"], type)
    assert len([name for name in module if name.startswith("OddAct")]) == 5


def test_entities_and_events_are_typed_too() -> None:
    data = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    events = [
        {"id": "told", "name": "Told", "schema": data},
        {"id": "plain", "name": "Plain", "schema": {"type": "string"}},
    ]
    module = loaded(
        write_client(manifest({"id": "act"}, events=events, entities=[{"id": "note", "name": "Note", "schema": data}]))
    )
    assert module["OddToldEvent"].__annotations__.keys() == module["OddNoteEntity"].__annotations__.keys() == {"number"}
    assert module["OddPlainEvent"] is str


def test_the_same_manifest_gives_the_same_text_and_nothing_moved() -> None:
    given = manifest({"id": "act", "answer": {"type": "boolean"}}, {"id": "other"})
    text = write_client(given)
    assert text == write_client(Manifest.decode(given.encode()))
    assert what_moved(text, text) == what_moved(text.replace("'odd', 'act'", '"odd", "act"'), text) == []
    assert what_moved("def (", text) == ["the file is no Python (SyntaxError)"]


async def test_an_action_that_is_not_among_the_tools_is_unknown() -> None:
    client = loaded(write_client(manifest({"id": "act"})))["Client"]({})
    with pytest.raises(ActionUnknownError, match=r"odd\.act"):
        await client.oddAct()


def test_a_client_says_what_it_was_written_with() -> None:
    given = manifest({"id": "act"})
    options = ClientOptions("OddClient", ("odd",))
    assert options_of(write_client(given)) == ClientOptions()
    assert options_of(write_client(given, options)) == options
    assert options_of(write_client(given, options).replace("OddClient`.", "OddClient`, and formatted.")) == options
    assert options_of('"""Another module."""') is options_of("def (") is options_of("\0") is None
