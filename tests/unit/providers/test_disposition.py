"""What becomes of a call, as a table and as properties that hold for all of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grundlag_bus import Call, Completed, ConfigurationError, Failed, Request, Retry
from grundlag_bus.providers.disposition import (
    LONGEST_PAUSE,
    MOST_LOST,
    Again,
    Dead,
    Deferred,
    End,
    Ended,
    Outcome,
    Policy,
    Raised,
    Start,
    StartAlone,
    after_run,
    before_run,
    checked_pause,
    of_absent,
)

NOW = 1_000_000.0
FAILED = Failed("internal", "It broke.", {"type": "ValueError"})


def call(*, attempt: int = 1, generation: int = 1, left: float = 300.0) -> Call:
    return Call("c", "demo", "add", Request({}), NOW + left, generation=generation, attempt=attempt)


def retrying(attempts: int = 3, backoff: Any = 1.0) -> Policy:
    return Policy(Retry(on=ValueError, attempts=attempts, backoff=backoff))


def raised(error: BaseException | None = None) -> Raised:
    return Raised(error or ValueError(), FAILED)


# --- the table --------------------------------------------------------------------------------------------------------


def test_a_response_ends_the_call() -> None:
    assert after_run(Ended(Completed(1)), call(), retrying(), now=NOW) == End(Completed(1))


def test_an_exception_ends_the_call_where_nothing_is_declared_for_it() -> None:
    assert after_run(raised(), call(), Policy(), now=NOW) == End(FAILED)
    assert after_run(raised(KeyError()), call(), retrying(), now=NOW) == End(FAILED)


def test_a_declared_exception_starts_the_next_generation_after_doubling_pauses() -> None:
    pauses = []
    waiting = call()
    while isinstance(disposition := after_run(raised(), waiting, retrying(4, 1.5), now=NOW), Again):
        assert disposition.call.generation == waiting.generation + 1
        assert disposition.call.attempt == waiting.attempt + 1
        pauses.append(disposition.pause)
        waiting = disposition.call
    assert pauses == [1.5, 3.0, 6.0]


def test_the_last_attempt_is_a_dead_letter_that_tells_what_happened_last() -> None:
    disposition = after_run(raised(), call(attempt=3), retrying(3), now=NOW)
    assert isinstance(disposition, Dead)
    assert disposition.response.details == {
        "starts": 3,
        "last": {"code": "internal", "message": "It broke.", "details": {"type": "ValueError"}},
    }


def test_pauses_may_be_told_one_by_one_and_the_last_is_repeated() -> None:
    retry = Retry(on=ValueError, attempts=9, backoff=[1, 5, 60])
    assert [retry.pause(attempt) for attempt in range(1, 6)] == [1, 5, 60, 60, 60]


def test_a_pause_past_the_deadline_ends_the_call_with_what_it_has() -> None:
    assert after_run(raised(), call(left=5), retrying(3, 5.0), now=NOW) == End(FAILED)


def test_a_deferred_call_keeps_its_attempt_and_its_state() -> None:
    disposition = after_run(Deferred({"page": 2}, 30.0), call(attempt=2), Policy(), now=NOW)
    assert isinstance(disposition, Again)
    again = disposition.call
    assert (again.generation, again.attempt, again.deferred, disposition.pause) == (2, 2, {"page": 2}, 30.0)


def test_a_call_that_defers_past_its_deadline_fails_at_once() -> None:
    disposition = after_run(Deferred(None, 300.0), call(left=300), Policy(), now=NOW)
    assert isinstance(disposition, End)
    assert isinstance(disposition.response, Failed)
    assert disposition.response.code == "deadline_exceeded"


@pytest.mark.parametrize(
    "wrong",
    [
        {"on": ()},
        {"on": "ValueError"},
        {"on": BaseException},
        {"on": ValueError, "attempts": 0},
        {"on": ValueError, "backoff": -1},
        {"on": ValueError, "backoff": []},
        {"on": ValueError, "backoff": LONGEST_PAUSE + 1},
    ],
)
def test_a_retry_that_cannot_be_is_refused_when_it_is_declared(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Retry(**wrong)


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), LONGEST_PAUSE + 1, "3", None])
def test_what_is_no_pause_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError):
        checked_pause(wrong)


# --- the table of calls whose action is elsewhere ---------------------------------------------------------------------


def test_an_action_that_nobody_announced_is_unknown() -> None:
    decision = of_absent(call(), announced=False, now=NOW)
    assert isinstance(decision, End)
    assert isinstance(decision.response, Failed)
    assert decision.response.code == "action_unknown"


def test_a_call_whose_action_another_worker_has_waits_longer_each_time_and_costs_no_attempt() -> None:
    pauses, waiting, now = [], call(attempt=2), NOW
    while isinstance(decision := of_absent(waiting, announced=True, now=now), Again):
        assert (decision.call.generation, decision.call.attempt) == (waiting.generation + 1, 2)
        pauses.append(decision.pause)
        waiting, now = decision.call, now + decision.pause
    assert pauses[:8] == [1, 2, 4, 8, 16, 30, 30, 30]
    assert NOW + sum(pauses) < waiting.deadline <= NOW + sum(pauses) + 1, "nearly all of its time is used"
    assert isinstance(decision, End)
    assert isinstance(decision.response, Failed)
    assert decision.response.code == "deadline_exceeded"


def test_a_call_without_a_second_left_ends() -> None:
    for left in (1.0, 0.5, 0.0, -5.0):
        assert isinstance(of_absent(call(left=left), announced=True, now=NOW), End)


# --- the table of calls that came back --------------------------------------------------------------------------------


def decided(policy: Policy, *, lost: int | None, alone_at: int | None = None) -> Any:
    """Name what is decided; of a response, its code too."""
    match before_run(call(), policy, lost=lost, alone_at=alone_at):
        case End(Failed(code)):
            return End, code
        case Dead(Failed(code)):
            return Dead, code
        case other:
            return type(other)


def test_what_was_given_back_unstarted_is_started() -> None:
    assert decided(Policy(), lost=0) is Start
    assert decided(Policy(crashes=1), lost=0) is Start
    assert decided(Policy(rerun=False), lost=0) is Start


def test_the_last_start_of_a_call_that_loses_its_workers_is_alone() -> None:
    assert [decided(Policy(crashes=4), lost=lost) for lost in range(4)] == [Start, Start, Start, StartAlone]
    assert [decided(Policy(), lost=lost) for lost in range(3)] == [Start, Start, StartAlone]
    assert [decided(Policy(crashes=2), lost=lost) for lost in range(2)] == [Start, StartAlone]


def test_who_died_under_others_only_is_not_given_up() -> None:
    assert {decided(Policy(), lost=lost) for lost in range(3, MOST_LOST)} == {StartAlone}


def test_who_was_lost_alone_is_dead() -> None:
    assert decided(Policy(), lost=3, alone_at=2) == (Dead, "attempts_exhausted")
    assert decided(Policy(), lost=9, alone_at=2) == (Dead, "attempts_exhausted")


def test_a_start_alone_that_was_given_back_is_made_again() -> None:
    assert decided(Policy(), lost=2, alone_at=2) is StartAlone
    assert decided(Policy(), lost=7, alone_at=7) is StartAlone


def test_with_one_start_the_first_loss_is_the_end() -> None:
    assert decided(Policy(crashes=1), lost=1) == (Dead, "attempts_exhausted")


def test_there_is_an_end_to_dying_under_others() -> None:
    assert decided(Policy(crashes=1000), lost=MOST_LOST) == (Dead, "attempts_exhausted")
    assert decided(Policy(), lost=MOST_LOST) == (Dead, "attempts_exhausted")


@pytest.mark.parametrize("lost", [1, 2, 1000, None])
def test_what_may_not_be_started_again_has_an_unknown_outcome(lost: int | None) -> None:
    assert decided(Policy(rerun=False), lost=lost) == (End, "outcome_unknown")


def test_where_the_broker_s_count_means_nothing_a_call_is_started_again() -> None:
    assert decided(Policy(crashes=1), lost=None) is Start


def test_a_dead_call_tells_how_often_it_was_started_and_lost() -> None:
    dead = before_run(call(), Policy(), lost=7, alone_at=6)
    assert isinstance(dead, Dead)
    assert dead.response.details == {"starts": 3, "lost": 7}
    assert "lost its worker 7 times, 3 of them at most after a start of its own" in dead.response.message


def test_a_dead_call_tells_in_which_worker_it_was_lost_with_nothing_beside_it() -> None:
    dead = before_run(call(), Policy(), lost=3, alone_at=2, alone_in="host-7-abc")
    assert isinstance(dead, Dead)
    assert dead.response.details == {"starts": 3, "lost": 3, "lastWorker": "host-7-abc"}
    assert "lost its worker 3 times, at last while nothing ran beside it, in host-7-abc:" in dead.response.message


@pytest.mark.parametrize("crashes", [0, -1])
def test_crashes_that_start_nothing_are_refused(crashes: int) -> None:
    with pytest.raises(ConfigurationError, match="crashes"):
        Policy(crashes=crashes)


# --- properties -------------------------------------------------------------------------------------------------------

policies = st.builds(
    Policy,
    crashes=st.integers(1, 20),
    rerun=st.booleans(),
    retry=st.none() | st.builds(Retry, on=st.just(ValueError), attempts=st.integers(1, 50), backoff=st.floats(0, 1e5)),
)
outcomes = st.one_of(
    st.just(Ended(Completed(None))),
    st.sampled_from([raised(), raised(KeyError())]),
    st.builds(Deferred, st.none() | st.integers(), st.floats(0, LONGEST_PAUSE)),
)
calls = st.builds(
    call, attempt=st.integers(1, 60), generation=st.integers(1, 1000), left=st.floats(-100, 2 * LONGEST_PAUSE)
)


@given(outcomes, calls, policies)
def test_a_call_is_never_lost(outcome: Outcome, waiting: Call, policy: Policy) -> None:
    """Each disposition either carries a response for the caller, or the call itself, unchanged in what it asks."""
    match after_run(outcome, waiting, policy, now=NOW):
        case End(response) | Dead(response):
            assert response is not None
        case Again(again, pause, otherwise):
            assert otherwise is not None
            asked = (again.call_id, again.provider_id, again.action_id, again.request, again.deadline, again.lane)
            assert asked == ("c", "demo", "add", waiting.request, waiting.deadline, "main")
            assert again.generation == waiting.generation + 1
            assert NOW + pause < waiting.deadline
            assert 0 <= pause <= LONGEST_PAUSE


@given(outcomes, calls, policies)
def test_the_same_always_decides_the_same(outcome: Outcome, waiting: Call, policy: Policy) -> None:
    assert after_run(outcome, waiting, policy, now=NOW) == after_run(outcome, waiting, policy, now=NOW)


@given(policies)
def test_a_call_that_always_raises_ends_after_its_attempts(policy: Policy) -> None:
    waiting, starts = call(left=float(LONGEST_PAUSE) * 100), 1
    while isinstance(disposition := after_run(raised(), waiting, policy, now=NOW), Again):
        waiting, starts = disposition.call, starts + 1
    assert starts == (policy.retry.attempts if policy.retry else 1)


# What befalls a call that is handed out: its worker dies before it starts it, dies of it or of another one while it
# runs, or gives it back.
fates = st.lists(st.sampled_from(["dies before", "dies meanwhile", "gives it back", "gives it back started"]))


def befall(call_: Call, policy: Policy, fate: list[str], *, innocent: bool) -> tuple[int, Any]:
    """Hand a call out until it ends. Returns how many of its starts a worker died in, and how it ended."""
    lost = crashed = 0
    handed_out, alone_at = False, None
    for what in [*fate, *["dies meanwhile"] * (MOST_LOST + 20)]:
        decision = before_run(call_, policy, lost=lost, alone_at=alone_at) if handed_out else Start()
        handed_out = True
        match what, decision:
            case _, End() | Dead():
                return crashed, decision
            case "gives it back", _:
                continue
            case "dies before", _:
                lost += 1
                continue
            case "gives it back started", _:
                alone_at = lost if isinstance(decision, StartAlone) else alone_at
                continue
        if isinstance(decision, StartAlone):
            if innocent:
                return crashed, "finished"
            alone_at = lost
        lost, crashed = lost + 1, crashed + 1
    raise AssertionError("It came again and again.")


@given(policies, fates)
def test_a_call_that_kills_its_workers_ends_and_is_started_no_more_often_than_it_may_be(
    policy: Policy, fate: list[str]
) -> None:
    crashed, ended = befall(call(), policy, fate, innocent=False)
    assert isinstance(ended, End | Dead)
    assert crashed <= (policy.crashes if policy.rerun else 1)


@given(st.builds(Policy, crashes=st.integers(2, 20)), fates)
def test_a_call_whose_workers_die_of_others_is_not_given_up(policy: Policy, fate: list[str]) -> None:
    """Of its last starts, that is, those before may all be lost."""
    crashed, ended = befall(call(), policy, [what for what in fate if what != "gives it back started"], innocent=True)
    assert ended == "finished"
    assert crashed <= policy.crashes - 1
