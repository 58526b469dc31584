"""The person at the terminal: questions go to stderr, so that stdout stays the result's."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from rich.panel import Panel
from rich.text import Text

from grundlag_bus.cli.exits import printable
from grundlag_bus.cli.output import console
from grundlag_bus.cli.questions import LEFT_OUT, UnreadableError, questions_of
from grundlag_bus.cli.summary import in_json
from grundlag_bus.schema.json_schema import JsonValidator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grundlag_bus.cli.questions import Question
    from grundlag_bus.errors import Issue


class Terminal:
    """Asks a person. Waiting for a line never blocks the loop, so that the connection to the bus lives on."""

    def __init__(self) -> None:
        self._console = console(stderr=True)

    @staticmethod
    def is_there() -> bool:
        """Whether a person can be asked."""
        return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))

    def show_question(self, message: str, data: Any) -> None:
        """Show what an interrupt asks, with its data."""
        self._console.print(question_panel(message, data))

    def tell(self, text: str, *, style: str = "") -> None:
        """Print a line."""
        self._console.print(Text(printable(text), style=style))

    def refuse(self, issues: tuple[Issue, ...] | list[Issue]) -> None:
        """Tell that an answer is not valid, and why."""
        for issue in issues:
            self.tell(f"  not valid: {issue}", style="red")

    async def ask(self, schema: Mapping[str, Any] | None) -> Any:
        """Ask until the answer fits its JSON Schema. Raises EOFError when the person ends the input."""
        wanted = dict(schema or {})
        validator = JsonValidator(wanted)
        questions = questions_of(wanted)
        while True:
            answer = await self._answer(questions)
            issues = validator.issues(answer)
            if not issues:
                return answer
            self.refuse(issues)

    async def confirm(self, question: str, word: str) -> bool:
        """Whether the person answers with just this word."""
        self.tell(question, style="bold")
        try:
            return (await self._line()).strip() == word
        except (EOFError, UnreadableError):
            return False

    async def _answer(self, questions: list[Question]) -> Any:
        if questions[0].name is None:
            return await self._value(questions[0])
        values = [(question.name, await self._value(question)) for question in questions]
        return {name: value for name, value in values if value is not LEFT_OUT}

    async def _value(self, question: Question) -> Any:
        while True:
            self.tell(question.text, style="bold")
            for number, choice in enumerate(question.choices, 1):
                self.tell(f"  {number}  {choice if isinstance(choice, str) else in_json(choice)}")
            try:
                return question.read(await self._line())
            except UnreadableError as error:
                self.tell(f"  not valid: {error}", style="red")

    async def _line(self) -> str:
        self._console.print(Text("> ", style="bold cyan"), end="")
        descriptor = sys.stdin.fileno()
        loop = asyncio.get_running_loop()
        typed = asyncio.Event()
        loop.add_reader(descriptor, typed.set)
        try:
            await typed.wait()
        finally:
            loop.remove_reader(descriptor)
        line = os.read(descriptor, 65_536)  # a terminal hands out one line at a time
        if not line:
            raise EOFError
        try:
            return line.decode(sys.stdin.encoding).rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise UnreadableError(f"this is no text in {sys.stdin.encoding}") from error


def question_panel(message: str, data: Any) -> Panel:
    """Make the frame in which an interrupt asks."""
    lines = Text(printable(message), style="bold")
    for name, value in _told(data):
        lines.append("\n" + printable(name), style="dim")
        lines.append(printable(f" {value}"), style="not bold")
    return Panel(lines, title="a person must answer", title_align="left", border_style="yellow", expand=False)


def _told(data: Any) -> list[tuple[str, str]]:
    """Flatten an object's fields, two levels deep at most, into lines; what is null or empty is left out."""
    if data is None:
        return []
    if not isinstance(data, dict):
        return [("", in_json(data))]
    lines: list[tuple[str, str]] = []
    for name, value in data.items():
        if isinstance(value, dict):
            lines += [(f"{name}.{inner}", _cell(of)) for inner, of in value.items() if _is_told(of)]
        elif _is_told(value):
            lines.append((name, _cell(value)))
    return lines


def _is_told(value: Any) -> bool:
    return value not in (None, "", [], {})


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else in_json(value)
