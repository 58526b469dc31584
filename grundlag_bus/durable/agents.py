"""Agents as runs: the journal has what was said, and how each call ended; the transcript is made of it.

The kinds of entries, beside those that people's answers make:

prompted   once, at first
replied    when the model has replied, before any of its calls starts
called     before a call starts, the first time
settled    when it ended, or asks; with its record
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.agent.events import AnswerRefused, InterruptRaised, ReplyEnded, RunEnded, ToolEnded, ToolStarted
from grundlag_bus.agent.records import ResultRecord
from grundlag_bus.agent.results import failed as failed_result
from grundlag_bus.agent.run import AgentRun
from grundlag_bus.agent.tools import AgentTools
from grundlag_bus.agent.transcript import Transcript
from grundlag_bus.durable.active import PATIENCE
from grundlag_bus.durable.outcome import CANCELLED, Outcome, failed
from grundlag_bus.errors import NotJsonError
from grundlag_bus.schema.codec import digest, parse, plain

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping

    from grundlag_bus.agent import AgentEvent, Model, RunEvents, RunResult, Steps
    from grundlag_bus.agent.records import CallRecord
    from grundlag_bus.durable.active import ActiveRun
    from grundlag_bus.durable.journal import StoredJournal
    from grundlag_bus.durable.offers import Offer
    from grundlag_bus.schema.items import Item


async def advance_agent(
    active: ActiveRun, offer: Offer, model: Model, spec: Mapping[str, Any], items: Iterable[Item]
) -> Outcome | None:
    """Let an agent go on from its journal; None where people must answer first. Raises ParkedError, LeftError."""
    journal = active.journal
    transcript = transcript_of(journal.entries())
    transcript.items.fold(items)
    if transcript.is_answered:
        return Outcome("completed", value=transcript.replies[-1].text)
    run = AgentRun(
        model,
        AgentTools(offer.tools, spec["tools"]),
        max_turns=spec["maxTurns"],
        user_id=active.claimed.user_id,
        instructions=spec["instructions"],
        transcript=transcript,
        call_id=active.hold.run_id,
        strategy=_end_calls if active.closing else None,
    )
    known = {entry["call"] for entry in journal.entries() if entry["kind"] == "called"}
    async with aclosing(run.resume(partly=True)) as events:
        while True:
            event = await _next(events, active)
            if isinstance(event, RunEnded):
                break
            entry = _entry(event, transcript, known)
            if entry is not None:
                await journal.append(entry)
    return await _close(journal) if active.closing else _ended(event.result)


def transcript_of(entries: Iterable[Mapping[str, Any]]) -> Transcript:
    """Make the transcript that a journal tells of; calls without an end in it are open. Raises TranscriptError."""
    records: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for entry in entries:
        match entry["kind"]:
            case "prompted":
                records.append({"kind": "prompt", "text": entry["text"], "at": entry["at"]})
            case "replied":
                record = plain(entry["record"])
                records.append(record)
                calls.extend(record["calls"])
            case "settled" | "answered" | "edited" as kind:
                _TAKE[kind](calls[entry["call"]], entry)
    return Transcript.from_json({"records": records}, open_calls=True)


# --- inside -----------------------------------------------------------------------------------------------------------


async def _next(events: RunEvents, active: ActiveRun) -> AgentEvent:
    """Return the next event. Raises ParkedError where it may be long in coming."""
    coming = asyncio.get_running_loop().create_task(events.__anext__())
    try:
        while not coming.done():
            await asyncio.wait({coming}, timeout=PATIENCE / 2)
            if not coming.done() and active.only_waits:
                await active.asleep()
    finally:
        if not coming.done():
            coming.cancel()
            await asyncio.wait({coming})
    return coming.result()


def _entry(event: AgentEvent, transcript: Transcript, known: set[int]) -> dict[str, Any] | None:
    """Write an event as an entry, where it is one. known: the calls that are written down."""
    if isinstance(event, ReplyEnded):
        return {"kind": "replied", "record": transcript.replies[-1].model_dump(mode="json", by_alias=True)}
    if not isinstance(event, ToolStarted | ToolEnded | InterruptRaised | AnswerRefused):
        return None
    wanted = event.pending.call if isinstance(event, InterruptRaised | AnswerRefused) else event.call
    number, record = next((n, each) for n, each in enumerate(transcript.calls) if each.id == wanted.id)
    if isinstance(event, ToolStarted):
        if number in known:
            return None
        known.add(number)
        called = {"kind": "called", "call": number, "function": record.name, "input": _arguments(record)}
        return {**called, "digest": digest(called["input"]), "at": time.time()}
    settled = {"kind": "settled", "call": number, "outcome": _outcome(record), "at": time.time()}
    return {**settled, "record": record.model_dump(mode="json", by_alias=True)}


def _outcome(record: CallRecord) -> dict[str, Any]:
    result = record.result
    if result is None:
        asked = record.interrupts[-1]
        expires = asked.expires_at
        return {
            "status": "interrupted",
            "interrupt": {
                "interruptId": asked.interrupt_id,
                "message": asked.message,
                "data": asked.data,
                "state": asked.state,
                "input": _arguments(record),
                "answerSchema": asked.answer_schema,
                "expiresAt": None if expires is None else expires.isoformat(),
            },
        }
    if result.ok:
        return {"status": "completed", "value": result.data}
    return {"status": "failed", "code": result.value().code, "message": result.summary}


def _arguments(record: CallRecord) -> Any:
    try:
        return parse(record.arguments) if record.arguments.strip() else {}
    except NotJsonError:
        return record.arguments


def _settled(call: dict[str, Any], entry: Mapping[str, Any]) -> None:
    if "record" in entry:
        call.clear()
        call.update(plain(entry["record"]))
        return
    outcome = entry["outcome"]  # of a call that did not run: a person, or the clock, said so
    result = ResultRecord.of(failed_result(outcome["code"], outcome["message"]))
    call["result"] = result.model_dump(mode="json", by_alias=True)
    if call["interrupts"] and outcome["code"] == "rejected":
        call["interrupts"][-1]["answer"] = {"rejected": True, "value": outcome["message"], "by": entry["by"]}


def _answered(call: dict[str, Any], entry: Mapping[str, Any]) -> None:
    call["interrupts"][-1]["answer"] = {"value": entry["answer"], "by": entry["by"]}
    call["startedAt"] = None


def _edited(call: dict[str, Any], entry: Mapping[str, Any]) -> None:
    """Make it the call that a person wanted instead, which the model is told of as its own."""
    edits = call.get("edits", 0) + 1
    call.update(arguments=orjson.dumps(entry["input"]).decode(), interrupts=[], startedAt=None, edits=edits)


_TAKE = {"settled": _settled, "answered": _answered, "edited": _edited}


def _ended(result: RunResult) -> Outcome | None:
    match result.status:
        case "completed":
            return Outcome("completed", value=result.text)
        case "interrupted":
            return None
        case "max_turns":
            return failed("max_turns", f"The model was asked {result.turns} times, and still called tools.")
        case "failed" if result.error is not None:
            error = result.error
            return failed(error.code, error.message, {"retryable": error.retryable})
    return CANCELLED


async def _end_calls(steps: Steps) -> AsyncGenerator[AgentEvent, None]:
    """Ask the model for nothing more: a strategy."""
    async for event in steps.call_tools():
        yield event


async def _close(journal: StoredJournal) -> Outcome:
    """Give every call that is still open an outcome."""
    for number, record in enumerate(transcript_of(journal.entries()).calls):
        if record.result is None:
            outcome = {"status": "failed", "code": "cancelled", "message": "The run was cancelled."}
            await journal.append({"kind": "settled", "call": number, "outcome": outcome, "at": time.time(), "by": None})
    return CANCELLED
