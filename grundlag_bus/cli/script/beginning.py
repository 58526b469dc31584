"""What `script` is given: a script to run, or one that asked, with answers, to go on with."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grundlag_bus.cli.call import read_input
from grundlag_bus.errors import ConfigurationError, NotJsonError, ScriptReplayError, ToolInterrupt
from grundlag_bus.sandbox.script import interrupt_in
from grundlag_bus.schema.codec import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Fresh:
    """A script that has not begun."""

    text: str
    inputs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A script that asked. answers: by interrupt id; there may be none yet."""

    asked: ToolInterrupt
    answers: Mapping[str, Any]


def beginning(file: str | None, inputs: str | None, *, state: str | None, answers: Iterable[str]) -> Fresh | Waiting:
    """Read what the options name. Raises ConfigurationError, OSError."""
    given = dict(map(_answer, answers))
    if state is not None:
        if file is not None or inputs is not None:
            raise ConfigurationError("The state holds the script and its inputs: leave FILE and --inputs out.")
        return Waiting(_asked(state), given)
    if given:
        raise ConfigurationError("An answer goes to a script that asked: add --state with what --json printed of it.")
    if file is None:
        raise ConfigurationError("There is no script: name a file with one, or one that asked with --state.")
    values = read_input(inputs or "{}")
    if not isinstance(values, dict):
        raise ConfigurationError("""The inputs are no JSON object: give --inputs '{"name": "value"}'.""")
    return Fresh(read_script(file), values)


def read_script(file: str) -> str:
    """Read a script (`-`: from stdin). Raises ConfigurationError, OSError."""
    try:
        return _bytes(file, "script").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"The script {file} is no text in UTF-8: save it as that.") from error


def _asked(file: str) -> ToolInterrupt:
    """Read the interrupt of a script that `--json` printed, or its state alone."""
    try:
        data = parse(_bytes(file, "state"))
        return interrupt_in(data["state"] if isinstance(data, dict) and "state" in data else data)
    except (NotJsonError, ScriptReplayError) as error:
        told = error.issue.message if isinstance(error, NotJsonError) else error.message.rstrip(".")
        raise ConfigurationError(
            f"There is no state of a script in {file} ({told}): give what `script --json` printed as it asked."
        ) from error


def _answer(text: str) -> tuple[str, Any]:
    interrupt_id, _, answer = text.partition("=")
    try:
        return interrupt_id, parse(answer)
    except NotJsonError as error:
        raise ConfigurationError(
            f"""--answer {text[:60]!r} is no ID=JSON: write it as --answer 'ID={{"approved": true}}', with an """
            "interruptId of what is pending."
        ) from error


def _bytes(file: str, what: str) -> bytes:
    if file != "-":
        return Path(file).read_bytes()
    if sys.stdin is None:
        raise ConfigurationError(f"The {what} is to come from stdin (-), which is closed: give a file.")
    return sys.stdin.buffer.read()
