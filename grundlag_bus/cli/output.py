"""What goes to stdout, and the consoles for people."""

from __future__ import annotations

import sys
from typing import Any

import orjson
from rich.console import Console

PLAIN_WIDTH = 160
"""Columns where there is no terminal, so that a line stays one line."""


def print_json(value: Any, *, one_line: bool) -> None:
    """Print plain JSON data on stdout: on one line, or indented."""
    option = orjson.OPT_APPEND_NEWLINE | (0 if one_line else orjson.OPT_INDENT_2)
    sys.stdout.buffer.write(orjson.dumps(value, option=option))
    sys.stdout.flush()


def console(*, stderr: bool = False) -> Console:
    """Make a console on stdout or stderr that treats texts as texts: no markup, no emoji, no guessed colours."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)
