"""A private PostgreSQL server for the ledger, which may be restarted under load."""

from __future__ import annotations

import asyncio

from ops.postgresql.programs import installed_programs, unpacked_programs
from ops.postgresql.server import PrivateServer


class PrivateDatabase(PrivateServer):
    """Runs as long as its context. It is the `DatabaseControl` of the suite."""

    def __init__(self) -> None:
        super().__init__(installed_programs() or unpacked_programs())

    async def restart(self) -> None:
        """Shut it down and start it again; return when it serves."""
        await asyncio.to_thread(self.stop)
        await asyncio.to_thread(self.start)
