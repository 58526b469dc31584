"""Whatever calls and faults there are: what went well is found well, and whatever is spoilt is found."""

from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from grundlag_bus.chaos.field import Mark
from grundlag_bus.chaos.history import Ended, Record
from grundlag_bus.chaos.remains import Remains
from tests.support.made_up_calls import MadeUp, verdict_of

UNTIL = 1000.0
HOWS = {"asking": "interrupted", "failing": "chaos_failure", "cancelled": "cancelled"}
KINDS = ["quick", "again", "slow", "once", *HOWS]


@st.composite
def calls(draw: st.DrawFn) -> list[MadeUp]:
    made = []
    for number in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(KINDS))
        starts = 1 if kind == "once" else draw(st.integers(1, 3))
        at = draw(st.floats(1, UNTIL - 10))
        made.append(MadeUp(f"c{number}", at, kind, draw(st.booleans()), HOWS.get(kind, "completed"), starts=starts))
    return made


@st.composite
def faults(draw: st.DrawFn) -> list[Mark]:
    at = draw(st.lists(st.floats(1, UNTIL), max_size=5, unique=True))
    names = st.sampled_from(["worker-kill", "proxy-cut"])
    return [Mark(each, draw(names), "somebody", each + draw(st.floats(0, 5))) for each in at]


def records_of(made: list[MadeUp], marks: list[Mark]) -> list[Record]:
    return [*marks, *(record for call in made for record in call.records)]


@given(calls(), faults(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=50)
def test_a_run_that_went_well_breaks_nothing_in_whatever_order_it_is_read(
    made: list[MadeUp], marks: list[Mark], chance: Random
) -> None:
    records = records_of(made, marks)
    chance.shuffle(records)
    verdict = verdict_of(records)
    assert verdict.broken == ()
    assert verdict.attempted == len(made)
    assert sum(verdict.ended.values()) == len(made)


def _no_end(call: MadeUp, records: list[Record]) -> None:
    records[:] = [each for each in records if not (isinstance(each, Ended) and each.call_id == call.call_id)]


def _two_ends(call: MadeUp, records: list[Record]) -> None:
    records.append(call.ended(at=call.at + 5))


def _foreign(call: MadeUp, records: list[Record]) -> None:
    _no_end(call, records)
    records.append(call.ended(fits=False))


def _lost(call: MadeUp, records: list[Record]) -> None:
    _no_end(call, records)
    records.append(call.ended(at=call.at + 60, how="deadline_exceeded", by="caller"))


def _a_defect(call: MadeUp, records: list[Record]) -> None:
    _no_end(call, records)
    records.append(call.ended(how="internal"))


SPOILS: dict[str, Callable[[MadeUp, list[Record]], None]] = {
    "hung": _no_end,
    "ended twice": _two_ends,
    "foreign": _foreign,
    "unexpected": _a_defect,
}


@given(calls(), faults(), st.data())
@settings(deadline=None, max_examples=50)
def test_whatever_is_spoilt_is_found_and_nothing_else(
    made: list[MadeUp], marks: list[Mark], data: st.DataObject
) -> None:
    records = records_of(made, marks)
    promise, spoil = data.draw(st.sampled_from(sorted(SPOILS.items())))
    call = data.draw(st.sampled_from(made))
    spoil(call, records)
    broken = verdict_of(records).broken
    assert [(each.promise, each.call_id) for each in broken] == [(promise, call.call_id)]


@given(calls(), faults(), st.data())
@settings(deadline=None, max_examples=50)
def test_every_confirmed_call_that_was_given_up_is_lost(
    made: list[MadeUp], marks: list[Mark], data: st.DataObject
) -> None:
    call = data.draw(st.sampled_from(made))
    records = records_of(made, marks)
    _lost(call, records)
    assert verdict_of(records).lost == (call.kind != "cancelled")


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), calls())
@settings(deadline=None, max_examples=50)
def test_a_second_row_is_found_whatever_its_fence(fences: list[int], made: list[MadeUp]) -> None:
    made[0].kept = True
    verdict = verdict_of(records_of(made, []), remains=Remains(stored={made[0].call_id: fences}))
    assert [each.promise for each in verdict.broken] == ["stored twice"]
    assert verdict.duplicated["stored"] == 1
