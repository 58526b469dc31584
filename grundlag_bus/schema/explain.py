"""From the validator's errors to issues: short, of one shape, and of the alternative that was meant.

The validator's own messages hold the value; these say what the schema wants. Of a union that nothing fits, the
alternatives that cannot have been meant (another type, another discriminator) are left out, and if one remains, its
issues are told instead.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.errors import Issue
from grundlag_bus.schema.formats import READS
from grundlag_bus.schema.refusal import short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jsonschema_rs import ValidationError

    from grundlag_bus.errors import IssuePath

_NAMED = 5  # names or alternatives that a message may list
_CHOOSES = ("const", "enum")  # the keywords by which a property says which alternative is meant
_TYPES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}


def explain(error: ValidationError, value: Any) -> list[Issue]:
    """Make the issues of one error in `value`: one, or those of the union's alternative that was meant."""
    branches = _branches(error)
    if branches:
        return _explain_union(error, branches, value)
    kind = error.kind
    return [Issue(_place(error), kind.name, _sentence(kind.name, kind.as_dict(), _at(value, error.instance_path)))]


# --- unions -----------------------------------------------------------------------------------------------------------


def _branches(error: ValidationError) -> list[list[ValidationError]]:
    """Return the errors of each alternative of a union that nothing fits; [] for any other error."""
    branches: list[list[ValidationError]] = getattr(error.kind, "context", [])
    return branches if all(branches) else []  # of a `oneOf` that fits twice, two have no error


def _explain_union(error: ValidationError, branches: list[list[ValidationError]], value: Any) -> list[Issue]:
    here = _place(error)
    same_type = [branch for branch in branches if not any(_is_of_another_type(found, here) for found in branch)]
    chosen = [branch for branch in same_type if not any(_is_another_choice(found, here) for found in branch)]
    meant = chosen or same_type
    if not meant:
        return [_none_is_of_this_type(error, here, value)]
    told = [[issue for found in branch for issue in explain(found, value)] for branch in meant]
    if len(told) == 1:
        return told[0]
    choices = _choices([found for branch in same_type for found in branch], here) if not chosen else {}
    if choices:
        place, options = next(iter(choices.items()))
        return [Issue(place, "enum", f"must be one of {_listed(options)}")]
    common = [issue for issue in told[0] if all(issue in others for others in told[1:])]
    if common:
        return common
    reasons = "; or ".join(f"{_below(issues[0], here)}" for issues in told[:_NAMED])
    return [Issue(here, error.kind.name, f"fits none of {len(branches)} alternatives: {reasons}")]


def _is_of_another_type(error: ValidationError, here: IssuePath) -> bool:
    """Tell whether an alternative is of no use already for the union's own value."""
    if _place(error) != here:
        return False
    branches = _branches(error)
    if branches:
        return all(any(_is_of_another_type(found, here) for found in branch) for branch in branches)
    return error.kind.name in ("type", *_CHOOSES)


def _is_another_choice(error: ValidationError, here: IssuePath) -> bool:
    """Tell whether a property right below the union's value chooses another alternative."""
    place = _place(error)
    return error.kind.name in _CHOOSES and len(place) == len(here) + 1 and place[:-1] == here


def _choices(errors: Iterable[ValidationError], here: IssuePath) -> dict[IssuePath, list[Any]]:
    """Collect what the alternatives would take at the place of their discriminator."""
    choices: dict[IssuePath, list[Any]] = {}
    for error in errors:
        if _is_another_choice(error, here):
            choices.setdefault(_place(error), []).extend(_options(error))
    return choices


def _options(error: ValidationError) -> list[Any]:
    told = error.kind.as_dict()
    return list(told["options"]) if "options" in told else [told["expected_value"]]


def _none_is_of_this_type(error: ValidationError, here: IssuePath, value: Any) -> Issue:
    leaves = list(_leaves(error))
    types = [kind for leaf in leaves if leaf.kind.name == "type" for kind in leaf.kind.as_dict()["types"]]
    options = [option for leaf in leaves if leaf.kind.name in _CHOOSES for option in _options(leaf)]
    if not types:
        return Issue(here, "enum", f"must be one of {_listed(options)}")
    wanted = [*dict.fromkeys(types), *map(_written, options)]
    return Issue(here, "type", f"must be {_any_of(wanted)}, not {_type_of(_at(value, here))}")


def _leaves(error: ValidationError) -> Iterable[ValidationError]:
    branches = _branches(error)
    if not branches:
        yield error
    for branch in branches:
        for found in branch:
            yield from _leaves(found)


def _below(issue: Issue, here: IssuePath) -> str:
    return str(Issue(issue.path[len(here) :], issue.code, issue.message)) if issue.path != here else issue.message


# --- sentences --------------------------------------------------------------------------------------------------------


def _sentence(keyword: str, told: dict[str, Any], found: Any) -> str:
    """Say what the schema wants of the value at the issue's place."""
    write = _SENTENCES.get(keyword)
    if write is None or (len(told) != 1 and told):
        return f"does not fit the schema's {keyword!r}"
    return write(next(iter(told.values()), None), found)


_SENTENCES: dict[str, Callable[[Any, Any], str]] = {
    "required": lambda name, _: f"the property {_written(name)} is missing",
    "type": lambda types, found: f"must be {_any_of(types)}, not {_type_of(found)}",
    "const": lambda wanted, _: f"must be {_written(wanted)}",
    "enum": lambda options, _: f"must be one of {_listed(options)}",
    "format": lambda name, _: f"must be {READS.get(name, f'of the format {name}')}",
    "pattern": lambda pattern, _: f"must match the pattern {_written(pattern)}",
    "minimum": lambda limit, _: f"must be at least {limit}",
    "maximum": lambda limit, _: f"must be at most {limit}",
    "exclusiveMinimum": lambda limit, _: f"must be more than {limit}",
    "exclusiveMaximum": lambda limit, _: f"must be less than {limit}",
    "multipleOf": lambda step, _: f"must be a multiple of {step}",
    "minLength": lambda limit, _: f"must have at least {limit} characters",
    "maxLength": lambda limit, _: f"must have at most {limit} characters",
    "minItems": lambda limit, _: f"must have at least {limit} elements",
    "maxItems": lambda limit, _: f"must have at most {limit} elements",
    "minProperties": lambda limit, _: f"must have at least {limit} properties",
    "maxProperties": lambda limit, _: f"must have at most {limit} properties",
    "uniqueItems": lambda _, __: "must have no two equal elements",
    "contains": lambda _, __: "lacks an element that the schema's 'contains' asks for",
    "not": lambda _, __: "is what the schema's 'not' excludes",
    "falseSchema": lambda _, __: "is not allowed here",
    "additionalProperties": lambda names, _: f"must have no property {_listed(names)}",
    "unevaluatedProperties": lambda names, _: f"must have no property {_listed(names)}",
    "unevaluatedItems": lambda indexes, _: f"must have no element {_listed(indexes)}",
    "propertyNames": lambda error, _: (
        f"the key {_written(error.instance)}: {explain(error, error.instance)[0].message}"
    ),
    "oneOf": lambda _, __: "fits more than one alternative, and exactly one is allowed",
}


def _written(value: Any) -> str:
    return short(orjson.dumps(value).decode())


def _listed(values: Sequence[Any]) -> str:
    texts = list(dict.fromkeys(map(_written, values)))
    more = f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return ", ".join(texts[:_NAMED]) + more


def _any_of(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _type_of(value: Any) -> str:
    return _TYPES.get(type(value), "null")


def _place(error: ValidationError) -> IssuePath:
    return tuple(error.instance_path)


def _at(value: Any, path: Iterable[str | int]) -> Any:
    return reduce(lambda inner, step: inner[step], path, value)
