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
to be published.
"""

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

__all__ = ["answers", "calls", "metadata", "store", "tombstones"]
