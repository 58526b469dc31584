from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, TypeAdapter

from grundlag_bus.cli.questions import LEFT_OUT, Question, UnreadableError, questions_of


def asked(kind: Any) -> Question:
    (question,) = questions_of(TypeAdapter(kind).json_schema())
    return question


class Inner(BaseModel):
    x: int


class Answer(BaseModel):
    inner: Inner
    maybe: Inner | None
    note: str | None = None


@pytest.mark.parametrize(
    ("kind", "line", "value"),
    [
        (bool, "Y", True),
        (bool, " no ", False),
        (str, "  as typed ", "  as typed "),
        (str, "", ""),
        (int, " 42 ", 42),
        (float, "1e3", 1000.0),
        (float, "7", 7),
        (Literal["a", "b"], "2", "b"),
        (Literal["a", "b"], "b", "b"),
        (Literal[2, 1], "1", 1),
        (Literal["1", 2], "1", "1"),
        (Literal[True, "yes"], "true", True),
        (list[int], "[1, 2]", [1, 2]),
        (Inner, '{"x": 1}', {"x": 1}),
        (int | None, "", None),
        (int | None, "5", 5),
        (int | str, '"5"', "5"),
        (Any, "null", None),
    ],
)
def test_a_line_becomes_a_value_of_the_kind(kind: Any, line: str, value: Any) -> None:
    question = Question("q", TypeAdapter(kind).json_schema(), TypeAdapter(kind).json_schema())
    read = question.read(line)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (bool, ""),
        (bool, "1"),
        (int, "1.5"),
        (int, "true"),
        (int, "18446744073709551616"),
        (int, ""),
        (float, "NaN"),
        (float, "one"),
        (Literal["a", "b"], "3"),
        (Literal["a", "b"], "0"),
        (Literal["a", "b"], "-1"),
        (list[int], "1, 2"),
        (list[int], '["a"]'),
        (dict[str, int], '{"a": "b"}'),
    ],
)
def test_another_line_is_refused_with_what_would_be_right(kind: Any, line: str) -> None:
    question = Question("q", TypeAdapter(kind).json_schema(), TypeAdapter(kind).json_schema())
    with pytest.raises(UnreadableError, match=r"."):
        question.read(line)


def test_each_field_is_a_question_and_references_are_followed() -> None:
    inner, maybe, note = questions_of(Answer.model_json_schema())
    assert inner.read('{"x": 1}') == {"x": 1}
    assert maybe.read("") is None
    assert note.read("") is LEFT_OUT
    with pytest.raises(UnreadableError, match="integer"):
        inner.read('{"x": "y"}')


def test_a_required_field_without_a_definition_is_asked_for_as_json() -> None:
    (question,) = questions_of({"type": "object", "properties": {"a": {}}, "required": ["a"]})
    assert question.read("[1]") == [1]
    first, second = questions_of({"type": "object", "properties": {"a": {}}, "required": ["b"]})
    assert (first.required, second.name, second.read("7")) == (False, "b", 7)


def test_an_answer_without_fields_is_one_question() -> None:
    assert asked(bool).name is None
    assert asked(dict[str, int]).read('{"a": 1}') == {"a": 1}


def test_the_question_says_what_to_type() -> None:
    assert questions_of(Answer.model_json_schema())[2].text == "note (text; Enter leaves it out)"
    assert asked(Literal["a", "b"]).text == "your answer (a number or a value)"
    assert asked(list[int]).text == "your answer (JSON: array of integer)"
