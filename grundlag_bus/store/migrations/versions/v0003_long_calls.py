"""Calls that are settled early: their watch copies and checkpoints."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("grundlag_calls", sa.Column("copy", sa.String(32)))
    op.add_column("grundlag_calls", sa.Column("checkpoint", sa.LargeBinary))
