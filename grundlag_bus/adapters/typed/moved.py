"""What is different in a typed client that was written before. Pure.

Texts are compared as Python reads them, so that a formatter changes nothing.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def what_moved(before: str, now: str) -> list[str]:
    """Say what is new, gone and changed, by the names of classes and methods; nothing for texts that mean the same."""
    try:
        old = dict(_parts(ast.parse(before)))
    except (SyntaxError, ValueError) as error:
        return [f"the file is no Python ({error.__class__.__name__})"]
    new = dict(_parts(ast.parse(now)))
    told = [f"new: {name}" for name in new if name not in old]
    told += [f"gone: {name}" for name in old if name not in new]
    return told + [f"changed: {name}" for name in new if name in old and old[name] != new[name]]


def _parts(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Give each class, alias and method by its name, and the rest as one."""
    rest = []
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.AsyncFunctionDef)]
            for method in methods:
                yield f"{node.name}.{method.name}", ast.dump(method)
            node.body = [part for part in node.body if part not in methods]
            yield node.name, ast.dump(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            yield ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target), ast.dump(node)
        elif not isinstance(node, ast.ImportFrom):
            rest.append(ast.dump(node))
    yield "the module's text", "\n".join(rest)
