"""Where a call's next start continues: checked here, and recorded by whoever runs the call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson

from grundlag_bus.errors import ConfigurationError, Issue, LeaseLostError, NotJsonError
from grundlag_bus.providers.context import TURN
from grundlag_bus.schema.codec import plain

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from grundlag_bus.providers.oversight import Oversight
    from grundlag_bus.providers.started import Started

MAX_BYTES = 64 * 1024
"""Of one, as JSON: as much as an interrupt may keep."""


class Checkpoints:
    """Records those of one start of a call, from the loop in which it was made or from a thread.

    kept_here: whether they are kept in this process for the call's further starts, where no ledger has the call.
    """

    __slots__ = ("_kept_here", "_loop", "_oversight", "_run")

    def __init__(self, run: Started, oversight: Oversight, *, kept_here: bool) -> None:
        self._run = run
        self._oversight = oversight
        self._kept_here = kept_here
        self._loop = asyncio.get_running_loop()

    @property
    def last(self) -> Any:
        """The last one that was recorded before this start, None without."""
        lease = self._oversight.lease
        return self._oversight.checkpointed if lease is None else lease.checkpointed

    def __call__(self, state: Any) -> Awaitable[None]:
        """See `ActionContext.checkpoint`."""
        self._run.touch()
        recording = self._record(as_json(state))
        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001  the public one raises where there is none
            return recording
        try:
            recorded = asyncio.run_coroutine_threadsafe(recording, self._loop)
        except RuntimeError as error:
            recording.close()
            raise LeaseLostError("What ran the call is closed: stop.") from error
        recorded.result()
        return TURN

    async def _record(self, state: bytes) -> None:
        lease = self._oversight.lease
        if lease is not None:
            await lease.checkpoint(state)
        elif self._kept_here:
            self._oversight.checkpointed = orjson.loads(state)
        else:
            raise ConfigurationError(
                "ctx.checkpoint() needs a ledger: start the worker with --ledger URL, or Worker(ledger=)."
            )


def as_json(state: Any) -> bytes:
    """Write down a state. Raises NotJsonError, also for one that is too large."""
    encoded = orjson.dumps(plain(state, at=("checkpoint",)))
    if len(encoded) > MAX_BYTES:
        told = f"takes {len(encoded)} bytes as JSON, and {MAX_BYTES} are allowed: keep a reference to it"
        raise NotJsonError(Issue(("checkpoint",), "too_large", told))
    return encoded
