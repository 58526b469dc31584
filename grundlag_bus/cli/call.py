"""`call`: one call of an action, and the questions that it asks."""

from __future__ import annotations

import asyncio
import difflib
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from grundlag_bus.cli.exits import Exit, say
from grundlag_bus.cli.output import print_json
from grundlag_bus.cli.running import run
from grundlag_bus.cli.source import in_time
from grundlag_bus.cli.summary import in_json
from grundlag_bus.cli.terminal import Terminal
from grundlag_bus.errors import ConfigurationError, EnvelopeError, Issue, NotJsonError
from grundlag_bus.schema.codec import parse
from grundlag_bus.schema.envelope import Completed, Failed, Interrupted, response_from_json
from grundlag_bus.schema.fields import instant_to_datetime
from grundlag_bus.tools import ItemStore, ToolContext, ToolResumption

if TYPE_CHECKING:
    from pathlib import Path

    from grundlag_bus.adapters import Bus
    from grundlag_bus.cli.source import Source
    from grundlag_bus.schema.envelope import Response
    from grundlag_bus.schema.progress import Progress

_SHOWN_ITEMS = 20


@dataclass(frozen=True, slots=True)
class Before:
    """A question that was asked by an earlier call. resumption: with the answer to it, where there is one."""

    asked: Interrupted
    resumption: ToolResumption | None


def call(  # noqa: PLR0913  the command's options
    source: Source,
    function: str,
    text: str,
    *,
    state: Path | None,
    answer: str | None,
    user: str | None,
    timeout: float | None,
    as_json: bool,
    level: str,
) -> int:
    """Call a function with JSON (`-`: from stdin) and print how it ended. Raises ConfigurationError, TransportError.

    state: a file with what an earlier call printed that was interrupted; answer: to it, as JSON.
    """
    value = read_input(text)
    before = _before(state, answer, by=user)

    async def work() -> int:
        until = None if timeout is None or source.registry is not None else time.monotonic() + timeout
        async with source.open(within=timeout) as bus:
            async with in_time(_left(until), timeout):
                await check_name(bus, function, source)
            listener = ProgressLines(function) if Terminal.is_there() else None
            context = ToolContext(user_id=user, timeout=timeout, items=ItemStore(), on_progress=listener)
            response = await _converse(bus, function, value, context, first=_left(until) or timeout, before=before)
        print_response(function, response, as_json=as_json)
        return _exit_of(response)

    return run(work(), level=level)


def _left(until: float | None) -> float | None:
    return None if until is None else max(until - time.monotonic(), 0.001)


class ProgressLines:
    """Prints progress for a person to read: the newest, twice a second at most."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._next = 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.deferred_until is not None:
            until = instant_to_datetime(progress.deferred_until).astimezone()
            say(f"{self._function} goes on at {until:%Y-%m-%d %H:%M:%S}.")
        elif progress.done is not None and now >= self._next:
            self._next = now + 0.5
            total = "" if progress.total is None else f" of {progress.total:g}"
            say(f"{self._function}: {progress.done:g}{total}{f', {progress.text}' if progress.text else ''}")


def read_input(text: str) -> Any:
    """Read a command's input. Raises ConfigurationError."""
    if text == "-" and sys.stdin is None:
        raise ConfigurationError("The input is to come from stdin (-), which is closed: give it as an argument.")
    try:
        return parse(sys.stdin.buffer.read() if text == "-" else text)
    except NotJsonError as error:
        told = str(error) if error.issue.path else error.issue.message
        raise ConfigurationError(
            f"""The input cannot be used ({told}): give JSON, as in '{{"a": 1}}' (in single quotes for the shell)."""
        ) from error


async def check_name(bus: Bus, function: str, source: Source) -> None:
    """Raise ConfigurationError for a function that nobody announced, naming its neighbours."""
    manifest = await bus.manifest()
    if manifest.find_function(function) is not None:
        return
    names = {action.function_name: p.id for p in manifest.providers for action in p.actions}
    if not names:
        raise ConfigurationError(f"There are no tools in {source}: {source.remedy}.")
    by_key = {_key(name): name for name in names}
    near = [by_key[key] for key in difflib.get_close_matches(_key(function), by_key)]
    hint = f"did you mean {' or '.join(near)}?" if near else "list what there is with `grundlag-bus tools`."
    raise ConfigurationError(f"There is no function {function!r} in {source}: {hint}")


def _key(name: str) -> str:
    """Make names comparable however they are written: demo.add, demo_add and demoAdd."""
    return "".join(filter(str.isalnum, name)).lower()


def _before(state: Path | None, answer: str | None, *, by: str | None) -> Before | None:
    """Read what an earlier call asked, and the answer. Raises ConfigurationError, OSError."""
    if state is None:
        if answer is not None:
            raise ConfigurationError("An answer goes to a call that asked: add --state with what --json printed of it.")
        return None
    try:
        asked = response_from_json(parse(state.read_bytes()))
    except (NotJsonError, EnvelopeError, KeyError, TypeError):
        asked = None
    if not isinstance(asked, Interrupted):
        raise ConfigurationError(f"No question is in {state}: give what `call --json` printed as it exited with 3.")
    if answer is None:
        return Before(asked, None)
    return Before(asked, ToolResumption(asked.interrupt_id, read_input(answer), asked.state, by=by))


async def _converse(  # noqa: PLR0913  what a call is made of
    bus: Bus, function: str, value: Any, context: ToolContext, *, first: float | None, before: Before | None
) -> Response:
    """Call, and answer on the terminal what the action asks, until it ends or nobody answers.

    first: seconds of the first call, which are fewer than the context's by what was done before; before: goes on.
    """
    if before is not None and before.resumption is None:
        response: Response = before.asked
    else:
        resumption = None if before is None else before.resumption
        response = await _called(bus, function, value, replace(context, timeout=first, resumption=resumption))
    while isinstance(response, Interrupted) and Terminal.is_there():
        answered = await _answer(bus, function, value, context, response)
        if answered is None:
            break
        response = answered
    return response


async def _called(bus: Bus, function: str, value: Any, context: ToolContext) -> Response:
    """Call, and say what becomes of the action where Ctrl-C ends that."""
    try:
        return (await bus.call(function, value, context)).response
    except asyncio.CancelledError:
        how = "is stopped" if bus.transport is None else "is stopped by its worker, unless it has just ended"
        say(f"{function} is cancelled: the action {how}; what it did so far stays done.")
        raise


async def _answer(bus: Bus, function: str, value: Any, context: ToolContext, asked: Interrupted) -> Response | None:
    """Ask until the action takes the answer; None when the person ends the input."""
    terminal = Terminal()
    terminal.show_question(asked.message, asked.data)
    while True:
        try:
            answer = await terminal.ask(asked.answer_schema)
        except EOFError:
            return None
        resumption = ToolResumption(asked.interrupt_id, answer, asked.state, by=context.user_id)
        response = await _called(bus, function, value, replace(context, resumption=resumption))
        if not (isinstance(response, Failed) and response.code == "answer_invalid"):
            return response
        terminal.refuse(_issues_of(response))


def _issues_of(failed: Failed) -> list[Issue]:
    details = failed.details if isinstance(failed.details, dict) else {}
    return [Issue.from_json(issue) for issue in details.get("issues", ())]


def _exit_of(response: Response) -> Exit:
    match response:
        case Completed():
            return Exit.COMPLETED
        case Interrupted():
            return Exit.UNANSWERED
        case Failed():
            return Exit.FAILED


def print_response(function: str, response: Response, *, as_json: bool) -> None:
    """Tell how a call ended: the response object on stdout, or the result there and all else on stderr."""
    if as_json:
        print_json(response.to_json(), one_line=True)
        return
    for item in response.items[:_SHOWN_ITEMS]:
        say(f"item {item['type']} {in_json(item['data'])}")
    if len(response.items) > _SHOWN_ITEMS:
        say(f"and {len(response.items) - _SHOWN_ITEMS} more items: --json has them all.")
    match response:
        case Completed(result):
            print_json(result, one_line=False)
        case Interrupted(message=message):
            say(
                f'{function} asks "{message}" and nobody answered: call it on a terminal, or with --json, whose line '
                "--state takes."
            )
        case Failed(code, message, _, retryable):
            say(f"{function} failed ({code}): {message}{' It may succeed later.' if retryable else ''}")
