from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from grundlag_bus.errors import EnvelopeError
from grundlag_bus.telemetry.loop import PATIENCE
from grundlag_bus.telemetry.report import Report
from grundlag_bus.transport.rabbitmq.transport import HEARTBEAT
from grundlag_bus.workers.status import WorkerStatus, decode_status, encode_status, ready

_SERVING = WorkerStatus(
    name="w1",
    providers=("notes",),
    lanes=("main",),
    started=True,
    draining=False,
    in_flight=0,
    connected=True,
    blocked=False,
    consumers_wanted=3,
    consumers_actual=3,
)


def test_a_worker_that_serves_is_ready() -> None:
    assert ready(_SERVING) == Report(ok=True)


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"started": False, "connected": False, "consumers_wanted": 0}, ("starting", "not connected to the broker")),
        ({"started": False, "consumers_actual": 1}, ("starting", "1 of 3 consumers are there")),
        ({"draining": True, "consumers_actual": 0, "consumers_wanted": 3}, ("draining",)),
        ({"connected": False, "consumers_actual": 0, "blocked": True}, ("not connected to the broker",)),
        ({"blocked": True}, ("publishing is blocked by the broker's memory or disk alarm",)),
        ({"consumers_actual": 2}, ("2 of 3 consumers are there",)),
        ({"ledger_away": "It is locked."}, ("the ledger is away, and nothing is taken: It is locked.",)),
        (
            {"still": 20.4, "draining": True},
            ("draining", "the event loop has not turned for 20 s, and the broker ends its connection after 8 s"),
        ),
        (
            {"blocked": True, "consumers_actual": 2},
            ("publishing is blocked by the broker's memory or disk alarm", "2 of 3 consumers are there"),
        ),
    ],
)
def test_a_worker_that_does_not_serve_says_why(changes: dict[str, Any], reasons: tuple[str, ...]) -> None:
    assert ready(replace(_SERVING, **changes)) == Report(ok=False, reasons=reasons)


def test_a_loop_may_stand_still_for_a_moment_and_no_longer_than_the_broker_waits() -> None:
    assert PATIENCE == 2 * HEARTBEAT
    assert ready(replace(_SERVING, still=PATIENCE)) == Report(ok=True)


def test_a_status_of_an_older_worker_is_read_without_what_it_does_not_tell() -> None:
    told = orjson.loads(encode_status(replace(_SERVING, still=2.0, calls=("c1", "c2"))))
    assert (told.pop("still"), told.pop("calls")) == (2.0, ["c1", "c2"])
    assert decode_status(orjson.dumps(told)) == _SERVING


def test_a_status_is_read_as_it_was_written() -> None:
    away = replace(_SERVING, still=2.0, calls=("c1",), ledger_away="It is locked.")
    assert decode_status(encode_status(away)) == away


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", ["w"]),
        ("name", None),
        ("providers", [["demo"]]),
        ("still", "long"),
        ("consumersActual", {}),
        ("calls", 1),
    ],
)
def test_a_status_with_a_field_of_another_kind_is_refused(name: str, value: object) -> None:
    told = orjson.loads(encode_status(_SERVING))
    with pytest.raises(EnvelopeError):
        decode_status(orjson.dumps({**told, name: value}))
