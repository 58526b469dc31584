"""One private RabbitMQ node: free ports and a home of its own, gone with the process that started it.

Rules:
- The node's whole process tree hangs on one pipe that its owner holds. `stop` on the pipe ends it gracefully; the end
  of the pipe, for whatever reason, kills every process of it at once. No process id is kept, so none can be stale.
- A node in a root of its own runs in private mount and process namespaces: nothing stays mounted, nothing survives.
- Everything listens on 127.0.0.1, or on the addresses of the place that the node is given.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ops.rabbitmq.ports import free_ports, is_taken, server_version, wait_until
from ops.rabbitmq.roots import BrokerUnavailableError, Installation

if TYPE_CHECKING:
    from collections.abc import Sequence

MEMORY_LIMIT = "1GiB"
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_OWN_PORTS = (25672, 4369, 15672, 5672)

# Inside the root. Descriptor 3 is the owner's pipe.
_SERVE = """
exec 3<&0 </dev/null
epmd -port "$ERL_EPMD_PORT" -address "$EPMD_ADDRESS" &
/usr/lib/rabbitmq/bin/rabbitmq-server &
server=$!
{ read -r word && kill -TERM "$server" && cat; } <&3 >/dev/null 2>&1 &
wait -n "$server" $!
"""
# Inside a private mount namespace, before the root is entered: $1 is the root, $2 the node's home.
_MOUNT = """
set -e
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
mount --bind "$2" "$1/srv"
root=$1
shift 2
exec chroot "$root" "$@"
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node lives.

    address: for its clients; between: for other nodes; enter: the command that enters its network, none for the host's.
    """

    address: str = "127.0.0.1"
    between: str = "127.0.0.1"
    enter: tuple[str, ...] = ()

    @property
    def node_name(self) -> str:
        return f"grundlag@{self.between}"


class Node:
    """A broker that can be started, stopped, killed and started again; it keeps its port and its data until `close`.

    place: in a network of its own, where it is a node of the cluster of `cluster`, its own place included. They share
    the cookie.
    """

    def __init__(
        self,
        installation: Installation,
        *,
        port: int | None = None,
        place: Place | None = None,
        cluster: Sequence[Place] = (),
        cookie: str | None = None,
    ) -> None:
        self.version = installation.version
        self._installation = installation
        self._home = Path(tempfile.mkdtemp(prefix="grundlag-rabbitmq-"))
        # In a network of its own every port is free; and the nodes of a cluster find each other by one of epmd.
        dist, epmd, management, free = _OWN_PORTS if place else free_ports(4)
        self.port = port or free
        self._place = place or Place()
        self.management_url = f"http://{self._place.address}:{management}"
        self._name = place.node_name if place else f"grundlag-{self.port}@localhost"
        self._environment = self._configure(dist, epmd, management, cookie or new_cookie(), cluster)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def address(self) -> tuple[str, int]:
        return self._place.address, self.port

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self._place.address}:{self.port}/"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the node and return when it accepts connections."""
        if self.running:
            return
        self._end()
        if not self._place.enter and is_taken(self.port):
            raise BrokerUnavailableError(
                f"Port {self.port} of 127.0.0.1 is taken: use what listens there, or choose another port."
            )
        with (self._home / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                self._inside(["bash", "-c", _SERVE + self._ending], lasting=True),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        serving = wait_until(lambda: not self.running or self.serves(), seconds=_START_SECONDS)
        if not serving or not self.running:
            self._end()
            raise BrokerUnavailableError(f"The RabbitMQ node did not start; it said: {self._last_output()}")

    def serves(self) -> bool:
        """Whether it answers clients."""
        return server_version(self.port, self._place.address) is not None

    def stop(self) -> None:
        """Stop the node gracefully."""
        if self._process is None or self._process.stdin is None:
            return
        if self.running:
            self._process.stdin.write(b"stop\n")
            self._process.stdin.flush()
            self._process.wait(_STOP_SECONDS)
        self._end()

    def kill(self) -> None:
        """Kill every process of the node with SIGKILL, as a crash would, and return when they are gone."""
        self._end()

    def pause(self) -> None:
        """Stop it as it is (SIGSTOP), until `go_on`; to others it looks as if it had died without a word."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on after `pause`; nothing happens where it does not run."""
        self._signal(signal.SIGCONT)

    def enable_management(self) -> None:
        """Have the running node serve its management API at `management_url`."""
        self._tool("rabbitmq-plugins", "enable", "rabbitmq_management")

    def ctl(self, *arguments: str) -> str:
        """Run rabbitmqctl on the running node and return what it printed; it takes about a second."""
        return self._tool("rabbitmqctl", *arguments)

    def _tool(self, program: str, *arguments: str) -> str:
        command = [f"/usr/lib/rabbitmq/bin/{program}", "--quiet", "--node", self._name, *arguments]
        done = subprocess.run(
            self._inside(command, lasting=False), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program} {' '.join(arguments)} failed: {done.stdout}{done.stderr}".strip())
        return done.stdout

    def close(self) -> None:
        """Kill the node and remove its data."""
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    # --- how it runs --------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(_STOP_SECONDS)
        self._process = None

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal to the server itself; the processes around it have to see its end."""
        for pid in _descendants(self._process.pid) if self._process is not None else ():
            with suppress(ProcessLookupError, FileNotFoundError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "beam.smp":
                    os.kill(pid, number)

    @property
    def _ending(self) -> str:
        """What the node's first process does last: in a namespace of its own, its end kills all the others."""
        return "kill -KILL 0\n" if self._installation.is_system else ""

    def _inside(self, command: list[str], *, lasting: bool) -> list[str]:
        clean = ["env", "-i", *(f"{name}={value}" for name, value in self._environment.items()), *command]
        if self._installation.is_system:
            return [*self._place.enter, *clean]
        namespaces = ["--mount", "--pid", "--fork", "--kill-child"] if lasting else ["--mount", "--pid", "--fork"]
        mounted = ["unshare", *namespaces, "sh", "-c", _MOUNT, "sh", str(self._installation.root), str(self._home)]
        return [*self._place.enter, *mounted, *clean]

    def _configure(
        self, dist: int, epmd: int, management: int, cookie: str, cluster: Sequence[Place]
    ) -> dict[str, str]:
        """Write the node's files and return its whole environment, with paths as the node sees them."""
        home = str(self._home) if self._installation.is_system else "/srv"
        (self._home / "rabbitmq.conf").write_text(
            f"listeners.tcp.local = {self._place.address}:{self.port}\n"
            "loopback_users = none\n"
            f"vm_memory_high_watermark.absolute = {MEMORY_LIMIT}\n"
            "disk_free_limit.absolute = 50MB\n"
            f"management.tcp.port = {management}\n"
            f"management.tcp.ip = {self._place.address}\n"
            "log.console = true\n"
            "log.console.level = warning\n"
            "log.file = false\n"
            + "".join(
                f"cluster_formation.classic_config.nodes.{number} = {place.node_name}\n"
                for number, place in enumerate(cluster, 1)
            )
        )
        if cluster:
            # What a paused node had taken from the delay ladder is sent on again after this, and not after 3 minutes.
            resent = "[{rabbit, [{dead_letter_worker_publisher_confirm_timeout, 10000}]}].\n"
            (self._home / "advanced.config").write_text(resent)
        (self._home / "enabled_plugins").write_text("[].\n")
        secret = self._home / ".erlang.cookie"
        secret.write_text(cookie)
        secret.chmod(0o400)
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": home,
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(epmd),
            "EPMD_ADDRESS": self._place.between,
            "RABBITMQ_NODENAME": self._name,
            "RABBITMQ_USE_LONGNAME": "true" if self._place.enter else "false",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(dist),
            "RABBITMQ_MNESIA_BASE": f"{home}/data",
            "RABBITMQ_LOG_BASE": f"{home}/log",
            "RABBITMQ_PID_FILE": f"{home}/pid",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{home}/enabled_plugins",
            "RABBITMQ_CONFIG_FILE": f"{home}/rabbitmq.conf",
            "RABBITMQ_CONFIG_FILES": f"{home}/conf.d",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{home}/advanced.config",
            "RABBITMQ_CONF_ENV_FILE": f"{home}/rabbitmq-env.conf",
            # The first process starts epmd itself, since a daemon would outlive the node; and no scheduler spins.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                f"-start_epmd false -kernel inet_dist_use_interface {{{self._place.between.replace('.', ',')}}} "
                "+sbwt none +sbwtdcpu none +sbwtdio none"
            ),
            # The script then becomes the server instead of waiting for it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def _last_output(self) -> str:
        lines = (self._home / "output.log").read_text(errors="replace").split("\n")
        return " ".join(line.strip() for line in lines[-20:] if line.strip()) or "nothing"


def new_cookie() -> str:
    """Make the secret that the nodes of a cluster and their tools know each other by."""
    return "".join(random.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=20))


def _descendants(pid: int) -> list[int]:
    """Find the processes that this one has started, and those that they have."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(ProcessLookupError, FileNotFoundError):
            for child in map(int, thread.read_text().split()):
                found += [child, *_descendants(child)]
    return found
