"""Networks of their own for the nodes of a cluster, so that one can be cut off from the others (Linux, as root).

Rules:
- A node lives in a network namespace with two links: one to this host, for clients, and one to a switch, for the other
  nodes. The switch is a bridge in a namespace of its own. Cutting a node off takes its port of the switch down: the
  other nodes do not hear from it any more, not even that it is gone, and its clients still reach it.
- Each namespace is held by a process that ends with the pipe of its owner, and its links end with it. So nothing is
  left behind on the host, whatever ends the owner; and of the host's own network nothing is changed.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from ipaddress import IPv4Network
from pathlib import Path
from typing import Self

from ops.rabbitmq.node import Place
from ops.rabbitmq.ports import wait_until

_CLIENTS = IPv4Network("198.18.0.0/16")
"""Of the addresses that are kept for benchmarks: nothing else uses them. Each network takes 64 of its own."""
_BETWEEN = "198.19.0"
_HOLD_SECONDS = 10.0


class NetworkUnavailableError(Exception):
    """No network namespaces can be had here; the text says what to do."""


class Network:
    """A switch, and a place for each node: `places`, to start nodes in."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._holders: list[subprocess.Popen[bytes]] = []
        self._links: list[str] = []
        self.places: list[Place] = []

    def __enter__(self) -> Self:
        if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("nsenter") is None:
            raise NetworkUnavailableError("A cluster needs root, ip and nsenter: run as root, and install iproute2.")
        try:
            self._lay()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cut_off(self, number: int) -> None:
        """Cut the node at this place off from the others."""
        _run("ip", "link", "set", f"port{number}", "down", inside=self._switch)

    def join(self, number: int) -> None:
        """Let it reach the others again."""
        _run("ip", "link", "set", f"port{number}", "up", inside=self._switch)

    def close(self) -> None:
        """End the namespaces, and with them their links."""
        for link in self._links:
            subprocess.run(["ip", "link", "del", link], capture_output=True, check=False)
        for holder in self._holders:
            holder.communicate()  # closes its pipe
        self._links, self._holders, self.places = [], [], []

    @property
    def _switch(self) -> int:
        return self._holders[0].pid

    def _lay(self) -> None:
        switch = self._hold()
        _run("ip", "link", "add", "switch", "type", "bridge", inside=switch)
        _run("ip", "link", "set", "switch", "up", inside=switch)
        block = _free_block()
        addresses = list(block)
        for number in range(self._size):
            node = self._hold()
            _run("ip", "link", "set", "lo", "up", inside=node)
            # To the others.
            between, port = f"{_BETWEEN}.{10 + number}", f"port{number}"
            _run(
                "ip", "link", "add", port, "type", "veth", "peer", "name", "between", "netns", str(node), inside=switch
            )
            _run("ip", "link", "set", port, "master", "switch", "up", inside=switch)
            _run("ip", "address", "add", f"{between}/24", "dev", "between", inside=node)
            _run("ip", "link", "set", "between", "up", inside=node)
            # To this host.
            here, there = addresses[4 * number + 1 : 4 * number + 3]
            link = f"gb{int(block.network_address) >> 6 & 0x3FF}-{number}"
            peer = ("peer", "name", "clients", "netns", str(node))
            _run("ip", "link", "add", link, "type", "veth", *peer)
            self._links.append(link)
            _run("ip", "address", "add", f"{here}/30", "dev", link)
            _run("ip", "link", "set", link, "up")
            _run("ip", "address", "add", f"{there}/30", "dev", "clients", inside=node)
            _run("ip", "link", "set", "clients", "up", inside=node)
            self.places.append(Place(str(there), between, _enter(node)))

    def _hold(self) -> int:
        """Start a process that holds a namespace until the end of its pipe, and return its id."""
        holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE, start_new_session=True)
        self._holders.append(holder)
        ours, theirs = Path("/proc/self/ns/net"), Path(f"/proc/{holder.pid}/ns/net")

        def entered() -> bool:
            return holder.poll() is not None or theirs.readlink() != ours.readlink()

        wait_until(entered, seconds=_HOLD_SECONDS)
        if holder.poll() is not None:
            raise NetworkUnavailableError("Network namespaces are not allowed here: run on a machine that allows them.")
        return holder.pid


def _free_block() -> IPv4Network:
    """Choose addresses for the links to this host that it has not given to any other."""
    taken = _run("ip", "-o", "-4", "address")
    free = [block for block in _CLIENTS.subnets(new_prefix=26) if f" {block.network_address + 1}/" not in taken]
    return random.choice(free)


def _enter(holder: int) -> tuple[str, ...]:
    return ("nsenter", f"--net=/proc/{holder}/ns/net")


def _run(*command: str, inside: int | None = None) -> str:
    entered = (*(_enter(inside) if inside is not None else ()), *command)
    done = subprocess.run(entered, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkUnavailableError(f"`{' '.join(command)}` failed here: {done.stderr.strip()}.")
    return done.stdout
