"""What is in the store, as tables. Instants are Unix seconds by the database's clock."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text

metadata = MetaData()

store = Table(
    "grundlag_store",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("opened_at", Float, nullable=False),
)
"""One row: what tells this store from every other."""

calls = Table(
    "grundlag_calls",
    metadata,
    Column("call_id", String(200), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("provider_id", String(40), nullable=False),
    Column("action_id", String(40), nullable=False),
    Column("phase", String(10), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("owner", String(200)),
    Column("lease_until", Float),
    Column("lost", Integer, nullable=False),
    Column("alone_at", Integer),
    Column("mailboxes", Text, nullable=False),
    Column("next_call", LargeBinary),
    Column("due_at", Float),
    Column("reply", LargeBinary),
    Column("letter", LargeBinary),
    Column("copy", String(32)),
    Column("checkpoint", LargeBinary),
    Column("created_at", Float, nullable=False),
    Column("changed_at", Float, nullable=False),
    Index("grundlag_calls_changed", "phase", "changed_at"),
)
"""One row for each call.

phase: `leased` (a worker runs it, until `lease_until`), `free` (given back), `handing` (its next generation is recorded
and may not be on the broker), `waiting` (it is), `ended`, `dead` (ended, with a dead letter); generation: the newest;
fence: counts its starts; lost: those of them, of this generation, whose worker ended without a word; alone_at: how many
those were when it was last started with nothing beside it; mailboxes: who waits, one a line; next_call: the envelope of
the generation, where it is not the first, due at `due_at`; reply: the encoded one; letter: a dead letter that is still
to be published; copy: the watch copy of this generation that is on the broker for sure, where there is one; checkpoint:
where the next start continues, as JSON.

Of a call that is settled early the mailboxes are those who may not have been replied to.
"""

ENDED = ("ended", "dead")
"""The phases of calls that have ended."""
MOVING = ("leased", "free", "handing", "waiting")
"""All others."""

answers = Table(
    "grundlag_answers",
    metadata,
    Column("interrupt_id", String(200), primary_key=True),
    Column("call_id", String(200), nullable=False),
    Column("answered_at", Float, nullable=False),
    Index("grundlag_answers_answered", "answered_at"),
)
"""Which call consumed an interrupt: the first one with a valid answer."""

tombstones = Table(
    "grundlag_tombstones",
    metadata,
    Column("call_id", String(200), primary_key=True),
    Column("cancelled_at", Float, nullable=False),
    Index("grundlag_tombstones_cancelled", "cancelled_at"),
)
"""Calls that were cancelled: none of them starts."""

runs = Table(
    "grundlag_runs",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("kind", String(10), nullable=False),
    Column("name", String(200), nullable=False),
    Column("user_id", String(255)),
    Column("answerer", String(255)),
    Column("status", String(10), nullable=False),
    Column("ready", Integer, nullable=False),
    Column("due_at", Float),
    Column("cancelling", Integer, nullable=False),
    Column("owner", String(200)),
    Column("fence", BigInteger, nullable=False),
    Column("entries", Integer, nullable=False),
    Column("spec", LargeBinary, nullable=False),
    Column("outcome", LargeBinary),
    Column("retry_of", String(64)),
    Column("created_at", Float, nullable=False),
    Column("changed_at", Float, nullable=False),
    Column("ended_at", Float),
    Index("grundlag_runs_due", "due_at"),
    Index("grundlag_runs_user", "user_id", "created_at"),
    Index("grundlag_runs_created", "created_at"),
    Index("grundlag_runs_ended", "ended_at"),
)
"""One row for each run.

status: `running`, `waiting` (for people alone), `completed`, `failed`, `cancelled`; ready: whether there is something
new for its owner; due_at: when it is anybody's to take (at once, when its owner's lease ends, when a deadline of a call
has passed) or null; fence: counts its owners; entries: how many its journal has; spec: what was asked for, as JSON;
outcome: how it ended, as JSON; answerer: who may answer what it asks, where that is not anybody.
"""

run_entries = Table(
    "grundlag_run_entries",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("entry", LargeBinary, nullable=False),
    Column("written_at", Float, nullable=False),
)
"""The journals of the runs: entries are added and never changed."""

run_calls = Table(
    "grundlag_run_calls",
    metadata,
    Column("call_id", String(200), primary_key=True),
    Column("run_id", String(64), nullable=False),
    Column("phase", String(10), nullable=False),
    Column("call", LargeBinary, nullable=False),
    Column("deadline", Float, nullable=False),
    Column("reply", LargeBinary),
    Column("created_at", Float, nullable=False),
    Column("ended_at", Float),
    Index("grundlag_run_calls_run", "run_id"),
)
"""The calls that runs have sent.

phase: `recorded` (it may be on the broker), `published` (it is), `ended`; call: its envelope; reply: the encoded one.
"""

interrupts = Table(
    "grundlag_interrupts",
    metadata,
    Column("interrupt_id", String(200), primary_key=True),
    Column("run_id", String(64), nullable=False),
    Column("call", Integer, nullable=False),
    Column("function", String(64), nullable=False),
    Column("answerer", String(255)),
    Column("message", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("status", String(10), nullable=False),
    Column("answered_by", Text),
    Column("asked_at", Float, nullable=False),
    Column("expires_at", Float),
    Column("ended_at", Float),
    Column("tell", String(10)),
    Index("grundlag_interrupts_run", "run_id"),
    Index("grundlag_interrupts_pending", "status", "asked_at"),
    Index("grundlag_interrupts_answerer", "answerer", "status", "asked_at"),
    Index("grundlag_interrupts_expiry", "status", "expires_at"),
    Index("grundlag_interrupts_tell", "tell"),
)
"""What runs ask people.

call: its number in the run; content: data, input and answer schema, as JSON; status: `pending`, `answered`, `rejected`,
`edited`, `expired`, `cancelled` (with its run); tell: what is still to be told of it on the bus.
"""

run_answers = Table(
    "grundlag_run_answers",
    metadata,
    Column("answer_id", String(32), primary_key=True),
    Column("interrupt_id", String(200), nullable=False),
    Column("run_id", String(64), nullable=False),
    Column("what", String(10), nullable=False),
    Column("given_by", Text),
    Column("content", LargeBinary, nullable=False),
    Column("given_at", Float, nullable=False),
    Index("grundlag_run_answers_run", "run_id"),
    Index("grundlag_run_answers_interrupt", "interrupt_id"),
)
"""Who answered, rejected or edited what, and when; for the books, and read by nobody here. content: as JSON."""

__all__ = [
    "ENDED",
    "MOVING",
    "answers",
    "calls",
    "interrupts",
    "metadata",
    "run_answers",
    "run_calls",
    "run_entries",
    "runs",
    "store",
    "tombstones",
]
