"""The durable runs of an HTTP host, by the names that `Runs` has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from grundlag_bus.adapters.http.exchange import QUIET, RETURN_WITHIN
from grundlag_bus.adapters.http.run_requests import PAUSE, RunRequests, read_answer
from grundlag_bus.adapters.http.sse import read_events
from grundlag_bus.errors import (
    ActionInputValidationError,
    AnswerInvalidError,
    BusUnreachableError,
    EnvelopeError,
    NotJsonError,
    PublishUnsureError,
)
from grundlag_bus.schema.codec import MAX_BYTES, parse, plain
from grundlag_bus.schema.envelope import new_call_id
from grundlag_bus.schema.fields import instant_to_json
from grundlag_bus.schema.run import OpenInterrupt, Run, RunEntry

if TYPE_CHECKING:
    import builtins
    from collections.abc import AsyncIterator, Callable, Mapping
    from typing import TypeVar

    from grundlag_bus.adapters.http.host import HttpHost
    from grundlag_bus.schema.run import Status

    T = TypeVar("T")

PAGE = 100
_LONGEST_WAIT = 20.0
"""Seconds that one request waits: proxies end a silence after 60."""
_LARGEST_ENTRY = 4 * MAX_BYTES


class HttpRuns:
    """Starts runs at a host, asks about them and answers what they ask. Had of a bus: `bus.runs`.

    Everybody sees their own alone: user_id, and by, say on whose behalf something is asked, which is by itself the user
    of the token. What is raised is what `Runs` raises, and TransportError where the host cannot be reached.
    """

    def __init__(self, host: HttpHost) -> None:
        self._host = host
        self._address = host.address
        self._requests = RunRequests(host)

    # --- starting -----------------------------------------------------------------------------------------------------

    async def start_call(  # noqa: PLR0913  what a run is made of
        self,
        function: str,
        input: Any,  # noqa: A002  the wire's word
        *,
        user_id: str | None = None,
        answerer: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  of the call, not of this
        key: str | None = None,
    ) -> Run:
        """Start a run of a single call. key: the same one of the same user is the same run, however often it is sent.

        The rest is as `Runs.start_call` has it.
        """
        asked = {"function": function, "input": _input(function, input)}
        return await self._start(asked, user_id, answerer, timeout, key)

    async def start_script(  # noqa: PLR0913  the same
        self,
        source: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        user_id: str | None = None,
        answerer: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  of its calls, not of this
        key: str | None = None,
    ) -> Run:
        """Start a script. key: as `start_call` has it, and the rest as `Runs.start_script` does."""
        asked = {"source": plain(source, at=("source",)), "inputs": plain(dict(inputs or {}), at=("inputs",))}
        return await self._start(asked, user_id, answerer, timeout, key)

    async def start_agent(
        self,
        prompt: str,
        *,
        instructions: str | None = None,
        user_id: str | None = None,
        answerer: str | None = None,
        key: str | None = None,
    ) -> Run:
        """Start an agent. key: as `start_call` has it, and the rest as `Runs.start_agent` does."""
        asked: dict[str, Any] = {"prompt": plain(prompt, at=("prompt",))}
        if instructions is not None:
            asked["instructions"] = plain(instructions, at=("instructions",))
        return await self._start(asked, user_id, answerer, None, key)

    async def retry(self, run_id: str, *, source: str | None = None, user_id: str | None = None) -> Run:
        """See `Runs.retry`. It is not sent again where the host may have it: PublishUnsureError says so."""
        told = {} if source is None else {"source": plain(source, at=("source",))}
        url = self._address.run(run_id, "retry")
        return _read(Run.from_json, await self._requests.post(url, told, user_id=user_id, again=False))

    async def _start(
        self,
        asked: dict[str, Any],
        user_id: str | None,
        answerer: str | None,
        timeout: float | None,  # noqa: ASYNC109  of its calls
        key: str | None,
    ) -> Run:
        told = {**asked, "answerer": answerer, "timeout": timeout}
        told = {name: value for name, value in told.items() if name in asked or value is not None}
        key = new_call_id() if key is None else key
        return _read(Run.from_json, await self._requests.post(self._address.runs, told, user_id=user_id, key=key))

    # --- looking ------------------------------------------------------------------------------------------------------

    async def get(self, run_id: str, *, user_id: str | None = None) -> Run:
        """See `Runs.get`; what it was started with is not told."""
        return _read(Run.from_json, await self._requests.get(self._address.run(run_id), user_id=user_id))

    async def list(
        self,
        *,
        user_id: str | None = None,
        status: Status | None = None,
        before: float | None = None,
        limit: int = PAGE,
    ) -> tuple[Run, ...]:
        """List the user's runs, the newest first: of a status, created before an instant; what they gave is left out.

        limit: 100 at most.
        """
        query = {"status": status, "before": None if before is None else instant_to_json(before), "limit": limit}
        told = await self._requests.get(self._address.runs, query, user_id=user_id)
        return _read_all(Run.from_json, told, "runs")

    async def wait(
        self,
        run_id: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109  it raises nothing
        for_people: bool = False,
        user_id: str | None = None,
    ) -> Run:
        """See `Runs.wait`."""
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        while True:
            left = _LONGEST_WAIT if until is None else max(0.0, min(_LONGEST_WAIT, until - loop.time()))
            query = {"wait": f"{left:.3f}", "forPeople": "true" if for_people else "false"}
            told = await self._requests.get(self._address.run(run_id), query, user_id=user_id)
            run = _read(Run.from_json, told)
            if run.ended or (for_people and run.status == "waiting") or (until is not None and loop.time() >= until):
                return run

    async def events(self, run_id: str, *, after: int = 0, user_id: str | None = None) -> AsyncIterator[RunEntry]:
        """See `Runs.events`; a connection that is lost is made again, and nothing is missed or told twice."""
        loop = asyncio.get_running_loop()
        lost_at: float | None = None
        headers = {"accept": "text/event-stream"}
        while True:
            url = f"{self._address.run(run_id, 'events')}?after={after}"
            try:
                async with self._host.answer("GET", url, user_id=user_id, headers=headers, quiet=QUIET) as response:
                    if not response.is_success:
                        await read_answer(response, at=self._address)
                    async for sent in read_events(response.aiter_raw(), limit=_LARGEST_ENTRY):
                        lost_at = None
                        if sent.kind == "end":
                            return
                        if sent.kind == "entry":
                            entry = _read(RunEntry.from_json, parse(sent.data))
                            yield entry
                            after = entry.position
            except (BusUnreachableError, PublishUnsureError):
                lost_at = loop.time() if lost_at is None else lost_at
                if loop.time() - lost_at > RETURN_WITHIN:
                    raise
            await asyncio.sleep(PAUSE)

    # --- answering ----------------------------------------------------------------------------------------------------

    async def pending(
        self, user_id: str | None = None, *, run_id: str | None = None, limit: int = PAGE
    ) -> tuple[OpenInterrupt, ...]:
        """List the questions that wait for the user, the oldest first. limit: 100 at most."""
        query = {"runId": run_id, "limit": limit}
        told = await self._requests.get(self._address.interrupts, query, user_id=user_id)
        return _read_all(OpenInterrupt.from_json, told, "interrupts")

    async def interrupt(self, interrupt_id: str, *, user_id: str | None = None) -> OpenInterrupt:
        """See `Runs.interrupt`."""
        told = await self._requests.get(self._address.interrupt(interrupt_id), user_id=user_id)
        return _read(OpenInterrupt.from_json, told)

    async def answer(self, interrupt_id: str, answer: Any, *, by: str | None = None) -> OpenInterrupt:
        """Answer a question, and return it as it stands then: its run may be another's. Raises as `Runs.answer` does.

        What somebody else is to answer is not known here: InterruptUnknownError.
        """
        try:
            data = plain(answer)
        except NotJsonError as error:
            asked = await self.interrupt(interrupt_id, user_id=by)
            raise AnswerInvalidError(asked.function, [error.issue]) from error
        return await self._give(interrupt_id, "answer", {"answer": data}, by)

    async def reject(self, interrupt_id: str, *, by: str | None = None, reason: str | None = None) -> OpenInterrupt:
        """Let the call that asks not run: it ends as `rejected`. The rest is as `answer` has it."""
        return await self._give(interrupt_id, "reject", {} if reason is None else {"reason": plain(reason)}, by)

    async def edit(self, interrupt_id: str, input: Any, *, by: str | None = None) -> OpenInterrupt:  # noqa: A002  the wire's word
        """Let the call that asks be made with another input, as a new call. The rest is as `answer` has it."""
        return await self._give(interrupt_id, "edit", {"input": _input(interrupt_id, input)}, by)

    async def _give(self, interrupt_id: str, what: str, data: dict[str, Any], by: str | None) -> OpenInterrupt:
        url = self._address.interrupt(interrupt_id, what)
        return _read(OpenInterrupt.from_json, await self._requests.post(url, data, user_id=by))

    # --- ending -------------------------------------------------------------------------------------------------------

    async def cancel(self, run_id: str, *, user_id: str | None = None) -> Run:
        """See `Runs.cancel`."""
        url = self._address.run(run_id, "cancel")
        return _read(Run.from_json, await self._requests.post(url, {}, user_id=user_id))


def _input(of: str, value: Any) -> Any:
    try:
        return plain(value)
    except NotJsonError as error:
        raise ActionInputValidationError(of, [error.issue]) from error


def _read(read: Callable[[Any], T], data: Any) -> T:
    try:
        return read(data)
    except EnvelopeError as error:
        raise BusUnreachableError(f"The host is of another version: {error.reason}.") from error


def _read_all(read: Callable[[Any], T], data: Any, name: str) -> builtins.tuple[T, ...]:
    listed = data.get(name) if isinstance(data, dict) else None
    if not isinstance(listed, list):
        raise BusUnreachableError(f"The host is of another version: it lists no {name}.")
    return tuple(_read(read, each) for each in listed)
