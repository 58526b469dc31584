"""One host for each test: actions in this process, on a bus in memory, on RabbitMQ, and behind HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.broker import Broker
from tests.support.contract_registry import seen
from tests.support.hosts import CALLERS, HOSTS, Host, open_host
from tests.support.namespaces import delete_namespaces, fresh_namespace


@pytest.fixture(scope="session")
def _used(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Collect namespaces on the broker; what they hold is deleted at the end, all at once, where the broker stays."""
    used: list[str] = []
    yield used
    broker: Broker = request.getfixturevalue("broker")
    if used and broker.outlives_us:
        asyncio.run(delete_namespaces(broker.url, used))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on every host, where it names none: callers behind HTTP too, agents and scripts know no difference."""
    named = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "host" in metafunc.fixturenames and "host" not in named:
        kinds = CALLERS if metafunc.definition.path.parent.name == "caller" else HOSTS[:-1]
        metafunc.parametrize("host", kinds, indirect=True)


@pytest.fixture
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    kind: str = request.param
    namespace = fresh_namespace()
    address = f"memory://{namespace}"
    if kind.endswith("rabbitmq"):
        address = request.getfixturevalue("amqp_url")
        request.getfixturevalue("_used")  # so that it ends after this
    seen.reset()
    async with open_host(kind, namespace, address) as opened:
        yield opened
        seen.reset()
        if kind.endswith("rabbitmq"):
            request.getfixturevalue("_used").extend(opened.namespaces)
        if kind != "in-process":
            assert opened.in_flight == 0, "a call is waiting that nobody awaits"
    assert not asyncio.all_tasks() - {asyncio.current_task()}, "something is pending after close"
