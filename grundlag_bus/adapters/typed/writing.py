"""From a manifest to the text of a typed client. Same manifest, same text.

    class CalendarCreateEventInput(TypedDict):
        title: str
        notes: NotRequired[str | None]

    class Client(TypedClient):
        async def calendarCreateEvent(
            self, input: CalendarCreateEventInput, context: ToolContext | None = None
        ) -> CalendarCreateEventResult: ...

The methods have the function names, as tools and scripts have them. An input is one argument, so that every name can be
a key of it and what is absent stays apart from what is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grundlag_bus.adapters.typed.options import ClientOptions
from grundlag_bus.schema.annotations import Types, docstring, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.schema.manifest import ActionManifest, Manifest, ProviderManifest

_WIDTH = 120
_TYPING = ("Any", "Literal", "NotRequired", "TypeAlias", "TypedDict")
_OURS = ("ToolContext", "ToolInterrupt", "TypedClient")
_HEAD = '''"""A typed client, written by `{command}`.

Change nothing here: write it anew when the manifest has moved.
"""

# ruff: noqa
# fmt: off

from __future__ import annotations
'''


def write_client(manifest: Manifest, options: ClientOptions | None = None) -> str:
    """Write a module with one class, whose methods call the actions of the providers that are wanted."""
    options = options or ClientOptions()
    class_name = options.class_name
    taken = {*_TYPING, *_OURS, class_name}
    declarations: list[str] = []
    methods: list[str] = []
    wanted = [one for one in manifest.providers if not options.providers or one.id in options.providers]
    for provider in wanted:
        for action in provider.actions:
            declared, written = _action(provider.id, action, taken)
            declarations += declared
            methods += written
        declarations += _things(provider, taken)
    named = " and ".join(provider.name for provider in wanted) or "nothing"
    about = [f"Calls the actions of {one_line(named)}.", "tools: as `bus.to_tools()` gives them."]
    head = f"class {class_name}(TypedClient):\n{docstring(about, indent='    ')}"
    body = "\n\n\n".join([*declarations, "\n\n".join([head, *methods])])
    return f"{_HEAD.format(command=options.command)}\n{_imports(body)}\n\n\n{body}\n"


def _imports(body: str) -> str:
    """Import what the body uses; a name in a text may count, which does no harm."""
    typing = [name for name in _TYPING if name in body]
    ours = [name for name in _OURS if name in body]
    lines = [f"from typing import {', '.join(typing)}\n"] if typing else []
    return "\n".join([*lines, f"from grundlag_bus import {', '.join(ours)}"])


def _action(provider_id: str, action: ActionManifest, taken: set[str]) -> tuple[list[str], list[str]]:
    """Write what an action's methods name, and the methods."""
    name = action.function_name
    capitalised = name[0].upper() + name[1:]
    inputs, given = _types(f"{capitalised}Input", action.input, taken)
    results, returned = _types(f"{capitalised}Result", action.output, taken)
    about = [one_line(action.description or action.name)]
    if action.answer is not None:
        about.append(f"Raises ToolInterrupt when a person must answer: go on with `resume_{name}`.")
    may_be_left_out = _may_be_left_out(action.input, inputs)
    parameters = [f"input: {given} | None = None" if may_be_left_out else f"input: {given}"]
    value = "{} if input is None else input" if may_be_left_out else "input"
    ids = f"{provider_id!r}, {action.id!r}"
    methods = [
        _method(
            name,
            [*parameters, "context: ToolContext | None = None"],
            returned,
            about,
            f"_execute({ids}, {value}, context)",
        )
    ]
    declarations = [*inputs.declarations, *results.declarations]
    if action.answer is not None:
        answers, answer = _types(f"{capitalised}Answer", action.answer, taken)
        declarations += answers.declarations
        parameters = [
            "interrupt: ToolInterrupt",
            f"answer: {answer}",
            "context: ToolContext | None = None",
            "*",
            "by: str | None = None",
        ]
        about = [
            f"Answer what `{name}` asked, and go on with it.",
            "by: who answered, where that is not the context's user.",
        ]
        call = f"_resume({ids}, interrupt, answer, context, by=by)"
        methods.append(_method(f"resume_{name}", parameters, returned, about, call))
    return declarations, methods


def _things(provider: ProviderManifest, taken: set[str]) -> list[str]:
    """Write the data of a provider's entities and events."""
    declarations = []
    start = _capitalised(provider.id)
    things = [(each, "Entity") for each in provider.entities] + [(each, "Event") for each in provider.events]
    for thing, kind in things:
        name = f"{start}{_capitalised(thing.id)}{kind}"
        types, annotation = _types(name, thing.json_schema, taken)
        declarations += types.declarations
        if annotation != name and name not in taken:
            taken.add(name)
            declarations.append(f"{name}: TypeAlias = {annotation}")
    return declarations


def _types(name: str, schema: dict[str, Any], taken: set[str]) -> tuple[Types, str]:
    types = Types(name, schema, taken=taken, of_module=True)
    return types, types.annotation(schema)


def _may_be_left_out(schema: dict[str, Any], types: Types) -> bool:
    """Whether an input without anything in it fits, as far as the schema says so in plain words."""
    schema = dict(types.resolved(schema))
    return schema.get("type") == "object" and not schema.get("required") and not schema.get("minProperties")


def _method(name: str, parameters: Iterable[str], returned: str, about: list[str], call: str) -> str:
    head = f"    async def {name}(self, {', '.join(parameters)}) -> {returned}:"
    if len(head) > _WIDTH:
        head = "\n".join(
            [f"    async def {name}(", *(f"        {one}," for one in ("self", *parameters)), f"    ) -> {returned}:"]
        )
    if returned == "Any":
        body = f"        return await self.{call}"
    else:
        body = f"        result: {returned} = await self.{call}\n        return result"
    return f"{head}\n{docstring(about, indent='        ')}\n{body}"


def _capitalised(id_: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in id_.replace("-", "_").split("_"))
