from __future__ import annotations

from pathlib import Path

import pytest

from grundlag_bus import ConfigurationError, Ledger, Store


async def test_a_lease_is_no_less_than_something(tmp_path: Path) -> None:
    async with await Store.open(f"sqlite:///{tmp_path}/store") as store:
        with pytest.raises(ConfigurationError, match="lease=0 holds nothing"):
            Ledger(store, lease=0)
