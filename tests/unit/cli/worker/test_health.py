"""What the health of several processes says of each state that they may be in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grundlag_bus.cli.worker.health import Seen, is_to_be_replaced, not_live, not_ready
from grundlag_bus.cli.worker.pace import Pace

PACE = Pace()
WELL = Seen(1, 100, silent=0.5, unready=(), deaths=0, ended="")
STARTING = Seen(2, 200, silent=3.0, unready=None, deaths=0, ended="")
CUT_OFF = Seen(2, 200, silent=0.5, unready=("not connected to the broker",), deaths=0, ended="")
BETWEEN = Seen(2, None, silent=0.0, unready=None, deaths=1, ended="by SIGKILL")
FAILING = Seen(2, None, silent=0.0, unready=None, deaths=5, ended="with exit code 3")
DEAF = Seen(2, 200, silent=8.5, unready=(), deaths=0, ended="")
SILENT = Seen(2, 200, silent=31.0, unready=(), deaths=0, ended="")


@pytest.mark.parametrize("other", [WELL, STARTING, CUT_OFF, BETWEEN, DEAF])
def test_one_that_serves_makes_the_whole_ready(other: Seen) -> None:
    assert not_ready([WELL, other], PACE) == ()
    assert not_live([WELL, other], PACE) == ()


@pytest.mark.parametrize(
    ("alone", "told"),
    [
        (STARTING, "process 2 (pid 200) is starting"),
        (CUT_OFF, "process 2 (pid 200): not connected to the broker"),
        (BETWEEN, "process 2 ended by SIGKILL and is about to be started again"),
        (DEAF, "process 2 (pid 200) has not been heard of for 8 s"),
        (SILENT, "process 2 (pid 200) has not been heard of for 31 s"),
        (Seen(2, None, 0.0, None, 0, ""), "process 2 is not started yet"),
    ],
)
def test_where_none_serves_each_says_why(alone: Seen, told: str) -> None:
    assert not_ready([alone], PACE) == (told,)


def test_where_several_are_wrong_each_is_named() -> None:
    told = (
        "process 1 (pid 100) has not been heard of for 20 s",
        "process 2 (pid 200): not connected to the broker",
        "process 3 (pid 300) ended 5 times in a row, at last by SIGKILL",
    )
    failing = Seen(3, 300, silent=0.5, unready=(), deaths=5, ended="by SIGKILL")
    assert not_ready([replace(WELL, silent=20.0), CUT_OFF, failing], PACE) == told
    assert not_ready([WELL, CUT_OFF, failing], PACE) == told[1:]


def test_one_that_cannot_live_fails_readiness_beside_one_that_serves() -> None:
    told = ("process 2 ended 5 times in a row, at last with exit code 3",)
    assert not_ready([WELL, FAILING], PACE) == told
    assert not_ready([WELL, replace(FAILING, deaths=4)], PACE) == ()
    assert not_ready([FAILING], PACE) == told


def test_a_process_whose_loop_stands_still_fails_liveness_and_is_replaced_a_while_later() -> None:
    assert not_live([WELL, SILENT], PACE) == ("process 2 (pid 200) has not been heard of for 31 s",)
    assert not is_to_be_replaced(SILENT, PACE)
    assert is_to_be_replaced(replace(SILENT, silent=46.0), PACE)


def test_a_start_may_take_longer_than_a_silence() -> None:
    slow = replace(STARTING, silent=299.0)
    assert (not_live([slow], PACE), is_to_be_replaced(slow, PACE)) == ((), False)
    assert is_to_be_replaced(replace(STARTING, silent=301.0), PACE)


def test_between_two_starts_nothing_is_silent() -> None:
    assert not_live([replace(BETWEEN, silent=1000.0)], PACE) == ()


def test_pauses_double_up_to_half_a_minute() -> None:
    assert [PACE.pause(deaths) for deaths in (1, 2, 3, 4, 5, 6, 7, 10_000)] == [1, 2, 4, 8, 16, 30, 30, 30]
