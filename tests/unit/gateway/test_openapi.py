"""The OpenAPI document says of each action what the manifest says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from grundlag_bus import SealKeys
from grundlag_bus.gateway.openapi import openapi
from grundlag_bus.gateway.openapi_schemas import moved
from grundlag_bus.schema.json_schema import JsonValidator
from tests.support.contract_registry import make_registry

MANIFEST = make_registry(SealKeys.generate()).manifest()
DOCUMENT = openapi(MANIFEST, asks_for_tokens=True, has_runs=True)


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def find(reference: str) -> Any:
    node: Any = DOCUMENT
    for step in reference.removeprefix("#/").split("/"):
        node = node[step.replace("~1", "/").replace("~0", "~")]
    return node


def validator(schema: dict[str, Any]) -> JsonValidator:
    return JsonValidator({**schema, "components": DOCUMENT["components"]})


def test_every_action_is_an_operation() -> None:
    posts = {item["post"]["operationId"] for path, item in DOCUMENT["paths"].items() if "/actions/" in path}
    assert posts == {action.function_name for provider in MANIFEST.providers for action in provider.actions}


def test_operations_have_ids_of_their_own() -> None:
    ids = [operation["operationId"] for item in DOCUMENT["paths"].values() for operation in item.values()]
    assert len(ids) == len(set(ids))


def test_every_reference_leads_somewhere() -> None:
    for reference in references(DOCUMENT):
        assert isinstance(find(reference), dict | bool), reference


def test_components_have_names_that_may_be() -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in DOCUMENT["components"]["schemas"])


def test_every_schema_can_be_used() -> None:
    for name in DOCUMENT["components"]["schemas"]:
        validator({"$ref": f"#/components/schemas/{name}"})


def test_a_recursive_input_is_checked_all_the_way_down() -> None:
    post = DOCUMENT["paths"]["/api/actions/contract/tree"]["post"]
    body = post["requestBody"]["content"]["application/json"]["schema"]
    check = validator(body)
    assert not check.issues({"input": {"name": "a", "children": [{"name": "b", "children": []}]}})
    assert check.issues({"input": {"name": "a", "children": [{"name": 1, "children": []}]}})


def test_a_token_is_asked_for_where_the_host_does() -> None:
    assert DOCUMENT["security"] == [{"token": []}]
    assert DOCUMENT["paths"]["/live"]["get"]["security"] == []
    assert "security" not in openapi(MANIFEST, asks_for_tokens=False)


def test_runs_are_told_of_where_there_are_any() -> None:
    assert DOCUMENT["paths"]["/api/runs"]["post"]["operationId"] == "run_start"
    without = openapi(MANIFEST, asks_for_tokens=True)
    assert not [path for path in without["paths"] if path.startswith(("/api/runs", "/api/interrupts"))]
    assert "Run" not in without["components"]["schemas"]


def test_it_is_json() -> None:
    assert json.loads(json.dumps(DOCUMENT)) == DOCUMENT


@pytest.mark.parametrize(
    ("schema", "there"),
    [
        ({"$ref": "#/$defs/A", "$defs": {"A": {}}}, {"$ref": "#/components/schemas/x/$defs/A", "$defs": {"A": {}}}),
        ({"items": {"$ref": "#"}}, {"items": {"$ref": "#/components/schemas/x"}}),
        ({"properties": {"$ref": {"type": "string"}, "const": {"$ref": "#"}}},
         {"properties": {"$ref": {"type": "string"}, "const": {"$ref": "#/components/schemas/x"}}}),
        ({"default": {"$ref": "#"}, "const": {"$ref": "#"}, "enum": [{"$ref": "#"}]},
         {"default": {"$ref": "#"}, "const": {"$ref": "#"}, "enum": [{"$ref": "#"}]}),
        ({"$id": "https://a.example/", "items": {"$ref": "#"}}, {"$id": "https://a.example/", "items": {"$ref": "#"}}),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "allOf": [{"$ref": "#/x~1y"}]},
         {"allOf": [{"$ref": "#/components/schemas/x/x~1y"}]}),
        (True, True),
    ],
)  # fmt: skip
def test_a_schema_is_moved_with_its_references(schema: Any, there: Any) -> None:
    assert moved(schema, "x") == there
