"""What authors write out of habit, put so that the engine takes it. Lines keep their numbers.

- a script that ends in `main()`, of its own `async def main`, awaits it;
- a script that ends in `if __name__ == "__main__":` ends in what stands under it;
- `from __future__ import annotations` is how annotations are anyway;
- names of `collections.abc` are for annotations, which are never evaluated: only the type check knows them.

Done by its text alone: a stranger's script is parsed in the engine's process and nowhere else.
"""

from __future__ import annotations

import re

_GUARD = re.compile(
    r"""^if __name__ == (?:"__main__"|'__main__'):[ \t]*\n((?:[ \t]+[^\n]*\n?|[ \t]*\n)+)\Z""", re.MULTILINE
)
_CALL = re.compile(r"^([A-Za-z_]\w*)\([^\n]*\)[ \t]*(?:#[^\n]*)?\s*\Z", re.MULTILINE)
_FUTURE = re.compile(r"^from __future__ import [^\n(;]*$", re.MULTILINE)
_ABSTRACT = re.compile(r"^from collections\.abc import (\w+(?:, *\w+)*),?[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
_QUOTES = ('"""', "'''")


def rewritten(source: str) -> tuple[str, str]:
    """Return the script as it is executed, and the declarations that its type check needs beside it."""
    names: set[str] = set()

    def without(found: re.Match[str]) -> str:
        if any(found.string.count(quotes, 0, found.start()) % 2 for quotes in _QUOTES):
            return found[0]  # in the middle of a text
        names.update(re.split(r"[ ,]+", found[1]) if found.re is _ABSTRACT else ())
        return ""

    source = _ABSTRACT.sub(without, _FUTURE.sub(without, source))
    declared = "".join(f"from collections.abc import {name} as {name}\n" for name in sorted(names))
    return _awaited(_unguarded(source)), declared


def _unguarded(source: str) -> str:
    found = _GUARD.search(source)
    if found is None or any(quotes in found[1] for quotes in _QUOTES):
        return source
    body = found[1].split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    return source[: found.start()] + "\n" + "\n".join(line[margin:] for line in body)


def _awaited(source: str) -> str:
    found = _CALL.search(source)
    if found is None or not re.search(rf"^async def {found[1]}\(", source, re.MULTILINE):
        return source
    return f"{source[: found.start()]}await {source[found.start() :]}"
