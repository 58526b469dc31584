"""What every test may ask for: a broker, a broker that it may kill, and a namespace of its own.

A broker is obtained when the first test asks for one, so that a run without such tests needs none. It is never
skipped: when none can be had, the run ends with one sentence of what to do.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest
import structlog

from ops.rabbitmq.roots import SUITES, BrokerUnavailableError
from tests.support import databases
from tests.support.broker import DEFAULT_VERSION, Broker, BrokerNode, GivenNode, obtain
from tests.support.namespaces import delete_namespaces, fresh_namespace

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

postgres, postgres_url, store_url = databases.postgres, databases.postgres_url, databases.store_url

# An example that takes long on a busy machine says nothing of the code.
hypothesis.settings.register_profile("patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("patient")

_BROKERS = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_BROKERS] = []


# With several processes (-n) each has brokers of its own, and tells the one that reports which.


def pytest_sessionfinish(session: pytest.Session) -> None:
    told: dict[str, list[str]] | None = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["brokers"] = session.config.stash[_BROKERS]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell what was captured as text that can travel: a lone surrogate in a log would end the process (execnet)."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    node.config.stash[_BROKERS].extend(getattr(node, "workeroutput", {}).get("brokers", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    brokers = config.stash[_BROKERS]
    for line in sorted(brokers):
        terminalreporter.write_line(f"broker: {line}")


@pytest.fixture(autouse=True)
def _logs_as_nobody_configured_them() -> Iterator[None]:
    """Take back what `structlog.testing.capture_logs` and the command line configure, for the tests that follow."""
    yield
    structlog.reset_defaults()


def _wanted_version() -> str:
    version = os.environ.get("GRUNDLAG_TEST_RABBITMQ", DEFAULT_VERSION)
    if version not in SUITES:
        raise BrokerUnavailableError(f"GRUNDLAG_TEST_RABBITMQ is {version!r}: use one of {', '.join(SUITES)}.")
    return version


def _start(node: BrokerNode) -> BrokerNode:
    try:
        node.start()
    except BaseException:
        node.close()
        raise
    return node


@pytest.fixture(scope="session")
def broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """Serve every test that only uses a broker: GRUNDLAG_TEST_AMQP_URL, or one of our own."""
    url = os.environ.get("GRUNDLAG_TEST_AMQP_URL")
    try:
        node = GivenNode(url) if url else _start(obtain(_wanted_version()))
    except BrokerUnavailableError as error:
        pytest.exit(str(error), returncode=1)
    shared = Broker(node)
    pytestconfig.stash[_BROKERS].append(str(shared))
    yield shared
    node.close()


@pytest.fixture(scope="session")
def amqp_url(broker: Broker) -> str:
    return broker.url


@pytest.fixture(scope="session")
def _second_broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    try:
        node = _start(obtain(_wanted_version()))
    except BrokerUnavailableError as error:
        pytest.exit(str(error), returncode=1)
    second = Broker(node)
    pytestconfig.stash[_BROKERS].append(f"{second}, for faults")
    yield second
    node.close()


@pytest.fixture
async def own_broker(_second_broker: Broker) -> AsyncIterator[Broker]:
    """Serve a test that stops, kills or alarms its broker; it runs, without alarm, whenever a test starts."""
    await _second_broker.start()
    yield _second_broker
    await _second_broker.lift_memory_alarm()


@pytest.fixture
async def namespace(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """Name a namespace of this test alone; what the test made under it on `broker` is removed afterwards."""
    fresh = fresh_namespace()
    yield fresh
    if "broker" in request.fixturenames:
        shared: Broker = request.getfixturevalue("broker")
        await delete_namespaces(shared.url, [fresh])
