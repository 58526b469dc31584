"""The OpenAPI 3.1 document of a manifest: an operation for each action, with its own schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grundlag_bus.gateway.openapi_runs import RUN_SCHEMAS, run_paths
from grundlag_bus.gateway.openapi_schemas import (
    SCRIPT,
    WIRE,
    completed,
    interrupted,
    moved,
    request,
)
from grundlag_bus.gateway.status import REFUSALS
from grundlag_bus.schema.names import LONGEST_NAME

if TYPE_CHECKING:
    from grundlag_bus.schema.manifest import ActionManifest, Manifest, ProviderManifest

_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key is the same call: who comes again with it within 10 s joins the call, and has its "
    "reply for a minute after its end.",
    "schema": {"type": "string", "pattern": r"^[A-Za-z0-9_.:\-]{1,128}$"},
}
_SENT_BEFORE: dict[str, Any] = {
    "name": "X-Sent-Before",
    "in": "header",
    "description": "With a key: the request may have come before, and is not to start the call where this host cannot "
    "know that it did not.",
    "schema": {"type": "string", "enum": ["1"]},
}
_TIMEOUT: dict[str, Any] = {
    "name": "X-Timeout",
    "in": "header",
    "description": "Seconds until the call fails as `deadline_exceeded`.",
    "schema": {"type": "number", "maximum": 2_592_000},
}
_TRACE: dict[str, Any] = {
    "name": "traceparent",
    "in": "header",
    "description": "Where the call belongs, by W3C Trace Context, with `tracestate`; what is malformed is ignored.",
    "schema": {"type": "string"},
}
_CALL_HEADERS = {"X-Call-Id": {"schema": {"type": "string"}, "description": "The id that the action and events know."}}
_FAILED = {"application/json": {"schema": {"$ref": "#/components/schemas/Failed"}}}
_INVALID = {"application/json": {"schema": {"$ref": "#/components/schemas/Invalid"}}}
_TOLD = {
    401: "It is not known who calls.",
    403: "This user may not.",
    404: "There is no such action or path.",
    405: "Not by this method.",
    408: "The body came too slowly.",
    409: "The call was cancelled, or its key is another call's.",
    410: "The answer comes too late.",
    413: "The request or the result is too large.",
    415: "The body is no application/json.",
    422: "The action says that it failed, or the state of the resumption is not its own.",
    429: "This user asks too much at once.",
    431: "The headers are too large.",
    502: "The call failed: `code` says how.",
    503: "No worker, no bus, or no room: try again.",
    504: "The deadline passed first.",
}


def openapi(manifest: Manifest, *, asks_for_tokens: bool, has_runs: bool = False) -> dict[str, Any]:
    """Describe a host that has this manifest."""
    schemas: dict[str, Any] = dict(WIRE)
    paths: dict[str, Any] = _own_paths()
    if has_runs:
        schemas |= RUN_SCHEMAS
        paths |= run_paths(key=_KEY, refusals=_refusals)
    for provider in manifest.providers:
        for action in provider.actions:
            paths[f"/api/actions/{provider.id}/{action.id}"] = _path(provider, action, schemas)
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Actions", "version": "1", "description": "Calls actions of providers, as the user may."},
        "paths": paths,
        "components": {"schemas": schemas},
        "tags": [_without_none({"name": part.id, "description": part.description}) for part in manifest.providers],
    }
    if asks_for_tokens:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def _path(provider: ProviderManifest, action: ActionManifest, schemas: dict[str, Any]) -> dict[str, Any]:
    """Describe the path of an action, whose schemas are added to the others."""
    function = action.function_name
    value = _add(schemas, f"{function}.Input", action.input)
    result = _add(schemas, f"{function}.Output", action.output)
    answer = None if action.answer is None else _add(schemas, f"{function}.Answer", action.answer)
    outcomes = [completed(result), *([] if answer is None else [interrupted(answer)])]
    post = {
        "operationId": function,
        "tags": [provider.id],
        "summary": action.name,
        "description": action.description,
        "parameters": [_KEY, _SENT_BEFORE, _TIMEOUT, _TRACE],
        "requestBody": {"required": True, "content": {"application/json": {"schema": request(value, answer)}}},
        "responses": {
            "200": {
                "description": "It completed." if answer is None else "It completed, or a person must answer.",
                "headers": _CALL_HEADERS,
                "content": {
                    "application/json": {"schema": outcomes[0] if answer is None else {"oneOf": outcomes}},
                    "text/event-stream": {"schema": {"type": "string"}},
                },
            },
            **_refusals(*REFUSALS),
        },
    }
    delete = {
        "operationId": f"{function[: LONGEST_NAME - 7]}_cancel",
        "tags": [provider.id],
        "summary": f"{action.name}: cancel the call of a key",
        "parameters": [{**_KEY, "required": True}],
        "responses": {
            "204": {"description": "The call was asked to end, if it runs."},
            **_refusals(401, 403, 405, 429, 431),
        },
    }
    return {"post": _without_none(post), "delete": delete}


def _add(schemas: dict[str, Any], name: str, schema: dict[str, Any]) -> dict[str, Any]:
    schemas[name] = moved(schema, name)
    return {"$ref": f"#/components/schemas/{name}"}


def _own_paths() -> dict[str, Any]:
    report = {"application/json": {"schema": {"$ref": "#/components/schemas/Report"}}}
    pattern = {
        "name": "pattern",
        "in": "query",
        "description": "`provider.event`, where * is any word and # any number of them.",
        "schema": {"type": "string", "default": "#"},
    }
    return {
        "/api/client/schema": {"get": _get("manifest", "Every action, with its schemas", {"304": "As known."})},
        "/api/events": {
            "get": {
                "operationId": "events",
                "summary": "What actions emit, as server-sent events that do not end",
                "parameters": [pattern],
                "responses": {
                    "200": {"description": "Events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
                    **_refusals(401, 403, 405, 429, 431, 503),
                },
            }
        },
        "/api/eval": {"post": _eval()},
        "/live": {
            "get": {
                "operationId": "live",
                "summary": "Whether the process answers",
                "security": [],
                "responses": {"200": {"description": "It does.", "content": report}, **_refusals(405)},
            }
        },
        "/ready": {
            "get": {
                "operationId": "ready",
                "summary": "Whether calls should come here now",
                "security": [],
                "responses": {
                    "200": {"description": "They should.", "content": report},
                    "503": {"description": "Not now, for these reasons.", "content": report},
                    **_refusals(405),
                },
            }
        },
    }


def _get(name: str, summary: str, more: dict[str, str]) -> dict[str, Any]:
    body = {"application/json": {"schema": {"type": "object"}}}
    return {
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": {"description": "The manifest.", "content": body},
            **{status: {"description": told} for status, told in more.items()},
            **_refusals(401, 403, 405, 429, 431, 503),
        },
    }


def _eval() -> dict[str, Any]:
    ends = [{"$ref": f"#/components/schemas/{name}"} for name in ("ScriptCompleted", "ScriptInterrupted")]
    return {
        "operationId": "eval",
        "summary": "Run a script that calls the actions as functions",
        "parameters": [_TIMEOUT, _TRACE],
        "requestBody": {"required": True, "content": {"application/json": {"schema": SCRIPT}}},
        "responses": {
            "200": {
                "description": "It completed, or a person must answer.",
                "content": {"application/json": {"schema": {"oneOf": ends}}},
            },
            **_refusals(*REFUSALS),
        },
    }


def _refusals(*statuses: int) -> dict[str, Any]:
    told: dict[str, Any] = {str(status): {"description": _TOLD[status], "content": _FAILED} for status in statuses}
    return {"400": {"description": "The request does not fit.", "content": _INVALID}, **told}


def _without_none(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None}
