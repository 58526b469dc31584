"""A PostgreSQL server of the test run's own: private, on a free port, and gone with the tests."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import asyncpg

PASSWORD = "swordfish"
_START_SECONDS = 60


class PostgresUnavailableError(Exception):
    """No server can be had here; the text says what to do."""


class PostgresServer:
    """Runs `postgres` as a child process, as another user when the tests run as root (it refuses root)."""

    def __init__(self) -> None:
        self.port = 0
        self._folder = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._binaries = _binaries()
        self._as_user = _unprivileged()

    def url(self, database: str = "postgres", *, driver: str = "postgresql+asyncpg") -> str:
        return f"{driver}://grundlag:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="grundlag-postgres-"))
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # an immediate shutdown: nothing is to be kept
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        data, secret, log = self._folder / "data", self._folder / "password", self._folder / "log"
        secret.write_text(PASSWORD)
        if self._as_user:
            user = pwd.getpwnam(_POSTGRES)
            for path in (self._folder, secret):
                os.chown(path, user.pw_uid, user.pw_gid)
        made = self._run(
            *("initdb", "--pgdata", str(data), "--username=grundlag", "--pwfile", str(secret)),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync"),
        )
        if made.returncode:
            raise PostgresUnavailableError(f"initdb of {self._binaries} failed: {made.stderr.strip()}")
        self.port = _free_port()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    *(*self._as_user, *_dies_with_us(), str(self._binaries / "postgres"), "-D", str(data)),
                    *("-h", "127.0.0.1", "-p", str(self.port), "-k", str(self._folder)),
                    *("-c", "fsync=off", "-c", "max_connections=200"),
                ],
                stdout=output,
                stderr=output,
                cwd="/",
            )
        end = time.monotonic() + _START_SECONDS
        while self._run("pg_isready", "--quiet", "--host=127.0.0.1", f"--port={self.port}").returncode:
            if self._process.poll() is not None or time.monotonic() > end:
                raise PostgresUnavailableError(
                    f"PostgreSQL of {self._binaries} did not start: {log.read_text().strip()}"
                )
            time.sleep(0.05)

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*self._as_user, str(self._binaries / program), *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)

    async def create_database(self, name: str) -> str:
        """Make an empty database and return its URL."""
        connection = await asyncpg.connect(self.url(driver="postgresql"))
        try:
            await connection.execute(f'CREATE DATABASE "{name}"')
        finally:
            await connection.close()
        return self.url(name)


_POSTGRES = "postgres"


def _binaries() -> Path:
    """Find the folder with `initdb` and `postgres`; Debian keeps it off the PATH."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise PostgresUnavailableError(
            "PostgreSQL, which these tests need, is not installed: `apt-get install postgresql`, or put initdb on PATH."
        )
    return found[-1].parent


def _unprivileged() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={_POSTGRES}", f"--regid={_POSTGRES}", "--clear-groups"]


def _dies_with_us() -> list[str]:
    """Let the kernel shut the server down when the tests are killed."""
    return ["setpriv", "--pdeathsig=QUIT"] if shutil.which("setpriv") else []


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port
