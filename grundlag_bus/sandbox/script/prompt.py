"""What the author of a script is told: the language, how tools are called, and the tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.sandbox.script.stubs import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grundlag_bus.sandbox.script.stubs import Function

MODULES = (
    "asyncio",
    "base64",
    "bisect",
    "collections",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "functools",
    "hashlib",
    "itertools",
    "json",
    "math",
    "random",
    "re",
    "time",
    "typing",
    "unicodedata",
)
"""What a script can import and use."""

_LANGUAGE = f"""\
Write one Python script. It runs in a sandbox: no files, no network, no other packages.

- The value of the last expression is the script's result. It must be JSON data: dicts with text keys, lists, texts,
  numbers, booleans, None. `return` outside of a function is an error.
- The functions below are the tools. Each is async: `await` it, at the top level or in an `async def` of yours.
  Independent calls run side by side: `await asyncio.gather(first(...), second(...))`, without keyword arguments.
- A tool takes JSON data and gives JSON data: times are texts in ISO 8601 with an offset, such as
  "2026-09-14T09:00:00+02:00" (`datetime.fromisoformat` reads them, `.isoformat()` writes them).
- A tool that fails raises RuntimeError with the text "code: message"; catch it where the script can go on.
- `print` is for notes to whoever reads the run; it is no result.
- The script is type-checked before anything runs, with the declarations below.

The language is a part of Python 3.14. What it lacks: generators (`yield`), class inheritance (so no exceptions, enums
or TypedDicts of your own), `@property`, `@classmethod` and `@staticmethod`, `del`, keyword arguments of
`asyncio.gather`, `asyncio` beyond `gather` and `run`, sleeping, `dataclasses.asdict`, `re.VERBOSE`, a function as the
replacement of `re.sub`, `isocalendar`, fractions in `timedelta(...)`, methods of builtin types as values (`str.strip`),
`Literal[...]` outside of annotations, and every module but these:
{", ".join(MODULES)}."""


def prompt_of(functions: Iterable[Function], *, inputs: Iterable[str] = ()) -> str:
    """Write the text for a model, or a person, that is to write a script with these functions.

    inputs: the names that the script will find bound.
    """
    names = ", ".join(inputs)
    given = f"\n- The script is given {names}: plain JSON data, under these names." if names else ""
    return f"{_LANGUAGE}{given}\n\n```python\n{text_of(functions)}```\n"
