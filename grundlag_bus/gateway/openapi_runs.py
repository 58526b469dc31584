"""The part of an OpenAPI document that is about durable runs and what they ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grundlag_bus.gateway.asking import LONGEST_TIMEOUT
from grundlag_bus.gateway.openapi_schemas import INSTANT
from grundlag_bus.gateway.run_asking import LONGEST_WAIT, MOST_LISTED
from grundlag_bus.schema.run import INTERRUPT_STATUSES, KINDS, STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable

    Refusals = Callable[..., dict[str, Any]]

_TEXT: dict[str, Any] = {"type": "string"}
_RUN_ID = "0b8e4c1d2f3a4b5c6d7e8f9012345678"
_INTERRUPT_ID = "5d2c1b0a9f8e4d3c2b1a0f9e8d7c6b5a"
_LOOKING = (401, 403, 404, 405, 429, 431, 502, 503)
_DOING = (401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 431, 502, 503)
_ANSWERING = (401, 403, 404, 405, 408, 409, 410, 413, 415, 429, 431, 502, 503)
_ANSWERER = {**_TEXT, "minLength": 1, "maxLength": 255, "description": "Who may answer what it asks; the user."}
_AROUND = {
    "answerer": _ANSWERER,
    "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_TIMEOUT, "description": "Of each call."},
}
_START: dict[str, Any] = {
    "oneOf": [
        {
            "type": "object",
            "title": "Call",
            "properties": {"function": {**_TEXT, "description": "An action's operation id."}, "input": {}, **_AROUND},
            "required": ["function", "input"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "title": "Script",
            "properties": {
                "source": {**_TEXT, "description": "What it calls are functions by the actions' operation ids."},
                "inputs": {"type": "object", "description": "Data, each bound as a name of the script."},
                **_AROUND,
            },
            "required": ["source"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "title": "Agent",
            "description": "It goes on where a host of the store has a model.",
            "properties": {"prompt": _TEXT, "instructions": _TEXT, "answerer": _ANSWERER},
            "required": ["prompt"],
            "additionalProperties": False,
        },
    ]
}
_RUN: dict[str, Any] = {
    "type": "object",
    "title": "Run",
    "description": "A call, a script or an agent that survives whatever ends its processes.",
    "properties": {
        "runId": _TEXT,
        "kind": {"enum": list(KINDS)},
        "name": {**_TEXT, "description": "The function, or the first line of the script or the prompt."},
        "status": {"enum": list(STATUSES), "description": "`waiting`: nothing goes on before a person answers."},
        "userId": _TEXT,
        "answerer": {**_TEXT, "description": "Who may answer what it asks."},
        "retryOf": {**_TEXT, "description": "The run that it is another try of."},
        "createdAt": INSTANT,
        "changedAt": INSTANT,
        "endedAt": INSTANT,
        "value": {"description": "Of a completed one; not in lists."},
        "stdout": {**_TEXT, "description": "Of a completed one; not in lists."},
        "error": {
            "type": "object",
            "properties": {"code": _TEXT, "message": _TEXT, "details": {}},
            "required": ["code", "message"],
        },
    },
    "required": ["runId", "kind", "name", "status", "createdAt", "changedAt"],
}
_INTERRUPT: dict[str, Any] = {
    "type": "object",
    "title": "Interrupt",
    "description": "A question of a run.",
    "properties": {
        "interruptId": _TEXT,
        "runId": _TEXT,
        "function": {**_TEXT, "description": "Which call asks."},
        "message": _TEXT,
        "data": {},
        "input": {"description": "Of the call that asks."},
        "status": {"enum": list(INTERRUPT_STATUSES)},
        "askedAt": INSTANT,
        "answerSchema": {"type": "object", "description": "The schema of an answer."},
        "expiresAt": INSTANT,
        "answerer": {**_TEXT, "description": "Who may answer; anybody, where that is absent."},
        "answeredBy": _TEXT,
    },
    "required": ["interruptId", "runId", "function", "message", "data", "input", "status", "askedAt"],
}
RUN_SCHEMAS = {"Run": _RUN, "Interrupt": _INTERRUPT}


def run_paths(*, key: dict[str, Any], refusals: Refusals) -> dict[str, Any]:
    """Describe the paths. key: the header Idempotency-Key; refusals: make the responses of refusals by their status."""
    run = {"name": "run_id", "in": "path", "required": True, "schema": _TEXT, "example": _RUN_ID}
    asked = {"name": "interrupt_id", "in": "path", "required": True, "schema": _TEXT, "example": _INTERRUPT_ID}
    limit = _query("limit", {"type": "integer", "minimum": 1, "maximum": MOST_LISTED}, "At most so many.")
    key = {**key, "description": "The same key of the same user is the same run, however often it is started."}
    looking, doing, answering = refusals(*_LOOKING), refusals(*_DOING), refusals(*_ANSWERING)
    return {
        "/api/runs": {
            "get": {
                "operationId": "run_list",
                "tags": ["runs"],
                "summary": "List your runs, the newest first",
                "parameters": [
                    _query("status", {"enum": list(STATUSES)}, "Those that stand like this."),
                    _query("before", INSTANT, "Those that were created before; the last one's `createdAt` pages on."),
                    limit,
                ],
                "responses": {"200": _list("runs", "Run"), **looking},
            },
            "post": {
                "operationId": "run_start",
                "tags": ["runs"],
                "summary": "Start a call, a script or an agent that survives whatever ends its processes",
                "parameters": [key],
                "requestBody": _body(_START, {"source": "1 + n", "inputs": {"n": 1}}),
                "responses": {"200": _one("Run", "It is written down, and goes on by itself."), **doing},
            },
        },
        "/api/runs/{run_id}": {
            "get": {
                "operationId": "run_show",
                "tags": ["runs"],
                "summary": "Show a run as it stands, or as it stands when it has ended",
                "parameters": [
                    run,
                    _query(
                        "wait",
                        {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT},
                        "Seconds that the end is waited for.",
                    ),
                    _query("forPeople", {"type": "boolean"}, "Wait no longer when it waits for people."),
                ],
                "responses": {"200": _one("Run", "The run."), **looking},
            }
        },
        "/api/runs/{run_id}/events": {"get": _events(run, looking)},
        "/api/runs/{run_id}/cancel": {
            "post": _post("run_cancel", "runs", "Ask for the end of a run", run, _one("Run", "The run."), doing, {})
        },
        "/api/runs/{run_id}/retry": {
            "post": _post(
                "run_retry",
                "runs",
                "Start a run again that failed or was cancelled; what completed is not called again",
                run,
                _one("Run", "The new run."),
                doing,
                {"source": {**_TEXT, "description": "Of a script, what is run instead."}},
            )
        },
        "/api/interrupts": {
            "get": {
                "operationId": "interrupt_list",
                "tags": ["interrupts"],
                "summary": "List the questions that wait for you, the oldest first",
                "parameters": [_query("runId", _TEXT, "Those of a run."), limit],
                "responses": {"200": _list("interrupts", "Interrupt"), **looking},
            }
        },
        "/api/interrupts/{interrupt_id}": {
            "get": {
                "operationId": "interrupt_show",
                "tags": ["interrupts"],
                "summary": "Show a question, answered or not",
                "parameters": [asked],
                "responses": {"200": _one("Interrupt", "The question."), **looking},
            }
        },
        **{
            f"/api/interrupts/{{interrupt_id}}/{what}": {
                "post": _post(
                    f"interrupt_{what}",
                    "interrupts",
                    summary,
                    asked,
                    _one("Interrupt", "The question, as it stands now; its run goes on."),
                    answering,
                    properties,
                    required=required,
                )
            }
            for what, summary, properties, required in (
                ("answer", "Answer a question", {"answer": {"description": "It fits `answerSchema`."}}, True),
                ("reject", "Let the call that asks not run", {"reason": _TEXT}, False),
                ("edit", "Let the call that asks be made with another input instead", {"input": {}}, True),
            )
        },
    }


def _events(run: dict[str, Any], refusals: dict[str, Any]) -> dict[str, Any]:
    after = {"type": "integer", "minimum": 0}
    known = {"name": "Last-Event-ID", "in": "header", "description": "The same, as browsers send it.", "schema": after}
    return {
        "operationId": "run_events",
        "tags": ["runs"],
        "summary": "Tell what has happened in a run and what happens, as server-sent events up to its end",
        "description": "`event: entry` for each entry of its journal, whose position is the id, and `event: end` after "
        "the last one. A stream that ends without that is joined again with the last position.",
        "parameters": [run, _query("after", after, "The position of the last entry that is known."), known],
        "responses": {
            "200": {"description": "Entries.", "content": {"text/event-stream": {"schema": _TEXT}}},
            **refusals,
        },
    }


def _post(  # noqa: PLR0913, PLR0917  what an operation is made of
    name: str,
    tag: str,
    summary: str,
    of: dict[str, Any],
    done: dict[str, Any],
    refusals: dict[str, Any],
    properties: dict[str, Any],
    *,
    required: bool = False,
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = list(properties)
    return {
        "operationId": name,
        "tags": [tag],
        "summary": summary,
        "parameters": [of],
        "requestBody": _body(schema),
        "responses": {"200": done, **refusals},
    }


def _body(schema: dict[str, Any], example: Any = None) -> dict[str, Any]:
    told = {"schema": schema} if example is None else {"schema": schema, "example": example}
    return {"required": True, "content": {"application/json": told}}


def _query(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _one(schema: str, description: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": description, "content": content}


def _list(name: str, schema: str) -> dict[str, Any]:
    properties = {name: {"type": "array", "items": {"$ref": f"#/components/schemas/{schema}"}}}
    told = {"type": "object", "properties": properties, "required": [name]}
    return {"description": "What there is.", "content": {"application/json": {"schema": told}}}
