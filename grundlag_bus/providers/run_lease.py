"""What a run sees of the lease by which its worker may run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager


class RunLease(Protocol):
    """Implemented by the ledger of `workers`.

    fence: greater at each start of the call; checkpointed: where it continues, None where it begins.
    """

    fence: int
    checkpointed: Any

    async def consume(self, interrupt_id: str) -> None:
        """Consume the interrupt that the call answers. Raises AnswerConflictError: another call has."""

    async def checkpoint(self, state: bytes) -> None:
        """Record where the next start continues, as JSON. Raises LeaseLostError: another worker has the call."""

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Open a transaction in which the call's outcome is recorded too."""
