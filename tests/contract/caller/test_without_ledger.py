"""Without a ledger there is no fence and no transaction, and a sentence says so."""

from __future__ import annotations

import pytest

from grundlag_bus import InternalError
from tests.support.contract_registry import seen
from tests.support.hosts import Host


async def test_a_ledgers_transaction_is_refused(host: Host) -> None:
    with pytest.raises(InternalError) as raised:
        await host.execute("effect", {"name": "paid"})
    assert raised.value.details["type"] == "ConfigurationError"
    assert seen.notes == [("fence", None)]
