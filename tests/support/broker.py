"""The broker that tests use: given by its address, in a container, or a private node of this machine.

`obtain` decides which, in the order of the README. Blocking work happens in threads, so that a test's clients go on
living while their broker dies and comes back.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Protocol
from urllib.parse import urlsplit

from ops.rabbitmq.node import Node
from ops.rabbitmq.ports import server_version
from ops.rabbitmq.roots import BrokerUnavailableError, broker_root, installed_broker

DEFAULT_VERSION = "4.3"


class BrokerNode(Protocol):
    """One way to have a broker. `start` returns when it serves, and does nothing where it runs."""

    @property
    def url(self) -> str: ...
    @property
    def management_url(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def running(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def enable_management(self) -> None: ...
    def ctl(self, *arguments: str) -> str: ...
    def close(self) -> None: ...


class Broker:
    """A broker and what may befall it. Port and data stay the same over `stop`, `kill` and `start`."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._alarmed = False

    def __str__(self) -> str:
        return f"RabbitMQ {self.version}, {self._node.kind}"

    @property
    def url(self) -> str:
        return self._node.url

    @property
    def version(self) -> str:
        return self._node.version

    @property
    def outlives_us(self) -> bool:
        """Whether what tests leave on it stays: it was given, and is nobody's private node."""
        return isinstance(self._node, GivenNode)

    @property
    def running(self) -> bool:
        return self._node.running

    async def start(self) -> None:
        """Start it and return when it serves; nothing happens where it runs."""
        await asyncio.to_thread(self._node.start)

    async def stop(self) -> None:
        """Stop it gracefully."""
        self._alarmed = False
        await asyncio.to_thread(self._node.stop)

    async def kill(self) -> None:
        """Kill it as a crash would (SIGKILL), and return when it is gone."""
        self._alarmed = False
        await asyncio.to_thread(self._node.kill)

    async def restart(self) -> None:
        """Kill it and start it again."""
        await self.kill()
        await self.start()

    async def ctl(self, *arguments: str) -> str:
        """Run rabbitmqctl and return what it printed; it takes about a second."""
        return await asyncio.to_thread(self._node.ctl, *arguments)

    async def management(self) -> str:
        """Have it serve its management API, from now on, and return where."""
        await asyncio.to_thread(self._node.enable_management)
        return self._node.management_url

    async def persist(self) -> None:
        """Have it write down which queues exist, which it does by itself only after up to a second.

        A quorum queue that was declared less than that before `kill` comes back without its confirmed messages (4.3)
        or times out for ever (3.10): a test of what survives a crash asks for this between declaring and killing.
        """
        await self.ctl("eval", "[dets:sync(Table) || Table <- dets:all()].")

    async def raise_memory_alarm(self) -> None:
        """Make it believe that it is out of memory: it stops reading from whoever publishes."""
        await self.ctl("set_vm_memory_high_watermark", "0")
        self._alarmed = True

    async def lift_memory_alarm(self) -> None:
        """Let it read again; nothing happens where no alarm was raised."""
        if self._alarmed:
            await self.ctl("set_vm_memory_high_watermark", "0.6")
            self._alarmed = False


class GivenNode:
    """A broker that belongs to someone else: tests use it and leave it alone."""

    kind = "given by GRUNDLAG_TEST_AMQP_URL"
    running = True

    def __init__(self, url: str) -> None:
        self.url = url
        parts = urlsplit(url)
        secure = parts.scheme == "amqps"
        port = parts.port or (5671 if secure else 5672)
        version = server_version(port, parts.hostname or "localhost", ssl.create_default_context() if secure else None)
        if version is None:
            raise BrokerUnavailableError(
                f"No broker answers at {parts.hostname}:{port}: mend GRUNDLAG_TEST_AMQP_URL, "
                "or unset it to have one made."
            )
        self.version = version

    def start(self) -> None:
        pass

    def stop(self) -> None:
        raise NotImplementedError("This broker is not ours: a test that stops one takes the fixture `own_broker`.")

    kill = enable_management = stop

    @property
    def management_url(self) -> str:
        raise NotImplementedError("This broker is not ours: a test that asks its management API takes `own_broker`.")

    def ctl(self, *arguments: str) -> str:
        raise NotImplementedError("This broker is not ours: a test that controls one takes the fixture `own_broker`.")

    def close(self) -> None:
        pass


class PrivateNode(Node):
    """A node on this machine, of an installed RabbitMQ or one in a root of its own."""

    kind = "a private node"


def obtain(version: str) -> BrokerNode:
    """Get a broker of this version that is the tests' own: in a container, of the installed package, or installed."""
    from tests.support.container import ContainerNode, engine_answers  # noqa: PLC0415  slow, and often not needed

    if engine_answers():
        return ContainerNode(version)
    return PrivateNode(installed_broker(version) or broker_root(version))
