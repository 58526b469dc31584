"""From the JSON Schema of an answer to the questions on the terminal, and from typed lines back to the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from grundlag_bus.cli.summary import choices_of, in_json, kind_of, resolve
from grundlag_bus.errors import NotJsonError
from grundlag_bus.schema.codec import parse
from grundlag_bus.schema.json_schema import JsonValidator

if TYPE_CHECKING:
    from collections.abc import Sequence

LEFT_OUT = object()
"""What an optional field's empty line gives."""

_YES = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


class UnreadableError(Exception):
    """A typed line is no value of the kind that is asked for. Its text says what would be."""


@dataclass(frozen=True)
class Question:
    """One line that a person is to type.

    name: the field of the answer, or None where the line is the whole answer; root: the schema that references in
    `schema` point into.
    """

    name: str | None
    schema: Any
    root: dict[str, Any] = field(repr=False)
    required: bool = True

    @cached_property
    def _plain(self) -> dict[str, Any]:
        return resolve(self.schema, self.root)

    @cached_property
    def _alternatives(self) -> list[dict[str, Any]]:
        return [resolve(one, self.root) for one in self._plain.get("anyOf") or self._plain.get("oneOf") or ()]

    @cached_property
    def _nullable(self) -> bool:
        return any(one.get("type") == "null" for one in self._alternatives)

    @cached_property
    def _wanted(self) -> dict[str, Any]:
        """The schema of the value itself: of an optional one, what it is when it is there."""
        rest = [one for one in self._alternatives if one.get("type") != "null"]
        return rest[0] if self._nullable and len(rest) == 1 else self._plain

    @cached_property
    def choices(self) -> list[Any]:
        """The values to choose from, or []."""
        return choices_of(self._wanted, self.root)

    @property
    def text(self) -> str:
        """What is asked, in a line: the field, its description, and what to type."""
        about = self._plain.get("description") or self._wanted.get("description")
        about = about or (self._plain.get("title") if self.name is None else None)
        asked = ": ".join(filter(None, (self.name, about))) or "your answer"
        return f"{asked} ({self._hint})"

    @property
    def _hint(self) -> str:
        if self.choices:
            hint = "a number or a value"
        else:
            hint = {"boolean": "y or n", "string": "text", "integer": "a whole number", "number": "a number"}.get(
                self._kind, f"JSON: {kind_of(self._wanted, self.root)}"
            )
        if not self.required:
            return f"{hint}; Enter leaves it out"
        return f"{hint}; Enter for none" if self._nullable else hint

    @property
    def _kind(self) -> str:
        kind = self._wanted.get("type")
        return kind if isinstance(kind, str) else ""

    def read(self, line: str) -> Any:
        """Turn a typed line into a value that fits the schema, or LEFT_OUT. Raises UnreadableError."""
        value = self._value(line)
        if value is not LEFT_OUT and isinstance(self.schema, dict):
            issues = JsonValidator({**_definitions(self.root), **self.schema}).issues(value)
            if issues:
                raise UnreadableError("; ".join(str(issue) if issue.path else issue.message for issue in issues[:3]))
        return value

    def _value(self, line: str) -> Any:
        typed = line.strip()
        if not typed and not self.required:
            return LEFT_OUT
        if not typed and self._nullable:
            return None
        if self.choices:
            return _choice(typed, self.choices)
        if self._kind == "string":
            return line
        if self._kind == "boolean":
            if typed.lower() not in _YES:
                raise UnreadableError("type y or n")
            return _YES[typed.lower()]
        value = _json(typed, self._kind)
        if self._kind in ("integer", "number") and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UnreadableError("type a whole number" if self._kind == "integer" else "type a number")
        return value


def questions_of(schema: dict[str, Any]) -> list[Question]:
    """Return a question for each field of the answer, or one for the whole where it has no fields."""
    plain = resolve(schema, schema)
    fields = plain.get("properties")
    if not isinstance(fields, dict) or not fields:
        return [Question(None, schema, schema)]
    required = list(plain.get("required", ()))
    asked = [Question(name, one, schema, required=name in required) for name, one in fields.items()]
    return asked + [Question(name, {}, schema) for name in required if name not in fields]


def _definitions(root: dict[str, Any]) -> dict[str, Any]:
    return {"$defs": root["$defs"]} if "$defs" in root else {}


def _choice(typed: str, choices: Sequence[Any]) -> Any:
    for choice in choices:
        if typed in (choice, in_json(choice)):
            return choice
    if typed.isdecimal() and 0 < int(typed) <= len(choices):
        return choices[int(typed) - 1]
    raise UnreadableError(f"type one of {', '.join(map(in_json, choices))}, or its number")


def _json(typed: str, kind: str) -> Any:
    try:
        return parse(typed)
    except NotJsonError as error:
        wanted = {"integer": "a whole number", "number": "a number"}.get(kind, "JSON on one line")
        raise UnreadableError(f"type {wanted} ({error.issue.message})") from error
