"""A broker in a container, where a Docker engine answers."""

from __future__ import annotations

import gc
import os
import warnings
from pathlib import Path

import docker
from docker.errors import DockerException
from testcontainers.core.container import DockerContainer

from ops.rabbitmq.ports import free_ports, server_version, wait_until
from ops.rabbitmq.roots import BrokerUnavailableError

_START_SECONDS = 90.0


def engine_answers() -> bool:
    """Ask the Docker engine of this user, if there is one."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "/nonexistent")
    if "DOCKER_HOST" not in os.environ and not any(
        Path(place, "docker.sock").exists() for place in ("/var/run", runtime)
    ):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the client leaves its socket open when nobody answers
        try:
            client = docker.from_env(timeout=10)
            client.ping()
            client.close()
        except DockerException:
            return False
        finally:
            gc.collect()
    return True


class ContainerNode:
    """A container that can be stopped, killed and started again; it keeps its port and its data until `close`."""

    kind = "a container"

    def __init__(self, version: str) -> None:
        self.version = version
        # Chosen here, since the engine would give a started container another one.
        self._port, self._management_port = free_ports(2)
        self._container = (
            DockerContainer(f"rabbitmq:{version}")
            .with_bind_ports(5672, self._port)
            .with_bind_ports(15672, self._management_port)
            .with_kwargs(hostname="grundlag")  # the node's data lie under its host's name
        )
        self._created = False

    @property
    def _host(self) -> str:
        return self._container.get_container_host_ip()

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{self._host}:{self._port}/"

    @property
    def management_url(self) -> str:
        return f"http://{self._host}:{self._management_port}"

    @property
    def running(self) -> bool:
        if not self._created:
            return False
        self._container.reload()
        return self._container.status == "running"

    def start(self) -> None:
        if self.running:
            return
        if self._created:
            self._container.get_wrapped_container().start()
        else:
            self._create()
        serving = wait_until(lambda: not self.running or server_version(self._port, self._host), seconds=_START_SECONDS)
        version = server_version(self._port, self._host) if serving else None
        if version is None:
            told = b" ".join(self._container.get_logs())[-2000:].decode(errors="replace")
            raise BrokerUnavailableError(f"The RabbitMQ container did not start; it said: {told or 'nothing'}")
        self.version = version

    def _create(self) -> None:
        try:
            self._container.start()
        except DockerException as error:
            raise BrokerUnavailableError(
                f"Docker cannot run {self._container.image} ({error}): mend that, stop Docker to have a broker "
                "installed, or name one with GRUNDLAG_TEST_AMQP_URL=amqp://user:password@host:5672/."
            ) from error
        self._created = True

    def stop(self) -> None:
        if self.running:
            self._container.get_wrapped_container().stop(timeout=30)

    def kill(self) -> None:
        if self.running:
            self._container.get_wrapped_container().kill()
            self._container.wait()

    def enable_management(self) -> None:
        self._tool("rabbitmq-plugins", "enable", "rabbitmq_management")

    def ctl(self, *arguments: str) -> str:
        return self._tool("rabbitmqctl", *arguments)

    def _tool(self, program: str, *arguments: str) -> str:
        done = self._container.exec([program, "--quiet", *arguments])
        output = done.output.decode(errors="replace")
        if done.exit_code:
            raise RuntimeError(f"{program} {' '.join(arguments)} failed: {output}".strip())
        return output

    def close(self) -> None:
        self._container.stop()
