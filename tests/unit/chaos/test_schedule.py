from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from grundlag_bus.chaos.schedule import QUIET, WARM_UP, Kind, Planned, least_seconds, schedule

KINDS = [
    Kind("worker killed", small=True),
    Kind("worker paused", (1.0, 3.0), small=True),
    Kind("connections cut", small=True),
    Kind("node killed", (2.0, 4.0), heals=6.0),
    Kind("call queue deleted"),
]

kinds = st.lists(
    st.builds(
        Kind,
        st.text("abcdefg", min_size=1, max_size=4),
        st.tuples(st.floats(0, 5), st.floats(5, 30)),
        st.floats(0, 10),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda kind: kind.name,
)


def rounds(planned: list[Planned]) -> list[list[Planned]]:
    return [[each for each in planned if each.round == number] for number in sorted({each.round for each in planned})]


@settings(deadline=None, max_examples=50)
@given(st.integers(), kinds, st.randoms())
def test_the_same_seed_makes_the_same_schedule_however_the_kinds_are_ordered(
    seed: int, chosen: list[Kind], order: object
) -> None:
    shuffled = sorted(chosen, key=lambda kind: hash((str(order), kind.name)))
    assert schedule(seed, 300, chosen) == schedule(seed, 300, shuffled)


@settings(deadline=None, max_examples=50)
@given(st.integers(), kinds)
def test_every_kind_occurs_when_there_is_time_for_it(seed: int, chosen: list[Kind]) -> None:
    planned = schedule(seed, least_seconds(chosen), chosen)
    assert {each.fault for each in planned} == {kind.name for kind in chosen}


@settings(deadline=None, max_examples=50)
@given(st.integers(), st.floats(0, 200), kinds)
def test_all_faults_are_within_the_run_and_quiet_times_between_the_rounds(
    seed: int, seconds: float, chosen: list[Kind]
) -> None:
    planned = rounds(schedule(seed, seconds, chosen))
    ends = [max(each.end for each in faults) for faults in planned]
    begins = [min(each.begin for each in faults) for faults in planned]
    assert all(begin >= WARM_UP for begin in begins)
    assert all(end + QUIET <= seconds for end in ends)
    assert all(later - end >= QUIET - 1e-6 for end, later in zip(ends, begins[1:], strict=False))


@settings(deadline=None, max_examples=50)
@given(st.integers(), kinds)
def test_one_fault_alone_heals_last_in_each_round_and_each_kind_does_so_in_turn(seed: int, chosen: list[Kind]) -> None:
    last = []
    for faults in rounds(schedule(seed, least_seconds(chosen), chosen)):
        *others, lead = sorted(faults, key=lambda each: each.end)
        assert all(each.end < lead.end for each in others)
        last.append(lead.fault)
    assert set(last[: len(chosen)]) == {kind.name for kind in chosen}


@settings(deadline=None, max_examples=50)
@given(st.integers(), kinds)
def test_beside_another_fault_only_small_ones_happen(seed: int, chosen: list[Kind]) -> None:
    small = {kind.name for kind in chosen if kind.small}
    for faults in rounds(schedule(seed, 300, chosen)):
        assert sum(each.fault not in small for each in faults) <= 1


def test_two_minutes_hold_forty_faults() -> None:
    assert all(len(schedule(seed, 120, KINDS)) >= 40 for seed in range(50))


def test_faults_are_told_in_the_order_of_their_beginnings() -> None:
    planned = schedule(7, 300, KINDS)
    assert all(one.begin <= other.begin for one, other in pairwise(planned))


def test_a_run_that_is_too_short_for_any_fault_has_none() -> None:
    assert schedule(1, WARM_UP, KINDS) == []
    assert schedule(1, 300, []) == []
