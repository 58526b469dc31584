"""JSON Schema as the contract: what a type publishes, and the check of plain data by what was published.

Nobody rebuilds a model from a schema: recursive references, discriminators and nested unions mean what draft 2020-12
says they mean.
"""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from jsonschema_rs import Draft202012Validator, ReferencingError, ValidationError, ValidatorMap, validator_map_for
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import to_jsonable_python

from grundlag_bus.errors import ConfigurationError, Issue, NotJsonError
from grundlag_bus.schema.codec import encoded_size, plain
from grundlag_bus.schema.explain import explain
from grundlag_bus.schema.formats import FORMATS
from grundlag_bus.schema.narrow import narrow
from grundlag_bus.schema.refusal import brief_issue, short

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import TypeAdapter
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
MOST_ISSUES = 32
_SMALL = 16 * 1024  # bytes of JSON for which every error may be made: 12 us each, a union's for every alternative


class JsonValidator:
    """A compiled JSON Schema, read as draft 2020-12 with formats; references leave the document for nowhere."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        try:
            self._validator = Draft202012Validator(
                schema, formats=FORMATS, validate_formats=True, offline=True, mask="the value"
            )
        except (ValidationError, ReferencingError, ValueError) as error:
            place = "/".join(map(str, getattr(error, "instance_path", ()))) or "its root"
            told = short(getattr(error, "message", str(error)))
            raise ConfigurationError(
                f"The JSON Schema is not usable at {place} ({told}): "
                "correct it by draft 2020-12, and put what it refers to under its own '$defs'."
            ) from error
        self._fits = self._validator.is_valid

    def issues(self, value: Any) -> tuple[Issue, ...]:
        """Check plain data: () when it fits, else what is wrong with it; of large data the first thing found."""
        if self._fits(value):
            return ()
        if _is_small(value):
            found = _told(value, self._validator.iter_errors(value)) or (_UNCLEAR,)
        else:
            found = self._narrowed(value)
        return tuple(brief_issue(issue.path, issue.code, issue.message) for issue in found)

    def _narrowed(self, value: Any) -> tuple[Issue, ...]:
        part = narrow(value, self.schema, self._parts, is_small=_is_small)
        if _is_small(part.value):
            issues = _told(part.value, part.validator.iter_errors(part.value))
        elif isinstance(part.schema, dict) and not _UNIONS.isdisjoint(part.schema):
            issues = (_UNCLEAR,)
        else:
            issues = _told(part.value, _first_error(part.validator, part.value))
        return tuple(Issue((*part.path, *issue.path), issue.code, issue.message) for issue in issues or (_UNCLEAR,))

    @cached_property
    def _parts(self) -> ValidatorMap:
        return validator_map_for(
            {**self.schema, "$schema": _DRAFT}, formats=FORMATS, validate_formats=True, offline=True, mask="the value"
        )


_UNIONS = frozenset(("anyOf", "oneOf"))
_UNCLEAR = Issue((), "anyOf", "fits none of the alternatives of its schema")


def _is_small(value: Any) -> bool:
    if isinstance(value, dict | list):
        return len(value) < _SMALL and encoded_size(value) <= _SMALL
    return True


def _told(value: Any, errors: Iterator[ValidationError]) -> tuple[Issue, ...]:
    return tuple(dict.fromkeys(issue for error in islice(errors, MOST_ISSUES) for issue in explain(error, value)))


def _first_error(validator: Any, value: Any) -> Iterator[ValidationError]:
    try:
        validator.validate(value)
    except ValidationError as error:
        yield error


# --- publishing -------------------------------------------------------------------------------------------------------


def published(adapter: TypeAdapter[Any], mode: Literal["validation", "serialization"]) -> dict[str, Any]:
    """Make the JSON Schema that the manifest carries for a type, by alias.

    Raises ConfigurationError for bytes that would cross as UTF-8 text, which is pydantic's default: not all bytes can.
    Also where the schema itself is no JSON data, as by a limit or a default of infinity.
    """
    schema = adapter.json_schema(mode=mode, by_alias=True, schema_generator=_Generator)
    for place in _text_bytes(schema, schema, (), frozenset()):
        where = f"The field {'.'.join(place)!r}" if place else "A value of the type itself"
        raise ConfigurationError(
            f"{where} is of type bytes and would cross as UTF-8 text, which not all bytes are: give its model "
            "model_config = ConfigDict(ser_json_bytes='base64', val_json_bytes='base64'), or use pydantic.Base64Bytes."
        )
    try:
        plain(schema)
    except NotJsonError as error:
        raise ConfigurationError(f"The JSON Schema of the type cannot be published: {error}.") from error
    return schema


_TEXT_BYTES = "bytes as text"  # stands in the schema only until it is found
_NUMBERS = frozenset(("int", "float", "bool", "decimal"))
_NEVER_TEXT = frozenset(("model", "dataclass", "frozenset"))
_NOT_READ_FROM_TEXT = _NEVER_TEXT | {"tuple", "none"}
_DATA = frozenset(("default", "examples", "const", "enum"))  # keywords whose values are no schemas


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, telling apart bytes that are base64 both ways, and writing the keys of a dict as text."""

    def bytes_schema(self, schema: core_schema.BytesSchema) -> JsonSchemaValue:
        told = super().bytes_schema(schema)
        both = (self._config.ser_json_bytes, self._config.val_json_bytes)
        # An annotation such as Base64Bytes writes its own format over this one afterwards.
        return {**told, "format": "base64url" if both == ("base64", "base64") else _TEXT_BYTES}

    def definitions_schema(self, schema: core_schema.DefinitionsSchema) -> JsonSchemaValue:
        self._shared.update({shared["ref"]: shared for shared in schema["definitions"] if "ref" in shared})
        return super().definitions_schema(schema)

    @cached_property
    def _shared(self) -> dict[str, Any]:
        """The core schemas that others refer to."""
        return {}

    def _bare(self, schema: Any) -> Any:
        """Follow references, and leave the functions that validate around a schema."""
        while True:
            if schema["type"] == "definition-ref" and schema["schema_ref"] in self._shared:
                schema = self._shared[schema["schema_ref"]]
            elif schema["type"].startswith("function-") and "schema" in schema:
                schema = schema["schema"]
            else:
                return schema

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Publish keys as they cross: as text, whatever they are in Python."""
        told = super().dict_schema(schema)
        keys = self._bare(schema.get("keys_schema", {"type": "any"}))
        kind, choices = keys["type"], keys.get("members", keys.get("expected", ()))
        values = [choice.value if isinstance(choice, Enum) else choice for choice in choices]
        are_text = all(isinstance(value, str) for value in values)
        reads = kind not in _NOT_READ_FROM_TEXT and (are_text or (kind == "enum" and keys.get("sub_type") == "int"))
        if kind in _NEVER_TEXT or (self.mode == "validation" and not reads):
            raise ConfigurationError(
                f"The keys of a dict are of a type ({kind}) that does not cross as text, which all keys in JSON are: "
                "use str, int, a StrEnum or an IntEnum, or a list of pairs."
            )
        if kind in _NUMBERS:
            told.pop("propertyNames", None)
        elif not are_text:
            told["propertyNames"] = {"enum": list(to_jsonable_python(dict.fromkeys(values)))}
        return told


def _text_bytes(node: Any, root: Any, at: tuple[str, ...], seen: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Find the fields whose bytes cross as text: names from the root of the type, through references."""
    if isinstance(node, list):
        for inner in node:
            yield from _text_bytes(inner, root, at, seen)
    if not isinstance(node, dict):
        return
    if node.get("format") == _TEXT_BYTES:
        yield at
    target = node.get("$ref")
    if isinstance(target, str) and target not in seen:
        name = target.removeprefix("#/$defs/")
        yield from _text_bytes(root.get("$defs", {}).get(name), root, at, seen | {target})
    for keyword, inner in node.items():
        if keyword == "properties":
            for name, field in inner.items():
                yield from _text_bytes(field, root, (*at, name), seen)
        elif keyword not in _DATA and keyword != "$defs":
            yield from _text_bytes(inner, root, at, seen)
