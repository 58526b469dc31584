"""Data: the same on every host, whatever pydantic and JSON Schema make of it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from grundlag_bus import ActionInputValidationError
from tests.support.contract_models import EVERYTHING
from tests.support.contract_registry import seen
from tests.support.hosts import Host

AS_JSON = {
    "at": "2026-03-29T01:30:00Z",
    "on": "2026-03-29",
    "clock": "09:05:00Z",
    "lasts": "PT1H1.5S",
    "amount": "0.10",
    "id": "12345678-1234-5678-1234-567812345678",
    "colour": "red",
    "pair": [1, "one"],
    "names": ["ada"],
    "aliasedField": 21,
    "keys_stay": {"snake_case": 1, "camelCase": 2},
    "doubled": 42,
}
TREE = {"name": "a", "children": [{"name": "b", "children": [{"name": "c", "children": []}]}]}


async def test_every_host_returns_the_same_data_and_no_models(host: Host) -> None:
    assert await host.execute("everything") == AS_JSON


async def test_what_one_action_returned_another_takes(host: Host) -> None:
    sent = await host.execute("everything")
    del sent["doubled"]
    assert await host.execute("everythingBack", sent) == AS_JSON


async def test_a_value_of_the_input_model_is_sent_as_the_model_writes_it(host: Host) -> None:
    assert await host.execute("everythingBack", EVERYTHING) == AS_JSON


async def test_a_recursive_schema_is_the_contract(host: Host) -> None:
    assert await host.execute("tree", TREE) == TREE
    with pytest.raises(ActionInputValidationError) as raised:
        await host.execute("tree", {"name": "a", "children": [{"name": "b", "children": [{"nam": "c"}]}]})
    assert raised.value.issues[0].path[:4] == ("children", 0, "children", 0)
    assert seen.runs["tree"] == 1


async def test_a_discriminated_union_is_the_contract(host: Host) -> None:
    sent = {"pet": {"kind": "cat", "lives": 7}, "others": [{"kind": "dog", "tricks": ["sit"]}]}
    assert await host.execute("owner", sent) == sent
    for bad in ({"kind": "dog", "lives": 7}, {"kind": "fish"}, {"lives": 7}):
        with pytest.raises(ActionInputValidationError) as raised:
            await host.execute("owner", {"pet": bad})
        assert raised.value.issues[0].path[0] == "pet"
    assert seen.runs["owner"] == 1


@pytest.mark.parametrize("value", [1, [1, ["a", None]], {"yes": True, "unknown": None}, None])
async def test_unions_within_unions_are_the_contract(host: Host, value: Any) -> None:
    assert await host.execute("nested", {"value": value}) == {"value": value}


@pytest.mark.parametrize("value", ["text", [["a", 1]], {"yes": "perhaps"}, 0.5])
async def test_what_fits_no_part_of_a_union_is_refused(host: Host, value: Any) -> None:
    with pytest.raises(ActionInputValidationError) as raised:
        await host.execute("nested", {"value": value})
    assert raised.value.issues
    assert not seen.runs


@pytest.mark.parametrize("sent", [{}, {"x": None}, {"x": None, "y": 1}])
async def test_absent_and_null_stay_distinct(host: Host, sent: dict[str, Any]) -> None:
    assert await host.execute("whichSet", sent) == sorted(sent)
    assert await host.execute("verbatim", sent) == sent


async def test_bytes_cross_as_base64_both_ways(host: Host) -> None:
    sent = bytes(range(256))
    result = await host.execute("blob", {"content": base64.urlsafe_b64encode(sent).decode()})
    assert base64.urlsafe_b64decode(result["content"]) == sent[::-1]
    for schema in (host.tool("blob").input, host.tool("blob").output):
        assert schema["properties"]["content"]["format"] == "base64url"
    assert await host.execute("blob", {"content": ""}) == {"content": ""}


async def test_bytes_that_are_no_base64_are_refused(host: Host) -> None:
    with pytest.raises(ActionInputValidationError) as raised:
        await host.execute("blob", {"content": "*"})
    assert raised.value.issues[0].path == ("content",)


async def test_keys_inside_the_data_are_never_renamed(host: Host) -> None:
    value = {"callId": 1, "call_id": 2, "provider_id": {"userId": None}, "": [], "$ref": "#", "v": 9}
    assert await host.execute("echo", {"value": value}) == {"value": value}


async def test_descriptions_and_schemas_are_in_the_tools(host: Host) -> None:
    tool = host.tool("add")
    assert (tool.description, tool.provider_id, tool.action_id, tool.idempotent) == (
        "Adds two numbers.",
        "contract",
        "add",
        True,
    )
    assert set(tool.input["properties"]) == {"a", "b"}
    assert host.tool("recallNotes").reads == ("note",)
    assert host.tool("echo").description is None
