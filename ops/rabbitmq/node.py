"""One private RabbitMQ node: free ports and a home of its own, gone with the process that started it.

Rules:
- The node's whole process tree hangs on one pipe that its owner holds. `stop` on the pipe ends it gracefully; the end
  of the pipe, for whatever reason, kills every process of it at once. No process id is kept, so none can be stale.
- A node in a root of its own runs in private mount and process namespaces: nothing stays mounted, nothing survives.
- Everything listens on 127.0.0.1.
"""

from __future__ import annotations

import random
import re
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ops.rabbitmq.roots import BrokerUnavailableError, Installation

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

MEMORY_LIMIT = "1GiB"
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
# Below the range of outgoing ports: a client that retries while the broker is down could otherwise be given the very
# port that it calls, and connect to itself.
_PORTS = range(20_000, 30_000)

# Inside the root. Descriptor 3 is the owner's pipe.
_SERVE = """
exec 3<&0 </dev/null
epmd -port "$ERL_EPMD_PORT" -address 127.0.0.1 &
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


class Node:
    """A broker that can be started, stopped, killed and started again; it keeps its port and its data until `close`."""

    def __init__(self, installation: Installation, *, port: int | None = None) -> None:
        self.version = installation.version
        self._installation = installation
        self._home = Path(tempfile.mkdtemp(prefix="grundlag-rabbitmq-"))
        dist, epmd, management, free = free_ports(4)
        self.port = port or free
        self.management_url = f"http://127.0.0.1:{management}"
        self._name = f"grundlag-{self.port}@localhost"
        self._environment = self._configure(dist, epmd, management)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the node and return when it accepts connections."""
        if self.running:
            return
        self._end()
        if is_taken(self.port):
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
        serving = wait_until(lambda: not self.running or server_version(self.port), seconds=_START_SECONDS)
        if not serving or not self.running:
            self._end()
            raise BrokerUnavailableError(f"The RabbitMQ node did not start; it said: {self._last_output()}")

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

    @property
    def _ending(self) -> str:
        """What the node's first process does last: in a namespace of its own, its end kills all the others."""
        return "kill -KILL 0\n" if self._installation.is_system else ""

    def _inside(self, command: list[str], *, lasting: bool) -> list[str]:
        clean = ["env", "-i", *(f"{name}={value}" for name, value in self._environment.items()), *command]
        if self._installation.is_system:
            return clean
        namespaces = ["--mount", "--pid", "--fork", "--kill-child"] if lasting else ["--mount", "--pid", "--fork"]
        return ["unshare", *namespaces, "sh", "-c", _MOUNT, "sh", str(self._installation.root), str(self._home), *clean]

    def _configure(self, dist: int, epmd: int, management: int) -> dict[str, str]:
        """Write the node's files and return its whole environment, with paths as the node sees them."""
        home = str(self._home) if self._installation.is_system else "/srv"
        (self._home / "rabbitmq.conf").write_text(
            f"listeners.tcp.local = 127.0.0.1:{self.port}\n"
            "loopback_users = none\n"
            f"vm_memory_high_watermark.absolute = {MEMORY_LIMIT}\n"
            "disk_free_limit.absolute = 50MB\n"
            f"management.tcp.port = {management}\n"
            "management.tcp.ip = 127.0.0.1\n"
            "log.console = true\n"
            "log.console.level = warning\n"
            "log.file = false\n"
        )
        (self._home / "enabled_plugins").write_text("[].\n")
        cookie = self._home / ".erlang.cookie"
        cookie.write_text("".join(random.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=20)))
        cookie.chmod(0o400)
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": home,
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(epmd),
            "RABBITMQ_NODENAME": self._name,
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
                "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none"
            ),
            # The script then becomes the server instead of waiting for it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def _last_output(self) -> str:
        lines = (self._home / "output.log").read_text(errors="replace").split("\n")
        return " ".join(line.strip() for line in lines[-20:] if line.strip()) or "nothing"


def is_taken(port: int) -> bool:
    """Whether something listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def free_ports(count: int) -> list[int]:
    """Pick ports on 127.0.0.1 that nothing listens on."""
    free: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if probe.connect_ex(("127.0.0.1", port)):
                free.append(port)
        if len(free) == count:
            return free
    raise BrokerUnavailableError(f"No free port is left in {_PORTS}: end what listens there.")


def server_version(port: int, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> str | None:
    """Say hello as an AMQP client and return the version that the broker answers with; None when none answers."""
    try:
        with ExitStack() as opened:
            connection = opened.enter_context(socket.create_connection((host, port), timeout=5))
            if tls is not None:
                connection = opened.enter_context(tls.wrap_socket(connection, server_hostname=host))
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            greeting = connection.recv(4096)
    except OSError:
        return None
    found = re.search(rb"\x07versionS\x00\x00\x00(.)", greeting, re.DOTALL)
    return greeting[found.end() : found.end() + found[1][0]].decode() if found else None


def wait_until(condition: Callable[[], object], *, seconds: float, pause: float = 0.05) -> bool:
    """Ask for a condition until it holds; False when it did not in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True
