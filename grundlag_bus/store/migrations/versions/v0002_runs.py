"""Runs: their journals, calls, questions and answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "grundlag_runs",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("user_id", sa.String(255)),
        sa.Column("answerer", sa.String(255)),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("ready", sa.Integer, nullable=False),
        sa.Column("due_at", sa.Float),
        sa.Column("cancelling", sa.Integer, nullable=False),
        sa.Column("owner", sa.String(200)),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("entries", sa.Integer, nullable=False),
        sa.Column("spec", sa.LargeBinary, nullable=False),
        sa.Column("outcome", sa.LargeBinary),
        sa.Column("retry_of", sa.String(64)),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("changed_at", sa.Float, nullable=False),
        sa.Column("ended_at", sa.Float),
    )
    op.create_index("grundlag_runs_due", "grundlag_runs", ["due_at"])
    op.create_index("grundlag_runs_user", "grundlag_runs", ["user_id", "created_at"])
    op.create_index("grundlag_runs_created", "grundlag_runs", ["created_at"])
    op.create_index("grundlag_runs_ended", "grundlag_runs", ["ended_at"])
    op.create_table(
        "grundlag_run_entries",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("entry", sa.LargeBinary, nullable=False),
        sa.Column("written_at", sa.Float, nullable=False),
    )
    op.create_table(
        "grundlag_run_calls",
        sa.Column("call_id", sa.String(200), primary_key=True),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("phase", sa.String(10), nullable=False),
        sa.Column("call", sa.LargeBinary, nullable=False),
        sa.Column("deadline", sa.Float, nullable=False),
        sa.Column("reply", sa.LargeBinary),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("ended_at", sa.Float),
    )
    op.create_index("grundlag_run_calls_run", "grundlag_run_calls", ["run_id"])
    op.create_table(
        "grundlag_interrupts",
        sa.Column("interrupt_id", sa.String(200), primary_key=True),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("call", sa.Integer, nullable=False),
        sa.Column("function", sa.String(64), nullable=False),
        sa.Column("answerer", sa.String(255)),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("answered_by", sa.Text),
        sa.Column("asked_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float),
        sa.Column("ended_at", sa.Float),
        sa.Column("tell", sa.String(10)),
    )
    op.create_index("grundlag_interrupts_run", "grundlag_interrupts", ["run_id"])
    op.create_index("grundlag_interrupts_pending", "grundlag_interrupts", ["status", "asked_at"])
    op.create_index("grundlag_interrupts_answerer", "grundlag_interrupts", ["answerer", "status", "asked_at"])
    op.create_index("grundlag_interrupts_expiry", "grundlag_interrupts", ["status", "expires_at"])
    op.create_index("grundlag_interrupts_tell", "grundlag_interrupts", ["tell"])
    op.create_table(
        "grundlag_run_answers",
        sa.Column("answer_id", sa.String(32), primary_key=True),
        sa.Column("interrupt_id", sa.String(200), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("what", sa.String(10), nullable=False),
        sa.Column("given_by", sa.Text),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("given_at", sa.Float, nullable=False),
    )
    op.create_index("grundlag_run_answers_run", "grundlag_run_answers", ["run_id"])
    op.create_index("grundlag_run_answers_interrupt", "grundlag_run_answers", ["interrupt_id"])
