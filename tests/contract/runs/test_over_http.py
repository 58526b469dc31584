"""What holds of runs holds of those behind an HTTP host, where everybody sees their own alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from grundlag_bus import HttpRuns, OpenInterrupt, Run, Runs, Store, connect
from tests.contract.runs import test_answering as answering
from tests.contract.runs import test_running as running
from tests.support.gateway import open_gateway
from tests.support.hosts import Host
from tests.support.runs import ended

pytestmark = pytest.mark.parametrize("host", ["rabbitmq"], indirect=True)


class AsTheirUsers:
    """The runs of a host, each asked about on behalf of the user that it was started for."""

    def __init__(self, runs: HttpRuns, behind: Runs) -> None:
        self._runs = runs
        self._behind = behind
        self._users: dict[str, str | None] = {}

    @property
    def driven(self) -> int:
        return self._behind.driven

    async def start_call(self, *args: Any, **given: Any) -> Run:
        return self._noted(await self._runs.start_call(*args, **given))

    async def start_script(self, *args: Any, **given: Any) -> Run:
        return self._noted(await self._runs.start_script(*args, **given))

    async def retry(self, run_id: str, **given: Any) -> Run:
        return self._noted(await self._runs.retry(run_id, user_id=self._users.get(run_id), **given))

    def _noted(self, run: Run) -> Run:
        self._users[run.run_id] = run.user_id
        return run

    async def pending(self, user_id: str | None = None, *, run_id: str | None = None) -> tuple[OpenInterrupt, ...]:
        asked = await self._runs.pending(user_id or self._users.get(run_id or ""), run_id=run_id)
        self._users |= {each.interrupt_id: each.answerer for each in asked}
        return asked

    def __getattr__(self, name: str) -> Any:
        ask = getattr(self._runs, name)
        if name not in ("get", "wait", "events", "cancel", "interrupt"):
            return ask
        return lambda id_, **given: ask(id_, user_id=self._users.get(id_), **given)


@pytest.fixture(autouse=True)
def _replayed() -> None:
    """Replay nothing by force: what is behind the host is tried so elsewhere."""


@pytest.fixture
async def runs(host: Host, store: Store) -> AsyncIterator[AsTheirUsers]:
    bus = connect(host.address, namespace=host.namespace)
    behind = Runs(store, bus)
    async with open_gateway(bus, runs=behind) as gateway, connect(gateway.url) as over_http:
        yield AsTheirUsers(over_http.runs, behind)


test_call = running.test_a_call_is_run_and_its_result_kept
test_script = running.test_a_script_is_run_to_its_value
test_row = running.test_a_script_that_asks_costs_a_row_until_it_is_answered
test_failure = running.test_what_a_call_fails_with_is_the_runs_error
test_script_failure = running.test_what_is_wrong_with_a_script_is_told_with_its_line
test_refused = running.test_what_cannot_be_run_is_refused_at_once
test_cancelled = running.test_a_cancelled_run_gives_each_of_its_calls_an_outcome
test_retried = running.test_another_try_calls_what_completed_no_second_time
test_events = running.test_events_can_be_joined_late_and_from_the_middle
test_asked = answering.test_what_is_asked_is_shown_with_all_that_an_answer_needs
test_rejected = answering.test_a_rejected_call_does_not_run_and_the_script_is_told
test_edited = answering.test_an_edited_call_is_another_call_that_asks_by_itself
test_unfit = answering.test_an_answer_that_does_not_fit_leaves_the_question_and_names_the_field
test_at_once = answering.test_of_two_answers_at_once_one_counts_and_the_other_is_told_whose_that_is
test_expired = answering.test_an_unanswered_question_expires_with_its_call
test_ended = answering.test_a_question_of_an_ended_run_cannot_be_answered


async def test_pages_of_a_list_go_on_where_the_last_one_ended(runs: Runs) -> None:
    for value in range(3):
        await ended(runs, await runs.start_call("contractEcho", {"value": value}))
    await ended(runs, await runs.start_call("contractEcho", {"value": 3}, user_id="ada"))
    first = await runs.list(limit=2)
    second = await runs.list(before=first[-1].created_at)
    (whole,) = await runs.list(user_id="ada", status="completed")
    assert len({run.run_id for run in (*first, *second, whole)}) == 4
    assert [run.user_id for run in (*first, *second, whole)] == [None, None, None, "ada"]
