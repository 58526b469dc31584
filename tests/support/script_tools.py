"""Tools of scripts that need no provider: what a test makes of an async function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from grundlag_bus import Tool, ToolContext, define_tool


def tools_of(**functions: Callable[[Any, ToolContext], Awaitable[Any]]) -> dict[str, Tool]:
    """Make a tool of each function, under its keyword; each takes one input of any kind."""
    return {
        name: define_tool(id=name, name=name, input={}, output={}, execute=execute)
        for name, execute in functions.items()
    }
