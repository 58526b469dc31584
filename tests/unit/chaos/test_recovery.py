import math

from grundlag_bus.chaos.cases import cases_of
from grundlag_bus.chaos.field import Mark
from grundlag_bus.chaos.recovery import Recovery, merged, recoveries
from tests.support.made_up_calls import MadeUp, fault, verdict_of


def worst(marks: list[Mark], begins: dict[str, list[float]], *, until: float = 1000.0) -> dict[str, float | None]:
    """Measure over calls that take two seconds, by when each caller began them."""
    calls = [MadeUp(f"{caller}-{at}", at=at, caller=caller) for caller, ats in begins.items() for at in ats]
    cases, _ = cases_of(record for call in calls for record in call.records)
    return {each.fault: each.seconds for each in recoveries(marks, cases.values(), until=until)}


def test_it_lasts_from_the_healing_to_the_first_call_that_began_after_it_and_completed() -> None:
    assert worst([fault("cut", at=10, until=12)], {"a": [9.0, 11.0, 12.5, 13.0]}) == {"cut": 2.5}


def test_the_slowest_caller_counts() -> None:
    assert worst([fault("cut", at=10, until=12)], {"a": [12.0], "b": [15.0]}) == {"cut": 5.0}


def test_a_caller_that_never_recovers_is_found() -> None:
    assert worst([fault("cut", at=10, until=12)], {"a": [12.0], "b": [5.0]}) == {"cut": math.inf}
    before = [MadeUp("a", at=5.0), MadeUp("b", at=5.0, caller="caller-2"), MadeUp("c", at=12.0)]
    records = [record for each in before for record in each.records]
    broken = verdict_of([*records, fault("cut", at=10, until=12)], until=1000.0).broken
    assert [each.promise for each in broken] == ["slow recovery"]


def test_a_fault_tells_nothing_where_another_one_came_before_the_recovery() -> None:
    marks = [fault("cut", at=10, until=12), fault("kill", at=13, until=14)]
    assert worst(marks, {"a": [15.0]}) == {"cut": None, "kill": 3.0}


def test_a_fault_tells_nothing_where_another_one_lasts() -> None:
    marks = [fault("cut", at=10, until=12), Mark(9, "alarm", "node", 30)]
    assert worst(marks, {"a": [12.0, 30.0]}) == {"cut": None, "alarm": 2.0}


def test_a_fault_at_the_end_of_the_load_tells_nothing() -> None:
    assert worst([fault("cut", at=10, until=12)], {"a": [5.0]}, until=15.0) == {"cut": None}


def test_a_fault_is_held_to_its_own_bound() -> None:
    slow = Recovery("pause", 1, 1, 60.0, 120.0)
    assert not slow.too_slow
    assert Recovery("cut", 1, 1, 10.5, 10.0).too_slow


def test_a_fault_that_begins_and_heals_is_one() -> None:
    begins, heals = Mark(10, "cut", "proxy"), Mark(10, "cut", "proxy", 12)
    assert merged([begins, heals, fault("kill", at=5, until=6)]) == [fault("kill", at=5, until=6), heals]
    assert merged([heals, begins]) == [heals]
