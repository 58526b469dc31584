"""A PostgreSQL server in a container, where a Docker engine answers."""

from __future__ import annotations

from typing import Self

from docker.errors import DockerException
from testcontainers.core.container import DockerContainer

from ops.postgresql.programs import INSTEAD, PostgresUnavailableError
from ops.postgresql.server import PASSWORD, USER
from ops.rabbitmq.ports import free_ports, wait_until

_IMAGE = "postgres:17"
_START_SECONDS = 90.0


class ContainerServer:
    """A container, gone with the tests."""

    def __init__(self) -> None:
        (self._port,) = free_ports(1)
        self._container = (
            DockerContainer(_IMAGE)
            .with_bind_ports(5432, self._port)
            .with_envs(POSTGRES_USER=USER, POSTGRES_PASSWORD=PASSWORD, POSTGRES_DB="postgres")
        )

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{PASSWORD}@{self._container.get_container_host_ip()}:{self._port}/postgres"

    def __enter__(self) -> Self:
        try:
            self._container.start()
        except DockerException as error:
            raise PostgresUnavailableError(f"Docker cannot run {_IMAGE} ({error}): mend that, or {INSTEAD}.") from error
        # By TCP: while the image still prepares its data, the server listens on a socket file alone.
        ask = ["pg_isready", "--quiet", "--host=127.0.0.1"]
        if not wait_until(lambda: self._container.exec(ask).exit_code == 0, seconds=_START_SECONDS, pause=0.5):
            told = b" ".join(self._container.get_logs())[-2000:].decode(errors="replace")
            self._container.stop()
            raise PostgresUnavailableError(f"The PostgreSQL container did not start; it said: {told or 'nothing'}")
        return self

    def __exit__(self, *_: object) -> None:
        self._container.stop()
