"""The provider that every host of the caller contract serves: one action for each behaviour under test."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from sqlalchemy import text

from grundlag_bus import (
    ActionContext,
    ActionFailed,
    Defer,
    Provider,
    ProviderRegistry,
    Retry,
    SealKeys,
    ServiceRegistry,
    ToolInterrupt,
    define_action,
    to_tool,
)
from tests.support.contract_models import (
    EVERYTHING,
    Add,
    Anything,
    Approval,
    Blob,
    Decided,
    End,
    Even,
    Everything,
    Fragile,
    Length,
    Named,
    Nested,
    Nothing,
    Optionals,
    Owner,
    Recalled,
    Scoped,
    Seconds,
    Spoil,
    Started,
    Sum,
    Target,
    Telling,
    Told,
    Tree,
    Troubles,
    Where,
)
from tests.support.eventually import eventually
from tests.support.hazards import hazard

contract = Provider("contract", name="Contract")

# --- what tests see of the actions, as long as they run in this process -----------------------------------------------


@dataclass
class Seen:
    """runs: how often each action ran; notes: what an action wrote down; gates: what actions wait for, by name."""

    runs: Counter[str] = field(default_factory=Counter)
    notes: list[Any] = field(default_factory=list)
    gates: dict[str, threading.Event] = field(default_factory=dict)

    def gate(self, name: str) -> threading.Event:
        return self.gates.setdefault(name, threading.Event())

    def reset(self) -> None:
        for gate in self.gates.values():
            gate.set()
        self.runs.clear()
        self.notes.clear()
        self.gates.clear()


seen = Seen()

# --- plain calls ------------------------------------------------------------------------------------------------------


@contract.action("add", name="Add", idempotent=True)
async def add(numbers: Add) -> Sum:
    """Adds two numbers."""
    seen.runs["add"] += 1
    return Sum(sum=numbers.a + numbers.b)


@contract.action("echo", name="Echo")
async def echo(thing: Anything) -> Anything:
    seen.runs["echo"] += 1
    return thing


@contract.action("even", name="Even")
async def even(number: Even) -> Nothing:
    seen.runs["even"] += 1
    return Nothing()


@contract.action("fragile", name="Fragile")
async def fragile(number: Fragile) -> Nothing:
    seen.runs["fragile"] += 1
    return Nothing()


@contract.action("wrong", name="Return something else than announced")
async def wrong(_: Nothing) -> Sum:
    seen.runs["wrong"] += 1
    return Sum.model_construct(sum="many")  # type: ignore[arg-type]  # that is the defect


@contract.action("produce", name="Produce a text")
async def produce(wanted: Length) -> str:
    return "x" * wanted.length


# --- interrupts -------------------------------------------------------------------------------------------------------


@contract.action("ask", name="Ask", answer=Approval)
async def ask(target: Target, ctx: ActionContext[Approval]) -> Decided:
    return await _ask("ask", target, ctx)


@contract.action("askToo", name="Ask as well", answer=Approval)
async def ask_too(target: Target, ctx: ActionContext[Approval]) -> Decided:
    return await _ask("askToo", target, ctx)


@contract.action("askBeside", name="Ask, beside others", answer=Approval, parallel_safe=True)
async def ask_beside(target: Target, ctx: ActionContext[Approval]) -> Decided:
    seen.notes.append(("asked" if ctx.resumption is None else "answered", target.id))
    return await _ask("askBeside", target, ctx)


@contract.action("askForItems", name="Ask for items", answer=Approval)
async def ask_for_items(target: Target, ctx: ActionContext[Approval]) -> Decided:
    """Emits an item before it asks and another when it goes on."""
    ctx.items.emit("asked" if ctx.resumption is None else "answered", {"id": target.id})
    return await _ask("askForItems", target, ctx)


async def _ask(name: str, target: Target, ctx: ActionContext[Approval]) -> Decided:
    if ctx.resumption is None:
        raise ToolInterrupt(f"Delete {target.id}?", data={"id": target.id}, state={"version": 7})
    seen.runs[name] += 1
    await asyncio.sleep(0.01)
    given = ctx.resumption
    return Decided(approved=given.answer.approved, by=given.by, state=given.state, call_id=ctx.call_id)


@contract.action("keep", name="Keep a value over an interrupt", answer=Approval)
async def keep(thing: Anything, ctx: ActionContext[Approval]) -> Anything:
    if ctx.resumption is None:
        raise ToolInterrupt("?", data=thing.value, state=thing.value)
    return Anything(value=[ctx.resumption.state, ctx.resumption.answer.note])


@contract.action("interruptUndeclared", name="Interrupt without an answer model")
async def interrupt_undeclared(_: Nothing) -> Nothing:
    raise ToolInterrupt("?")


@contract.action("nest", name="Let the interrupt of an inner call pass", answer=Approval)
async def nest(target: Target, ctx: ActionContext) -> Nothing:
    await to_tool(ask).execute(target)
    return Nothing()


@contract.action("spoil", name="Put what is no JSON somewhere", answer=Approval)
async def spoil(wanted: Spoil, ctx: ActionContext[Approval]) -> Any:
    value = hazard(wanted.what)
    match wanted.where:
        case "item":
            ctx.items.emit("note", {"deep": value})
        case "data":
            raise ToolInterrupt("?", data={"deep": value})
        case "state":
            raise ToolInterrupt("?", state={"deep": value})
        case "details":
            raise ActionFailed("spoilt", "It did not work.", details={"deep": value})
        case "message":
            raise ToolInterrupt(value)
        case "result":
            return {"deep": value}
    return None


# --- items ------------------------------------------------------------------------------------------------------------


@contract.action("remember", name="Emit two items and end", answer=Approval)
async def remember(end: End, ctx: ActionContext[Approval]) -> Nothing:
    ctx.items.emit("note", {"number": 1})
    ctx.items.emit("place", {"number": 2})
    match end.how:
        case "interrupted":
            raise ToolInterrupt("?")
        case "failed":
            raise ActionFailed("sold_out", "There is none left.")
        case "raised":
            raise LookupError
        case "completed":
            return Nothing()


def _recall(ctx: ActionContext) -> Recalled:
    items = ctx.items.list()
    return Recalled(types=[item.type for item in items], data=[item.data for item in items])


@contract.action("recall", name="Tell every item")
async def recall(_: Nothing, ctx: ActionContext) -> Recalled:
    return _recall(ctx)


@contract.action("recallNotes", name="Tell the notes", reads=["note"])
async def recall_notes(_: Nothing, ctx: ActionContext) -> Recalled:
    return _recall(ctx)


# --- events -----------------------------------------------------------------------------------------------------------

told = contract.event("told", Told, name="Something was told")
contract.event("shouted", Told, name="Something was shouted")
foreign = Provider("other", name="Other").event("told", Told, name="Something was told elsewhere")


@contract.action("tell", name="Emit events")
async def tell(telling: Telling, ctx: ActionContext) -> Nothing:
    """Emits as often as it is told, and ends as it is told."""
    for number in range(telling.times):
        await ctx.emit(telling.event, {"number": number})
    if telling.how == "failed":
        raise ActionFailed("told", "It was told to fail.")
    return Nothing()


@contract.action("tellInThread", name="Emit events from a thread")
def tell_in_thread(telling: Telling, ctx: ActionContext) -> Nothing:
    for number in range(telling.times):
        _ = ctx.emit(told, Told(number=number))
    seen.notes.append("told")
    return Nothing()


@contract.action("tellAnything", name="Emit what it is given, or what is no event")
async def tell_anything(telling: Telling, ctx: ActionContext) -> Nothing:
    if telling.how == "foreign":
        await ctx.emit(foreign, {"number": 1})
    data = telling.data if telling.spoil is None else {"number": 1, "about": hazard(telling.spoil)}
    await ctx.emit(telling.event, data)
    return Nothing()


@contract.action("tellTwice", name="Emit at each start", retry=Retry(on=ConnectionError, backoff=0))
async def tell_twice(_: Nothing, ctx: ActionContext) -> Nothing:
    await ctx.emit("told", {"number": ctx.attempt})
    if ctx.attempt == 1:
        raise ConnectionError
    return Nothing()


@contract.action("tellAndHold", name="Emit, and wait until a gate opens")
async def tell_and_hold(gate: Named, ctx: ActionContext) -> Nothing:
    seen.runs["tellAndHold"] += 1
    await ctx.emit("told", {"number": seen.runs["tellAndHold"]})
    await eventually(seen.gate(gate.name).is_set, within=60)
    return Nothing()


# --- traces -----------------------------------------------------------------------------------------------------------


@contract.action("trace", name="Tell the trace")
async def trace(_: Nothing, ctx: ActionContext) -> Any:
    return None if ctx.trace is None else ctx.trace.to_json()


@contract.action("traceWithin", name="Tell the trace of a call within", retry=Retry(on=ConnectionError, backoff=0))
async def trace_within(_: Nothing, ctx: ActionContext) -> Any:
    """Calls at its second attempt, which was sent on its way anew."""
    if ctx.attempt == 1:
        raise ConnectionError
    return await to_tool(trace).execute({})


@contract.action("traceInThread", name="Tell the trace in a thread")
def trace_in_thread(_: Nothing, ctx: ActionContext) -> Any:
    return asyncio.run(to_tool(trace).execute({}))


# --- time -------------------------------------------------------------------------------------------------------------


@contract.action("sleep", name="Sleep")
async def sleep(wanted: Seconds) -> Nothing:
    seen.runs["sleep"] += 1
    try:
        await asyncio.sleep(wanted.seconds)
    except asyncio.CancelledError:
        seen.notes.append("cancelled")
        raise
    seen.notes.append("slept")
    return Nothing()


@contract.action("stamp", name="Note when it starts")
async def stamp(which: Named) -> Nothing:
    seen.notes.append((which.name, time.time()))
    return Nothing()


@contract.action("stubborn", name="Swallow the cancellation")
async def stubborn(wanted: Seconds) -> Nothing:
    seen.runs["stubborn"] += 1
    try:
        await asyncio.sleep(wanted.seconds)
    except asyncio.CancelledError:
        seen.notes.append("swallowed")
    return Nothing()


@contract.action("sleepInThread", name="Sleep in a thread")
def sleep_in_thread(wanted: Seconds, ctx: ActionContext) -> Nothing:
    seen.runs["sleepInThread"] += 1
    end = time.monotonic() + wanted.seconds
    while time.monotonic() < end and not ctx.cancelled:
        time.sleep(0.002)
    seen.notes.append("cancelled" if ctx.cancelled else "slept")
    return Nothing()


@contract.action("waitAtGate", name="Wait until a gate opens, in a thread")
def wait_at_gate(gate: Named) -> Nothing:
    seen.runs[f"waitAtGate {gate.name}"] += 1
    assert seen.gate(gate.name).wait(10), "nobody opened the gate"
    return Nothing()


@contract.action("openGate", name="Open a gate")
async def open_gate(gate: Named) -> Nothing:
    seen.gate(gate.name).set()
    return Nothing()


@contract.action("block", name="Block the loop")
async def block(wanted: Seconds) -> Nothing:
    time.sleep(wanted.seconds)  # noqa: ASYNC251  that is the mistake
    return Nothing()


@contract.action("hold", name="Wait until a gate opens")
async def hold(gate: Named, ctx: ActionContext) -> Named:
    """Waits in the loop. Notes each start under the gate's name."""
    seen.runs[f"hold {gate.name}"] += 1
    await eventually(seen.gate(gate.name).is_set, within=60)
    return Named(name=ctx.call_id)


async def _held(gate: Named) -> Named:
    """Notes each start, and how many run at once, under the gate's name."""
    seen.runs[f"hold {gate.name}"] += 1
    seen.notes.append(("begins", gate.name))
    try:
        await eventually(seen.gate(gate.name).is_set, within=60)
    finally:
        seen.notes.append(("ends", gate.name))
    return gate


@contract.action("holdOnce", name="Wait until a gate opens, and start no second time", rerun=False)
async def hold_once(gate: Named) -> Named:
    return await _held(gate)


@contract.action("holdFrail", name="Wait until a gate opens, and survive no worker", crashes=1)
async def hold_frail(gate: Named) -> Named:
    return await _held(gate)


@contract.action("holdTwice", name="Wait until a gate opens, and survive one worker", crashes=2)
async def hold_twice(gate: Named) -> Named:
    return await _held(gate)


@contract.action("effect", name="Write into the ledger's database", retry=Retry(on=ConnectionError, backoff=0))
async def effect(which: Named, ctx: ActionContext) -> Named:
    """Writes its name and fence, and then goes wrong as its name says."""
    seen.runs[f"effect {which.name}"] += 1
    seen.notes.append(("fence", ctx.fence))
    async with ctx.ledger_transaction() as connection:
        written = {"name": which.name, "fence": ctx.fence}
        await connection.execute(text("INSERT INTO effects (name, fence) VALUES (:name, :fence)"), written)
        if which.name == "lost" and seen.runs["effect lost"] == 1:
            await connection.invalidate()
            await connection.execute(text("SELECT 1"))
    if which.name == "twice":
        async with ctx.ledger_transaction():
            pass
    if which.name == "fail":
        raise ActionFailed("declined", "It was declined.")
    if which.name == "retry" and ctx.attempt == 1:
        raise ConnectionError
    return which


@contract.action("effectLast", name="Write into the ledger's database when a gate opens")
async def effect_last(which: Named, ctx: ActionContext) -> Named:
    """Reads, waits, and writes at last."""
    async with ctx.ledger_transaction() as connection:
        known = (await connection.execute(text("SELECT name FROM effects"))).all()
        seen.runs[f"effect {which.name}"] += 1
        await eventually(seen.gate(which.name).is_set, within=60)
        written = {"name": f"{which.name} after {len(known)}", "fence": ctx.fence}
        await connection.execute(text("INSERT INTO effects (name, fence) VALUES (:name, :fence)"), written)
    return which


@contract.action("holdBeside", name="Wait until a gate opens, beside others", parallel_safe=True)
async def hold_beside(gate: Named, ctx: ActionContext) -> Named:
    seen.notes.append(("started", gate.name))
    await eventually(seen.gate(gate.name).is_set, within=60)
    seen.notes.append(("ended", gate.name))
    return gate


@contract.action("note", name="Note something")
async def note(what: Named) -> Nothing:
    seen.notes.append(("noted", what.name))
    return Nothing()


@contract.action(
    "flaky", name="Fail a few times", retry=Retry(on=(ConnectionError, ActionFailed), attempts=3, backoff=0)
)
async def flaky(troubles: Troubles, ctx: ActionContext) -> Started:
    """Raises in as many attempts as it is told."""
    seen.notes.append(("flaky", ctx.call_id, ctx.attempt))
    ctx.items.emit("attempt", {"number": ctx.attempt})
    if ctx.attempt <= troubles.times:
        if troubles.kind == "told":
            raise ActionFailed("busy", f"It is busy ({ctx.attempt}).", details={"attempt": ctx.attempt})
        raise ConnectionError if troubles.kind == "connection" else LookupError
    return Started(call_id=ctx.call_id, attempt=ctx.attempt)


@contract.action("later", name="Defer a few times")
async def later(troubles: Troubles, ctx: ActionContext) -> Started:
    """Defers as often as it is told, and counts in what it keeps."""
    count = 0 if ctx.deferred is None else ctx.deferred["count"]
    seen.notes.append(("later", ctx.call_id, count))
    if count < troubles.times:
        with suppress(Exception):  # which cannot swallow it
            raise Defer({"count": count + 1}, after=troubles.after)
    return Started(call_id=ctx.call_id, attempt=ctx.attempt, deferred=ctx.deferred)


@contract.action("goOn", name="Fail once, and go on", retry=Retry(on=ConnectionError, backoff=0))
async def go_on(thing: Anything, ctx: ActionContext) -> Anything:
    """Records where it is, in its first attempt, and tells it in the next one."""
    if ctx.attempt == 1:
        await ctx.checkpoint(thing.value)
        raise ConnectionError
    return Anything(value=ctx.checkpointed)


@contract.action("goOnInThread", name="Fail once in a thread, and go on", retry=Retry(on=ConnectionError, backoff=0))
def go_on_in_thread(thing: Anything, ctx: ActionContext) -> Anything:
    if ctx.attempt == 1:
        _ = ctx.checkpoint(thing.value)
        raise ConnectionError
    return Anything(value=ctx.checkpointed)


@contract.action("deaf", name="Wait until a gate opens, whatever is asked")
async def deaf(gate: Named) -> Nothing:
    seen.runs["deaf"] += 1
    while not seen.gate(gate.name).is_set():
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.002)
    seen.notes.append("deaf ended")
    return Nothing()


@contract.action("deafInThread", name="Wait until a gate opens, in a thread, whatever is asked")
def deaf_in_thread(gate: Named) -> Nothing:
    seen.runs["deafInThread"] += 1
    seen.gate(gate.name).wait(30)
    seen.notes.append("deaf ended")
    return Nothing()


@contract.action("cleanUp", name="Take a moment to stop")
async def clean_up(_: Nothing) -> Nothing:
    seen.runs["cleanUp"] += 1
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.05)
        seen.notes.append("cleaned up")
    return Nothing()


@contract.action("work", name="Tell of progress, with items in between")
async def work(steps: Length, ctx: ActionContext) -> Length:
    for step in range(1, steps.length + 1):
        await ctx.progress(step, steps.length, f"step {step}")
        ctx.items.emit("step", {"number": step})
    return steps


@contract.action("workInThread", name="Tell of progress from a thread")
def work_in_thread(steps: Length, ctx: ActionContext) -> Length:
    for step in range(1, steps.length + 1):
        _ = ctx.progress(step)
        ctx.items.emit("step", {"number": step})
    return steps


@contract.action("workByGate", name="Tell of progress, then wait until a gate opens")
async def work_by_gate(gate: Named, ctx: ActionContext) -> Nothing:
    ctx.items.emit("early", {"name": gate.name})
    await ctx.progress(1, text="waiting")
    await eventually(seen.gate(gate.name).is_set)
    return Nothing()


@contract.action("dawdle", name="Tell of progress a few times, then never again", idle_timeout=0.3)
async def dawdle(steps: Length, ctx: ActionContext) -> Nothing:
    for step in range(steps.length):
        await asyncio.sleep(0.05)
        await ctx.progress(step)
    seen.notes.append("idle")
    await asyncio.sleep(60)
    return Nothing()


def _note_start(name: str) -> None:
    with Path(f"{name}.starts").open("a") as starts:
        starts.write(f"{os.getpid()}\n")


@contract.action("holdByFile", name="Wait until a file says so")
async def hold_by_file(files: Named) -> Length:
    """Waits for `name`.open, and before that writes the number of its process to `name`.starts."""
    _note_start(files.name)
    await eventually(Path(f"{files.name}.open").exists, within=60)
    return Length(length=os.getpid())


@contract.action("die", name="Kill the worker, when a file says so")
async def die(files: Named) -> Nothing:
    """Writes the number of its process to `name`.starts, then waits for `fire`, or `fire`.NUMBER, beside `name`."""
    _note_start(files.name)
    folder = Path(files.name).parent
    await eventually(lambda: (folder / "fire").exists() or (folder / f"fire.{os.getpid()}").exists(), within=60)
    os.kill(os.getpid(), signal.SIGKILL)
    return Nothing()


# --- context variables and services -----------------------------------------------------------------------------------

variable: contextvars.ContextVar[str | None] = contextvars.ContextVar("variable", default=None)
_in_call: contextvars.ContextVar[str | None] = contextvars.ContextVar("in_call", default=None)


def _where() -> Where:
    return Where(thread=threading.current_thread().name, variable=variable.get())


@contract.action("where", name="Tell where it runs")
async def where(_: Nothing) -> Where:
    return _where()


@contract.action("whereInThread", name="Tell where it runs, in a thread")
def where_in_thread(_: Nothing) -> Where:
    return _where()


@contract.action("setInThread", name="Set a context variable in a thread, and read it back after a while")
def set_in_thread(wanted: Named) -> Named:
    before = variable.get()
    variable.set(wanted.name)
    time.sleep(0.01)
    assert before != wanted.name
    return Named(name=variable.get() or "")


class Session:
    """Lives for one call, and tells which call it belongs to by a context variable."""

    numbers = itertools.count(1)

    def __init__(self) -> None:
        self.number = next(self.numbers)


async def open_session() -> AsyncIterator[Session]:
    session = Session()
    token = _in_call.set(f"call {session.number}")
    yield session
    _in_call.reset(token)
    seen.notes.append(f"closed {session.number}")


class Broken:
    """Fails to close."""


async def open_broken() -> AsyncIterator[Broken]:
    yield Broken()
    raise ConnectionError("the database is gone")


@contract.action("scope", name="Ask for the same service twice")
async def scope(_: Nothing, ctx: ActionContext) -> Scoped:
    first, second = await ctx.services.get(Session), await ctx.services.get(Session)
    told = await asyncio.to_thread(_in_call.get)
    return Scoped(same=first is second, number=first.number, seen=told)


@contract.action("failToClose", name="Use a service that fails to close")
async def fail_to_close(_: Nothing, ctx: ActionContext) -> Nothing:
    await ctx.services.get(Broken)
    return Nothing()


@contract.action("missing", name="Ask for a service that nobody registered")
async def missing(_: Nothing, ctx: ActionContext) -> Nothing:
    await ctx.services.get(Seen)
    return Nothing()


@contract.action("whoAmI", name="Tell what the context says of the call")
async def who_am_i(_: Nothing, ctx: ActionContext) -> Anything:
    return Anything(value={"user": ctx.user_id, "call": ctx.call_id, "attempt": ctx.attempt, "until": ctx.deadline})


# --- failing ----------------------------------------------------------------------------------------------------------


async def _raise(kind: str) -> NoReturn:
    match kind:
        case "Exception":
            raise ValueError("the password is hunter2")
        case "ActionFailed":
            raise ActionFailed("sold_out", "There is none left.", details={"left": 0}, retryable=True)
        case "SystemExit":
            raise SystemExit(3)
        case "BaseExceptionGroup":
            async with asyncio.TaskGroup() as group:
                group.create_task(_interrupt())
                group.create_task(asyncio.sleep(10))
        case "CancelledError":
            inner = asyncio.create_task(asyncio.sleep(10))
            inner.cancel()
            await inner
        case "GeneratorExit":
            raise GeneratorExit
        case "own BaseException":
            raise _OwnError
    raise AssertionError(kind)


class _OwnError(BaseException):
    pass


async def _interrupt() -> NoReturn:
    raise ToolInterrupt("?")


@contract.action("raise", name="Raise")
async def raise_(wanted: Named) -> Nothing:
    await _raise(wanted.name)


@contract.action("raiseInThread", name="Raise in a thread")
def raise_in_thread(wanted: Named) -> Nothing:
    match wanted.name:
        case "Exception":
            raise ValueError("the password is hunter2")
        case "SystemExit":
            raise SystemExit(3)
        case "StopIteration":
            raise StopIteration
    raise AssertionError(wanted.name)


# --- data -------------------------------------------------------------------------------------------------------------


@contract.action("everything", name="Return a value of every kind")
async def everything(_: Nothing) -> Everything:
    return EVERYTHING


@contract.action("everythingBack", name="Take a value of every kind and give it back")
async def everything_back(given: Everything) -> Everything:
    assert given == EVERYTHING, given
    return given


@contract.action("tree", name="Give a tree back")
async def tree(given: Tree) -> Tree:
    seen.runs["tree"] += 1
    return given


@contract.action("owner", name="Give an owner back")
async def owner(given: Owner) -> Owner:
    seen.runs["owner"] += 1
    return given


@contract.action("nested", name="Give unions back")
async def nested_unions(given: Nested) -> Nested:
    seen.runs["nested"] += 1
    return given


@contract.action("whichSet", name="Tell which fields were sent")
async def which_set(given: Optionals) -> list[str]:
    return sorted(given.model_fields_set)


@contract.action("blob", name="Turn bytes round")
async def blob(given: Blob) -> Blob:
    return Blob(content=given.content[::-1])


async def _verbatim(given: Any) -> Any:
    return given


# Of a JSON Schema, so that no model adds a default on the way.
contract.actions.register(
    define_action(
        id="verbatim",
        name="Give an object back",
        input={"type": "object"},
        output={"type": "object"},
        execute=_verbatim,
    )
)


def open_services() -> ServiceRegistry:
    services = ServiceRegistry()
    services.register(Session, open_session, scope="call")
    services.register(Broken, open_broken, scope="call")
    return services


def make_registry(keys: SealKeys | None = None) -> ProviderRegistry:
    """Make a registry of the contract provider, with keys that another registry may share."""
    return ProviderRegistry([contract], services=open_services(), keys=keys or SealKeys.generate())
