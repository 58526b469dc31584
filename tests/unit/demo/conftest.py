from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grundlag_bus.demo import registry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from grundlag_bus import Tool


@pytest.fixture
async def tools(tmp_path: Path) -> AsyncIterator[dict[str, Tool]]:
    """Give the demo's tools, on a database of this test."""
    async with registry(tmp_path) as opened:
        yield await opened.to_tools()
