"""Actions: what may be one, and what calling one directly does."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from grundlag_bus import (
    Action,
    ActionContext,
    ActionInputValidationError,
    ActionOutputValidationError,
    AnswerInvalidError,
    ConfigurationError,
    Provider,
    ToolInterrupt,
    define_action,
    testing,
)

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTheTypeChecker

    from grundlag_bus import ActionContext as AnnotatedOnly


class Add(BaseModel):
    a: int
    b: int = 0


class Sum(BaseModel):
    sum: int


async def _add(numbers: Add, ctx: ActionContext) -> Sum:
    return Sum(sum=numbers.a + numbers.b)


WRONG = Sum.model_construct(sum="many")  # type: ignore[arg-type]  # that is what is wrong
add = define_action(id="add", name="Add", input=Add, output=Sum, execute=_add)

# --- calling directly -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [Add(a=1, b=2), {"a": 1, "b": 2}])
async def test_executing_takes_a_value_or_its_data_and_returns_the_value(given: Any) -> None:
    assert await add.execute(given, testing.context()) == Sum(sum=3)


async def test_bad_input_is_refused_before_the_function_runs() -> None:
    ran: list[Any] = []

    async def note(numbers: Add) -> None:
        ran.append(numbers)

    action = define_action(id="note", name="Note", input=Add, output=None, execute=note)
    for bad in ({"a": "one"}, {}, None, {"a": float("nan")}, Sum(sum=1)):
        with pytest.raises(ActionInputValidationError) as raised:
            await action.execute(bad, testing.context())
        assert raised.value.action_id == "note"
        assert raised.value.issues
    assert ran == []


@pytest.mark.parametrize("returned", [{"sum": "many"}, None, Add(a=1), WRONG])
async def test_bad_output_is_refused(returned: Any) -> None:
    async def wrong(_: Add) -> Any:
        return returned

    action = define_action(id="wrong", name="Wrong", input=Add, output=Sum, execute=wrong)
    with pytest.raises(ActionOutputValidationError) as raised:
        await action.execute({"a": 1}, testing.context())
    assert raised.value.action_id == "wrong"


async def test_what_the_function_raises_passes() -> None:
    async def fail(_: Add) -> None:
        raise LookupError

    async def ask(_: Add, ctx: ActionContext) -> None:
        raise ToolInterrupt("?")

    for function, answer, error in ((fail, None, LookupError), (ask, Add, ToolInterrupt)):
        action = define_action(id="x", name="X", input=Add, output=None, execute=function, answer=answer)
        with pytest.raises(error):
            await action.execute({"a": 1}, testing.context())


async def test_an_interrupt_that_no_answer_is_declared_for_is_refused_as_in_a_worker() -> None:
    async def ask(_: Add, ctx: ActionContext) -> None:
        raise ToolInterrupt("?")

    action = define_action(id="x", name="X", input=Add, output=None, execute=ask)
    with pytest.raises(ConfigurationError, match=r"add answer=Model to its definition"):
        await action.execute({"a": 1}, testing.context())


async def test_the_answer_of_a_test_is_checked_as_in_a_worker() -> None:
    async def ask(_: Add, ctx: ActionContext[Add]) -> Any:
        return {"sum": ctx.resumption.answer.a if ctx.resumption else 0}

    action = define_action(id="x", name="X", input=Add, output=Sum, execute=ask, answer=Add)
    assert (await action.execute({"a": 1}, testing.context(answer={"a": 7}))).sum == 7
    with pytest.raises(AnswerInvalidError):
        await action.execute({"a": 1}, testing.context(answer={"a": "much"}))


def test_a_second_argument_that_is_not_the_context_is_refused() -> None:
    provider = Provider("p", name="P")

    async def two(first: Add, second: Sum) -> Sum:
        return second

    with pytest.raises(ConfigurationError, match="'second' is annotated as Sum, and gets the ActionContext"):
        provider.action("two", name="Two")(two)


def test_an_answer_without_a_context_to_find_it_in_is_refused() -> None:
    async def ask(_: Add) -> None:
        raise ToolInterrupt("?")

    with pytest.raises(ConfigurationError, match=r"make it \(input, context\)"):
        define_action(id="x", name="X", input=Add, output=None, execute=ask, answer=Add)


# --- sync and async ---------------------------------------------------------------------------------------------------


class _CallableObject:
    async def __call__(self, numbers: Add) -> int:
        return numbers.a


class _Methods:
    async def method(self, numbers: Add) -> int:
        return numbers.a

    def sync_method(self, numbers: Add) -> int:
        return numbers.a


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (_add, True),
        (lambda numbers: numbers.a, False),
        (_CallableObject(), True),
        (_Methods().method, True),
        (_Methods().sync_method, False),
        (functools.partial(_Methods.method, _Methods()), True),
    ],
)
async def test_what_is_no_coroutine_function_runs_in_a_thread(function: Any, is_async: bool) -> None:
    action = define_action(id="x", name="X", input=Add, output=Any, execute=function)
    assert action.is_async is is_async
    assert await action.execute({"a": 1}, testing.context()) in (1, Sum(sum=1))


async def test_a_sync_function_sees_the_context_variables_of_who_executes_it() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("here")

    def tell(_: Add) -> list[str]:
        return [variable.get(), threading.current_thread().name]

    action = define_action(id="tell", name="Tell", input=Add, output=list[str], execute=tell)
    told, thread = await action.execute({"a": 1}, testing.context())
    assert told == "here"
    assert thread != threading.current_thread().name


async def test_a_sync_function_that_raises_stop_iteration_fails_at_once() -> None:
    def exhausted(_: Add) -> None:
        raise StopIteration

    action = define_action(id="x", name="X", input=Add, output=None, execute=exhausted)
    async with asyncio.timeout(5):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await action.execute({"a": 1}, testing.context())


# --- definitions ------------------------------------------------------------------------------------------------------


def test_json_schemas_do_instead_of_models() -> None:
    schema = {"type": "object", "required": ["a"]}
    action = define_action(id="x", name="X", input=schema, output={}, answer=schema, execute=_add)
    told = action.to_manifest()
    assert (told.input, told.output, told.answer) == (schema, {}, schema)


async def test_data_of_a_json_schema_stays_data() -> None:
    async def same(data: Any) -> Any:
        return data

    action = define_action(id="x", name="X", input={"required": ["a"]}, output={"type": "object"}, execute=same)
    assert await action.execute({"a": 1, "b": None}, testing.context()) == {"a": 1, "b": None}
    with pytest.raises(ActionInputValidationError):
        await action.execute({}, testing.context())


def test_the_manifest_says_all_that_a_caller_must_know() -> None:
    action = define_action(
        id="x",
        name="X",
        description="What it does.",
        input=Add,
        output=Sum,
        answer=Sum,
        execute=_add,
        lane="long",
        reads=["note"],
        idempotent=True,
        parallel_safe=True,
    )
    told = action.to_manifest().to_json()
    schemas = [told.pop(name) for name in ("input", "output", "answer")]
    assert told == {
        "id": "x",
        "name": "X",
        "description": "What it does.",
        "lane": "long",
        "idempotent": True,
        "parallelSafe": True,
        "reads": ["note"],
    }
    assert [set(schema["properties"]) for schema in schemas] == [{"a", "b"}, {"sum"}, {"sum"}]
    assert schemas[0]["required"] == ["a"]


class Raw(BaseModel):
    content: bytes


def _two(numbers: Add, ctx: ActionContext, more: int) -> None: ...
def _named(numbers: Add, *, tenant: str) -> None: ...
def _none() -> None: ...


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"id": "1st"}, "'1st' is no valid action id"),
        ({"lane": "a lane"}, "'a lane' is no valid lane id"),
        ({"execute": _two}, "action x: its function must take (input) or (input, context), by position."),
        ({"execute": _named}, "action x: its function must take (input) or (input, context), by position."),
        ({"execute": _none}, "action x: its function must take (input) or (input, context), by position."),
        ({"reads": "note"}, "action x: reads='note' is one text: give a list of item types, as in ['note']."),
        ({"input": Raw}, "action x: The field 'content' is of type bytes"),
        ({"output": threading.Event}, "action x uses Event, of which no JSON Schema can be made"),
        ({"answer": {"type": "objekt"}}, "action x: The JSON Schema is not usable"),
        ({"input": {"$ref": "https://example.org/x"}}, "action x: The JSON Schema is not usable"),
    ],
)
def test_a_wrong_definition_is_refused_with_what_to_do(wrong: dict[str, Any], told: str) -> None:
    definition: dict[str, Any] = {"id": "x", "name": "X", "input": Add, "output": Sum, "execute": _add}
    with pytest.raises(ConfigurationError) as raised:
        define_action(**{**definition, **wrong})
    assert str(raised.value).startswith(told)


# --- annotations ------------------------------------------------------------------------------------------------------


def _decorated(function: Any) -> Action:
    return Provider("p", name="P").action("x", name="X")(function)


async def test_the_context_may_be_imported_for_the_type_checker_alone() -> None:
    async def act(numbers: Add, ctx: AnnotatedOnly) -> Sum:
        return Sum(sum=numbers.a)

    assert await _decorated(act).execute({"a": 1}, testing.context()) == Sum(sum=1)


def test_models_of_a_function_may_be_used_in_it() -> None:
    class Local(BaseModel):
        x: int

    provider = Provider("p", name="P")

    @provider.action("x", name="X")
    async def act(given: Local) -> list[Local]:
        return [given]

    assert act.input.schema["title"] == "Local"
    assert act.output.schema["items"] == {"$ref": "#/$defs/Local"}


async def test_any_type_that_pydantic_reads_will_do() -> None:
    class Point(TypedDict):
        x: Annotated[int, Field(ge=0)]

    async def act(point: Point) -> dict[str, int] | None:
        return {"x": point["x"]}

    action = define_action(id="x", name="X", input=Point, output=dict[str, int] | None, execute=act)
    assert await action.execute({"x": 1}, testing.context()) == {"x": 1}
    with pytest.raises(ActionInputValidationError):
        await action.execute({"x": -1}, testing.context())


def test_the_docstring_is_the_description() -> None:
    async def act(numbers: Add) -> Sum:
        """Adds.

        All of it.
        """
        return Sum(sum=numbers.a)

    async def silent(numbers: Add) -> Sum:
        return Sum(sum=numbers.a)

    assert _decorated(act).description == "Adds.\n\nAll of it."
    assert _decorated(silent).description is None


async def _unannotated(numbers) -> Sum: ...  # type: ignore[no-untyped-def,empty-body]  # noqa: ANN001  that is the mistake
async def _returns_what(numbers: Add): ...  # type: ignore[no-untyped-def]  # noqa: ANN202  that is the mistake
async def _missing(numbers: OnlyForTheTypeChecker) -> Sum: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (
            _unannotated,
            "action x of provider p does not annotate its first argument 'numbers': annotate it with a pydantic model.",
        ),
        (
            _returns_what,
            "action x of provider p does not annotate what it returns: annotate it with a pydantic model.",
        ),
        (
            _missing,
            (
                "action x of provider p: the annotation 'OnlyForTheTypeChecker' of its first argument 'numbers' names "
                "'OnlyForTheTypeChecker', which is not there at run time: import it at the top of the module, outside "
                "`if TYPE_CHECKING`."
            ),
        ),
        (
            _none,
            "action x of provider p: its function must take (input) or (input, context), by position.",
        ),
    ],
)
def test_annotations_that_say_too_little_are_refused_with_what_to_do(function: Any, told: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        _decorated(function)
    assert str(raised.value) == told
