"""Runs: started by anybody who has the store, driven by every host of it, asked about from anywhere."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from grundlag_bus.agent.run import MAX_TURNS
from grundlag_bus.durable.advancing import Advancing
from grundlag_bus.durable.answering import Answering, Given
from grundlag_bus.durable.bell import Bell, rung
from grundlag_bus.durable.call_records import CallRecords
from grundlag_bus.durable.caller import RunCaller
from grundlag_bus.durable.host import Host
from grundlag_bus.durable.mailbox import StoreMailbox
from grundlag_bus.durable.notices import Notices
from grundlag_bus.durable.offers import Offers
from grundlag_bus.durable.reading import PAGE, Reading
from grundlag_bus.durable.records import CHANNEL, RunRecords
from grundlag_bus.durable.starting import (
    NewRun,
    Starting,
    agent_spec,
    another_try,
    call_spec,
    checked_input,
    name_of,
    script_spec,
)
from grundlag_bus.durable.writes import Writes
from grundlag_bus.errors import (
    ActionUnknownError,
    AnswerInvalidError,
    ConfigurationError,
    NotJsonError,
    RunStateError,
)
from grundlag_bus.schema.codec import plain
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.store.retention import KEPT_FOR

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from grundlag_bus.adapters import Bus
    from grundlag_bus.agent import Model
    from grundlag_bus.sandbox.script import Limits
    from grundlag_bus.schema.run import Kind, OpenInterrupt, Run, RunEntry, Status
    from grundlag_bus.store.store import Store

CONCURRENCY = 64
LEASE = 10.0
_LOOK_AGAIN = 0.5


class Runs:
    """The runs of a store, on a bus that is open. An async context manager; several, in any processes, share them.

    drives: whether runs are driven here; without it they are started, asked about and answered, for hosts elsewhere.
    model: of agents, which hosts without one leave alone; concurrency: runs that are driven here at once, those that
    wait not counted; lease: seconds after which another host goes on with the runs of one that is gone; limits: of
    scripts; without_ledger: call providers that have no
    ledger too, where a call that was being sent when its host ended may run twice, or end as `outcome_unknown`.

    Raises ConfigurationError for a bus without a transport: runs are on RabbitMQ, or on `memory://`, where calls are
    sent again after their process ended.
    """

    def __init__(  # noqa: PLR0913  what a host can be told
        self,
        store: Store,
        bus: Bus,
        *,
        drives: bool = True,
        concurrency: int = CONCURRENCY,
        lease: float = LEASE,
        model: Model | None = None,
        limits: Limits | None = None,
        without_ledger: bool = False,
    ) -> None:
        transport = bus.transport
        if transport is None:
            raise ConfigurationError("Runs need a bus with a transport: connect to amqp://, amqps:// or memory://.")
        if not lease > 0 or concurrency < 1:
            raise ConfigurationError(f"lease={lease} and concurrency={concurrency} drive nothing: give more than 0.")
        self._store = store
        self._without_ledger = without_ledger
        self._writes = Writes()
        self._news = Bell()
        calls = CallRecords(store)
        self._calls = calls
        self._starting = Starting(store)
        self._reading = Reading(store)
        self._answering = Answering(store)
        self._caller = RunCaller(transport, calls, self._writes, mailbox=store.id, without_ledger=without_ledger)
        self._offers = Offers(bus, self._caller, clock=transport.now, limits=limits)
        self._host = Host(
            records=RunRecords(store, lease),
            calls=calls,
            writes=self._writes,
            caller=self._caller,
            offers=self._offers,
            advancing=Advancing(calls, model),
            answering=self._answering,
            notices=Notices(store, transport),
            concurrency=concurrency,
            lease=lease,
            news=self._news,
        )
        self._mailbox = StoreMailbox(
            transport, store.id, calls, self._writes, heard=self._host.heard, lost=self._replies_lost
        )
        self._drives = drives
        self._beside: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        if self._drives:
            await self._mailbox.open()
            self._caller.begin()
            self._host.open()
        self._do_beside(self._store.listen(CHANNEL, self._ring))
        return self

    async def __aexit__(self, *_: object) -> None:
        beside = tuple(self._beside)
        for each in beside:
            each.cancel()
        if beside:
            await asyncio.wait(beside)
        if self._drives:
            await self._host.close()
            await self._mailbox.close()
        await self._caller.close()
        await self._writes.settle()

    @property
    def driven(self) -> int:
        """How many runs are driven here at this moment; those that wait are not."""
        return self._host.driven

    # --- starting -----------------------------------------------------------------------------------------------------

    async def start_call(  # noqa: PLR0913  what a run is made of
        self,
        function: str,
        input: Any,  # noqa: A002  the wire's word
        *,
        user_id: str | None = None,
        answerer: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  of the call, not of this
        run_id: str | None = None,
    ) -> Run:
        """Start a run of a single call, and return as soon as it is written down.

        user_id: on whose behalf; answerer: who may answer what it asks (the user; anybody, where there is none);
        timeout: seconds until the call's deadline, from when it is sent; run_id: the same id is the same run, however
        often it is started. Raises ActionUnknownError, ActionInputValidationError, ConfigurationError, RunStateError.
        """
        provider, action = await self._offers.function(function, without_ledger=self._without_ledger)
        spec = call_spec(provider, action, input, timeout=timeout)
        return await self._start("call", function, spec, user_id, answerer, run_id)

    async def start_script(  # noqa: PLR0913  the same
        self,
        source: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        tools: Iterable[str] | None = None,
        user_id: str | None = None,
        answerer: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  of its calls, not of this
        run_id: str | None = None,
    ) -> Run:
        """Start a script, and return as soon as it is written down. timeout: of each of its calls.

        inputs: bound as names; tools: the functions that it may call, all where that is not given; the rest is as
        `start_call` has it. What is wrong with the script itself is told by the run, which then fails. Raises
        ConfigurationError for inputs that a script cannot have, NotJsonError, RunStateError.
        """
        spec = script_spec(source, inputs or {}, (await self._offers.now()).tools, tools=tools, timeout=timeout)
        return await self._start("script", name_of(source), spec, user_id, answerer, run_id)

    async def start_agent(  # noqa: PLR0913  the same
        self,
        prompt: str,
        *,
        instructions: str | None = None,
        tools: Iterable[str] | None = None,
        max_turns: int = MAX_TURNS,
        user_id: str | None = None,
        answerer: str | None = None,
        run_id: str | None = None,
    ) -> Run:
        """Start an agent, and return as soon as it is written down; hosts with a model drive it.

        tools: the names of the functions that it may call, all where it is not given; the rest is as `AgentRun` and
        `start_call` have it. Its value is the text of its last reply. Raises ConfigurationError, NotJsonError,
        RunStateError.
        """
        taken = (await self._offers.now()).tools
        spec = agent_spec(instructions=instructions, tools=tools, taken=taken, max_turns=max_turns)
        spec["prompt"] = plain(prompt, at=("prompt",))
        new = NewRun(
            run_id=run_id or new_call_id(),
            kind="agent",
            name=name_of(prompt),
            spec=spec,
            user_id=user_id,
            answerer=user_id if answerer is None else answerer,
            began=({"kind": "prompted", "text": spec["prompt"], "at": plain(datetime.now(UTC))},),
        )
        return await self._begin(new)

    async def retry(self, run_id: str, *, source: str | None = None) -> Run:
        """Start a run that failed or was cancelled again, as another one, and return that.

        What its calls gave counts for the same calls of the new one, in order: an action that completed is not called
        again with the same input. source: of a script, what is run instead. Raises RunUnknownError, RunStateError.
        """
        run = await self._reading.get(run_id)
        entries = await self._reading.entries(run_id, limit=None)
        return await self._begin(another_try(run, entries, source))

    async def _start(  # noqa: PLR0913, PLR0917  what a run is made of
        self,
        kind: Kind,
        name: str,
        spec: dict[str, Any],
        user_id: str | None,
        answerer: str | None,
        run_id: str | None,
    ) -> Run:
        new = NewRun(
            run_id=run_id or new_call_id(),
            kind=kind,
            name=name,
            spec=spec,
            user_id=user_id,
            answerer=user_id if answerer is None else answerer,
        )
        return await self._begin(new)

    async def _begin(self, new: NewRun) -> Run:
        await self._writes.do(self._starting.start(new))
        self._ring()
        return await self._reading.get(new.run_id)

    # --- looking ------------------------------------------------------------------------------------------------------

    async def get(self, run_id: str) -> Run:
        """Return a run as it stands. Raises RunUnknownError."""
        return await self._reading.get(run_id)

    async def list(
        self,
        *,
        user_id: str | None = None,
        status: Status | None = None,
        before: float | None = None,
        limit: int = PAGE,
        anybody: bool = True,
    ) -> tuple[Run, ...]:
        """List runs, the newest first: a user's, of a status, created before an instant, at most so many.

        anybody: where no user is given, all users' runs, and not those of nobody alone.
        """
        return await self._reading.list(user_id=user_id, status=status, before=before, limit=limit, anybody=anybody)

    async def wait(self, run_id: str, *, timeout: float | None = None, for_people: bool = False) -> Run:  # noqa: ASYNC109  it raises nothing
        """Wait until a run has ended, or so many seconds, and return it as it stands then.

        for_people: return also when it waits for people. Raises RunUnknownError.
        """
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        while True:
            event = self._news.next
            run = await self._reading.get(run_id)
            left = _LOOK_AGAIN if until is None else until - loop.time()
            if run.ended or (for_people and run.status == "waiting") or left <= 0:
                return run
            await rung(event, within=min(left, _LOOK_AGAIN))

    async def entries(self, run_id: str, *, after: int = 0, limit: int = PAGE) -> tuple[RunEntry, ...]:
        """Return what has happened in a run so far, in order, at most so many entries. Raises RunUnknownError.

        after: the position of the last entry that is known already.
        """
        await self._reading.get(run_id)
        return await self._reading.entries(run_id, after=after, limit=limit)

    async def events(self, run_id: str, *, after: int = 0) -> AsyncIterator[RunEntry]:
        """Iterate over what has happened in a run and what happens, to its end. Raises RunUnknownError.

        after: the position of the last entry that is known already.
        """
        while True:
            event = self._news.next
            ended = (await self._reading.get(run_id)).ended
            entries = await self._reading.entries(run_id, after=after)
            for entry in entries:
                yield entry
                after = entry.position
            if not entries:
                if ended:
                    return
                await rung(event, within=_LOOK_AGAIN)

    # --- answering ----------------------------------------------------------------------------------------------------

    async def pending(
        self, user_id: str | None = None, *, run_id: str | None = None, limit: int = PAGE, anybody: bool = True
    ) -> tuple[OpenInterrupt, ...]:
        """List the questions that wait: those that a user may answer, or all; the oldest first.

        anybody: where no user is given, all of them, and not those alone that nobody in particular is to answer.
        """
        return await self._reading.pending(answerer=user_id, run_id=run_id, limit=limit, anybody=anybody)

    async def interrupt(self, interrupt_id: str) -> OpenInterrupt:
        """Return a question, answered or not. Raises InterruptUnknownError."""
        return await self._reading.interrupt(interrupt_id)

    async def answer(self, interrupt_id: str, answer: Any, *, by: str | None = None) -> Run:
        """Answer a question, whatever else its run waits for; it goes on with that when it can. by: who answers.

        The same answer by the same person may be given again. Raises AnswerInvalidError, and the question stays
        pending; InterruptUnknownError; ForbiddenError where somebody else is to answer; AnswerConflictError, whose
        details tell by whom it was answered before; InterruptExpiredError; RunStateError where the run has ended.
        """
        try:
            data = plain(answer)
        except NotJsonError as error:
            asked = await self._reading.interrupt(interrupt_id)
            raise AnswerInvalidError(asked.function, [error.issue]) from error
        return await self._give(interrupt_id, Given("answered", data, by))

    async def reject(self, interrupt_id: str, *, by: str | None = None, reason: str | None = None) -> Run:
        """Let the call that asks not run: it ends as `rejected`. Raises as `answer` does."""
        return await self._give(interrupt_id, Given("rejected", plain(reason), by))

    async def edit(self, interrupt_id: str, input: Any, *, by: str | None = None) -> Run:  # noqa: A002  the wire's word
        """Let the call that asks be made with another input instead, as a new call.

        Raises as `answer` does, and ActionInputValidationError, and the question stays pending.
        """
        asked = await self._reading.interrupt(interrupt_id)
        found = (await self._offers.now()).manifest.find_function(asked.function)
        if found is None:
            raise ActionUnknownError(f"Nobody announces a function {asked.function!r} any more.")
        data = checked_input(found[1], input)
        return await self._give(interrupt_id, Given("edited", data, by))

    async def _give(self, interrupt_id: str, given: Given) -> Run:
        run_id = await self._writes.do(self._answering.give(interrupt_id, given))
        self._ring()
        return await self._reading.get(run_id)

    # --- ending -------------------------------------------------------------------------------------------------------

    async def cancel(self, run_id: str) -> Run:
        """Ask for a run's end: its calls are cancelled, each gets an outcome. Raises RunUnknownError."""
        await self._writes.do(self._starting.cancel(run_id))
        self._ring()
        return await self._reading.get(run_id)

    async def recover(self) -> int:
        """Take what is due here, the runs of hosts that are gone among it, and return how many those are.

        A host that is open does so by itself, within a second. Raises RunStateError where runs are not driven.
        """
        if not self._drives:
            raise RunStateError("Runs are not driven here: recover where they are, or leave drives=False out.")
        return await self._host.take()

    async def prune(self, *, older_than: float = KEPT_FOR) -> int:
        """Remove runs that ended so many seconds ago, with all that is recorded of them; return how many."""
        return await self._writes.do(self._starting.prune(older_than=older_than))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _ring(self) -> None:
        self._host.work.ring()
        self._news.ring()

    def _replies_lost(self) -> None:
        """Send again what may have been replied to a mailbox that is gone."""
        self._do_beside(self._send_again())

    async def _send_again(self) -> None:
        await self._writes.do(self._calls.mailbox_lost())
        self._host.lost_replies()

    def _do_beside(self, work: Any) -> None:
        doing = asyncio.get_running_loop().create_task(work)
        self._beside.add(doing)
        doing.add_done_callback(self._beside.discard)
