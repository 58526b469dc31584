"""One private node or a cluster of them, and what may befall each: the faults that need control of the node."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from ops.chaos.network import Network
from ops.rabbitmq.node import Node, new_cookie
from ops.rabbitmq.roots import broker_root, installed_broker

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = "4.3"


class PrivateBrokers:
    """Starts them, and ends them with its context. It is the `NodeControl` of the suite.

    Several nodes are a cluster, each in a network of its own; a single one is on 127.0.0.1.
    """

    def __init__(self, size: int = 1) -> None:
        self._size = size
        self._opened = ExitStack()
        self._network: Network | None = None
        self._nodes: dict[str, Node] = {}

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            installation = installed_broker(VERSION) or broker_root(VERSION)
            if self._size == 1:
                started = [Node(installation)]
            else:
                self._network = opened.enter_context(Network(self._size))
                places, cookie = self._network.places, new_cookie()
                started = [Node(installation, place=place, cluster=places, cookie=cookie) for place in places]
            for node in started:
                opened.callback(node.close)
            with ThreadPoolExecutor(self._size) as pool:
                list(pool.map(Node.start, started))
            self._nodes = {node.name: node for node in started}
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @property
    def urls(self) -> list[str]:
        """The address of each node."""
        return [node.url for node in self._nodes.values()]

    @property
    def nodes(self) -> Sequence[str]:
        return list(self._nodes)

    async def restart(self, node: str) -> None:
        await asyncio.to_thread(self._nodes[node].stop)
        await self.start(node)

    async def kill(self, node: str) -> None:
        await asyncio.to_thread(self._nodes[node].kill)

    async def start(self, node: str) -> None:
        await asyncio.to_thread(self._nodes[node].start)

    async def pause(self, node: str) -> None:
        self._nodes[node].pause()

    async def go_on(self, node: str) -> None:
        self._nodes[node].go_on()

    async def alarm(self, node: str) -> None:
        await self._ctl(node, "set_vm_memory_high_watermark", "0")

    async def lift(self, node: str) -> None:
        await self._ctl(node, "set_vm_memory_high_watermark", "0.6")

    async def partition(self, node: str) -> None:
        await asyncio.to_thread(self._part.cut_off, self.nodes.index(node))

    async def join(self, node: str) -> None:
        await asyncio.to_thread(self._part.join, self.nodes.index(node))

    async def _ctl(self, node: str, *arguments: str) -> None:
        await asyncio.to_thread(self._nodes[node].ctl, *arguments)

    @property
    def _part(self) -> Network:
        if self._network is None:
            raise LookupError("A single node cannot be cut off from others: start several.")
        return self._network
