"""A connection that is kept up: connect, set up, wait for its loss, connect again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiormq.exceptions import AMQPError
from tenacity import AsyncRetrying, retry_if_exception_type, wait_exponential, wait_random

from grundlag_bus.errors import BusUnreachableError, GrundlagError
from grundlag_bus.transport.rabbitmq.connection import Connection, is_passing, patiently

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tenacity import RetryCallState

    from grundlag_bus.transport.rabbitmq.address import Address
    from grundlag_bus.transport.rabbitmq.condition import Condition

_BACK_OFF = wait_exponential(multiplier=0.1, max=3) + wait_random(0, 0.5)


class Link:
    """One supervised connection.

    set_up: run on every new connection before it counts as up; may run again on the same one after `renew`.
    condition: hears when the link goes down and is up again, and what waiting does not mend.
    """

    def __init__(  # noqa: PLR0913  a link's few settings
        self,
        address: Address,
        *,
        name: str,
        heartbeat: int,
        connect_timeout: float,
        set_up: Callable[[Connection], Awaitable[None]],
        condition: Condition,
    ) -> None:
        self.address = address
        self.name = name
        self._heartbeat = heartbeat
        self._connect_timeout = connect_timeout
        self._set_up = set_up
        self._condition = condition
        self._connection: Connection | None = None
        self._up = asyncio.Event()
        self._renew = asyncio.Event()
        self._supervision: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect for the first time. Raises BusUnreachableError, TopologyMismatchError, ConfigurationError.

        While nothing listens or answers this tries again until the connect timeout; anything else fails at once.
        """
        connection = await patiently(self._connect, self._connect_timeout)
        self._went_up(connection)
        self._supervision = asyncio.create_task(self._supervise(connection), name=f"supervise {self.name}")

    @property
    def connection(self) -> Connection | None:
        """The connection, while it is up."""
        connection = self._connection
        return None if connection is None or connection.wire.lost.done() else connection

    async def up(self) -> Connection:
        """Wait until the link is up."""
        while (connection := self.connection) is None:
            self._up.clear()  # it may be lost already, and the supervision not know yet
            await self._up.wait()
        return connection

    def renew(self) -> None:
        """Have the set-up run again: a channel that it opened was closed by the broker."""
        self._renew.set()

    async def close(self) -> None:
        """Close the connection and stop supervising. Idempotent."""
        if self._supervision is not None:
            self._supervision.cancel()
            await asyncio.wait({self._supervision})
            self._supervision = None
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def abort(self) -> None:
        """Drop the connection without a goodbye, and stop supervising."""
        if self._supervision is not None:
            self._supervision.cancel()
        if self._connection is not None:
            self._connection.wire.abort("it was not wanted any more")

    async def _connect(self) -> Connection:
        connection = await Connection.open(
            self.address, name=self.name, heartbeat=self._heartbeat, seconds=self._connect_timeout
        )
        try:
            await self._set_up(connection)
        except (AMQPError, ConnectionError) as error:
            await connection.close()
            raise BusUnreachableError(f"The connection to {self.address} ended while it was set up: {error}") from error
        except BaseException:
            await connection.close()
            raise
        return connection

    def _went_up(self, connection: Connection) -> None:
        self._connection = connection
        self._renew.clear()
        self._up.set()

    async def _supervise(self, connection: Connection) -> None:
        while True:
            reason = await self._hold(connection)
            self._connection = None
            self._up.clear()
            self._condition.link_changed(self, reason)
            await connection.close()
            retrying = AsyncRetrying(retry=retry_if_exception_type(), wait=_BACK_OFF, before_sleep=self._failed)
            connection = await retrying(self._connect)
            self._went_up(connection)
            self._condition.link_changed(self, None)

    def _failed(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if error is not None and not is_passing(error):
            self._condition.connecting_fails(error)

    async def _hold(self, connection: Connection) -> str:
        """Run the set-up again whenever asked, until the connection is lost. Returns why it was."""
        lost = connection.wire.lost
        while True:
            try:
                await connection.until_lost(self._renew.wait())
            except ConnectionResetError:
                return lost.result()
            self._renew.clear()
            try:
                await self._set_up(connection)
            except (AMQPError, ConnectionError, GrundlagError) as error:
                connection.wire.abort(str(error))
            except Exception as error:  # noqa: BLE001  a connection is not given up for a defect
                self._condition.connecting_fails(error)
                connection.wire.abort(str(error))
