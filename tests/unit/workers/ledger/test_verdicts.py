"""What a delivery means by what is recorded: the table, line by line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grundlag_bus.workers.ledger.verdicts import Behind, Held, Record, Recorded, Reused, Take, Verdict, Watched, judge

RECORD = Record(
    digest="d",
    phase="leased",
    generation=2,
    fence=5,
    owner="another",
    lease_until=110.0,
    lost=1,
    alone_at=None,
    mailboxes=("ours",),
    next_call=b"{}",
    due_at=104.0,
    reply=None,
    letter=None,
    copy=None,
    checkpoint=None,
    now=100.0,
)
DELIVERY: dict[str, Any] = {"digest": "d", "generation": 2, "mailboxes": ("ours",), "owner": "me"}
OLDER = {"generation": 1}
EARLY = {"early": True, "copies": ("c",)}
STRANGER = {"mailboxes": ("ours", "theirs")}
WAITING = {"phase": "waiting", "owner": None, "lease_until": None}


@pytest.mark.parametrize(
    ("record", "delivery", "verdict"),
    [
        ({"digest": "other", "reply": b"r"}, {}, Reused()),
        ({"phase": "ended", "reply": b"r"}, {}, Recorded(b"r", None)),
        ({"phase": "ended", "reply": b"r"}, {"generation": 9}, Recorded(b"r", None)),
        ({"phase": "dead", "reply": b"r", "letter": b"l"}, {}, Recorded(b"r", b"l")),
        ({"phase": "dead", "reply": b"r"}, {"generation": 3}, Take()),
        ({}, {}, Held(10.0)),
        ({}, {"generation": 3}, Held(10.0)),
        ({}, OLDER, Behind(5, b"{}", 4.0, ())),
        ({}, {**OLDER, **STRANGER}, Held(10.0)),
        ({"now": 111.0}, {}, Take(2)),
        ({"now": 111.0}, OLDER, Behind(5, b"{}", 0.0, ())),
        ({"now": 111.0}, {**OLDER, **STRANGER}, Behind(5, b"{}", 0.0, ("theirs",))),
        ({"owner": "me"}, {}, Take(1)),
        ({"owner": "me"}, {"running": True}, Held(10.0)),
        ({"owner": "me", "now": 111.0}, {"running": True}, Held(1.0)),
        ({"now": 111.0}, {"running": True}, Take(2)),
        ({"copy": "c"}, {}, Held(10.0, "c")),
        ({"copy": "c"}, EARLY, Held(10.0, "c")),
        ({"copy": None}, EARLY, Held(10.0)),
        ({"copy": "another"}, EARLY, Watched()),
        ({"copy": "another"}, {"early": True}, Watched()),
        ({"copy": "another", "now": 111.0}, EARLY, Take(2)),
        ({"copy": "another", "owner": "me"}, {**EARLY, "running": True}, Watched()),
        ({"copy": "another", **WAITING, "phase": "free"}, EARLY, Take(1)),
        ({}, {**EARLY, **OLDER, **STRANGER}, Behind(5, b"{}", 4.0, ())),
        (WAITING, {**EARLY, **OLDER, **STRANGER}, Behind(5, b"{}", 4.0, ())),
        ({"phase": "ended", "reply": b"r"}, EARLY, Recorded(b"r", None, ("ours",))),
        ({"phase": "handing", "owner": None, "lease_until": None}, OLDER, Behind(5, b"{}", 4.0, ("ours",))),
        ({"phase": "handing", "mailboxes": ()}, {**OLDER, "mailboxes": ()}, Behind(5, b"{}", 4.0, (None,))),
        (WAITING, OLDER, Behind(5, b"{}", 4.0, ())),
        (WAITING, {**OLDER, **STRANGER}, Behind(5, b"{}", 4.0, ("theirs",))),
        (WAITING, {}, Take(1)),
        ({**WAITING, "phase": "free", "alone_at": 1}, {}, Take(1, 1)),
        ({**WAITING, "phase": "free", "next_call": None}, OLDER, Take(1)),
    ],
)
def test_a_delivery_is_judged_by_the_record(record: dict[str, Any], delivery: dict[str, Any], verdict: Verdict) -> None:
    assert judge(replace(RECORD, **record), **{**DELIVERY, **delivery}) == verdict
