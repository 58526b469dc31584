"""What is wrong with a script, in the form that its author can act on: the line, what, and how the tool is declared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grundlag_bus.errors import ScriptInvalidError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grundlag_bus.sandbox.script.stubs import Function

_PROBLEM = re.compile(r"^[^\n:]*:(\d+):(\d+): (?:error|warning)\[([\w-]+)\] (.*)$", re.MULTILINE)
_NAME = re.compile(r"\b[A-Za-z]\w*\b")
_SHOWN = 5
_SYNTAX = "invalid-syntax"
_GUESSES = ("no-matching-overload", "redundant-", "possibly-")
_OF_TYPES = ("invalid-argument-type", "invalid-return-type", "invalid-assignment", "unsupported-operator")


def type_error(source: str, told: str, functions: Mapping[str, Function]) -> ScriptInvalidError:
    """Make the error of a script whose types do not fit. told: by the checker, `file:line:column: error[rule] …`."""
    problems = [(int(line), rule, message) for line, _, rule, message in _PROBLEM.findall(told)]
    syntax = [problem for problem in problems if problem[1] == _SYNTAX]
    problems = syntax or problems  # what else is wrong with no Python is a guess
    if not problems:
        return ScriptInvalidError(f"The script's types do not fit: {' '.join(told.split())[:500]}")
    line, _, message = problems[0]
    more = [f"Line {at}: {text}" for at, _, text in problems[1:_SHOWN]]
    if len(problems) > _SHOWN:
        more.append(f"and {len(problems) - _SHOWN} more")
    return ScriptInvalidError(
        "\n".join([message, *more]) if more else message,
        problems=problems,
        line=line,
        source=line_of(source, line),
        signature=signatures(source, [at for at, _, _ in problems[:_SHOWN]], functions),
    )


def wrong_for_sure(source: str, told: str) -> bool:
    """Tell whether any of the checker's lines is more than a doubt, which the run and the tools' schemas will settle.

    What a dict of several kinds of values holds under a key, the checker knows only as one of those kinds.
    """
    problems = _PROBLEM.findall(told)
    return not problems or any(_sure(rule, message, source, int(line)) for line, _, rule, message in problems)


def _sure(rule: str, message: str, source: str, line: int) -> bool:
    if rule.startswith(_GUESSES):
        return False
    found = message.partition("found ")[2] or message
    return not (rule in _OF_TYPES and (" | " in found or "Unknown" in found or "**" in (line_of(source, line) or "")))


def line_of(source: str, line: int) -> str | None:
    """Return the text of a line, counted from 1, as far as it is worth showing."""
    lines = source.split("\n", line)
    return lines[line - 1].strip()[:200] if 0 < line <= len(lines) else None


def signatures(source: str, lines: Iterable[int], functions: Mapping[str, Function]) -> str | None:
    """Return the declarations of the tools that are named in the lines, or None."""
    named = {name: None for line in lines for name in _NAME.findall(line_of(source, line) or "") if name in functions}
    return "\n\n".join(functions[name].declaration.strip() for name in named) or None
