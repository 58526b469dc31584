"""Tools as async functions of a script: their declarations as Python text, for whoever writes a script and checks it.

    class CalendarCreateEventResult(TypedDict):
        event_id: str

    async def calendarCreateEvent(title: str, starts_at: str, notes: str = ...) -> CalendarCreateEventResult:
        ...

The input's properties are the parameters, the required ones first. An input that is no object with properties, or one
of whose properties cannot be a parameter (`from`), is one parameter of its own, `input`. Inputs within inputs are plain
dicts, results are TypedDicts. Same tools, same text.
"""

from __future__ import annotations

import builtins
import keyword
import textwrap
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grundlag_bus.errors import ConfigurationError
from grundlag_bus.schema.annotations import Types

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grundlag_bus.tools import Tool

_TYPING = ("Any", "Literal", "NotRequired", "TypedDict")
HEADER = f"from typing import {', '.join(_TYPING)}\n"
_WIDTH = 116


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool's function. description: of the property, in one line."""

    name: str
    type: str
    required: bool
    description: str


@dataclass(frozen=True, slots=True)
class Function:
    """A tool as a script sees it.

    parameters: None where the input is one parameter of its own; declaration: what it needs and how it is called, as
    Python text.
    """

    name: str
    parameters: tuple[Parameter, ...] | None
    declaration: str

    def input_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the tool's input as the script gave it. Raises TypeError where the arguments do not fit."""
        if self.parameters is None:
            given = [*args, *kwargs.values()]
            if len(given) != 1 or (kwargs and "input" not in kwargs):
                raise TypeError(f"{self.name}() takes one argument, its input")
            return given[0]
        names = [parameter.name for parameter in self.parameters]
        if len(args) > len(names):
            raise TypeError(f"{self.name}() takes {len(names)} arguments at most, and {len(args)} were given")
        positional = dict(zip(names, args, strict=False))
        twice = positional.keys() & kwargs.keys()
        if twice:
            raise TypeError(f"{self.name}() got {min(twice)!r} twice")
        return positional | dict(kwargs)


def functions_of(tools: Mapping[str, Tool]) -> dict[str, Function]:
    """Make a function of each tool. Raises ConfigurationError for a name that a script cannot call."""
    taken = {*_TYPING, *tools}
    return {name: _function(name, tool, taken) for name, tool in sorted(tools.items())}


def text_of(functions: Iterable[Function]) -> str:
    """Write all declarations, as the stub file of a script."""
    return "\n\n".join([HEADER, *(function.declaration for function in functions)])


def _function(name: str, tool: Tool, names: set[str]) -> Function:
    taken = keyword.iskeyword(name) or hasattr(builtins, name) or name in _TYPING
    if taken or not name.isidentifier() or name.startswith("_") or not _is_read_as_it_is(name):
        raise ConfigurationError(
            f"A script cannot call a tool named {name!r}: give it a name that is a Python identifier, no keyword, no "
            "builtin and no word of the declarations, and begins with no underscore."
        )
    capitalised = name[0].upper() + name[1:]
    results, inputs = Types(f"{capitalised}Result", tool.output, taken=names), Types(f"{capitalised}Input", tool.input)
    returned = results.annotation(tool.output)
    parameters = _parameters(tool.input, inputs)
    if parameters is None:
        given = [f"input: {inputs.plain(tool.input)}"]
    else:
        parameters = tuple(sorted(parameters, key=lambda parameter: not parameter.required))
        given = [f"{p.name}: {p.type}{'' if p.required else ' = ...'}" for p in parameters]
    head = f"async def {name}({', '.join(given)}) -> {returned}:"
    if len(head) > _WIDTH:
        head = "\n".join([f"async def {name}(", *(f"    {one}," for one in given), f") -> {returned}:"])
    body = textwrap.indent(f'"""{_documentation(tool, parameters or ())}"""', "    ")
    return Function(name, parameters, "\n\n".join([*results.declarations, f"{head}\n{body}\n"]))


def _parameters(schema: Mapping[str, Any], types: Types) -> tuple[Parameter, ...] | None:
    schema = types.resolved(schema)
    properties = schema.get("properties")
    if not isinstance(properties, dict) or schema.get("type", "object") != "object":
        return () if schema.get("type") == "object" and not schema.get("additionalProperties", True) else None
    if not all(map(_is_parameter, properties)):
        return None
    required = set(schema.get("required", ()))
    return tuple(
        Parameter(property_, types.plain(of), property_ in required, _one_line(types.resolved(of).get("description")))
        for property_, of in properties.items()
    )


def _is_parameter(name: str) -> bool:
    """Whether an argument can have this name: two underscores at its beginning keep it from being named at all."""
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__") and _is_read_as_it_is(name)


def _is_read_as_it_is(name: str) -> bool:
    return unicodedata.normalize("NFKC", name) == name


def _documentation(tool: Tool, parameters: Iterable[Parameter]) -> str:
    lines = [_one_line(tool.description or tool.name)]
    lines += [f"{parameter.name}: {parameter.description}" for parameter in parameters if parameter.description]
    if tool.answer is not None:
        lines.append("It may stop the script until a person has answered; then the script goes on by itself.")
    text = "\n".join(lines).replace("\\", "\\\\")
    return text.replace('"', '\\"') if '"""' in text or text.endswith('"') else text


def _one_line(text: Any) -> str:
    return "" if text is None else " ".join(str(text).split())
