"""`/api/interrupts`: the questions of runs that a user may answer: listed, shown, answered, rejected, edited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grundlag_bus.errors import GrundlagError, InterruptUnknownError, RunUnknownError
from grundlag_bus.gateway.body import read_json_text
from grundlag_bus.gateway.refusing import json_response
from grundlag_bus.gateway.run_asking import ensure_can_be, read_list, read_optional_text, read_part
from grundlag_bus.gateway.run_route import refused, runs_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from grundlag_bus.durable import Runs
    from grundlag_bus.gateway.host import Host
    from grundlag_bus.schema.run import OpenInterrupt


async def list_interrupts(host: Host, request: Request) -> Response:
    """Answer with the questions that wait for the user, the oldest first. Raises CallError, Refused."""
    user_id, runs = await host.user_id(request), runs_of(host)
    asked = read_list(request.query_params)
    try:
        if asked.run_id is not None:
            ensure_can_be(asked.run_id)
        found = await runs.pending(user_id, run_id=asked.run_id, limit=asked.limit, anybody=False)
    except RunUnknownError:
        found = ()
    except GrundlagError as error:
        raise refused(error) from error
    return json_response({"interrupts": [each.to_json() for each in found]})


async def show_interrupt(host: Host, request: Request) -> Response:
    """Answer with a question, answered or not. Raises CallError, Refused."""
    user_id, runs = await host.user_id(request), runs_of(host)
    return json_response((await _own(runs, user_id, request)).to_json())


async def answer_interrupt(host: Host, request: Request) -> Response:
    """Answer a question, and with it as it stands then. Raises CallError, Refused."""
    user_id, runs = await host.user_id(request), runs_of(host)
    answer = read_part(await read_json_text(request, host.limits), "answer")
    asked = await _own(runs, user_id, request)
    try:
        await runs.answer(asked.interrupt_id, answer, by=user_id)
    except GrundlagError as error:
        raise refused(error) from error
    return await show_again(runs, user_id, request)


async def reject_interrupt(host: Host, request: Request) -> Response:
    """Let the call that asks not run. Raises CallError, Refused."""
    user_id, runs = await host.user_id(request), runs_of(host)
    reason = read_optional_text(await read_json_text(request, host.limits), "reason")
    asked = await _own(runs, user_id, request)
    try:
        await runs.reject(asked.interrupt_id, by=user_id, reason=reason)
    except GrundlagError as error:
        raise refused(error) from error
    return await show_again(runs, user_id, request)


async def edit_interrupt(host: Host, request: Request) -> Response:
    """Let the call that asks be made with another input instead. Raises CallError, Refused."""
    user_id, runs = await host.user_id(request), runs_of(host)
    value = read_part(await read_json_text(request, host.limits), "input")
    asked = await _own(runs, user_id, request)
    try:
        await runs.edit(asked.interrupt_id, value, by=user_id)
    except GrundlagError as error:
        raise refused(error) from error
    return await show_again(runs, user_id, request)


async def show_again(runs: Runs, user_id: str | None, request: Request) -> Response:
    """Answer with the question as it stands now: its run may be somebody else's."""
    return json_response((await _own(runs, user_id, request)).to_json())


async def _own(runs: Runs, user_id: str | None, request: Request) -> OpenInterrupt:
    """Return the question of the path, if the user may answer it. Raises Refused: another's is not told from none."""
    interrupt_id = request.path_params["interrupt_id"]
    try:
        try:
            ensure_can_be(interrupt_id)
        except RunUnknownError as error:
            raise InterruptUnknownError([interrupt_id[:200]], []) from error
        asked = await runs.interrupt(interrupt_id)
        if asked.answerer not in (None, user_id):
            raise InterruptUnknownError([interrupt_id], [])
    except GrundlagError as error:
        raise refused(error) from error
    return asked
