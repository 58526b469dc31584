"""Exit codes, and what is told when a command ends by an error: one sentence, never a password, no traceback."""

from __future__ import annotations

import os
import re
import sys
import traceback
from enum import IntEnum
from pathlib import Path
from urllib.parse import unquote, urlsplit

import typer

from grundlag_bus.errors import ConfigurationError, GrundlagError, NotJsonError, TransportError

_PACKAGE = str(Path(__file__).parents[1])


class Exit(IntEnum):
    COMPLETED = 0
    FAILED = 1
    USAGE = 2
    UNANSWERED = 3
    UNREACHABLE = 4
    STOPPED = 130
    """By Ctrl-C."""


def say(sentence: str) -> None:
    """Tell the user something on stderr."""
    print(f"grundlag-bus: {printable(sentence)}", file=sys.stderr, flush=True)  # noqa: T201  a command line speaks


def printable(text: str) -> str:
    """Show control characters instead of sending them to the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def tell(error: Exception, *, debug: bool, arguments: list[str]) -> int:
    """Tell what went wrong and return the exit code. arguments: their passwords are left out of a traceback."""
    if debug:
        print(_without_passwords(_trace_of(error), arguments), file=sys.stderr)  # noqa: T201  asked for
    if isinstance(error, typer.TyperException):
        say(_usage_sentence(error))
        return Exit.USAGE
    if isinstance(error, ConfigurationError | NotJsonError):
        say(str(error))
        return Exit.USAGE
    if isinstance(error, TransportError):
        say(str(error))
        return Exit.UNREACHABLE
    if isinstance(error, GrundlagError):
        say(str(error))
        return Exit.FAILED
    if isinstance(error, OSError) and error.strerror:
        say(f"The system refuses to read or write {error.filename or 'what was asked for'} ({error.strerror}).")
        return Exit.FAILED
    more = "report it with the traceback above" if debug else "add --debug (or GRUNDLAG_DEBUG=1) for the traceback"
    say(f"This is a defect of grundlag-bus ({type(error).__name__} in {_place_of(error)}): {more}.")
    return Exit.FAILED


def _usage_sentence(error: typer.TyperException) -> str:
    told = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = "grundlag-bus" if context is None else context.command_path
    return f"{told}: see `{path} --help`."


def _trace_of(error: Exception) -> str:
    return "".join(traceback.format_exception(error)).rstrip()


def _place_of(error: Exception) -> str:
    """Name the innermost line of this package that the error passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(_PACKAGE)] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "an unknown place"


def _without_passwords(text: str, arguments: list[str]) -> str:
    for password in _passwords(arguments):
        text = text.replace(password, "***")
    return text


def _passwords(arguments: list[str]) -> set[str]:
    named = (os.environ.get(name, "") for name in ("GRUNDLAG_URL", "GRUNDLAG_LEDGER", "GRUNDLAG_STORE"))
    urls = [re.sub(r"^--[a-z]+=", "", argument) for argument in [*arguments, *named]]
    found: set[str] = set()
    for url in urls:
        try:
            password = urlsplit(url).password
        except ValueError:
            continue
        found.update((password, unquote(password)) if password else ())
    return found
