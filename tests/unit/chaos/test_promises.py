from dataclasses import replace

import pytest

from grundlag_bus.chaos.field import CLOCK_JUMP, QUEUE_DELETION
from grundlag_bus.chaos.history import CALLER_DIED, Attempted, Record
from grundlag_bus.chaos.remains import Remains
from tests.support.made_up_calls import QUEUE, MadeUp, fault, promises, verdict_of

STORING = MadeUp(kind="storing", kept=True)
ONE_ROW = Remains(stored={"c1": [1]})


@pytest.mark.parametrize(
    ("made_up", "remains"),
    [
        (MadeUp(), None),
        (MadeUp(kept=True), None),
        (MadeUp(kind="asking", how="interrupted"), None),
        (MadeUp(kind="failing", how="chaos_failure"), None),
        (MadeUp(kind="cancelled", how="cancelled"), None),
        (MadeUp(kind="cancelled", how="outcome_unknown", by="caller"), None),
        (STORING, ONE_ROW),
    ],
)
def test_a_call_that_went_as_it_should_breaks_nothing(made_up: MadeUp, remains: Remains | None) -> None:
    assert promises(made_up.records, remains=remains) == []


def test_a_call_without_an_end_hangs() -> None:
    made_up = MadeUp()
    assert promises([made_up.attempted, made_up.acknowledged, made_up.started()]) == ["hung"]


def test_two_ends_are_one_too_many_also_of_two_lives_of_a_caller() -> None:
    made_up = MadeUp()
    assert promises([*made_up.records, made_up.ended(at=15.0)]) == ["ended twice"]


def test_the_result_of_another_call_is_foreign() -> None:
    made_up = MadeUp()
    assert promises([made_up.attempted, made_up.ended(fits=False)]) == ["foreign"]


class TestLost:
    GIVEN_UP = MadeUp(how="deadline_exceeded", by="caller")

    def records(self, *, confirmed: bool = True) -> list[Record]:
        end = self.GIVEN_UP.ended(at=self.GIVEN_UP.at + 60)
        return [self.GIVEN_UP.attempted, *([self.GIVEN_UP.acknowledged] if confirmed else []), end]

    def test_a_confirmed_call_that_its_caller_gave_up_at_the_deadline_is_lost(self) -> None:
        assert promises(self.records()) == ["lost"]

    def test_one_that_the_broker_never_confirmed_is_not(self) -> None:
        assert promises(self.records(confirmed=False)) == []

    def test_one_whose_queue_was_deleted_is_not(self) -> None:
        assert promises([*self.records(), fault(QUEUE_DELETION, at=20, until=20, target=QUEUE)]) == []

    def test_the_deletion_of_another_queue_excuses_nothing(self) -> None:
        deletion = fault(QUEUE_DELETION, at=20, until=20, target="chaos-1.1.calls.chaos.long")
        assert promises([*self.records(), deletion]) == ["lost"]

    def test_a_deletion_before_the_call_excuses_nothing(self) -> None:
        assert promises([*self.records(), fault(QUEUE_DELETION, at=5, until=6, target=QUEUE)]) == ["lost"]

    def test_a_call_that_was_on_the_ladder_is_excused_by_the_deletion_of_a_rung(self) -> None:
        made_up = replace(self.GIVEN_UP, kind="deferring")
        deletion = fault(QUEUE_DELETION, at=20, until=20, target="chaos-1.1.delay.00")
        assert promises([made_up.attempted, made_up.acknowledged, made_up.ended(at=70.0), deletion]) == []

    @pytest.mark.parametrize(("clocked", "broken"), [("worker-1", []), ("worker-2", ["lost"])])
    def test_one_that_a_worker_had_while_its_clock_was_wrong_is_not(self, clocked: str, broken: list[str]) -> None:
        started = self.GIVEN_UP.started()
        jump = fault(CLOCK_JUMP, at=20, until=22, target=clocked)
        assert promises([*self.records(), started, jump]) == broken


class TestCodes:
    @pytest.mark.parametrize("code", ["internal", "input_invalid", "call_id_reused", "action_unknown", "forbidden"])
    def test_no_fault_explains_a_defect(self, code: str) -> None:
        assert promises([*MadeUp(how=code).records, fault()]) == ["unexpected"]

    @pytest.mark.parametrize("code", ["overloaded", "outcome_unknown"])
    def test_a_fault_explains_what_only_faults_bring(self, code: str) -> None:
        made_up = MadeUp(how=code)
        assert promises(made_up.records) == ["unexpected"]
        assert promises([*made_up.records, fault(at=11, until=11.5)]) == []
        assert promises([*made_up.records, fault(at=4, until=5)]) == []
        assert promises([*made_up.records, fault(at=100, until=101)]) == ["unexpected"]

    def test_a_call_that_was_given_up_is_a_dead_letter(self) -> None:
        made_up = MadeUp(how="attempts_exhausted")
        records = [*made_up.records, fault()]
        assert promises(records) == ["not buried"]
        assert promises(records, remains=Remains(letters={"c1": ["attempts_exhausted"]})) == []

    def test_what_may_be_sent_again_is_not_left_unsure(self) -> None:
        assert promises([*MadeUp(kind="again", how="outcome_unknown").records, fault()]) == ["unsure"]
        assert promises([*MadeUp(kept=True, how="outcome_unknown").records, fault()]) == ["unsure"]

    def test_a_worker_may_find_a_deadline_passed_early_only_where_clocks_were_moved(self) -> None:
        made_up = MadeUp(how="deadline_exceeded")
        assert promises([*made_up.records, fault()]) == ["unexpected"]
        assert promises([*made_up.records, fault(CLOCK_JUMP)]) == []

    def test_nobody_asks_or_is_cancelled_that_was_not_to_be(self) -> None:
        assert promises(MadeUp(how="interrupted").records) == ["unexpected"]
        assert promises(MadeUp(how="cancelled").records) == ["unexpected"]
        assert promises(MadeUp(how="chaos_failure").records) == ["unexpected"]

    def test_a_queue_that_was_deleted_may_be_missing(self) -> None:
        made_up = MadeUp(how="provider_unavailable", by="caller")
        assert promises([*made_up.records, fault()]) == ["unexpected"]
        for deletion in (11.0, 9.5, 1.0):
            assert promises([*made_up.records, fault(QUEUE_DELETION, target=QUEUE, at=deletion, until=deletion)]) == []
        assert promises([*made_up.records, fault(QUEUE_DELETION, at=9.5, until=9.5)]) == ["unexpected"]


class TestDeadCallers:
    def test_a_call_that_nobody_may_repeat_ends_with_its_caller(self) -> None:
        assert promises(MadeUp(how=CALLER_DIED, by="caller").records) == []

    def test_one_that_may_be_repeated_does_not(self) -> None:
        assert promises(MadeUp(kept=True, how=CALLER_DIED, by="caller").records) == ["unexpected"]

    def test_a_successor_that_calls_again_gives_the_call_its_one_end(self) -> None:
        made_up = MadeUp(kept=True)
        again: Attempted = replace(made_up.attempted, at=11.5, until=71.5)
        assert promises([*made_up.records, again]) == []


class TestWithALedger:
    def test_a_call_that_ended_is_not_started_again(self) -> None:
        made_up = MadeUp(kept=True)
        assert promises([*made_up.records, made_up.started(2, at=14.0)]) == ["run again"]

    def test_without_one_it_may_be(self) -> None:
        made_up = MadeUp()
        assert promises([*made_up.records, made_up.started(2, at=14.0)]) == []

    def test_a_start_that_was_held_up_is_stale_and_no_new_one(self) -> None:
        made_up = MadeUp(kept=True)
        stale = made_up.started(1, at=14.0)
        records: list[Record] = [made_up.attempted, made_up.started(2), made_up.ended(fence=2), stale]
        assert promises(records) == []

    def test_two_starts_have_two_fences(self) -> None:
        made_up = MadeUp(kept=True)
        assert promises([*made_up.records, made_up.started(1, at=10.2)]) == ["one fence twice"]

    def test_effects_in_its_database_are_single(self) -> None:
        assert promises(STORING.records, remains=Remains(stored={"c1": [1, 2]})) == ["stored twice"]

    def test_a_completed_call_has_its_effect_there(self) -> None:
        assert promises(STORING.records) == ["stored otherwise"]

    def test_the_effect_is_of_the_start_that_the_result_is_from(self) -> None:
        assert promises(STORING.records, remains=Remains(stored={"c1": [7]})) == ["stored otherwise"]

    def test_a_call_that_was_never_to_be_started_twice_is_not(self) -> None:
        assert promises(MadeUp(kind="once", starts=2).records) == ["started twice"]


class TestWhatIsLeft:
    def test_nothing_waits_in_a_queue(self) -> None:
        assert promises([], remains=Remains(waiting={QUEUE: 2})) == ["left on the broker"]

    def test_no_call_is_on_its_way_in_the_ledger(self) -> None:
        assert promises([], remains=Remains(rows={"ended": 5, "dead": 1})) == []
        assert promises([], remains=Remains(rows={"ended": 5, "leased": 1})) == ["left in the ledger"]

    def test_a_call_that_was_in_a_deleted_queue_stays_on_its_way_in_the_ledger(self) -> None:
        made_up = MadeUp(kind="retrying", kept=True, how="deadline_exceeded", by="caller")
        records: list[Record] = [made_up.attempted, made_up.acknowledged, made_up.ended(at=70.0)]
        deletion = fault(QUEUE_DELETION, at=20, until=20, target=made_up.attempted.queue)
        assert promises([*records, deletion], remains=Remains(rows={"waiting": 1})) == []
        assert promises([*records, deletion], remains=Remains(rows={"waiting": 2})) == ["left in the ledger"]

    def test_what_no_caller_ever_called_leaves_nothing(self) -> None:
        assert promises([MadeUp().started()]) == ["unknown"]
        assert promises([], remains=Remains(letters={"x": ["attempts_exhausted"]})) == ["unknown"]
        assert promises([], remains=Remains(late=("x",))) == ["unknown"]
        assert promises([], remains=Remains(stored={"x": [1]})) == ["unknown"]

    def test_a_late_reply_to_a_call_of_ours_is_counted(self) -> None:
        verdict = verdict_of(MadeUp().records, remains=Remains(late=("c1",)))
        assert (verdict.broken, verdict.late) == ((), 1)


def test_dead_letters_are_counted_by_code() -> None:
    letters = {"c1": ["attempts_exhausted"], "c2": ["provider_unavailable", "provider_unavailable"]}
    records = [*MadeUp("c1").records, *MadeUp("c2").records]
    assert verdict_of(records, remains=Remains(letters=letters)).letters == {
        "attempts_exhausted": 1,
        "provider_unavailable": 2,
    }


def test_effects_that_no_promise_covers_are_counted_apart() -> None:
    records = [*MadeUp("a", starts=2).records, *MadeUp("b", kept=True, starts=3).records, *MadeUp("c").records]
    verdict = verdict_of(records)
    assert verdict.duplicated == {"without": 1, "with": 1, "stored": 0}
    assert verdict.broken == ()


def test_calls_are_counted_by_how_they_ended() -> None:
    records = [
        *MadeUp("a").records,
        *MadeUp("b", kind="asking", how="interrupted").records,
        *MadeUp("c", kind="failing", how="chaos_failure").records,
        *MadeUp("d", how=CALLER_DIED, by="caller").records,
    ]
    verdict = verdict_of(records)
    assert (verdict.attempted, verdict.acknowledged) == (4, 4)
    assert verdict.ended == {"completed": 1, "interrupted": 1, "chaos_failure": 1, CALLER_DIED: 1}
    assert verdict.failed == {"chaos_failure": 1}
