from __future__ import annotations

import pytest

from grundlag_bus.cli.dead.redriving import renewed
from grundlag_bus.schema.envelope import Call, Request

CALL = Call(
    "c1",
    "calendar",
    "createEvent",
    Request(1),
    deadline=70.0,
    sent_at=10.0,
    generation=4,
    attempt=3,
    deferred="half",
    watched=True,
)


def test_a_call_keeps_what_it_is_and_begins_anew() -> None:
    again = renewed(CALL, now=1000.0, timeout=None)
    assert again.asks_the_same_as(CALL)
    assert (again.call_id, again.deferred, again.watched) == ("c1", "half", False)
    assert (again.generation, again.attempt, again.sent_at, again.deadline) == (5, 1, 1000.0, 1060.0)


@pytest.mark.parametrize(("lane", "seconds"), [("main", 300.0), ("long", 86_400.0)])
@pytest.mark.parametrize("deadline", [10.0, 5.0, float("inf"), float("nan")])
def test_a_call_that_had_no_time_gets_what_its_lane_gives(lane: str, seconds: float, deadline: float) -> None:
    call = Call("c1", "calendar", "createEvent", Request(1), deadline=deadline, sent_at=10.0, lane=lane)
    assert renewed(call, now=0.0, timeout=None).deadline == seconds


def test_a_timeout_of_the_operator_counts_first() -> None:
    assert renewed(CALL, now=1000.0, timeout=7.0).deadline == 1007.0
