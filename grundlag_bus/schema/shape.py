"""A shape: what a value must look like, at both ends of a call.

`parse` takes plain JSON data to the value that an action works with, `dump` takes a value back to plain JSON data, and
`schema` is what the manifest publishes. A model's shape is read by pydantic; the shape of what comes from elsewhere is
a JSON Schema, and its values stay plain data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

import orjson
from pydantic import TypeAdapter, ValidationError

from grundlag_bus.errors import ConfigurationError, GrundlagError, NotJsonError
from grundlag_bus.schema.codec import digest, dump, plain
from grundlag_bus.schema.json_schema import MOST_ISSUES, JsonValidator, published
from grundlag_bus.schema.refusal import brief_issue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grundlag_bus.errors import Issue

Mode = Literal["validation", "serialization"]


class MismatchError(GrundlagError):
    """A value does not have its shape. Whoever owns the value turns this into an error that names it."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("; ".join(str(issue) for issue in self.issues))


class Shape(Protocol):
    """What a value must look like. digest: of the schema, whatever the order of its keys."""

    schema: dict[str, Any]
    digest: str

    def parse(self, data: Any) -> Any:
        """Turn plain JSON data into a value. Raises MismatchError."""

    def accept(self, value: Any) -> Any:
        """Turn a value, or plain JSON data for one, into a value. Raises MismatchError."""

    def dump(self, value: Any) -> Any:
        """Turn a value into plain JSON data that fits the published schema. Raises MismatchError."""


class ModelShape:
    """The shape of a pydantic model, a dataclass, a TypedDict or any other type that pydantic can validate."""

    def __init__(self, kind: Any, mode: Mode) -> None:
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
        self.schema = published(self._adapter, mode)
        self.digest = digest(self.schema)
        # Also where only callers use it: a schema that cannot be checked is found here and not in the middle of a call.
        self._validator = JsonValidator(self.schema)

    def parse(self, data: Any) -> Any:
        # As JSON, not as Python data: only so do base64 bytes and strict models read what they wrote.
        try:
            return self._adapter.validate_json(orjson.dumps(data))
        except ValidationError as error:
            raise MismatchError(_issues(error)) from error

    def accept(self, value: Any) -> Any:
        if isinstance(value, dict | list | str | int | float | None):
            return self.parse(_plain(value))
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            raise MismatchError(_issues(error)) from error

    def dump(self, value: Any) -> Any:
        try:
            data = dump(self._adapter, self._adapter.validate_python(value))
        except ValidationError as error:
            raise MismatchError(_issues(error)) from error
        except NotJsonError as error:
            raise MismatchError([error.issue]) from error
        if issues := self._validator.issues(data):
            raise MismatchError(issues)
        return data


class SchemaShape:
    """The shape that a JSON Schema (draft 2020-12) gives; values are plain JSON data."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self._validator = JsonValidator(schema)
        self.digest = digest(schema)

    def parse(self, data: Any) -> Any:
        if issues := self._validator.issues(data):
            raise MismatchError(issues)
        return data

    def accept(self, value: Any) -> Any:
        return self.parse(_plain(value))

    def dump(self, value: Any) -> Any:
        return self.parse(_plain(value))


def make_shape(kind: Any, mode: Mode, *, of: str) -> Shape:
    """Make the shape of a type or of a JSON Schema (a dict). `of` names the owner in errors.

    Raises ConfigurationError when pydantic cannot make a JSON Schema of the type.
    """
    try:
        return SchemaShape(kind) if isinstance(kind, dict) else ModelShape(kind, mode)
    except ConfigurationError as error:
        raise ConfigurationError(f"{of}: {error}") from error
    except Exception as error:  # pydantic raises many kinds for a type that it cannot read
        name = getattr(kind, "__qualname__", repr(kind))
        raise ConfigurationError(
            f"{of} uses {name}, of which no JSON Schema can be made ({type(error).__name__}: {error}): "
            "use a pydantic model, or a JSON Schema."
        ) from error


def _plain(value: Any) -> Any:
    try:
        return plain(value)
    except NotJsonError as error:
        raise MismatchError([error.issue]) from error


def _issues(error: ValidationError) -> list[Issue]:
    found = error.errors(include_url=False, include_context=False, include_input=False)  # all of them: 3 us each
    return [brief_issue(issue["loc"], issue["type"], issue["msg"]) for issue in found[:MOST_ISSUES]]
