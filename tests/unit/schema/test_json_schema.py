from __future__ import annotations

import math
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import AfterValidator, Base64Bytes, BaseModel, ConfigDict, Field, TypeAdapter, WithJsonSchema
from typing_extensions import TypeAliasType, TypedDict

from grundlag_bus.errors import ConfigurationError, Issue
from grundlag_bus.schema.codec import dump, encoded_size
from grundlag_bus.schema.json_schema import JsonValidator, published
from grundlag_bus.schema.shape import ModelShape

BASE64 = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
BOTH = pytest.mark.parametrize("mode", ["validation", "serialization"])

Mode = Literal["validation", "serialization"]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int
    kittens: list[Pet] = []


class Dog(BaseModel):
    kind: Literal["dog"]
    owner: str | None = None


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


class Box(BaseModel):
    pet: Pet
    label: int | str | None = None
    counts: list[int] | None = None
    colour: Literal["red", "blue"] = "red"
    many: list[Cat] | Dog | None = None
    inner: Box | None = None
    by_name: dict[str, Dog] = {}


BOX = JsonValidator(published(TypeAdapter(Box), "validation"))
DOG = {"kind": "dog"}
A_REFERENCE = {"a": {"$ref": "#/$defs/b"}, "b": {"type": "array", "items": {"type": "string"}}}
NONE = {"none": {"type": "null"}}
CAT = {"kind": "cat", "lives": 9}


def found(value: Any, validator: JsonValidator = BOX) -> list[tuple[tuple[str | int, ...], str]]:
    return [(issue.path, issue.code) for issue in validator.issues(value)]


# --- issues -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {"pet": DOG},
        {"pet": {**CAT, "kittens": [DOG, {**CAT, "kittens": [CAT]}]}},
        {"pet": DOG, "inner": {"pet": CAT, "inner": {"pet": DOG, "inner": None}}},
        {"pet": DOG, "many": [CAT, CAT], "label": "x", "counts": [1], "by_name": {"x": DOG}},
        {"pet": DOG, "many": DOG, "label": None, "counts": None, "unknown": 1},
    ],
)
def test_recursion_discriminators_and_nested_unions_mean_what_they_say(value: Any) -> None:
    Box.model_validate(value)
    assert BOX.issues(value) == ()


@pytest.mark.parametrize(
    ("value", "path", "code", "message"),
    [
        ({}, (), "required", 'the property "pet" is missing'),
        ([], (), "type", "must be object, not array"),
        ({"pet": {"kind": "cat", "lives": "x"}}, ("pet", "lives"), "type", "must be integer, not string"),
        ({"pet": {"kind": "cat"}}, ("pet",), "required", 'the property "lives" is missing'),
        ({"pet": {"kind": "cow"}}, ("pet", "kind"), "enum", 'must be one of "cat", "dog"'),
        ({"pet": {}}, ("pet",), "required", 'the property "kind" is missing'),
        ({"pet": None}, ("pet",), "type", "must be object, not null"),
        ({"pet": DOG, "label": [1]}, ("label",), "type", "must be integer, string or null, not array"),
        ({"pet": DOG, "counts": [1, True]}, ("counts", 1), "type", "must be integer, not boolean"),
        ({"pet": DOG, "colour": "x"}, ("colour",), "enum", 'must be one of "red", "blue"'),
        ({"pet": DOG, "many": [CAT, {"kind": "cat"}]}, ("many", 1), "required", 'the property "lives" is missing'),
        ({"pet": DOG, "many": {"kind": "x"}}, ("many", "kind"), "const", 'must be "dog"'),
        ({"pet": DOG, "inner": {"pet": 3}}, ("inner", "pet"), "type", "must be object, not integer"),
        ({"pet": DOG, "by_name": {"x": {}}}, ("by_name", "x"), "required", 'the property "kind" is missing'),
        (
            {"pet": {**CAT, "kittens": [{**CAT, "kittens": [{"kind": "dog", "owner": 3}]}]}},
            ("pet", "kittens", 0, "kittens", 0, "owner"),
            "type",
            "must be string or null, not integer",
        ),
    ],
)
def test_an_issue_is_that_of_the_alternative_that_was_meant(
    value: Any, path: tuple[str | int, ...], code: str, message: str
) -> None:
    assert BOX.issues(value) == (Issue(path, code, message),)


def test_every_issue_of_a_small_value_is_told() -> None:
    assert found({"pet": 3, "label": [], "colour": "x"}) == [
        (("pet",), "type"),
        (("label",), "type"),
        (("colour",), "enum"),
    ]


def test_where_several_alternatives_may_be_meant_each_says_what_it_lacks() -> None:
    validator = JsonValidator(
        {"anyOf": [{"required": ["a"], "type": "object"}, {"properties": {"b": {"type": "null"}}}]}
    )
    assert validator.issues({"b": 1}) == (
        Issue(
            (),
            "anyOf",
            'fits none of 2 alternatives: the property "a" is missing; or b: must be null, not integer',
        ),
    )


def test_a_union_within_a_union_is_one_list_of_alternatives() -> None:
    validator = JsonValidator(
        {"anyOf": [{"anyOf": [{"type": "integer"}, {"const": "all"}]}, {"$ref": "#/$defs/none"}], "$defs": NONE}
    )
    assert validator.issues([]) == (Issue((), "type", 'must be integer, null or "all", not array'),)
    choice = JsonValidator({"anyOf": [{"const": "a"}, {"enum": ["b", "c"]}]})
    assert choice.issues("d") == (Issue((), "enum", 'must be one of "a", "b", "c"'),)
    inner = JsonValidator({"anyOf": [{"anyOf": [{"type": "array", "items": {"type": "null"}}]}, {"type": "integer"}]})
    assert found([1], inner) == [((0,), "type")]


def test_a_value_that_fits_two_exclusive_alternatives_is_told() -> None:
    validator = JsonValidator({"oneOf": [{"minimum": 1}, {"type": "integer"}]})
    assert found(3, validator) == [((), "oneOf")]


@pytest.mark.parametrize(
    ("schema", "value", "code"),
    [
        ({"type": "string"}, 1, "type"),
        ({"const": {"a": None}}, 1, "const"),
        ({"enum": list(range(1000))}, -1, "enum"),
        ({"format": "date-time"}, "2026-01-01T00:00:00", "format"),
        ({"format": "ipv4"}, "x", "format"),
        ({"pattern": "^a$"}, "b", "pattern"),
        ({"minimum": 1}, 0, "minimum"),
        ({"maximum": 1}, 2, "maximum"),
        ({"exclusiveMinimum": 1}, 1, "exclusiveMinimum"),
        ({"exclusiveMaximum": 1}, 1, "exclusiveMaximum"),
        ({"multipleOf": 2}, 3, "multipleOf"),
        ({"minLength": 2}, "a", "minLength"),
        ({"maxLength": 2}, "aaa", "maxLength"),
        ({"minItems": 2}, [1], "minItems"),
        ({"maxItems": 0}, [1], "maxItems"),
        ({"minProperties": 1}, {}, "minProperties"),
        ({"maxProperties": 0}, {"a": 1}, "maxProperties"),
        ({"uniqueItems": True}, [1, 1], "uniqueItems"),
        ({"contains": {"const": 1}}, [2], "contains"),
        ({"not": {"type": "null"}}, None, "not"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, "additionalProperties"),
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"b": 1}, "unevaluatedProperties"),
        ({"prefixItems": [{}], "unevaluatedItems": False}, [1, 2], "unevaluatedItems"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "propertyNames"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "required"),
        ({"properties": {"a": False}}, {"a": 1}, "falseSchema"),
        ({"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"type": "null"}}}, 1, "type"),
    ],
)
def test_each_keyword_is_the_code_of_its_issue_in_a_sentence_of_its_own(
    schema: dict[str, Any], value: Any, code: str
) -> None:
    (issue,) = JsonValidator(schema).issues(value)
    assert issue.code == code
    assert "schema's" not in issue.message or code in ("contains", "not")
    assert len(issue.message) < 300


def test_no_message_holds_the_value() -> None:
    secret = "secret" * 100
    schema = {"properties": {"a": {"type": "integer"}, "b": {"maxLength": 3}, "c": {"enum": ["x"]}, "d": {"const": 1}}}
    schema["properties"]["e"] = {"format": "uuid"}
    issues = JsonValidator(schema).issues(dict.fromkeys("abcde", secret))
    assert len(issues) == 5
    assert not any("secret" in issue.message for issue in issues)


def test_the_number_of_issues_is_bounded() -> None:
    validator = JsonValidator({"items": {"type": "string"}})
    assert len(validator.issues([1] * 1000)) == 32


def test_decimals_fit_as_numbers_and_as_text() -> None:
    class Price(BaseModel):
        amount: Annotated[Decimal, Field(max_digits=6, decimal_places=2)]

    inputs = JsonValidator(published(TypeAdapter(Price), "validation"))
    outputs = JsonValidator(published(TypeAdapter(Price), "serialization"))
    assert inputs.issues({"amount": 1.5}) == inputs.issues({"amount": "1.50"}) == ()
    assert outputs.issues(dump(TypeAdapter(Price), Price(amount=Decimal("1.50")))) == ()
    assert found({"amount": 1.5}, outputs) == [(("amount",), "type")]


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^(?!x).*$", "ab", "xb"),
        (r"^(?=.*\d)\w+$", "a1", "ab"),
        (r"^(?P<x>a)b$", "ab", "b"),
        (r"(?<=a)b", "ab", "b"),
        (r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$", "1.5", "+."),
    ],
)
def test_patterns_with_look_around_work(pattern: str, good: str, bad: str) -> None:
    validator = JsonValidator({"pattern": pattern})
    assert validator.issues(good) == ()
    assert found(bad, validator) == [((), "pattern")]


# --- large values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "path", "code"),
    [
        ({"pet": DOG, "counts": [1] * 50_000 + ["x"]}, ("counts", 50_000), "type"),
        ({"pet": DOG, "counts": ["x"] * 50_000}, ("counts", 0), "type"),
        ({"pet": DOG, "many": [CAT] * 5_000 + [{"kind": "cat"}]}, ("many", 5_000), "required"),
        (
            {"pet": {**CAT, "kittens": [DOG] * 5_000 + [{**DOG, "owner": 1}]}},
            ("pet", "kittens", 5_000, "owner"),
            "type",
        ),
        ({"pet": DOG, "by_name": {**{str(n): DOG for n in range(5_000)}, "x": 1}}, ("by_name", "x"), "type"),
        ({"pet": DOG, "label": {"x": "x" * 50_000}}, ("label",), "anyOf"),
        ({"pet": DOG, "counts": "x" * 50_000}, ("counts",), "type"),
        ({"counts": [1] * 50_000}, (), "required"),
        ([1] * 50_000, (), "type"),
    ],
)
def test_of_a_large_value_one_issue_is_told_at_its_place(value: Any, path: tuple[str | int, ...], code: str) -> None:
    assert encoded_size(value) > 16 * 1024
    assert found(value) == [(path, code)]


def test_large_values_are_narrowed_through_every_kind_of_schema() -> None:
    long = ["x" * 20_000]
    for schema, value, path in (
        ({"prefixItems": [{}, {"type": "null"}]}, [long, 1], (1,)),
        ({"prefixItems": [{}], "items": {"type": "array"}}, [long, [], 1], (2,)),
        ({"allOf": [{"properties": {"a/b ~ü": {"type": "null"}}}]}, {"l": long, "a/b ~ü": 1}, ("a/b ~ü",)),
        ({"anyOf": [True, {"type": "array"}], "not": {}}, [long], ()),
        ({"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}], "$defs": A_REFERENCE}, [*long, 1], (1,)),
        ({"patternProperties": {"^a": {"type": "null"}}}, {"l": long, "a": 1}, ("a",)),
        ({"additionalProperties": False, "properties": {"l": {}}}, {"l": long, "a": 1}, ()),
    ):
        (issue,) = JsonValidator(schema).issues(value)
        assert issue.path == path


def test_a_schema_that_turns_on_the_spot_ends() -> None:
    validator = JsonValidator({"type": "string", "allOf": [{"$ref": "#"}]})
    assert found(["x" * 20_000], validator) == [((), "type")]


def test_the_deepest_value_that_passes_the_codec_is_checked() -> None:
    value: Any = {"pet": DOG}
    for _ in range(125):
        value = {"pet": DOG, "inner": value}
    assert BOX.issues(value) == ()
    value = {"pet": 3}
    for _ in range(125):
        value = {"pet": DOG, "inner": value}
    assert found(value) == [(("inner",) * 125 + ("pet",), "type")]


# --- schemas that cannot be used --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "other.json"},
        {"properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"type": "nothing"},
        {"pattern": "["},
        {"items": [{"type": "string"}]},
    ],
)
def test_a_schema_that_leaves_its_document_or_is_wrong_is_refused_at_once(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="JSON Schema is not usable"):
        JsonValidator(schema)


def test_a_schema_with_an_id_refers_to_itself() -> None:
    validator = JsonValidator(
        {"$id": "https://example.com/a", "items": {"$ref": "#/$defs/x"}, "$defs": {"x": {"type": "null"}}}
    )
    assert found([1], validator) == [((0,), "type")]


# --- publishing -------------------------------------------------------------------------------------------------------


class Raw(BaseModel):
    blob: bytes


class Encoded(BaseModel):
    model_config = BASE64
    blob: bytes


class Half(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64")
    blob: bytes


class OtherHalf(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    blob: bytes


class Outer(BaseModel):
    model_config = BASE64
    fine: bytes = b""
    parts: list[dict[str, Raw]] | None = Field(default=None, alias="theParts")
    again: Outer | None = None


class Bare(TypedDict):
    blob: bytes


class TextDict(TypedDict):
    __pydantic_config__ = BASE64  # type: ignore[misc]  # how pydantic configures a TypedDict
    blob: bytes


class Named(BaseModel):
    properties: Raw


@BOTH
@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (Raw, "'blob'"),
        (Half, "'blob'"),
        (OtherHalf, "'blob'"),
        (Outer, "'theParts.blob'"),
        (Bare, "'blob'"),
        (Named, "'properties.blob'"),
        (dict[str, Raw], "'blob'"),
        (bytes, "the type itself"),
        (list[bytes], "the type itself"),
    ],
)
def test_bytes_that_would_cross_as_text_are_refused_with_field_and_fix(kind: Any, place: str, mode: Mode) -> None:
    with pytest.raises(ConfigurationError, match="ser_json_bytes='base64', val_json_bytes='base64'") as caught:
        published(TypeAdapter(kind), mode)
    assert place in str(caught.value)


@BOTH
def test_bytes_in_base64_are_published_and_round_trip(mode: Mode) -> None:
    class Annotations(BaseModel):
        blob: Base64Bytes
        text: Annotated[str, WithJsonSchema({"type": "string", "format": "binary"})] = ""

    published(TypeAdapter(Annotations), mode)
    published(TypeAdapter(TextDict), mode)
    validator = JsonValidator(published(TypeAdapter(Encoded), mode))
    told = dump(TypeAdapter(Encoded), Encoded(blob=bytes(range(256))))
    assert validator.issues(told) == ()
    assert Encoded.model_validate_json(f'{{"blob": "{told["blob"]}"}}').blob == bytes(range(256))


def test_input_and_output_are_published_in_their_own_modes_by_alias() -> None:
    class Both(BaseModel):
        amount: Decimal = Field(alias="theAmount", default=Decimal(1))

    inputs = published(TypeAdapter(Both), "validation")
    outputs = published(TypeAdapter(Both), "serialization")
    assert set(inputs["properties"]) == set(outputs["properties"]) == {"theAmount"}
    assert "anyOf" in inputs["properties"]["theAmount"]
    assert outputs["properties"]["theAmount"]["type"] == "string"


def test_absent_and_null_stay_distinct() -> None:
    class Optional(BaseModel):
        a: int = 1
        b: int | None

    validator = JsonValidator(published(TypeAdapter(Optional), "validation"))
    assert validator.issues({"b": None}) == ()
    assert found({"a": None, "b": None}, validator) == [(("a",), "type")]
    assert found({}, validator) == [((), "required")]


@pytest.mark.parametrize("annotation", [Annotated[float, Field(examples=[math.nan])], Annotated[int, Field(le=2**64)]])
def test_a_schema_that_is_no_json_data_is_refused(annotation: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"examples\.0|maximum"):
        published(TypeAdapter(annotation), "validation")


# --- keys -------------------------------------------------------------------------------------------------------------


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Plain(Enum):
    LOW = 1
    WORD = "word"


class Colour(StrEnum):
    RED = "red"


class Point(BaseModel):
    model_config = ConfigDict(frozen=True)
    x: int = 1


Age = TypeAliasType("Age", Annotated[int, Field(ge=0)])


class Twice(BaseModel):
    one: dict[Level, int]
    two: dict[Level, int]
    level: Level


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (dict[Level, int], {Level.LOW: 7}, {"1": 7}),
        (dict[Annotated[Level, AfterValidator(lambda level: level)], int], {Level.HIGH: 7}, {"2": 7}),
        (dict[Colour, int], {Colour.RED: 7}, {"red": 7}),
        (dict[Literal["a", "b"], int], {"a": 7}, {"a": 7}),
        (dict[int, int], {-1: 7}, {"-1": 7}),
        (dict[Age, int], {3: 7}, {"3": 7}),
        (dict[bool, int], {True: 7}, {"true": 7}),
        (dict[float, int], {1.5: 7}, {"1.5": 7}),
        (dict[UUID, int], {UUID(int=1): 7}, {"00000000-0000-0000-0000-000000000001": 7}),
        (
            Twice,
            Twice(one={Level.LOW: 7}, two={Level.HIGH: 8}, level=Level.LOW),
            {"one": {"1": 7}, "two": {"2": 8}, "level": 1},
        ),
    ],
)
def test_keys_that_are_no_text_cross_as_text_both_ways(kind: Any, value: Any, text: Any) -> None:
    output, input_ = ModelShape(kind, "serialization"), ModelShape(kind, "validation")
    assert output.dump(value) == text
    assert JsonValidator(input_.schema).issues(text) == ()
    assert input_.parse(text) == value


def test_other_keys_than_those_of_the_enum_are_refused() -> None:
    issues = JsonValidator(published(TypeAdapter(dict[Level, int]), "validation")).issues({"3": 7})
    assert [(issue.code, issue.message) for issue in issues] == [
        ("propertyNames", 'the key "3": must be one of "1", "2"')
    ]


@pytest.mark.parametrize("key", [Plain, Literal[1, 2], tuple[int, int], Point])
def test_keys_that_no_text_is_read_as_are_refused_with_what_to_do(key: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"does not cross as text.*use str, int, a StrEnum"):
        published(TypeAdapter(dict[key, int]), "validation")


def test_keys_that_are_only_written_may_be_of_any_enum() -> None:
    assert ModelShape(dict[Plain, int], "serialization").dump({Plain.LOW: 7, Plain.WORD: 8}) == {"1": 7, "word": 8}


def test_the_size_of_an_issue_does_not_depend_on_the_value() -> None:
    validator = JsonValidator({"additionalProperties": {"type": "integer"}, "propertyNames": {"maxLength": 10**6}})
    (issue,) = validator.issues({"k" * 50_000: "no"})
    assert issue.path == ("k" * 120 + "...",)
    assert issue.code == "type"
