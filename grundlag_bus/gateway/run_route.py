"""`/api/runs`: a user's own durable runs, started, listed, shown, followed, cancelled and tried again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import orjson

from grundlag_bus.errors import (
    ActionUnknownError,
    ForbiddenError,
    GrundlagError,
    RunUnknownError,
    StoreAwayError,
    TransportError,
)
from grundlag_bus.gateway.asking import key_of
from grundlag_bus.gateway.body import read_json_text
from grundlag_bus.gateway.catalogue import PAUSE_SECONDS
from grundlag_bus.gateway.refusing import Refused, busy, json_response
from grundlag_bus.gateway.run_asking import (
    ensure_can_be,
    read_after,
    read_list,
    read_nothing,
    read_optional_text,
    read_run,
    read_wait,
)
from grundlag_bus.gateway.status import status_of
from grundlag_bus.gateway.stream import EventStream, event, gone
from grundlag_bus.schema.codec import canonical
from grundlag_bus.schema.envelope import Failed, derived_id
from grundlag_bus.schema.run_failure import RUNS, failure_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Coroutine

    from starlette.requests import Request
    from starlette.responses import Response

    from grundlag_bus.durable import Runs
    from grundlag_bus.gateway.host import Host
    from grundlag_bus.gateway.run_asking import AskedRun
    from grundlag_bus.schema.run import Run, RunEntry

_NOT_LISTED = ("value", "stdout")
"""What is told of one run alone: it may be large."""


def runs_of(host: Host) -> Runs:
    """Return the runs that are served here. Raises Refused where there are none."""
    if host.runs is None:
        told = "This host has no runs: start it with --store URL, or give runs= to create_app."
        raise Refused(404, Failed("not_found", told))
    return host.runs


def refused(error: GrundlagError) -> Refused:
    """Say what cannot be done with a run. Raises it, where that has nothing to do with runs."""
    if isinstance(error, TransportError):
        return busy(503, "The bus cannot be reached now: try again.", after=1)
    failed = failure_of(error)
    if failed is None:
        raise error
    return Refused(status_of(failed), failed, {"Retry-After": "1"} if failed.retryable else None)


async def start_run(host: Host, request: Request) -> Response:
    """Start a call, a script or an agent, and answer as soon as it is written down. Raises CallError, Refused."""
    user_id, runs = await host.user_id(request), runs_of(host)
    if host.draining:
        raise busy(503, "The host drains: start it again, it may be another one.", after=1)
    asked = read_run(await read_json_text(request, host.limits))
    key = key_of(request.headers, user_id, RUNS)
    run_id = None if key is None else derived_id("run", key[1], canonical(user_id))
    try:
        return json_response((await _start(host, runs, asked, user_id, run_id)).to_json())
    except GrundlagError as error:
        raise refused(error) from error


async def list_runs(host: Host, request: Request) -> Response:
    """Answer with the user's runs, the newest first. Raises CallError, Refused."""
    user_id, runs = await host.user_id(request), runs_of(host)
    asked = read_list(request.query_params)
    try:
        found = await runs.list(
            user_id=user_id, status=asked.status, before=asked.before, limit=asked.limit, anybody=False
        )
    except GrundlagError as error:
        raise refused(error) from error
    return json_response({"runs": [_listed(run) for run in found]})


async def show_run(host: Host, request: Request) -> Response:
    """Answer with a run as it stands, or as it stands when something has come of it. Raises CallError, Refused."""
    user_id, runs = await host.user_id(request), runs_of(host)
    seconds, for_people = read_wait(request.query_params)
    run = await _own(runs, user_id, request)
    if seconds and not run.ended:
        with host.shares.one(user_id):
            await _until(host, request, runs.wait(run.run_id, timeout=seconds, for_people=for_people))
        run = await _own(runs, user_id, request)
    return json_response(run.to_json())


async def follow_run(host: Host, request: Request) -> EventStream:
    """Tell what has happened in a run and what happens, to its end. Raises CallError, Refused."""
    user_id, runs = await host.user_id(request), runs_of(host)
    after = read_after(request.query_params, request.headers)
    run = await _own(runs, user_id, request)
    if host.draining:
        raise busy(503, "The host drains: follow it again, it may be another one.", after=1)
    during = AsyncExitStack()
    during.enter_context(host.shares.one(user_id))
    return EventStream(_parts(runs.events(run.run_id, after=after)), during, until=host.closing)


async def cancel_run(host: Host, request: Request) -> Response:
    """Ask for the end of a run, and answer with it as it stands. Raises CallError, Refused."""
    user_id, runs = await host.user_id(request), runs_of(host)
    read_nothing(await read_json_text(request, host.limits))
    run = await _own(runs, user_id, request)
    try:
        return json_response((await runs.cancel(run.run_id)).to_json())
    except GrundlagError as error:
        raise refused(error) from error


async def retry_run(host: Host, request: Request) -> Response:
    """Start a run again that failed or was cancelled, as another one. Raises CallError, Refused."""
    user_id, runs = await host.user_id(request), runs_of(host)
    if host.draining:
        raise busy(503, "The host drains: start it again, it may be another one.", after=1)
    source = read_optional_text(await read_json_text(request, host.limits), "source")
    run = await _own(runs, user_id, request)
    _ensure_allowed(host, user_id, run, await _functions(host, user_id))
    try:
        return json_response((await runs.retry(run.run_id, source=source)).to_json())
    except GrundlagError as error:
        raise refused(error) from error


# --- inside -----------------------------------------------------------------------------------------------------------


async def _own(runs: Runs, user_id: str | None, request: Request) -> Run:
    """Return the run of the path, if it is the user's. Raises Refused: what is another's is not told from nothing."""
    run_id = request.path_params["run_id"]
    try:
        ensure_can_be(run_id)
        run = await runs.get(run_id)
        if run.user_id != user_id:
            raise RunUnknownError(run_id)
    except GrundlagError as error:
        raise refused(error) from error
    return run


async def _start(host: Host, runs: Runs, asked: AskedRun, user_id: str | None, run_id: str | None) -> Run:
    if asked.kind == "source":
        return await runs.start_script(
            asked.text,
            inputs=asked.inputs,
            tools=await _functions(host, user_id),
            user_id=user_id,
            answerer=asked.answerer,
            timeout=asked.timeout,
            run_id=run_id,
        )
    if asked.kind == "prompt":
        return await runs.start_agent(
            asked.text,
            instructions=asked.instructions,
            tools=await _functions(host, user_id),
            user_id=user_id,
            answerer=asked.answerer,
            run_id=run_id,
        )
    if not await _shows(host, user_id, asked.text):
        told = f"You have no function {asked.text!r} here: GET /api/client/schema says what there is."
        raise ActionUnknownError(told)
    return await runs.start_call(
        asked.text, asked.input, user_id=user_id, answerer=asked.answerer, timeout=asked.timeout, run_id=run_id
    )


async def _shows(host: Host, user_id: str | None, function: str) -> bool:
    """Whether the user is shown a function, announced a moment ago or not."""
    shown = await host.catalogue.shown_to(user_id)
    if shown.manifest.find_function(function) is None:
        shown = await host.catalogue.shown_to(user_id, within=PAUSE_SECONDS)
    return shown.manifest.find_function(function) is not None


async def _functions(host: Host, user_id: str | None) -> tuple[str, ...] | None:
    """Return the functions that the user's scripts may call; None where nobody says so."""
    if not host.catalogue.restricts:
        return None
    shown = await host.catalogue.shown_to(user_id)
    return tuple(sorted(action.function_name for each in shown.manifest.providers for action in each.actions))


def _ensure_allowed(host: Host, user_id: str | None, run: Run, functions: tuple[str, ...] | None) -> None:
    """Raise ForbiddenError for a run that may call what its user may not, or not any more."""
    if functions is None:
        return
    spec = run.spec or {}
    if run.kind == "call":
        allowed = host.catalogue.allows(user_id, spec["providerId"], spec["actionId"])
    else:
        allowed = spec.get("tools") is not None and set(spec["tools"]) <= set(functions)
    if not allowed:
        raise ForbiddenError("This run may call more than you may by now: start another one.")


async def _until(host: Host, request: Request, waiting: Coroutine[object, object, Run]) -> None:
    """Wait, but not for longer than the other side does, or the host."""
    loop = asyncio.get_running_loop()
    waits = {loop.create_task(each) for each in (waiting, gone(request.receive), host.closing.wait())}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
        await asyncio.wait(waits)
    for each in waits:
        if not each.cancelled():
            each.exception()  # what the wait could not see is said when the run is looked at


async def _parts(entries: AsyncIterator[RunEntry]) -> AsyncGenerator[bytes, None]:
    """Write entries, and that nothing more comes; a stream without that is to be joined again."""
    try:
        async for entry in entries:
            yield b"id: %d\n" % entry.position + event("entry", orjson.dumps(entry.to_json()))
    except StoreAwayError:
        return
    yield event("end", b"{}")


def _listed(run: Run) -> dict[str, object]:
    return {name: value for name, value in run.to_json().items() if name not in _NOT_LISTED}
