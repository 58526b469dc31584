"""Tools as functions of a script: what is declared, and how arguments become an input."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from grundlag_bus import ConfigurationError, Tool, ToolContext, define_tool
from grundlag_bus.sandbox.script.prompt import prompt_of
from grundlag_bus.sandbox.script.stubs import Function, functions_of, text_of


def tool(name: str = "act", *, input: Any = None, output: Any = None, description: str = "Acts.") -> Tool:  # noqa: A002  the wire's word
    async def run(value: Any, context: ToolContext) -> Any:
        return value

    any_object = {"type": "object", "properties": {}}
    return define_tool(
        id=name, name=name, description=description, input=input or any_object, output=output or {}, execute=run
    )


def function(**changes: Any) -> Function:
    made = tool(**changes)
    return functions_of({made.id: made})[made.id]


def objects(**properties: Any) -> dict[str, Any]:
    required = [name for name, schema in properties.items() if not schema.get("optional")]
    return {"type": "object", "properties": properties, "required": required}


def test_the_required_properties_are_the_first_parameters() -> None:
    declared = function(input=objects(note={"type": "string", "optional": True}, count={"type": "integer"})).declaration
    assert "async def act(count: int, note: str = ...) -> Any:" in declared


@pytest.mark.parametrize(
    ("schema", "annotation"),
    [
        ({"type": "string"}, "str"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "float | None"),
        ({"enum": ["a", "b"]}, "Literal['a', 'b']"),
        ({"const": 3}, "Literal[3]"),
        ({"type": "array", "items": {"type": "boolean"}}, "list[bool]"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "dict[str, Any]"),
        ({"allOf": [{"type": "string"}]}, "str"),
        ({}, "Any"),
        ({"anyOf": [{"type": "string"}, {}]}, "Any"),
        ({"enum": [1.5, None]}, "Any"),
    ],
)
def test_a_schema_is_written_as_an_annotation(schema: dict[str, Any], annotation: str) -> None:
    assert f"async def act(value: {annotation}) -> Any:" in function(input=objects(value=schema)).declaration


def test_results_are_typed_dicts_each_declared_before_it_is_named() -> None:
    output = objects(
        when={"type": "string"}, inner=objects(count={"type": "integer", "optional": True}), many={"type": "array"}
    )
    declared = function(output=output).declaration
    assert "class ActResult(TypedDict):\n    when: str\n    inner: ActResultInner\n    many: list[Any]" in declared
    assert "class ActResultInner(TypedDict):\n    count: NotRequired[int]" in declared
    assert declared.index("class ActResultInner") < declared.index("class ActResult(")


def test_a_result_may_hold_itself() -> None:
    tree = {
        "$ref": "#/$defs/Tree",
        "$defs": {"Tree": objects(inner={"type": "array", "items": {"$ref": "#/$defs/Tree"}})},
    }
    declared = function(output=tree).declaration
    assert "class ActResultTree(TypedDict):\n    inner: list['ActResultTree']" in declared


def test_two_results_of_one_name_are_told_apart() -> None:
    output = objects(a={"anyOf": [objects(x={"type": "string"}), objects(y={"type": "string"})]})
    names = [
        node.name for node in ast.parse(function(output=output).declaration).body if isinstance(node, ast.ClassDef)
    ]
    assert len(names) == len(set(names)) == 3


@pytest.mark.parametrize("name", ["from", "no-identifier", "1st", ""])
def test_a_property_that_cannot_be_a_parameter_makes_the_input_one_parameter(name: str) -> None:
    made = function(input=objects(**{name: {"type": "string"}}))
    assert "async def act(input: dict[str, Any]) -> Any:" in made.declaration
    assert made.input_of(({name: "x"},), {}) == made.input_of((), {"input": {name: "x"}}) == {name: "x"}


def test_arguments_become_the_input() -> None:
    made = function(input=objects(a={"type": "string"}, b={"type": "string"}))
    assert made.input_of(("x",), {"b": "y"}) == {"a": "x", "b": "y"}
    assert made.input_of((), {"b": "y", "unknown": 1}) == {"b": "y", "unknown": 1}  # which the tool's schema judges


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [(("x", "y", "z"), {}, "2 arguments at most"), (("x",), {"a": "x"}, "got 'a' twice")],
)
def test_arguments_that_do_not_fit_are_refused(args: Any, kwargs: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        function(input=objects(a={"type": "string"}, b={"type": "string"})).input_of(args, kwargs)


@pytest.mark.parametrize("args", [(), (1, 2)])
def test_an_input_of_its_own_is_one_argument(args: Any) -> None:
    with pytest.raises(TypeError, match="takes one argument"):
        function(input={"type": "string"}).input_of(args, {})


@pytest.mark.parametrize("name", ["print", "list", "_hidden"])
def test_a_tool_that_a_script_could_not_call_is_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"a tool named '{name}'"):
        functions_of({name: tool("act")})


def test_a_description_cannot_leave_its_docstring() -> None:
    declared = function(description='Ends """ here \\ and there').declaration
    (made,) = ast.parse(declared).body
    assert isinstance(made, ast.AsyncFunctionDef)
    assert ast.get_docstring(made) == 'Ends """ here \\ and there'


def test_the_same_tools_give_the_same_text_in_any_order() -> None:
    one, other = {"a": tool("a"), "b": tool("b")}, {"b": tool("b"), "a": tool("a")}
    assert text_of(functions_of(one).values()) == text_of(functions_of(other).values())


def test_the_prompt_holds_every_declaration() -> None:
    functions = functions_of({"a": tool("a"), "b": tool("b")})
    prompt = prompt_of(functions.values())
    assert all(each.declaration in prompt for each in functions.values())


def test_no_two_declarations_have_one_name() -> None:
    text = {"type": "string"}
    tools = [
        tool("foo", output=objects(result=objects(a=text))),
        tool("Foo", output=objects(c=text)),
        tool("fooResult", output=objects(b=text)),
        tool("FooResult", output=objects(d=text)),
    ]
    declared = ast.parse(text_of(functions_of({one.id: one for one in tools}).values()))
    names = [node.name for node in declared.body if isinstance(node, (ast.ClassDef, ast.AsyncFunctionDef))]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["__secret", "__debug__", "\ufb01"])
def test_a_property_that_no_argument_can_name_makes_the_input_one_parameter(name: str) -> None:
    declared = function(input=objects(**{name: {"type": "string"}}))
    assert declared.parameters is None
    ast.parse(declared.declaration)


def test_a_tool_whose_name_python_reads_as_another_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot call a tool named"):
        function(name="of\ufb01ce")


@pytest.mark.parametrize("description", ['Say "hi"', '"', '""', '"""', '"\\', '\\"', "c:\\"])
def test_a_description_ends_where_its_tool_ends_it(description: str) -> None:
    declared = ast.parse(function(description=description).declaration).body[0]
    assert isinstance(declared, ast.AsyncFunctionDef)
    assert ast.get_docstring(declared) == description
