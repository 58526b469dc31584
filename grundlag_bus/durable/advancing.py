"""Brings a run from its journal as far as it can go: to its end, to a question, or to where it waits for replies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.durable.active import PATIENCE
from grundlag_bus.durable.agents import advance_agent
from grundlag_bus.durable.outcome import CANCELLED, Outcome, failed
from grundlag_bus.durable.reuse import Reuse
from grundlag_bus.errors import (
    ScriptError,
    ScriptFailedError,
    ScriptInvalidError,
    ScriptLimitError,
    ScriptReplayError,
    ToolInterrupt,
    TranscriptError,
)
from grundlag_bus.sandbox.script.calling import Calls
from grundlag_bus.sandbox.script.engine import MadeCall
from grundlag_bus.sandbox.script.history import History
from grundlag_bus.sandbox.script.outcomes import CallOutcome
from grundlag_bus.schema.items import Item
from grundlag_bus.tools import ItemStore, ToolContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grundlag_bus.agent import Model
    from grundlag_bus.durable.active import ActiveRun
    from grundlag_bus.durable.call_records import CallRecords
    from grundlag_bus.durable.offers import Offer
    from grundlag_bus.schema.run import Kind
    from grundlag_bus.tools import Tool

_ALL = 1_000_000


class Advancing:
    """Advances runs of every kind. model: of agents."""

    def __init__(self, records: CallRecords, model: Model | None) -> None:
        self._records = records
        self._model = model
        self.kinds: tuple[Kind, ...] = ("call", "script") if model is None else ("call", "script", "agent")

    async def advance(self, active: ActiveRun, offer: Offer) -> Outcome | None:
        """Return how the run ended; None where people must answer first. Raises ParkedError, LeftError."""
        spec = orjson.loads(active.claimed.spec)
        try:
            if active.claimed.kind == "agent":
                return await self._agent(active, offer, spec)
            if active.closing:
                return await self._close(active, offer)
            if active.claimed.kind == "script":
                return await self._script(active, offer, spec)
            return await self._call(active, offer, spec)
        except ScriptReplayError as error:
            return failed("replay_mismatch", error.message, None if error.call is None else {"call": error.call})

    async def _agent(self, active: ActiveRun, offer: Offer, spec: dict[str, Any]) -> Outcome | None:
        assert self._model is not None  # noqa: S101  none is taken without
        try:
            return await advance_agent(active, offer, self._model, spec, await self._items(active))
        except (TranscriptError, LookupError) as error:
            return failed("journal_damaged", f"The run's journal is none of an agent: {error}")

    async def _script(self, active: ActiveRun, offer: Offer, spec: dict[str, Any]) -> Outcome | None:
        try:
            result = await offer.sandbox_of(spec.get("tools")).run(
                spec["source"],
                inputs=spec["inputs"],
                context=await self._context(active, spec),
                journal=active.journal,
                asleep=active.asleep,
            )
        except ToolInterrupt:
            return None
        except ScriptReplayError:
            raise
        except ScriptError as error:
            return _failed_script(error)
        return Outcome("completed", value=result.value, stdout=result.stdout)

    async def _call(self, active: ActiveRun, offer: Offer, spec: dict[str, Any]) -> Outcome | None:
        name, provider_id, action_id = spec["function"], spec["providerId"], spec["actionId"]
        tool = offer.find(provider_id, action_id)
        if tool is None:
            return failed("action_unknown", f"Nobody announces {provider_id}.{action_id} any more.")
        history = History(active.journal)
        calls = Calls({name: tool}, await self._context(active, spec), history, 1)
        calls.want(MadeCall(0, name, spec["input"], 1))
        await _until_idle(calls, active)
        outcome = history.calls[0].outcome
        if outcome is None or outcome.status == "interrupted":
            return None
        if outcome.status == "completed":
            return Outcome("completed", value=outcome.value)
        return failed(str(outcome.code), str(outcome.message))

    async def _close(self, active: ActiveRun, offer: Offer) -> Outcome:
        """End all calls, so that each has an outcome, and begin none."""
        history = History(active.journal)
        spec = orjson.loads(active.claimed.spec)
        tools = _tools_of(history, offer, spec)
        calls = Calls(tools, await self._context(active, spec), history, _ALL)
        for state in list(history.calls.values()):
            if state.open and state.function in tools:
                calls.want(MadeCall(state.number, state.function, state.input, state.line or 1))
        try:
            while calls.busy:
                await calls.change()
        finally:
            await calls.abort()
        told = CallOutcome("failed", code="cancelled", message="The run was cancelled.")
        for state in list(history.calls.values()):
            if state.open or state.interrupt is not None:
                await history.settle(state.number, told)
        return CANCELLED

    async def _context(self, active: ActiveRun, spec: Mapping[str, Any]) -> ToolContext:
        """Make what the run's calls are given."""
        claimed, items = active.claimed, ItemStore(await self._items(active))
        return ToolContext(
            user_id=claimed.user_id, call_id=claimed.hold.run_id, items=items, timeout=spec.get("timeout")
        )

    async def _items(self, active: ActiveRun) -> list[Item]:
        """Read what the run's calls have brought so far; of another try, take over what the one before has."""
        claimed = active.claimed
        ended = await self._records.of_run(active.hold.run_id) if active.journal.entries() else []
        before = [] if claimed.retry_of is None else await self._records.of_run(claimed.retry_of)
        if claimed.kind == "agent":  # it has what was called in its journal, and may well call the same again
            ended = before + ended
        else:
            active.reuse = Reuse(before, ended)
        items: dict[str, Item] = {}
        for each in ended:
            for told in each.response.items:
                item = Item.from_json(told)
                items.setdefault(item.id, item)
        return list(items.values())


async def _until_idle(calls: Calls, active: ActiveRun) -> None:
    try:
        while calls.busy:
            try:
                async with asyncio.timeout(PATIENCE / 2):
                    await calls.change()
            except TimeoutError:
                await active.asleep()
    finally:
        await calls.abort()


def _tools_of(history: History, offer: Offer, spec: Mapping[str, Any]) -> dict[str, Tool]:
    tools = dict(offer.tools)
    if "providerId" in spec and (tool := offer.find(spec["providerId"], spec["actionId"])) is not None:
        tools[spec["function"]] = tool
    return {state.function: tools[state.function] for state in history.calls.values() if state.function in tools}


def _failed_script(error: ScriptError) -> Outcome:
    """Tell a script's error as data."""
    details: dict[str, Any] = {"line": error.line, "source": error.source, "signature": error.signature}
    code = "script_failed"
    match error:
        case ScriptInvalidError():
            code = "script_invalid"
            details["problems"] = [list(problem) for problem in error.problems]
        case ScriptLimitError():
            code = "script_limit"
            details["limit"] = error.limit
        case ScriptFailedError():
            details["exception"] = error.exception
    told = {name: value for name, value in details.items() if value is not None}
    return failed(code, error.message, told or None, stdout=error.stdout)
