"""Without a ledger there is no fence, no transaction and, on a bus, no checkpoint, and a sentence says so."""

from __future__ import annotations

import pytest

from grundlag_bus import InternalError
from tests.support.contract_registry import seen
from tests.support.hosts import Host, on_buses


async def test_a_ledgers_transaction_is_refused(host: Host) -> None:
    with pytest.raises(InternalError) as raised:
        await host.execute("effect", {"name": "paid"})
    assert raised.value.details["type"] == "ConfigurationError"
    assert seen.notes == [("fence", None)]


@on_buses
async def test_a_checkpoint_is_refused_rather_than_lost_with_the_worker(host: Host) -> None:
    with pytest.raises(InternalError) as raised:
        await host.execute("goOn", {"value": 7})
    assert raised.value.details["type"] == "ConfigurationError"


@pytest.mark.parametrize("host", ["in-process", "http"], indirect=True)
@pytest.mark.parametrize("action", ["goOn", "goOnInThread"])
async def test_in_process_the_next_attempt_goes_on_from_the_checkpoint(host: Host, action: str) -> None:
    assert await host.execute(action, {"value": {"at": 7}}) == {"value": {"at": 7}}
