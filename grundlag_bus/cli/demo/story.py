"""What the demo plays: import a calendar, list its events, create one, and delete it after a person approved.

Then a script and an agent do as much with the same tools.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from grundlag_bus.cli.demo.events import count, events_table
from grundlag_bus.cli.demo.path import OverheardCaller, path_line
from grundlag_bus.cli.exits import Exit, printable, say
from grundlag_bus.cli.output import console
from grundlag_bus.cli.summary import in_json
from grundlag_bus.cli.terminal import Terminal, question_panel
from grundlag_bus.errors import ActionFailed, AnswerInvalidError, ConfigurationError, ToolInterrupt
from grundlag_bus.tools import ItemStore, ToolContext, to_tools

if TYPE_CHECKING:
    from grundlag_bus.cli.demo.path import Crossing
    from grundlag_bus.cli.demo.stage import Stage
    from grundlag_bus.schema.manifest import Manifest
    from grundlag_bus.tools import Tool

_LUNCH = {
    "title": "Lunch with Ada",
    "startsAt": "2026-09-18T12:30:00+02:00",
    "durationMinutes": 60,
    "timeZone": "Europe/Berlin",
    "location": "Café Einstein",
}
_OWN_ANSWER = {"approved": True, "comment": "answered by the demo itself"}
_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Calendar:
    """A calendar file: what to call it, and its text."""

    name: str
    text: str


async def play(stage: Stage, calendar: Calendar) -> int:
    """Play it and return the exit code. Raises CallError, TransportError."""
    return await _Play(stage, await stage.bus.manifest()).run(calendar)


def refuse(name: str, error: ActionFailed) -> int:
    """Tell why a calendar is refused and return the exit code."""
    say(f"{name} is refused ({error.code}): {error.message}")
    return Exit.FAILED


class _Play:
    def __init__(self, stage: Stage, manifest: Manifest) -> None:
        self._stage = stage
        self._manifest = manifest
        self._out = console()
        self._context = ToolContext(user_id="ada", items=ItemStore(), timeout=_TIMEOUT)
        self._strangers: set[str] = set()
        self._step = 0

    async def run(self, calendar: Calendar) -> int:
        self._print(Text.assemble(("grundlag-bus demo", "bold"), f" on {self._stage.about}."))
        self._print(Text("A calendar's actions, called as tools. The way of each call stands below it:", "dim"))
        self._print(Text("   tool → queue → worker → reply  time", "dim"))
        tools = to_tools(self._manifest, OverheardCaller(self._stage.bus.caller, self._overheard))
        self._begin(f"Import {calendar.name}")
        try:
            done = await tools["calendarImportIcs"].execute({"ics": calendar.text}, self._context)
        except ActionFailed as error:
            return refuse(calendar.name, error)
        self._say(f"{count(done['imported'], 'event')} imported: {done['created']} new, {done['updated']} changed.")
        self._begin("List what was imported")
        self._show_events(await tools["calendarSearchEvents"].execute({"latestImport": True}, self._context))
        self._begin(f"Create {_LUNCH['title']!r}")
        created = await tools["calendarCreateEvent"].execute(_LUNCH, self._context)
        self._begin("Delete it again: this action asks a person first")
        deleted = await self._delete(tools["calendarDeleteEvent"], {"eventId": created["eventId"]})
        if deleted is None:
            say("nobody answered: the event is still there.")
            return Exit.UNANSWERED
        self._say("It is deleted." if deleted["deleted"] else "It was not approved, and stays.")
        try:
            await self._consumers(tools, calendar)
        except EOFError:
            say("nobody answered: the script or the agent waits.")
            return Exit.UNANSWERED
        self._end()
        return Exit.COMPLETED

    async def _consumers(self, tools: dict[str, Tool], calendar: Calendar) -> None:
        """Let a script and an agent do the same with these tools. Raises EOFError."""
        self._begin("A script imports the calendar, adds a review, and asks before it deletes what clashes")
        try:
            from grundlag_bus.cli.demo.consumers import by_agent, by_script  # noqa: PLC0415  with an extra alone

            done = await by_script(tools, calendar.text, self._ask)
        except ConfigurationError as error:  # the sandbox is not installed
            self._say(str(error))
            return
        self._say(f"The script returns {in_json(done)}.")
        self._begin("An agent does the same, its model calling one tool after the other")
        self._say(f'The agent says: "{await by_agent(tools, calendar.text, self._ask)}"')

    async def _delete(self, tool: Tool, target: dict[str, Any]) -> Any:
        """Call, let the question be answered, and call again with the answer; None when nobody answers."""
        try:
            return await tool.execute(target, self._context)
        except ToolInterrupt as asked:
            interrupt = asked
        self._print(question_panel(interrupt.message, interrupt.data))
        terminal = Terminal()
        while True:
            try:
                answer = await self._answer(terminal, interrupt.answer_schema)
                return await tool.resume(interrupt, answer, self._context, by="ada")
            except AnswerInvalidError as error:
                terminal.refuse(error.issues)
            except EOFError:
                return None

    async def _ask(self, message: str, data: Any, schema: Any) -> Any:
        self._print(question_panel(message, data))
        return await self._answer(Terminal(), schema)

    async def _answer(self, terminal: Terminal, schema: Any) -> Any:
        if terminal.is_there():
            return await terminal.ask(schema)
        self._say(f"There is no terminal here, so the demo answers its own question: {in_json(_OWN_ANSWER)}")
        return _OWN_ANSWER

    def _show_events(self, found: dict[str, Any]) -> None:
        self._print(events_table(found["events"], more=found["more"]))

    def _overheard(self, crossing: Crossing) -> None:
        call, who = crossing.call, crossing.reply.worker
        if who not in self._stage.workers:
            self._strangers.add(who)
        action = self._manifest.find(call.provider_id, call.action_id)
        tool = call.action_id if action is None else action.function_name
        queue = self._stage.topology.call_queue(call.provider_id, call.lane).name
        worker = self._stage.workers.get(who, f"another worker ({who})")
        self._print(path_line(crossing, tool=tool, queue=queue, worker=worker))

    def _begin(self, title: str) -> None:
        self._step += 1
        self._print(Text.assemble("\n", (f"{self._step}. {printable(title)}", "bold")))

    def _say(self, text: str) -> None:
        self._print(Text("   " + printable(text)))

    def _end(self) -> None:
        if self._strangers:
            namespace = self._stage.topology.namespace
            say(f"another demo serves namespace {namespace!r} too: give each its own with --namespace NAME.")
        self._print(Text("\nNext: ", "bold").append("grundlag-bus tools --registry grundlag_bus.demo:registry", "cyan"))

    def _print(self, renderable: Any) -> None:
        self._out.print(renderable)
