"""What a worker is given to have a ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grundlag_bus.errors import ConfigurationError

if TYPE_CHECKING:
    from grundlag_bus.store.store import Store

LEASE = 30.0


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger in a store, which is opened and closed by its owner and may serve several workers.

    lease: seconds that a call is a worker's without a word of it; renewed after a third of that. The same for all
    workers of a store. Raises ConfigurationError.
    """

    store: Store
    lease: float = LEASE

    def __post_init__(self) -> None:
        if not self.lease > 0:
            raise ConfigurationError(f"lease={self.lease} holds nothing: give seconds above 0.")
