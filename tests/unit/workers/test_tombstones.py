from __future__ import annotations

from grundlag_bus.schema.control import Cancel
from grundlag_bus.workers import tombstones
from grundlag_bus.workers.tombstones import KEPT_FOR, Tombstones


def test_a_cancellation_is_remembered_for_a_day_and_no_longer() -> None:
    now = [1000.0]
    cancelled = Tombstones(lambda: now[0])
    cancelled.add(Cancel("a", 1000.0))
    now[0] += KEPT_FOR - 1
    assert "a" in cancelled
    now[0] += 2
    assert "a" not in cancelled


def test_what_is_over_makes_room() -> None:
    now = [0.0]
    cancelled = Tombstones(lambda: now[0])
    for number in range(10):
        cancelled.add(Cancel(str(number), 0.0))
    now[0] = KEPT_FOR + 1
    cancelled.add(Cancel("new", now[0]))
    assert len(cancelled) == 1


def test_a_cancellation_that_comes_a_day_late_is_not_kept() -> None:
    cancelled = Tombstones(lambda: 2 * KEPT_FOR)
    cancelled.add(Cancel("old", 0.0))
    assert len(cancelled) == 0
    assert "old" not in cancelled


def test_however_many_there_are_the_newest_are_kept() -> None:
    cancelled = Tombstones(lambda: 0.0)
    for number in range(tombstones.MOST + 5):
        cancelled.add(Cancel(str(number), 0.0))
    assert len(cancelled) == tombstones.MOST
    assert "4" not in cancelled
    assert "5" in cancelled
