"""Each test twice: as scripts run, and with the engine thrown away before each outcome that a script is given."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grundlag_bus import Sandbox, testing
from tests.support.hosts import Host


@pytest.fixture(params=["kept", "replayed"], autouse=True)
def _engine(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "kept":
        yield
        return
    with testing.forced_replay():
        yield


@pytest.fixture
def sandbox(host: Host) -> Sandbox:
    return Sandbox(host.tools)
