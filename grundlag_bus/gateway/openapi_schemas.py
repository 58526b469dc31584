"""The schemas of an OpenAPI document: an action's own ones, moved into it, and those of the wire."""

from __future__ import annotations

from typing import Any

_DATA = frozenset(("default", "examples", "example", "const", "enum"))  # keywords whose values are no schemas
_BY_NAME = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))

INSTANT = {"type": "string", "format": "date-time"}
_WORD = {"type": "string", "minLength": 1}
ITEM = {
    "type": "object",
    "title": "Item",
    "description": "A typed thing in a conversation.",
    "properties": {"id": _WORD, "type": _WORD, "data": {}, "createdAt": INSTANT},
    "required": ["id", "type", "data", "createdAt"],
}
ITEMS = {"type": "array", "items": {"$ref": "#/components/schemas/Item"}}
ISSUES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "path": {"type": "array", "items": {"type": ["string", "integer"]}},
            "code": {"type": "string"},
            "message": {"type": "string"},
        },
        "required": ["path", "code", "message"],
    },
}
FAILED = {
    "type": "object",
    "title": "Failed",
    "description": "How a call failed, or why a request was refused.",
    "properties": {
        "status": {"const": "failed"},
        "code": {"type": "string"},
        "message": {"type": "string"},
        "details": {},
        "retryable": {"type": "boolean", "description": "Whether the same call may succeed later."},
        "items": ITEMS,
    },
    "required": ["status", "code", "message", "retryable", "items"],
}
INVALID = {
    "title": "Invalid",
    "description": "The input, the answer or the request does not fit: the issues say where.",
    "allOf": [{"$ref": "#/components/schemas/Failed"}],
    "properties": {
        "code": {"enum": ["input_invalid", "answer_invalid"]},
        "details": {"type": "object", "properties": {"issues": ISSUES}, "required": ["issues"]},
    },
    "required": ["details"],
}
REPORT = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "reasons": {"type": "array", "items": {"type": "string"}}},
    "required": ["ok", "reasons"],
}
SCRIPT = {
    "type": "object",
    "properties": {
        "source": {"type": "string", "description": "What it calls are functions by the actions' operation ids."},
        "inputs": {"type": "object", "description": "Data, each bound as a name of the script."},
        "resumption": {
            "type": ["object", "null"],
            "description": "The answers to what the script asks, with the same source and inputs.",
            "properties": {
                "interruptId": {"type": "string"},
                "answer": {
                    "type": "object",
                    "description": "Answers by the ids in the response's `data`, some or all.",
                },
                "state": {"type": "string", "description": "As the interrupted response carried it."},
                "by": {"type": ["string", "null"], "description": "Who answered: the user itself."},
            },
            "required": ["interruptId", "answer", "state"],
        },
    },
    "required": ["source"],
    "additionalProperties": False,
}
SCRIPT_COMPLETED = {
    "type": "object",
    "title": "ScriptCompleted",
    "properties": {
        "status": {"const": "completed"},
        "value": {"description": "Of the last expression."},
        "stdout": {"type": "string"},
        "calls": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "function": {"type": "string"},
                    "status": {"enum": ["completed", "failed", "interrupted", "running"]},
                    "line": {"type": ["integer", "null"]},
                    "code": {"type": ["string", "null"]},
                },
                "required": ["function", "status"],
            },
        },
    },
    "required": ["status", "value", "stdout", "calls"],
}
SCRIPT_INTERRUPTED = {
    "type": "object",
    "title": "ScriptInterrupted",
    "description": "A person must answer: send the same source and inputs again, with the answers as `resumption`.",
    "properties": {
        "status": {"const": "interrupted"},
        "interruptId": {"type": "string"},
        "message": {"type": "string"},
        "data": {
            "type": "array",
            "description": "What is asked.",
            "items": {
                "type": "object",
                "properties": {
                    "interruptId": {"type": "string"},
                    "function": {"type": ["string", "null"]},
                    "message": {"type": "string"},
                    "data": {},
                },
                "required": ["interruptId", "function", "message", "data"],
            },
        },
        "state": {"type": "string"},
        "answerSchema": {"type": "object", "description": "The schema of `answer`."},
        "expiresAt": INSTANT,
        "refused": {
            "type": "object",
            "description": "Where an action itself refused an answer, and asks again.",
            "properties": {"message": {"type": "string"}, "issues": ISSUES},
            "required": ["message", "issues"],
        },
    },
    "required": ["status", "interruptId", "message", "data", "state", "answerSchema", "expiresAt"],
}
WIRE = {
    "Item": ITEM,
    "Failed": FAILED,
    "Invalid": INVALID,
    "Report": REPORT,
    "ScriptCompleted": SCRIPT_COMPLETED,
    "ScriptInterrupted": SCRIPT_INTERRUPTED,
}
"""The schemas that every document has, by their names: no function has such a name with a suffix of ours."""


def completed(result: dict[str, Any]) -> dict[str, Any]:
    """Describe the response of a call that completed with such a result."""
    return {
        "type": "object",
        "title": "Completed",
        "properties": {"status": {"const": "completed"}, "result": result, "items": ITEMS},
        "required": ["status", "result", "items"],
    }


def interrupted(answer: dict[str, Any]) -> dict[str, Any]:
    """Describe the response of a call that asks for such an answer."""
    return {
        "type": "object",
        "title": "Interrupted",
        "description": "A person must answer: send the same input again, with the answer as `resumption`.",
        "properties": {
            "status": {"const": "interrupted"},
            "interruptId": {"type": "string"},
            "message": {"type": "string"},
            "data": {},
            "state": {"type": "string"},
            "items": ITEMS,
            "answerSchema": {"type": "object", "description": f"The schema of {answer['$ref']}."},
            "expiresAt": INSTANT,
        },
        "required": ["status", "interruptId", "message", "data", "state", "items", "expiresAt"],
    }


def request(value: dict[str, Any], answer: dict[str, Any] | None) -> dict[str, Any]:
    """Describe the body of a call. What may be left out may be null."""
    properties: dict[str, Any] = {"input": value, "items": {**ITEMS, "type": ["array", "null"]}}
    if answer is not None:
        properties["resumption"] = {
            "type": ["object", "null"],
            "properties": {
                "interruptId": {"type": "string"},
                "answer": answer,
                "state": {"type": "string", "description": "As the interrupted response carried it."},
                "by": {"type": ["string", "null"], "description": "Who answered: the user itself."},
            },
            "required": ["interruptId", "answer", "state"],
        }
    return {"type": "object", "properties": properties, "required": ["input"], "additionalProperties": False}


def moved(schema: Any, name: str) -> Any:
    """Copy a schema whose references lead into itself, for its place among the components of a document.

    One with an `$id` is a resource of its own, and stays as it is.
    """
    if not isinstance(schema, dict) or "$id" in schema:
        return schema
    return _moved(schema, f"#/components/schemas/{name}")


def _moved(schema: Any, place: str) -> Any:
    if isinstance(schema, list):
        return [_moved(part, place) for part in schema]
    if not isinstance(schema, dict):
        return schema
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _DATA:
            copy[keyword] = value
        elif keyword in ("$ref", "$dynamicRef") and isinstance(value, str) and (value == "#" or value.startswith("#/")):
            copy[keyword] = place + value[1:]
        elif keyword in _BY_NAME and isinstance(value, dict):
            copy[keyword] = {name: _moved(part, place) for name, part in value.items()}
        elif keyword != "$schema":
            copy[keyword] = _moved(value, place)
    return copy
