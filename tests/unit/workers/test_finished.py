"""The replies of calls that have just finished."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grundlag_bus import Call, Request
from grundlag_bus.workers.finished import Finished

CALL = Call("c1", "demo", "add", Request({"a": 1}), 60.0, user_id="ada")


def test_this_very_call_gets_its_reply_again() -> None:
    finished = Finished()
    finished.add(CALL, b"reply", size=10)
    assert finished.reply_to(replace(CALL)) == b"reply"
    assert finished.reply_to(replace(CALL, call_id="c2")) is None


@pytest.mark.parametrize(
    "other", [{"generation": 2}, {"user_id": "eve"}, {"request": Request({"a": 2})}, {"action_id": "subtract"}]
)
def test_another_call_of_its_id_is_told_nothing(other: dict[str, object]) -> None:
    finished = Finished()
    finished.add(CALL, b"reply", size=10)
    assert finished.reply_to(replace(CALL, **other)) is None  # type: ignore[arg-type]  # a table of fields


def test_only_the_newest_are_kept_by_number_and_by_bytes() -> None:
    finished = Finished()
    for number in range(1500):
        finished.add(replace(CALL, call_id=str(number)), b"x", size=10)
    assert finished.reply_to(replace(CALL, call_id="1499")) == b"x"
    assert finished.reply_to(replace(CALL, call_id="400")) is None
    finished.add(replace(CALL, call_id="large"), b"x", size=17 * 1024 * 1024)
    assert finished.reply_to(replace(CALL, call_id="1499")) is None
