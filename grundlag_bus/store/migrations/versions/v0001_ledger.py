"""The ledger: calls, answers and tombstones, and what the store is told by."""

from __future__ import annotations

import os
import time

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    store = op.create_table(
        "grundlag_store",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("opened_at", sa.Float, nullable=False),
    )
    op.bulk_insert(store, [{"id": os.urandom(16).hex(), "opened_at": time.time()}])
    op.create_table(
        "grundlag_calls",
        sa.Column("call_id", sa.String(200), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("provider_id", sa.String(40), nullable=False),
        sa.Column("action_id", sa.String(40), nullable=False),
        sa.Column("phase", sa.String(10), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.String(200)),
        sa.Column("lease_until", sa.Float),
        sa.Column("lost", sa.Integer, nullable=False),
        sa.Column("alone_at", sa.Integer),
        sa.Column("mailboxes", sa.Text, nullable=False),
        sa.Column("next_call", sa.LargeBinary),
        sa.Column("due_at", sa.Float),
        sa.Column("reply", sa.LargeBinary),
        sa.Column("letter", sa.LargeBinary),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("changed_at", sa.Float, nullable=False),
    )
    op.create_index("grundlag_calls_changed", "grundlag_calls", ["phase", "changed_at"])
    op.create_table(
        "grundlag_answers",
        sa.Column("interrupt_id", sa.String(200), primary_key=True),
        sa.Column("call_id", sa.String(200), nullable=False),
        sa.Column("answered_at", sa.Float, nullable=False),
    )
    op.create_index("grundlag_answers_answered", "grundlag_answers", ["answered_at"])
    op.create_table(
        "grundlag_tombstones",
        sa.Column("call_id", sa.String(200), primary_key=True),
        sa.Column("cancelled_at", sa.Float, nullable=False),
    )
    op.create_index("grundlag_tombstones_cancelled", "grundlag_tombstones", ["cancelled_at"])
