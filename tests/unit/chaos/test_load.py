from collections import Counter
from dataclasses import replace

import pytest

from grundlag_bus.chaos.load import WEIGHTS, Plan, answer_of, asks, call_of, fits, how, plan
from grundlag_bus.chaos.provider import FAILURE, result_of
from grundlag_bus.schema.envelope import Call, Completed, Failed, Interrupted

NOW, TIMEOUT = 1000.0, 60.0


def call(planned: Plan) -> Call:
    return call_of(planned, run="r", caller="caller-1", now=NOW, timeout=TIMEOUT)


def done(planned: Plan, **changes: object) -> dict[str, object]:
    result = {"value": result_of(planned.value), "call_id": call(planned).call_id, "fence": None, "attempt": 1}
    return {**result, "text": planned.text, **changes}


def test_a_seed_repeats_every_call() -> None:
    again = [plan(1, "caller-1", ordinal, kept_share=0.3) for ordinal in range(1, 500)]
    assert again == [plan(1, "caller-1", ordinal, kept_share=0.3) for ordinal in range(1, 500)]
    assert again != [plan(2, "caller-1", ordinal, kept_share=0.3) for ordinal in range(1, 500)]
    assert again != [plan(1, "caller-2", ordinal, kept_share=0.3) for ordinal in range(1, 500)]


def test_every_kind_is_called_with_a_ledger_and_without() -> None:
    kinds = Counter((each.kind, each.kept) for each in (plan(1, "c", n, kept_share=0.3) for n in range(1, 5000)))
    assert {kind for kind, kept in kinds if kept} == set(WEIGHTS)
    assert {kind for kind, kept in kinds if not kept} == set(WEIGHTS) - {"storing"}


def test_two_runs_of_a_seed_share_no_call_id() -> None:
    planned = plan(1, "caller-1", 1, kept_share=0)
    other = call_of(planned, run="other", caller="caller-1", now=NOW, timeout=TIMEOUT)
    assert call(planned).call_id != other.call_id
    assert call(planned).call_id == call(planned).call_id


@pytest.mark.parametrize(
    ("kept", "kind", "repeatable"), [(True, "quick", True), (False, "again", True), (False, "quick", False)]
)
def test_it_is_repeated_where_the_design_allows_it(kept: bool, kind: str, repeatable: bool) -> None:
    planned = Plan(1, kind, kept, value=1)
    assert planned.repeatable is repeatable
    assert call(planned).idempotent is repeatable


def test_only_its_own_result_fits_a_call() -> None:
    planned = Plan(1, "quick", kept=False, value=5)
    assert fits(planned, call(planned), Completed(done(planned)))
    for other in (done(planned, value=4), done(planned, call_id="x"), {}, None, done(planned, text="x")):
        assert not fits(planned, call(planned), Completed(other))


def test_a_large_result_has_the_whole_text() -> None:
    planned = Plan(1, "large", kept=False, value=5, text="x" * 100)
    assert fits(planned, call(planned), Completed(done(planned)))
    assert not fits(planned, call(planned), Completed(done(planned, text="x" * 99)))


def test_a_failing_action_does_not_complete_and_fails_by_its_own_code() -> None:
    planned = Plan(1, "failing", kept=False, value=5)
    own = {"value": 5, "callId": call(planned).call_id}
    assert not fits(planned, call(planned), Completed(done(planned)))
    assert fits(planned, call(planned), Failed(FAILURE, "", own))
    assert not fits(planned, call(planned), Failed(FAILURE, "", {**own, "value": 6}))
    assert not fits(replace(planned, kind="quick"), call(planned), Failed(FAILURE, "", own))


def test_a_retrying_action_completes_at_its_last_attempt() -> None:
    planned = Plan(1, "retrying", kept=False, value=5)
    assert not fits(planned, call(planned), Completed(done(planned, attempt=1)))
    assert fits(planned, call(planned), Completed(done(planned, attempt=3)))


def test_items_come_in_order_and_each_once() -> None:
    planned = Plan(1, "telling", kept=False, value=5)
    items = [{"data": {"step": step, "callId": call(planned).call_id}} for step in range(3)]
    assert fits(planned, call(planned), Completed(done(planned), items))
    for other in (items[:2], items[::-1], [*items, items[0]], []):
        assert not fits(planned, call(planned), Completed(done(planned), other))


def test_a_question_is_answered_by_a_call_that_is_the_same_each_time() -> None:
    planned = Plan(1, "asking", kept=False, value=5)
    asked = Interrupted("i", "Go on?", {"value": 5, "callId": call(planned).call_id}, "sealed", NOW + 1)
    assert fits(planned, call(planned), asked)
    assert not fits(planned, call(planned), Completed(done(planned)))
    assert not fits(replace(planned, kind="quick"), call(planned), asked)
    kept = asks(asked)
    assert kept == {"interruptId": "i", "state": "sealed"}
    answer = answer_of(planned, kept, now=NOW, timeout=TIMEOUT)
    assert answer.call_id == answer_of(planned, kept, now=NOW + 9, timeout=TIMEOUT).call_id
    assert answer.request.resumption is not None
    assert not fits(planned, answer, asked)
    assert fits(planned, answer, Completed(done(planned, call_id=answer.call_id)))


def test_an_end_is_told_in_a_word() -> None:
    assert how(Completed(1)) == "completed"
    assert how(Failed("overloaded", "")) == "overloaded"
    assert how(Interrupted("i", "", None, "s", 0.0)) == "interrupted"
    assert asks(Completed(1)) is None
