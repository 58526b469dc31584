"""What has happened in a run, as lines for a person to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grundlag_bus.cli.exits import printable
from grundlag_bus.cli.output import print_json
from grundlag_bus.cli.summary import in_json
from grundlag_bus.schema.fields import instant_to_datetime
from grundlag_bus.schema.refusal import short

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grundlag_bus.durable import OpenInterrupt, Run, RunEntry

_VALUE = 200
"""Characters of a value that are shown."""


class History:
    """Tells entries in the order of a journal."""

    def __init__(self) -> None:
        self._functions: dict[int, str] = {}
        self._began_at: dict[int, float] = {}

    def lines(self, entry: RunEntry) -> Iterator[str]:
        """Tell an entry; what says nothing to a person is left out."""
        told = self._told(entry)
        if told is not None:
            yield f"{when(entry.written_at)}  {printable(told)}"

    def _told(self, entry: RunEntry) -> str | None:
        data, told = entry.entry, None
        match entry.kind:
            case "run.started":
                told = f"started{_by(data.get('userId'))}"
            case "run.ended":
                told = f"{data['status']}{_because(data['error'])}"
            case "replied" if data["record"]["text"]:
                told = f"{data['record']['model']} says: {short(data['record']['text'], _VALUE)}"
            case "called":
                self._functions[data["call"]] = data["function"]
                told = f"{self._start(data, data['at'])} is called with {_value(data['input'])}"
            case "answered":
                name = self._start(data, entry.written_at)
                told = f"{name} is answered{_by(data['by'])}: {_value(data['answer'])}"
            case "edited":
                name = self._start(data, entry.written_at)
                told = f"{name} is edited{_by(data['by'])}, and called with {_value(data['input'])} instead"
            case "settled":
                told = self._settled(data, entry.written_at)
        return told

    def _start(self, data: Mapping[str, Any], at: float) -> str:
        self._began_at[data["call"]] = at
        return self._name(data["call"])

    def _settled(self, data: Mapping[str, Any], at: float) -> str:
        number, outcome = data["call"], data["outcome"]
        name = self._name(number)
        if outcome["status"] == "interrupted":
            asked = outcome["interrupt"]
            about = "" if asked["data"] in (None, {}) else f" {_value(asked['data'])}"
            return f'{name} asks "{short(asked["message"], _VALUE)}" ({asked["interruptId"]}){about}'
        if "interruptId" in data:
            return f"{name} does not run ({outcome['code']}): {short(outcome['message'], _VALUE)}"
        took = f" after {max(at - self._began_at.get(number, at), 0.0):.1f} s"
        if outcome["status"] == "completed":
            return f"{name} completed{took}: {_value(outcome['value'])}"
        return f"{name} failed{took} ({outcome['code']}): {short(outcome['message'], _VALUE)}"

    def _name(self, number: int) -> str:
        return f"{number + 1} {self._functions.get(number, '?')}"


def head(run: Run) -> Iterator[str]:
    """Tell what a run is."""
    yield f"run      {run.run_id}"
    yield f"kind     {run.kind}: {short(run.name, _VALUE)}"
    yield f"status   {run.status}{'' if run.ended_at is None else f', {when(run.ended_at)}'}"
    if run.user_id is not None or run.answerer is not None:
        by = "" if run.answerer in (None, run.user_id) else f", and {run.answerer} answers"
        yield f"user     {run.user_id or 'nobody'}{by}"
    if run.retry_of is not None:
        yield f"retries  {run.retry_of}"
    version = (run.versions or {}).get("grundlagBus")
    if version is not None:
        yield f"version  grundlag-bus {version}"


def print_value(run: Run) -> None:
    """Print what a run gave: an agent's text as it is, all else as JSON."""
    if run.kind == "agent":
        print(printable(run.value))  # noqa: T201  a command line speaks
    else:
        print_json(run.value, one_line=False)


def failure(run: Run) -> str:
    """Say how a run ended that did not complete."""
    error = run.error or {}
    if run.status == "cancelled":
        return f"the run {run.run_id} was cancelled."
    return f"the run {run.run_id} failed{_because(error)}"


def waits(asked: OpenInterrupt) -> str:
    """Say what waits, and how it is answered."""
    whose = "" if asked.answerer is None else f" --by {asked.answerer}"
    until = "" if asked.expires_at is None else f" until {when(asked.expires_at)}"
    message = short(asked.message, _VALUE)
    return f'"{message}" waits for an answer{until}: `grundlag-bus answer {asked.interrupt_id}{whose}`.'


def when(instant: float) -> str:
    """Tell an instant, in UTC to the second."""
    return f"{instant_to_datetime(instant):%Y-%m-%d %H:%M:%S}Z"


def _because(error: Mapping[str, Any] | None) -> str:
    if not error or error["code"] == "cancelled":
        return ""
    details = error.get("details")
    line = details.get("line") if isinstance(details, dict) else None
    return f" ({error['code']}{'' if line is None else f', line {line}'}): {error['message']}"


def _by(who: str | None) -> str:
    return "" if who is None else f" by {who}"


def _value(value: Any) -> str:
    return short(in_json(value), _VALUE)
